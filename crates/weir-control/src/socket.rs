//! What a connection goes over: one type for sockets of all kinds, with TLS and without, so that HTTP is
//! compiled once for each side (ADR 0092).

use tokio::io::{AsyncRead, AsyncWrite};

/// A connected socket.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Socket for S {}

/// One of any kind.
pub(crate) type AnySocket = Box<dyn Socket>;
