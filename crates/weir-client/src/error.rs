//! What goes wrong in an exchange with an origin, named by the failed act, with the status and the RFC 9209
//! error type.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

/// Who has to act on an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The client, which broke off its request body.
    Client,
    /// The origin or the network to it.
    Origin,
    /// This machine, e.g. it has no more ports.
    Local,
    /// The configuration.
    Config,
}

/// The bound at which there was no connection, or no place for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The origin's `connections`, and its `queue` or `queue_wait`.
    Connections,
    /// The origin's `streams`.
    Streams,
    /// The client's `client_share` of these.
    ClientShare,
}

impl Bound {
    /// The word for logs and `Cache-Status` details.
    pub fn word(self) -> &'static str {
        match self {
            Self::Connections => "busy",
            Self::Streams => "streams",
            Self::ClientShare => "client-share",
        }
    }

    /// A sentence for the client.
    pub fn text(self) -> &'static str {
        match self {
            Self::Connections => "all connections to the origin are in use",
            Self::Streams => "as many tunnels and event streams of the origin are open as there may be",
            Self::ClientShare => "this client has its share of what the origin can serve at once",
        }
    }
}

/// Why there is no response, or no more of one.
///
/// Clone, so that each request that waits for a fill can be given it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The origin's name could not be looked up.
    #[error("cannot look up {host}")]
    Lookup {
        /// The name.
        host: Arc<str>,
        /// What the resolver said.
        #[source]
        source: Arc<io::Error>,
    },
    /// Looking up the origin's name took too long.
    #[error("looking up {host} took too long")]
    LookupTimeout {
        /// The name.
        host: Arc<str>,
    },
    /// The connection was refused (also: the unix socket does not exist).
    #[error("connection refused")]
    Refused {
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// There is no way to the address.
    #[error("no route to the origin")]
    Unroutable {
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// The connection could not be made for another reason.
    #[error("cannot connect")]
    Connect {
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// TCP or TLS set-up took too long.
    #[error("connecting took too long")]
    ConnectTimeout,
    /// The origin's certificate is not trusted.
    #[error("the certificate is not accepted")]
    Certificate {
        /// What rustls said.
        #[source]
        source: Arc<io::Error>,
    },
    /// The origin refused the TLS session with an alert.
    #[error("the origin sent a TLS alert")]
    Alert {
        /// What rustls said.
        #[source]
        source: Arc<io::Error>,
    },
    /// The TLS handshake failed.
    #[error("the TLS handshake failed")]
    Tls {
        /// What rustls or the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// The connection ended before the first byte of a response.
    #[error("the connection ended before a response")]
    Terminated,
    /// The connection ended inside the response's head or body.
    #[error("the response is incomplete")]
    Incomplete,
    /// The response is not HTTP as Weir accepts it.
    #[error("the response is malformed: {reason}")]
    Malformed {
        /// A short word, e.g. `bare-lf`.
        reason: &'static str,
    },
    /// The response's head or trailer section is too large.
    #[error("the response head is too large: {reason}")]
    HeadTooLarge {
        /// A short word, e.g. `head-too-large`.
        reason: &'static str,
    },
    /// An upgrade that nobody asked for.
    #[error("the origin switched protocols unasked")]
    Upgrade,
    /// No response head within `first_byte`.
    #[error("no response in time")]
    FirstByteTimeout,
    /// No byte of the body within `between_bytes`.
    #[error("the response stalled")]
    ReadTimeout,
    /// The origin took no byte of the request within `between_bytes`.
    #[error("the origin stopped reading")]
    WriteTimeout,
    /// All connections are in use and the queue is full, or waiting took too long; or there are as many
    /// streams as there may be.
    #[error("{}", bound.text())]
    Busy {
        /// The bound that was reached.
        bound: Bound,
        /// What `Retry-After` should say.
        retry_after: Duration,
    },
    /// The sender of the request's body went away or gave up.
    #[error("the request body was broken off")]
    BodyAborted,
}

impl ExchangeError {
    /// The status of the response to the client, where nothing was sent yet.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::LookupTimeout { .. }
            | Self::ConnectTimeout
            | Self::FirstByteTimeout
            | Self::ReadTimeout
            | Self::WriteTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Busy { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::BodyAborted => StatusCode::BAD_REQUEST,
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// The error type for `Proxy-Status` (RFC 9209 §2.3).
    pub fn proxy_status(&self) -> &'static str {
        match self {
            Self::Lookup { .. } => "dns_error",
            Self::LookupTimeout { .. } => "dns_timeout",
            Self::Refused { .. } => "connection_refused",
            Self::Unroutable { .. } => "destination_ip_unroutable",
            Self::Connect { .. } => "destination_unavailable",
            Self::ConnectTimeout => "connection_timeout",
            Self::Certificate { .. } => "tls_certificate_error",
            Self::Alert { .. } => "tls_alert_received",
            Self::Tls { .. } => "tls_protocol_error",
            Self::Terminated => "connection_terminated",
            Self::Incomplete => "http_response_incomplete",
            Self::Malformed { .. } => "http_protocol_error",
            Self::HeadTooLarge { .. } => "http_response_header_section_size",
            Self::Upgrade => "http_upgrade_failed",
            Self::FirstByteTimeout => "http_response_timeout",
            Self::ReadTimeout => "connection_read_timeout",
            Self::WriteTimeout => "connection_write_timeout",
            Self::Busy { .. } => "connection_limit_reached",
            Self::BodyAborted => "http_request_error",
        }
    }

    /// A short word for logs and `Cache-Status` details.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Lookup { .. } => "dns-error",
            Self::LookupTimeout { .. } => "dns-timeout",
            Self::Refused { .. } => "connection-refused",
            Self::Unroutable { .. } => "no-route",
            Self::Connect { .. } => "cannot-connect",
            Self::ConnectTimeout => "connect-timeout",
            Self::Certificate { .. } => "certificate",
            Self::Alert { .. } => "tls-alert",
            Self::Tls { .. } => "tls-error",
            Self::Terminated => "closed-early",
            Self::Incomplete => "incomplete",
            Self::Malformed { reason } | Self::HeadTooLarge { reason } => reason,
            Self::Upgrade => "upgrade-unasked",
            Self::FirstByteTimeout => "first-byte-timeout",
            Self::ReadTimeout => "read-timeout",
            Self::WriteTimeout => "write-timeout",
            Self::Busy { bound, .. } => bound.word(),
            Self::BodyAborted => "body-aborted",
        }
    }

    /// Who has to act.
    pub fn blame(&self) -> Blame {
        match self {
            Self::BodyAborted => Blame::Client,
            Self::Busy { .. } => Blame::Local,
            Self::Connect { source } | Self::Lookup { source, .. } if is_local(source) => Blame::Local,
            _ => Blame::Origin,
        }
    }

    /// Whether it came before a request was sent, so that any other request would have met it, too. An error
    /// of a TLS session does not say when it came.
    pub fn is_before_request(&self) -> bool {
        matches!(
            self,
            Self::Lookup { .. }
                | Self::LookupTimeout { .. }
                | Self::Refused { .. }
                | Self::Unroutable { .. }
                | Self::Connect { .. }
                | Self::ConnectTimeout
                | Self::Certificate { .. }
                | Self::Busy { bound: Bound::Connections | Bound::Streams, .. }
        )
    }

    /// Whether there was no answer at all: the origin could not be reached, or was silent for too long, or
    /// the connection ended before a whole head. A request that Weir's own bounds refuse was never sent, and
    /// a malformed answer is an answer.
    pub fn is_no_answer(&self) -> bool {
        match self {
            Self::Lookup { .. }
            | Self::LookupTimeout { .. }
            | Self::Refused { .. }
            | Self::Unroutable { .. }
            | Self::Connect { .. }
            | Self::ConnectTimeout
            | Self::Certificate { .. }
            | Self::Alert { .. }
            | Self::Tls { .. }
            | Self::Terminated
            | Self::Incomplete
            | Self::FirstByteTimeout
            | Self::ReadTimeout
            | Self::WriteTimeout => true,
            Self::Malformed { .. }
            | Self::HeadTooLarge { .. }
            | Self::Upgrade
            | Self::Busy { .. }
            | Self::BodyAborted => false,
        }
    }

    /// Seconds for `Retry-After`; only where all connections are in use.
    pub fn retry_after_s(&self) -> Option<u64> {
        match self {
            Self::Busy { retry_after, .. } => Some(retry_after.as_secs().max(1)),
            _ => None,
        }
    }
}

/// Too few descriptors, ports or memory: not the origin's failure, and no reason to eject it.
fn is_local(error: &io::Error) -> bool {
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
        || matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::OutOfMemory)
}

/// Why an origin cannot be spoken to with these settings. Always the configuration's fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// An address that is not one.
    #[error("{text:?} is not an origin: {why}")]
    Address {
        /// What was written.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A certificate or key file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// TLS cannot be set up with what the files hold.
    #[error("cannot set up TLS: {reason}")]
    Tls {
        /// What rustls said.
        reason: String,
    },
}

/// Prints an error with its cause.
pub struct Seen<'e>(pub &'e ExchangeError);

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.source() {
            Some(source) => write!(f, "{}: {source}", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests;
