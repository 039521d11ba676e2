//! The PROXY protocol, versions 1 and 2: a balancer in front names the client in the first bytes of a
//! connection.
//!
//! Follows HAProxy's specification "The PROXY protocol, versions 1 & 2" (2020/03/05), §2.1 and §2.2,
//! strictly. A listener that expects the header refuses connections without it, since guessing would let
//! clients choose their address. [`parse`] is pure. Checksums in the version 2 extensions are not verified;
//! extensions are skipped.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::{Buf, BytesMut};

use super::{Peer, Plain, Trusted};

/// The longest version 1 line in bytes, CRLF included (§2.1).
pub const V1_BYTES_MAX: usize = 107;
/// The longest version 2 header in bytes, extensions included. The protocol allows 65,551.
pub const V2_BYTES_MAX: usize = 4096;

const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const V2_FIXED_BYTES: usize = 16;

/// What a PROXY header announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// The connection is relayed for a client.
    Client {
        /// The client's address.
        source: SocketAddr,
        /// The address the client connected to.
        destination: SocketAddr,
    },
    /// The sender speaks for itself (a health check), or does not name its client. The connection's own
    /// addresses count.
    Itself,
}

/// How far a header has been parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// Correct so far; more bytes are needed.
    Incomplete,
    /// The whole header.
    Complete {
        /// What it says.
        announced: Announced,
        /// Its length; what follows is the client's.
        header_bytes: usize,
    },
}

/// The version that a listener demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The text form.
    V1,
    /// The binary form.
    V2,
    /// Either.
    Any,
}

impl Form {
    /// Whether a header of this form may begin with these bytes.
    fn begins(self, bytes: &[u8]) -> bool {
        match (self, bytes.first()) {
            (Form::Any, _) | (_, None) => true,
            (Form::V1, Some(first)) => *first == b'P',
            (Form::V2, Some(first)) => *first == V2_SIGNATURE[0],
        }
    }
}

/// Why bytes are not a PROXY header. The connection is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Neither version's first bytes.
    #[error("the connection does not begin with a PROXY header")]
    Missing,
    /// Longer than [`V1_BYTES_MAX`] or [`V2_BYTES_MAX`].
    #[error("the PROXY header is too long")]
    TooLong,
    /// An impossible address, port, family or length.
    #[error("the PROXY header is malformed")]
    Field,
}

/// Why a connection ended at its PROXY header.
#[derive(Debug, thiserror::Error)]
pub enum GreetError {
    /// The peer may not name clients on this listener.
    #[error("PROXY header from {0}, which is not among the trusted proxies")]
    Untrusted(Peer),
    /// The bytes are not a PROXY header.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The connection ended within the header.
    #[error("the connection ended within its PROXY header")]
    Ended,
    /// Reading failed.
    #[error("reading the PROXY header")]
    Read(#[source] io::Error),
}

/// Parses a PROXY header at the start of `bytes`.
///
/// # Errors
/// [`Malformed`] as soon as the bytes cannot become a header.
pub fn parse(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let signature = &V2_SIGNATURE[..V2_SIGNATURE.len().min(bytes.len())];
    let word = &b"PROXY "[..6.min(bytes.len())];
    if bytes.is_empty() {
        Ok(Parsed::Incomplete)
    } else if bytes.starts_with(signature) {
        parse_v2(bytes)
    } else if bytes.starts_with(word) {
        parse_v1(bytes)
    } else {
        Err(Malformed::Missing)
    }
}

/// Receives the header on a listener that demands one. Returns the client's peer, or `peer` itself if the
/// header names none. What follows the header stays in `buffer`. The caller limits the time.
///
/// # Errors
/// [`GreetError`]: close the connection.
///
/// # Cancel safety
/// Safe to drop, but the connection is of no use afterwards.
pub async fn greet(
    stream: &Plain,
    peer: Peer,
    trusted: &Trusted,
    form: Form,
    buffer: &mut BytesMut,
) -> Result<Peer, GreetError> {
    if !trusted.contains(&peer) {
        return Err(GreetError::Untrusted(peer));
    }
    loop {
        if !form.begins(buffer) {
            return Err(Malformed::Missing.into());
        }
        if let Parsed::Complete { announced, header_bytes } = parse(buffer)? {
            buffer.advance(header_bytes);
            return Ok(match announced {
                Announced::Client { source, .. } => Peer::at(source),
                Announced::Itself => peer,
            });
        }
        stream.readable().await.map_err(GreetError::Read)?;
        buffer.reserve(V1_BYTES_MAX);
        match stream.try_read_buf(buffer) {
            Ok(0) => return Err(GreetError::Ended),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(GreetError::Read(error)),
        }
    }
}

/// `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n` (§2.1).
fn parse_v1(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let window = &bytes[..bytes.len().min(V1_BYTES_MAX)];
    let Some(end) = memchr::memchr(b'\n', window) else {
        let whole = bytes.len() >= V1_BYTES_MAX;
        return if whole { Err(Malformed::TooLong) } else { Ok(Parsed::Incomplete) };
    };
    let line = window[..end].strip_suffix(b"\r").ok_or(Malformed::Field)?;
    let line = std::str::from_utf8(line).map_err(|_| Malformed::Field)?;
    let mut words = line.split(' ').skip(1);
    let announced = match words.next() {
        // The rest of an UNKNOWN line is to be ignored.
        Some("UNKNOWN") => Announced::Itself,
        Some("TCP4") => v1_client(words, |text| text.parse::<Ipv4Addr>().ok().map(IpAddr::V4))?,
        Some("TCP6") => v1_client(words, |text| text.parse::<Ipv6Addr>().ok().map(IpAddr::V6))?,
        _ => return Err(Malformed::Field),
    };
    Ok(Parsed::Complete { announced, header_bytes: end + 1 })
}

fn v1_client<'a>(
    mut words: impl Iterator<Item = &'a str>,
    address: impl Fn(&str) -> Option<IpAddr>,
) -> Result<Announced, Malformed> {
    let (source, destination) = (words.next().and_then(&address), words.next().and_then(&address));
    let (source_port, destination_port) = (words.next().and_then(port), words.next().and_then(port));
    match (source, destination, source_port, destination_port, words.next()) {
        (Some(source), Some(destination), Some(source_port), Some(destination_port), None) => {
            Ok(Announced::Client {
                source: SocketAddr::new(source, source_port),
                destination: SocketAddr::new(destination, destination_port),
            })
        }
        _ => Err(Malformed::Field),
    }
}

/// Decimal digits without sign or leading zero; `u16::from_str` alone takes `+1`.
fn port(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

/// Twelve bytes of signature, version and command, family, length, addresses (§2.2).
fn parse_v2(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let Some((fixed, rest)) = bytes.split_at_checked(V2_FIXED_BYTES) else {
        return Ok(Parsed::Incomplete);
    };
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let header_bytes = V2_FIXED_BYTES + length;
    if header_bytes > V2_BYTES_MAX {
        return Err(Malformed::TooLong);
    }
    let (version, command, family) = (fixed[12] >> 4, fixed[12] & 0x0f, fixed[13]);
    if version != 2 || command > 1 {
        return Err(Malformed::Field);
    }
    let Some(payload) = rest.get(..length) else {
        return Ok(Parsed::Incomplete);
    };
    let announced = match (command, family) {
        (0, _) => Announced::Itself,
        (_, 0x00) => Announced::Itself,
        (_, 0x11) => v2_client::<4, 12>(payload, |octets| Ipv4Addr::from(octets).into())?,
        (_, 0x21) => v2_client::<16, 36>(payload, |octets| Ipv6Addr::from(octets).into())?,
        (_, 0x31) if extensions_are_whole(payload.get(216..)) => Announced::Itself,
        _ => return Err(Malformed::Field),
    };
    Ok(Parsed::Complete { announced, header_bytes })
}

/// Two addresses of `N` bytes, two ports, `ALL` bytes together, then extensions.
fn v2_client<const N: usize, const ALL: usize>(
    payload: &[u8],
    address: impl Fn([u8; N]) -> IpAddr,
) -> Result<Announced, Malformed> {
    if !extensions_are_whole(payload.get(ALL..)) {
        return Err(Malformed::Field);
    }
    let octets = |at: usize| {
        let mut octets = [0; N];
        octets.copy_from_slice(&payload[at..at + N]);
        address(octets)
    };
    let port = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
    Ok(Announced::Client {
        source: SocketAddr::new(octets(0), port(2 * N)),
        destination: SocketAddr::new(octets(N), port(2 * N + 2)),
    })
}

/// Type, two bytes of length, value, repeated to the end (§2.2.1).
fn extensions_are_whole(extensions: Option<&[u8]>) -> bool {
    let Some(mut rest) = extensions else { return false };
    while let Some((head, after)) = rest.split_at_checked(3) {
        let length = usize::from(u16::from_be_bytes([head[1], head[2]]));
        match after.get(length..) {
            Some(next) => rest = next,
            None => return false,
        }
    }
    rest.is_empty()
}
