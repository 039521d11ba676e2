//! The tests of this crate: tables with one `check(given, expect)` for each kind of message, properties, and
//! a comparison with `httparse`.

mod bodies;
mod hosts;
mod printing;
mod properties;
mod requests;
mod responses;

use crate::{
    BodyPart, BodyReader, Expect, Framing, Limits, Malformed, Persistence, RequestHead, RequestReader,
    ResponseHead, ResponseReader,
};
use bytes::BytesMut;
use http::{HeaderMap, Method};

/// A request head in one line: `GET /path @host 1.1 none keep` or `400 bare-lf` or `more`.
fn request_line_of(given: &[u8]) -> String {
    let mut buf = BytesMut::from(given);
    match RequestReader::new(Limits::default()).read(&mut buf) {
        Ok(None) => "more".into(),
        Ok(Some(head)) => describe_request(&head),
        Err(refusal) => format!("{} {}", refusal.status().as_u16(), refusal.reason()),
    }
}

fn describe_request(head: &RequestHead) -> String {
    let mut line = format!(
        "{} {} @{} {} {} {}",
        head.method,
        head.target.as_str(),
        head.host.as_str(),
        &head.version.as_str()[5..],
        describe_framing(head.framing),
        describe_persistence(head.persistence),
    );
    if let Some(scheme) = head.scheme {
        line.push_str(" scheme=");
        line.push_str(scheme.as_str());
    }
    if head.expect == Expect::Continue {
        line.push_str(" expect");
    }
    if let Some(protocol) = &head.upgrade {
        line.push_str(&format!(" upgrade={}", protocol.to_str().unwrap()));
    }
    line
}

/// A response head in one line: `200 1.1 length=5 keep` or `malformed bare-lf` or `more`.
fn response_line_of(to: &Method, given: &[u8]) -> String {
    let mut buf = BytesMut::from(given);
    match ResponseReader::new(Limits::origin()).read(&mut buf, to) {
        Ok(None) => "more".into(),
        Ok(Some(head)) => describe_response(&head),
        Err(malformed) => format!("malformed {}", malformed.reason()),
    }
}

fn describe_response(head: &ResponseHead) -> String {
    format!(
        "{} {} {} {}",
        head.status.as_u16(),
        &head.version.as_str()[5..],
        describe_framing(head.framing),
        describe_persistence(head.persistence),
    )
}

fn describe_framing(framing: Framing) -> String {
    match framing {
        Framing::None => "none".into(),
        Framing::Length(length) => format!("length={length}"),
        Framing::Chunked => "chunked".into(),
        Framing::Close => "close".into(),
    }
}

fn describe_persistence(persistence: Persistence) -> &'static str {
    match persistence {
        Persistence::KeepAlive => "keep",
        Persistence::Close => "end",
    }
}

/// A whole body: its content, its trailers if it ended, and the rest of the input.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Whole {
    data: Vec<u8>,
    end: Result<Option<Option<HeaderMap>>, Malformed>,
    rest: Vec<u8>,
}

/// Reads a body that arrives in the given pieces.
fn read_body<'a>(framing: Framing, limits: &Limits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Whole {
    let mut reader = BodyReader::new(framing, limits);
    let mut buf = BytesMut::new();
    let mut whole = Whole { data: Vec::new(), end: Ok(None), rest: Vec::new() };
    for piece in pieces {
        buf.extend_from_slice(piece);
        while whole.end == Ok(None) {
            match reader.read(&mut buf) {
                Ok(BodyPart::More) => break,
                Ok(BodyPart::Data(data)) => {
                    assert!(!data.is_empty() && data.len() <= crate::DATA_BYTES_MAX);
                    whole.data.extend_from_slice(&data);
                }
                Ok(BodyPart::End(trailers)) => whole.end = Ok(Some(trailers)),
                Err(malformed) => whole.end = Err(malformed),
            }
        }
    }
    if whole.end == Ok(None) && reader.is_done() {
        whole.end = Ok(Some(None));
    }
    whole.rest = buf.to_vec();
    whole
}
