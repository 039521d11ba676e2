//! A WebSocket over one stream (RFC 8441): the origin sees the upgrade of HTTP/1, the client a 200, and then
//! bytes pass both ways as DATA.

use std::io;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use weir_clock::{self as clock, Deadline};

use super::client::{Side, StreamClient};
use super::send::{self, Through};
use super::sink::Handed;
use super::stream;
use crate::message::{Done, End, Head, Response, Sent, Service, Switch};
use crate::out::{Gone, Sink, unsent};
use crate::tunnel::{self, Over};

/// Adds the key that an HTTP/1 upgrade needs and RFC 8441 leaves out (RFC 6455 §4.1).
pub(super) fn add_key(headers: &mut HeaderMap, name: &HeaderName) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let number = fastrand::u128(..);
    // 16 bytes are 22 digits, the last of which has four bits.
    let digit = |at: u32| DIGITS[(number << (6 * at) >> 122) as usize & 63];
    let mut key: Vec<u8> = (0..22).map(digit).collect();
    key.extend(b"==");
    if let Ok(value) = HeaderValue::try_from(key) {
        stream::set(headers, name, value);
    }
}

/// Tells the client that the origin has switched, and moves bytes until the tunnel is over.
pub(super) async fn run<S: Service>(
    client: &mut StreamClient<'_>,
    through: &Through<'_>,
    response: &mut Response<S>,
    switch: Switch,
) -> Done {
    let mut fields = std::mem::replace(&mut response.head, Head::None).fields(&response.late);
    for name in [UPGRADE, CONNECTION, HeaderName::from_static("sec-websocket-accept")] {
        fields.remove(name);
    }
    let status = Some(StatusCode::OK);
    let Some(Some(stream)) = send::send_head(client, StatusCode::OK, fields, false) else {
        return unsent(status, End::ClientGone);
    };
    let side = client.side;
    side.replace(Side::Sending(stream));
    let first_byte = Some(clock::mono());
    through.counters.tunnel_opened();
    let half_close = through.limits.half_close_max;
    let (sink, deadline) = (Handed::new(client, through), Deadline::after(half_close));
    let mut end = ClientEnd { sink, ended: None, half_close, deadline };
    let Switch { protocol, stream } = switch;
    let carries = tunnel::Carries::of(protocol.as_ref().map(HeaderValue::as_bytes));
    let between = tunnel::Between { origin: stream, carries };
    let moved = tunnel::join(&mut end, between, through.limits.tunnel_idle_max).await;
    if moved.over == Over::Cut {
        side.borrow_mut().reset(h2::Reason::CANCEL);
    }
    through.counters.tunnel_closed();
    let sent = Sent { body_bytes: moved.to_client, first_byte, last_byte: None, end: End::Whole };
    Done { status, sent, ended: clock::mono() }
}

/// The client's end.
struct ClientEnd<'e, 's> {
    sink: Handed<'e, 's>,
    /// Since when it has ended its side and nothing has moved.
    ended: Option<Instant>,
    half_close: Duration,
    deadline: Deadline,
}

impl tunnel::End for ClientEnd<'_, '_> {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            return Poll::Ready(match ready!(self.sink.client.content.poll_bytes(cx)) {
                // A frame may be empty.
                Some(Ok(bytes)) if bytes.is_empty() => continue,
                Some(Ok(bytes)) => Ok(Some(bytes)),
                Some(Err(error)) => Err(io::Error::other(error)),
                None => {
                    self.ended = Some(clock::mono());
                    Ok(None)
                }
            });
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>> {
        while !bytes.is_empty() {
            let wanted = bytes.len() as u64;
            let room = match self.sink.room(wanted) {
                0 => ready!(self.sink.poll_room(cx, wanted)).map_err(|Gone| gone())?,
                room => room,
            };
            self.sink.put(bytes, room, u64::MAX).map_err(|Gone| gone())?;
            self.moved();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.sink.end(None).map_err(|Gone| gone()))
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.sink.client.side.borrow_mut().poll_gone(cx).is_ready() {
            return Poll::Ready(());
        }
        let Some(ended) = self.ended else { return Poll::Pending };
        self.deadline.set(ended + self.half_close);
        self.deadline.poll(cx)
    }

    fn moved(&mut self) {
        if self.ended.is_some() {
            self.ended = Some(clock::mono());
        }
    }
}

/// The stream has ended.
fn gone() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}
