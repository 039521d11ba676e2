//! After a 101: joins the connection and the other side, byte for byte (RFC 9110 §7.8). What a client sends
//! behind its request reaches the other side only now.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_observe::Counters;
use weir_wire::print;

use super::Conn;
use super::send::NOTHING_SENT;
use super::socket::Socket;
use crate::listen::Stream;
use crate::message::{Duplex, End, Sent, Switch};
use weir_clock as clock;

/// The longest silence of one side after the other has ended. A peer that has left looks the same as one that
/// has only ended its side.
const HALF_OPEN_IDLE_MAX: Duration = Duration::from_secs(60);
/// The bytes of one copy, in each direction.
const COPY_BYTES: usize = 16 << 10;

/// Ends the printed head and moves bytes until either side ends, or until none move for the tunnel's idle
/// time.
pub(super) async fn run(conn: &mut Conn, switch: Switch, counters: &Counters) -> Sent {
    let Switch { protocol, stream } = switch;
    let socket = &mut conn.socket;
    if let Some(protocol) = protocol {
        print::field(&mut socket.out, "upgrade", protocol.as_bytes());
    }
    print::field(&mut socket.out, "connection", b"upgrade");
    print::end(&mut socket.out);
    if socket.send_printed().await.is_err() {
        return NOTHING_SENT;
    }
    let first_byte = Some(clock::mono());
    counters.tunnel_opened();
    let early = socket.input.split().freeze();
    let body_bytes = join(socket, stream, &early, conn.peer.limits.tunnel_idle_max).await;
    counters.tunnel_closed();
    Sent { body_bytes, first_byte, last_byte: None, end: End::Whole }
}

/// Moves bytes in both directions. Returns how many went to the client.
async fn join(socket: &mut Socket, mut other: Box<dyn Duplex>, early: &[u8], idle_max: Duration) -> u64 {
    let mut to_client = 0;
    if other.write_all(early).await.is_err() {
        return to_client;
    }
    let (mut up, mut down) = (vec![0; COPY_BYTES], vec![0; COPY_BYTES]);
    let (mut up_open, mut down_open) = (true, true);
    while up_open || down_open {
        let idle_max = if up_open && down_open { idle_max } else { idle_max.min(HALF_OPEN_IDLE_MAX) };
        let moved = tokio::time::timeout(idle_max, async {
            tokio::select! {
                read = socket.stream_mut().read(&mut up), if up_open => Moved::Up(read),
                read = other.read(&mut down), if down_open => Moved::Down(read),
            }
        });
        let written = match moved.await {
            Err(_) | Ok(Moved::Up(Err(_)) | Moved::Down(Err(_))) => return to_client,
            Ok(Moved::Up(Ok(0))) => {
                up_open = false;
                other.shutdown().await
            }
            Ok(Moved::Down(Ok(0))) => {
                down_open = false;
                socket.stream_mut().shutdown().await
            }
            Ok(Moved::Up(Ok(bytes))) => timed(idle_max, other.write_all(&up[..bytes])).await,
            Ok(Moved::Down(Ok(bytes))) => {
                to_client += bytes as u64;
                let written = timed(idle_max, send_all(socket.stream_mut(), &down[..bytes])).await;
                socket.wrote(if written.is_ok() { bytes as u64 } else { 0 });
                written
            }
        };
        if written.is_err() {
            return to_client;
        }
    }
    to_client
}

/// Writes bytes so that none of them waits here.
async fn send_all(stream: &mut Stream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

/// What one turn has moved.
enum Moved {
    Up(std::io::Result<usize>),
    Down(std::io::Result<usize>),
}

async fn timed(most: Duration, write: impl Future<Output = std::io::Result<()>>) -> std::io::Result<()> {
    tokio::time::timeout(most, write).await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
}
