//! After a 101: what a client sends behind its request reaches the other side only now (RFC 9110 §7.8).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::StatusCode;
use tokio::io::AsyncWrite;
use weir_clock as clock;
use weir_observe::Counters;
use weir_wire::print;

use super::Conn;
use super::socket::{ClientEnd, Socket, Taken};
use crate::message::{self, Done, Sent, Switch};
use crate::out::unsent;
use crate::tunnel;

/// Ends the printed head and moves bytes until the tunnel is over.
pub(super) async fn run(conn: &mut Conn, switch: Switch, status: StatusCode, counters: &Counters) -> Done {
    let Switch { protocol, stream } = switch;
    let carries = tunnel::Carries::of(protocol.as_ref().map(http::HeaderValue::as_bytes));
    let socket = &mut conn.socket;
    if let Some(protocol) = protocol {
        print::field(&mut socket.out, "upgrade", protocol.as_bytes());
    }
    print::field(&mut socket.out, "connection", b"upgrade");
    print::end(&mut socket.out);
    if socket.send_printed().await.is_err() {
        return unsent(Some(status), message::End::Whole);
    }
    let first_byte = Some(clock::mono());
    counters.tunnel_opened();
    let between = tunnel::Between { origin: stream, carries };
    let moved = tunnel::join(socket, between, conn.peer.limits.tunnel_idle_max).await;
    counters.tunnel_closed();
    let end = message::End::Whole;
    let sent = Sent { body_bytes: moved.to_client, first_byte, last_byte: None, end };
    Done { status: Some(status), sent, ended: clock::mono() }
}

impl tunnel::End for Socket {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if self.input.is_empty() {
            ready!(self.poll_read(cx))?;
        }
        let bytes = std::mem::take(&mut self.input).freeze();
        Poll::Ready(Ok(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>> {
        loop {
            let taken = self.send_now(&[&bytes[..]]).map_err(|end| match end {
                ClientEnd::Io(error) => error,
                _ => io::ErrorKind::BrokenPipe.into(),
            });
            bytes.advance(usize::try_from(self.sent_bytes).map_or(bytes.len(), |sent| sent.min(bytes.len())));
            match taken? {
                Taken::All => return Poll::Ready(Ok(())),
                Taken::Part => ready!(self.stream().poll_writable(cx))?,
            }
        }
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream_mut()).poll_shutdown(cx)
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_gone(cx)
    }

    fn moved(&mut self) {
        self.moved();
    }
}
