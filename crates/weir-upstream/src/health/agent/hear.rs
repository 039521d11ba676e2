//! One connection to the agent of an origin: what is sent first, and the line that comes back. It must not
//! hold more than a line, nor wait for the end of the connection.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout_at};
use weir_client::Server;

use super::line::{LINE_BYTES_MAX, Reading, read};
use super::record::Heard;
use crate::settings::AgentSettings;

/// The longest that an agent may take, where the time between two connections is longer.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Asks the agent beside an origin.
///
/// # Cancel safety
/// Dropped, it closes its connection.
pub(crate) async fn hear(server: &Server, settings: &AgentSettings) -> Heard {
    let deadline = Instant::now() + settings.every.min(TIME_MAX);
    let connecting = timeout_at(deadline, server.beside(settings.port)).await;
    let Some(mut stream) = connecting.ok().flatten() else { return Heard::Unreachable };
    let talk = timeout_at(deadline, line(&mut stream, &settings.send)).await;
    talk.unwrap_or(Heard::Broken)
}

async fn line(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), send: &[u8]) -> Heard {
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
