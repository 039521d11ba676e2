//! The end of a request: it is counted and logged.

use http::header;
use http::{HeaderName, StatusCode};
use weir_front::{Done, End, Secured};
use weir_observe::{Completion, Description, Detail, Storing, Tls};
use weir_policy::value::{Style, Value};
use weir_upstream::Picked;

use super::{HALF_CLOSE, Note};
use crate::notes;
use crate::seen;
use crate::values::{OfLog, OfRequest, OfResponse, RouteWords};

impl Note<'_> {
    /// Counts and logs the finished request.
    pub(crate) fn finish(mut self, done: &Done) {
        self.sent(done);
        let Note { asked, told, .. } = &self;
        let observer = &asked.core.observer;
        observer.record(&told.facts, || asked.client_or_peer().sharer(), |detail| self.describe(detail));
        observer.seen(&told.facts, done.ended, || seen::of(&self));
        observer.counters().request_ended();
    }

    /// Notes how the response was sent.
    fn sent(&mut self, done: &Done) {
        let (sent, begun, facts) = (&done.sent, self.asked.now.mono, &mut self.told.facts);
        facts.total = done.ended.saturating_duration_since(begun);
        let Some(status) = done.status else { return };
        facts.status = status.as_u16();
        facts.body_bytes = sent.body_bytes;
        facts.first_byte = sent.first_byte.map(|at| at.saturating_duration_since(begun));
        match sent.end {
            End::Whole => {}
            End::Cut(word) => {
                facts.completion = Completion::Cut;
                facts.detail = word;
                let is_stored = matches!(facts.storing, Storing::Stored { .. });
                if is_stored && notes::breaks_fill(word) {
                    facts.storing = Storing::NotAsked;
                    self.told.notes.iter_mut().for_each(|notes| notes.take_back_stored());
                }
                self.asked.core.observer.counters().error(word);
            }
            End::ClientGone => facts.completion = Completion::ClientGone,
            End::HalfClosed => {
                facts.completion = Completion::ClientGone;
                facts.detail = HALF_CLOSE;
            }
        }
    }

    fn describe(&self, detail: Detail) -> Description {
        let Note { asked, told, .. } = self;
        let field = |name: HeaderName| {
            let value = asked.request.headers.get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let mut description = Description {
            wall: asked.now.wall,
            client: asked.client_or_peer().ip().map_or_else(String::new, |ip| ip.to_string()),
            method: Some(asked.request.method.clone()),
            scheme: asked.scheme,
            host: asked.request.host.as_str().to_owned(),
            target: asked.path_and_query().to_owned(),
            version: asked.request.protocol,
            origin: told.origin.clone(),
            pick: told.picked.map(Picked::words).unwrap_or_default(),
            request_id: asked.request_id().to_owned(),
            referer: field(header::REFERER),
            user_agent: field(header::USER_AGENT),
            tls: asked.peer().secured.as_ref().map(tls),
            asked: told.asked_ids(asked.core),
            trace: (detail == Detail::Full).then(|| self.trace()),
            ..Description::default()
        };
        if let Some(site) = told.site {
            description.site = site.name.clone();
        }
        if let Some(route) = told.route {
            description.route = route.name.clone();
            description.upstream = told.origin.as_ref().and(route.upstream.clone());
        }
        if let Some(line) = asked.running.plan.log_line() {
            description.line = Some(self.log_line(line, &description));
        }
        description
    }

    /// The line of a log whose form the configuration says.
    fn log_line(&self, line: &Value, texts: &Description) -> Vec<u8> {
        let Note { asked, told, .. } = self;
        let route = told.route.map(|route| route.words()).unwrap_or_default();
        let route = RouteWords { maps: asked.running.plan.maps(), ..route };
        let response = OfResponse {
            request: OfRequest { view: asked.view(), site: told.site_name(), route, beside: asked },
            status: StatusCode::from_u16(told.facts.status).unwrap_or_default(),
            facts: &told.facts,
            age_s: told.age_s,
            origin: told.origin.as_deref(),
            answered: told.answered,
        };
        let known = OfLog { response: Some(response), facts: &told.facts, texts };
        line.render(&known, Style::Log)
    }
}

/// What the log says of a connection's TLS.
fn tls(secured: &Secured) -> Tls {
    Tls {
        version: secured.agreed.version,
        group: secured.agreed.group,
        is_resumed: secured.agreed.is_resumed,
        name: secured.name.as_deref().unwrap_or_default().to_owned(),
        client: secured.client_name().unwrap_or_default(),
    }
}
