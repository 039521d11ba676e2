//! Tunnels: after an origin's 101 the two connections become one, byte for byte (RFC 9110 §7.8). Nothing
//! that a client sends after its upgrade request reaches an origin before the 101.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_upstream::{OriginResponse, Tunnel};
use weir_wire::print;

use crate::conn::After;
use crate::conn::client::Client;
use crate::exchange::Exchange;
use crate::plan::Route;
use crate::present;
use crate::told::Told;

/// What one copy holds at a time, in each direction.
const COPY_BYTES: usize = 16 << 10;

/// Answers 101 and moves bytes until either side ends, or none moves for the tunnel's idle time.
pub(crate) async fn switch(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    response: OriginResponse,
    tunnel: Tunnel,
    told: Told,
) -> After {
    exchange.origin = Some(response.origin.name().into());
    let told = told.answered(response.status);
    told.note(&mut exchange.facts);
    let mut fields = present::fields(&response.headers, response.status, route, exchange.reader(0));
    if let Some(protocol) = response.headers.get(UPGRADE) {
        fields.insert(UPGRADE, protocol.clone());
    }
    fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    let out = &mut exchange.conn.client.out;
    print::status_line(out, StatusCode::SWITCHING_PROTOCOLS);
    print::fields(out, &fields);
    told.print(out, None);
    print::end(out);
    exchange.facts.status = StatusCode::SWITCHING_PROTOCOLS.as_u16();
    if exchange.conn.client.send(&[]).await.is_err() {
        return After::Cut;
    }
    let counters = exchange.worker.observer.counters();
    counters.tunnel_opened();
    let idle_max = exchange.conn.limits.tunnel_idle_max;
    let early = exchange.conn.client.input.split().freeze();
    exchange.facts.body_bytes = join(&mut exchange.conn.client, tunnel, &early, idle_max).await;
    counters.tunnel_closed();
    After::Cut
}

/// Moves bytes both ways; returns how many went to the client.
async fn join(client: &mut Client, mut tunnel: Tunnel, early: &[u8], idle_max: Duration) -> u64 {
    let mut to_client = 0;
    if tunnel.write_all(early).await.is_err() {
        return to_client;
    }
    let (mut up, mut down) = (vec![0; COPY_BYTES], vec![0; COPY_BYTES]);
    let (mut up_open, mut down_open) = (true, true);
    while up_open || down_open {
        let moved = tokio::time::timeout(idle_max, async {
            tokio::select! {
                read = client.stream_mut().read(&mut up), if up_open => Moved::Up(read),
                read = tunnel.read(&mut down), if down_open => Moved::Down(read),
            }
        });
        let written = match moved.await {
            Err(_) | Ok(Moved::Up(Err(_)) | Moved::Down(Err(_))) => return to_client,
            Ok(Moved::Up(Ok(0))) => {
                up_open = false;
                tunnel.shutdown().await
            }
            Ok(Moved::Down(Ok(0))) => {
                down_open = false;
                client.stream_mut().shutdown().await
            }
            Ok(Moved::Up(Ok(bytes))) => timed(idle_max, tunnel.write_all(&up[..bytes])).await,
            Ok(Moved::Down(Ok(bytes))) => {
                to_client += bytes as u64;
                let written = timed(idle_max, client.stream_mut().write_all(&down[..bytes])).await;
                client.wrote(if written.is_ok() { bytes as u64 } else { 0 });
                written
            }
        };
        if written.is_err() {
            return to_client;
        }
    }
    to_client
}

/// What one turn brought.
enum Moved {
    Up(std::io::Result<usize>),
    Down(std::io::Result<usize>),
}

async fn timed(most: Duration, write: impl Future<Output = std::io::Result<()>>) -> std::io::Result<()> {
    tokio::time::timeout(most, write).await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
}
