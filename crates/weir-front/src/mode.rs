//! How a listener's connections begin, and what they speak.

use crate::listen::Form;

/// How a listener's connections begin, and what they speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerMode {
    /// The version of the PROXY header that a connection must begin with; `None`: no header.
    pub greeting: Option<Form>,
    /// Whether connections are secured.
    pub transport: Transport,
    /// What may be spoken.
    pub protocols: Protocols,
    /// Its port; `None` for a unix socket.
    pub port: Option<u16>,
}

impl ListenerMode {
    /// HTTP/1 without TLS and without a PROXY header.
    pub const PLAIN: ListenerMode =
        ListenerMode { greeting: None, transport: Transport::Plain, protocols: Protocols::Http1, port: None };
}

/// Whether connections are secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// They are not.
    Plain,
    /// They begin with a TLS handshake.
    Tls,
}

/// The versions of HTTP that a listener's connections may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// HTTP/1 alone.
    Http1,
    /// HTTP/2 alone; without TLS with prior knowledge (RFC 9113 §3.3).
    Http2,
    /// Either: ALPN decides, or the first bytes where there is no TLS.
    Both,
}
