//! Sends the response of one stream: its head, and then its body. It must not change what the service
//! answered.

use std::rc::Rc;

use h2::SendStream;
use http::{HeaderMap, StatusCode};
use weir_clock as clock;
use weir_observe::Counters;

use super::ahead::{Ahead, Piece};
use super::client::{Side, StreamClient};
use super::heads;
use super::sink::Handed;
use crate::limits::ClientLimits;
use crate::message::{Done, End, Head, Response, Sent, Service};
use crate::out::{Extent, MEMORY_SHARE, Sending, unsent};

/// What sending needs of the connection.
pub(super) struct Through<'c> {
    pub(super) ahead: &'c Rc<Ahead>,
    pub(super) limits: &'c ClientLimits,
    pub(super) counters: &'c Counters,
    /// Holds the memory of the response's head; false if there is no room for it.
    pub(super) holds: &'c dyn Fn(usize) -> bool,
}

/// Sends a response. Returns what was sent.
pub(super) async fn respond<S: Service>(
    client: &mut StreamClient<'_>,
    through: &Through<'_>,
    is_head: bool,
    response: &mut Response<S>,
) -> Done {
    let Response { head, late, length, body, pace, upload, .. } = response;
    let Some(status) = head.status() else {
        return unsent(None, End::ClientGone);
    };
    let extent = Extent::choose(is_head, status, *length);
    let fields = heads::fields(std::mem::replace(head, Head::None), late, extent.declared());
    let ends = matches!(extent, Extent::Nothing(_) | Extent::Length(0));
    let head_bytes = if ends { 0 } else { heads::memory_bytes(&fields) };
    let Some(stream) = send_head(client, status, fields, ends) else {
        return unsent(Some(status), End::ClientGone);
    };
    let mut done = unsent(Some(status), End::Whole);
    let first_byte = Some(done.ended);
    done.sent = Sent { first_byte, last_byte: first_byte, ..done.sent };
    if let (Some(stream), false) = (stream, ends) {
        client.side.replace(Side::Sending(stream));
        let mut sending = Sending::new(Handed::new(client, through), extent, body, pace, upload);
        let end = match sending.at_once() {
            Some(end) => end,
            // In memory of its own, which a short body at hand does not need.
            None if (through.holds)(head_bytes) => Box::pin(sending.rest()).await,
            None => End::Cut(MEMORY_SHARE),
        };
        done.sent = Sent { first_byte, ..sending.finish(end) };
        done.ended = done.sent.last_byte.unwrap_or_else(clock::mono);
    }
    done
}

/// Hands the head to the crate. `None`: the client is gone.
pub(super) fn send_head(
    client: &StreamClient<'_>,
    status: StatusCode,
    fields: HeaderMap,
    ends: bool,
) -> Option<Option<SendStream<Piece>>> {
    let mut head = http::Response::new(());
    *head.status_mut() = status;
    *head.headers_mut() = fields;
    let mut side = client.side.borrow_mut();
    let Side::Waiting(respond) = &mut *side else { return Some(None) };
    client.content.charge_head(respond.stream_id().as_u32(), client.site);
    respond.send_response(head, ends).ok().map(Some)
}
