//! A policy: which origin of an upstream is the answer to a question.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::BytesMut;
use http::{HeaderMap, Method};
use weir_distributor::format::{Answer, Marks, Question};
use weir_upstream::{
    About, Deciders, Denial, Kind, OriginRequest, Pick, Picking, Upstream, Whose, host_point,
};
use weir_wire::{Limits, RequestHead, RequestReader};

/// The policies by their names.
pub(super) type Policies = HashMap<String, Policy>;

/// A policy.
pub(super) struct Policy {
    upstream: Arc<Upstream>,
    picks: Arc<[Pick]>,
    deciders: Deciders,
    /// Whether anything goes by the request's head.
    reads_head: bool,
}

/// Heads of questions are those of requests that a proxy has let in, and may be longer than a client's.
const LIMITS: Limits = Limits { line_bytes_max: 60 * 1024, head_bytes_max: 60 * 1024, fields_max: 1000 };

impl Policy {
    pub(super) fn new(upstream: Arc<Upstream>, (picks, deciders): (Arc<[Pick]>, Deciders)) -> Policy {
        let reads_head = !deciders.is_empty() || picks.iter().any(|pick| matches!(pick, Pick::Hash { .. }));
        Policy { upstream, picks, deciders, reads_head }
    }

    /// The answer to a question.
    pub(super) fn answer(&self, question: &Question<'_>) -> Answer {
        let head = if self.reads_head { read(question.head) } else { None };
        let is_fill = question.marks.has(Marks::FILL);
        let host = head.as_ref().map(|head| head.host.name().to_owned()).unwrap_or_default();
        let (method, target, headers) = match head {
            Some(head) => (head.method, head.target.as_str().to_owned(), head.headers),
            None => (Method::GET, "/".to_owned(), HeaderMap::new()),
        };
        let about = (!self.deciders.is_empty()).then(|| {
            Arc::new(About {
                scheme: if question.marks.has(Marks::HTTPS) { "https" } else { "http" },
                host: host.clone().into(),
                kind: if is_fill { Kind::Fill } else { Kind::Pass },
                client: question.client.filter(|_| !is_fill),
                ..About::default()
            })
        });
        let picking = Picking {
            whose: if is_fill { Whose::Nobody } else { Whose::Client },
            client: question.client.map(|client| client.ip()),
            host: self.reads_head.then(|| host_point(&host)),
            picks: Some(self.picks.clone()),
            deciders: Some(self.deciders.clone()),
            about,
        };
        let request = OriginRequest { picking, ..OriginRequest::new(method, target, headers) };
        match self.upstream.answer(&request) {
            Ok(Some(address)) => Answer::Address(address),
            Ok(None) => Answer::Nothing,
            Err(Denial { status, retry_after_s }) => {
                Answer::Denial { status: status.as_u16(), retry_after: retry_after_s }
            }
        }
    }
}

/// The head of a question; `None` where it is none.
fn read(head: &[u8]) -> Option<RequestHead> {
    RequestReader::new(LIMITS).read(&mut BytesMut::from(head)).ok().flatten()
}
