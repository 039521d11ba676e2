//! A WebSocket over one stream (RFC 8441): the origin sees the upgrade of HTTP/1, the client a 200, and then
//! bytes pass both ways as DATA.

use http::StatusCode;
use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_clock as clock;

use super::client::{Side, StreamClient};
use super::send::{self, NOTHING_SENT, Through};
use super::stream;
use crate::message::{Done, Duplex, End, Head, Response, Sent, Service, Switch};

/// The longest silence of one side after the other has ended.
const HALF_OPEN_IDLE_MAX: std::time::Duration = std::time::Duration::from_secs(60);
/// The bytes of one copy.
const COPY_BYTES: usize = 16 << 10;

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

/// Tells the client that the origin has switched, and moves bytes until either side ends, or until none move
/// for the tunnel's idle time.
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
        let sent = Sent { end: End::ClientGone, ..NOTHING_SENT };
        return Done { status, sent, ended: clock::mono() };
    };
    client.side.replace(Side::Sending(stream));
    let first_byte = Some(clock::mono());
    through.counters.tunnel_opened();
    let body_bytes = join(client, through, switch.stream).await;
    through.counters.tunnel_closed();
    let sent = Sent { body_bytes, first_byte, last_byte: None, end: End::Whole };
    Done { status, sent, ended: clock::mono() }
}

/// What one turn has moved.
enum Moved {
    Up(Option<Result<bytes::Bytes, h2::Error>>),
    Down(std::io::Result<usize>),
}

/// Moves bytes in both directions. Returns how many went to the client.
async fn join(client: &mut StreamClient<'_>, through: &Through<'_>, mut other: Box<dyn Duplex>) -> u64 {
    let mut to_client = 0;
    let mut down = vec![0; COPY_BYTES];
    let (mut up_open, mut down_open) = (true, true);
    while up_open || down_open {
        let idle_max = through.limits.tunnel_idle_max;
        let idle_max = if up_open && down_open { idle_max } else { idle_max.min(HALF_OPEN_IDLE_MAX) };
        let side = client.side;
        let content = &mut client.content;
        let moved = tokio::time::timeout(idle_max, async {
            tokio::select! {
                data = std::future::poll_fn(|cx| content.poll_bytes(cx)), if up_open => Moved::Up(data),
                read = other.read(&mut down), if down_open => Moved::Down(read),
                // A reset ends the tunnel even where nothing is read.
                () = std::future::poll_fn(|cx| side.borrow_mut().poll_gone(cx)) => Moved::Up(Some(Err(
                    h2::Reason::CANCEL.into(),
                ))),
            }
        });
        let is_well = match moved.await {
            Err(_) | Ok(Moved::Up(Some(Err(_))) | Moved::Down(Err(_))) => false,
            Ok(Moved::Up(None)) => {
                up_open = false;
                other.shutdown().await.is_ok()
            }
            Ok(Moved::Up(Some(Ok(bytes)))) => {
                matches!(tokio::time::timeout(idle_max, other.write_all(&bytes)).await, Ok(Ok(())))
            }
            Ok(Moved::Down(Ok(bytes))) => {
                down_open = bytes > 0;
                let piece = bytes::Bytes::copy_from_slice(&down[..bytes]);
                let sent = tokio::time::timeout(idle_max, send::send_bytes(client, through, piece)).await;
                to_client += bytes as u64;
                sent == Ok(true)
            }
        };
        if !is_well {
            client.side.borrow_mut().reset(h2::Reason::CANCEL);
            return to_client;
        }
    }
    to_client
}
