//! One connection to the agent of an origin: what is sent first, and the line that comes back. It must not
//! hold more than a line, nor wait for the end of the connection.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::line::{LINE_BYTES_MAX, Reading, read};
use super::record::Heard;
use crate::origin::Place;
use crate::settings::AgentSettings;

/// The longest that an agent may take, where the time between two connections is longer.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Asks the agent beside an origin.
///
/// # Cancel safety
/// Dropped, it closes its connection.
pub(crate) async fn hear(place: &Place, settings: &AgentSettings) -> Heard {
    let deadline = Instant::now() + settings.every.min(TIME_MAX);
    let connecting = timeout_at(deadline, connected(place, settings.port)).await;
    let Some(mut stream) = connecting.ok().flatten() else { return Heard::Unreachable };
    let talk = timeout_at(deadline, line(&mut stream, &settings.send)).await;
    talk.unwrap_or(Heard::Broken)
}

/// A connection to the address that the origin answered at last, or to another one.
async fn connected(place: &Place, port: u16) -> Option<TcpStream> {
    let Place::Tcp { addresses, .. } = place else { return None };
    let known = addresses.current().await.ok()?;
    let first = known.preferred.load(Ordering::Relaxed);
    let all = known.list.iter().cycle().skip(first).take(known.list.len());
    let all: Vec<SocketAddr> = all.map(|address| SocketAddr::new(address.ip(), port)).collect();
    TcpStream::connect(&all[..]).await.ok()
}

async fn line(stream: &mut TcpStream, send: &[u8]) -> Heard {
    // An agent that reads nothing may have sent its line and closed.
    let _ = stream.write_all(send).await;
    let mut received = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let count = stream.read(&mut buffer).await.unwrap_or(0);
        received.extend_from_slice(&buffer[..count]);
        match read(&received, count == 0) {
            Reading::Line(words) => return Heard::Line(words),
            Reading::Broken => return Heard::Broken,
            Reading::More => debug_assert!(received.len() <= LINE_BYTES_MAX),
        }
    }
}
