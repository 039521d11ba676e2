//! Stands for asking DNS in a build without the feature `dns`. The program refuses a configuration that needs
//! it, so that nobody should come here.

use std::net::SocketAddr;
use std::time::Duration;

use super::Answer;

/// Finds nothing.
///
/// # Errors
/// Always.
pub(crate) async fn look_up(
    host: &str,
    _port: u16,
    _nameservers: &[SocketAddr],
    _patience: Duration,
) -> Result<Answer, String> {
    Err(format!("{host}: this program was built without DNS lookups of its own"))
}
