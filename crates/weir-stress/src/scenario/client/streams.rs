//! The same request over HTTP/2: one at a time on a connection, with its pace and its checks.

use std::future::poll_fn;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderName, HeaderValue, Method, Request, Uri};

use super::{Ask, Failure, Pace, Seen, Taken, failure};
use crate::body::{Body, Progress};
use crate::head::{self, Framing, Head};
use crate::tally::Fault;

/// What the head of a response came to.
pub(super) struct Begun {
    pub(super) head: Head,
    pub(super) fields: Vec<(String, String)>,
    content: h2::RecvStream,
}

/// Sends a request and takes in the head of its response.
pub(super) async fn begin(
    mut send: SendRequest<Bytes>,
    ask: &Ask,
    base: &str,
) -> Result<Begun, (Failure, Seen)> {
    let closed =
        |error: h2::Error| (failure(Fault::Closed, format!("{error} before the head")), seen(&error));
    let request = request(ask, base).map_err(|what| (failure(Fault::Send, what), Seen::Some))?;
    poll_fn(|cx| send.poll_ready(cx)).await.map_err(closed)?;
    let (response, _) = send.send_request(request, true).map_err(closed)?;
    let (parts, content) = response.await.map_err(closed)?.into_parts();
    let fields: Vec<(String, String)> = parts
        .headers
        .iter()
        .map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect();
    let said = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_bytes());
    let head = Head {
        status: parts.status.as_u16(),
        // Where the stream ends. That it is as long as it says is h2's to see.
        framing: Framing::Close,
        closes: false,
        range: said("content-range").and_then(head::content_range),
        version: said(head::VERSION).and_then(head::number),
        head_bytes: 0,
    };
    Ok(Begun { head, fields, content })
}

/// Whether the server may have looked at the request (RFC 9113 §6.8).
fn seen(error: &h2::Error) -> Seen {
    let is_end = error.is_io() || (error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR));
    if is_end { Seen::Nothing } else { Seen::Some }
}

fn request(ask: &Ask, base: &str) -> Result<Request<()>, String> {
    let uri: Uri = format!("{base}{}", ask.path).parse().map_err(|error| format!("{error}"))?;
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(ask.method.as_bytes()).map_err(|error| error.to_string())?;
    *request.uri_mut() = uri;
    for (name, value) in &ask.fields {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
        let value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
        request.headers_mut().append(name, value);
    }
    Ok(request)
}

impl Begun {
    /// Takes in the content at this pace.
    pub(super) async fn body(mut self, mut body: Body, pace: &Pace) -> Result<Taken, Failure> {
        let mut stall = pace.stall;
        while let Some(piece) = self.content.data().await {
            let received = body.received;
            let piece = piece
                .map_err(|error| failure(Fault::Short, format!("{error} after {received} bytes of body")))?;
            if body.feed(&piece) != Progress::More {
                return Err(failure(Fault::Broken, "content behind its end"));
            }
            if pace.leave_after.is_some_and(|bytes| body.received >= bytes) {
                return Ok(Taken { body, is_left: true });
            }
            if let Some(pause) = stall.take() {
                tokio::time::sleep(pause).await;
            }
            let (bytes, pause) =
                pace.take.map_or((usize::MAX, None), |(bytes, pause)| (bytes.max(1), Some(pause)));
            for taken in piece.chunks(bytes) {
                // What is given back the server may send again: a slow reader gives back slowly.
                let _ = self.content.flow_control().release_capacity(taken.len());
                if let Some(pause) = pause {
                    tokio::time::sleep(pause).await;
                }
            }
        }
        Ok(Taken { body, is_left: false })
    }
}
