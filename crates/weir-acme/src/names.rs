//! Which hosts a CA can issue for, decided before anything is asked of it: what it must refuse would only use
//! up its rate limits. Pure. RFC 8555 §7.1.3 (DNS names), RFC 8738 (addresses).

use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

/// A host as a certificate names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// A DNS name, lower case.
    Dns(String),
    /// An address.
    Ip(IpAddr),
}

/// Why no certificate is ordered for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unorderable {
    /// `*` or `*.example.com`: HTTP-01 and TLS-ALPN-01 prove single names only.
    #[error("no certificate is ordered for a wildcard")]
    Wildcard,
    /// The host is not written as a DNS name or an address.
    #[error("a certificate cannot name it")]
    Malformed,
    /// Names without a dot, and those that are reserved for local use.
    #[error("a public CA issues for public names only")]
    NotPublic,
    /// The address of a private network or of this machine.
    #[error("a public CA issues for public addresses only")]
    PrivateAddress,
}

/// CAs that the public trusts, by the end of their directory's host.
const PUBLIC_CAS: [&str; 5] = ["letsencrypt.org", "zerossl.com", "pki.goog", "ssl.com", "buypass.com"];
/// Names below which the public DNS has none (RFC 6761, RFC 6762, RFC 7686, RFC 8375, RFC 9476; ICANN's
/// `.internal`).
const NOT_PUBLIC: [&str; 11] = [
    "localhost",
    "local",
    "internal",
    "test",
    "invalid",
    "example",
    "onion",
    "alt",
    "lan",
    "home.arpa",
    "localdomain",
];
/// The longest DNS name, and the longest label of one.
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

impl Name {
    /// The name of a site's host (`www.example.com`, `192.0.2.1`, `[2001:db8::1]`), if the CA with this
    /// directory can issue for it.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn orderable(host: &str, directory: &str) -> Result<Name, Unorderable> {
        let name = Name::of(host)?;
        if is_public(directory) {
            name.check_public()?;
        }
        Ok(name)
    }

    /// The name of a host, whatever CA is asked.
    ///
    /// # Errors
    /// It is a wildcard, or neither a DNS name nor an address.
    pub fn of(host: &str) -> Result<Name, Unorderable> {
        if host.contains('*') {
            return Err(Unorderable::Wildcard);
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Name::Ip(address));
        }
        let is_letter = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
        let is_label = |label: &str| {
            (1..=LABEL_BYTES_MAX).contains(&label.len())
                && label.bytes().all(is_letter)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        match host.len() <= NAME_BYTES_MAX && host.split('.').all(is_label) {
            true => Ok(Name::Dns(host.to_ascii_lowercase())),
            false => Err(Unorderable::Malformed),
        }
    }

    fn check_public(&self) -> Result<(), Unorderable> {
        match self {
            Name::Ip(address) if !is_public_address(*address) => Err(Unorderable::PrivateAddress),
            Name::Ip(_) => Ok(()),
            Name::Dns(name) => {
                let is_below = |end: &&str| name.strip_suffix(*end).is_some_and(|rest| rest.ends_with('.'));
                let is_number =
                    name.rsplit('.').next().is_some_and(|end| end.bytes().all(|c| c.is_ascii_digit()));
                match name.contains('.') && !NOT_PUBLIC.iter().any(is_below) && !is_number {
                    true => Ok(()),
                    false => Err(Unorderable::NotPublic),
                }
            }
        }
    }

    /// The host as sites and requests name it: IPv6 in brackets.
    pub fn host(&self) -> String {
        match self {
            Name::Ip(IpAddr::V6(address)) => format!("[{address}]"),
            other => other.to_string(),
        }
    }

    /// What a client names in its ClientHello when it validates by TLS-ALPN-01: the name, or for an address
    /// its name in the reverse zone (RFC 8738 §6).
    pub fn server_name(&self) -> String {
        match self {
            Name::Dns(name) => name.clone(),
            Name::Ip(IpAddr::V4(address)) => {
                let [a, b, c, d] = address.octets();
                format!("{d}.{c}.{b}.{a}.in-addr.arpa")
            }
            Name::Ip(IpAddr::V6(address)) => {
                let mut text = String::new();
                for byte in address.octets().iter().rev() {
                    // Writing to a string never fails.
                    let _ = write!(text, "{:x}.{:x}.", byte & 15, byte >> 4);
                }
                text + "ip6.arpa"
            }
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Dns(name) => out.write_str(name),
            Name::Ip(address) => address.fmt(out),
        }
    }
}

/// The host of a directory's URL.
pub(crate) fn host_of(directory: &str) -> &str {
    let rest = directory.split_once("://").map_or(directory, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

fn is_public(directory: &str) -> bool {
    let host = host_of(directory);
    PUBLIC_CAS
        .iter()
        .any(|ca| host.strip_suffix(ca).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// Whether a directory is Let's Encrypt's, or its staging one.
pub(crate) fn is_lets_encrypt(directory: &str) -> bool {
    host_of(directory).ends_with("letsencrypt.org")
}

fn is_public_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(_) => false,
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_reserved = a == 0 || a >= 240 || (a == 198 && (b == 18 || b == 19));
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || is_shared
        || is_reserved)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // Global unicast is 2000::/3; of it 2001:db8::/32 is for documents.
    let [first, second, ..] = address.segments();
    first & 0xe000 == 0x2000 && !(first == 0x2001 && second == 0xdb8)
}

#[cfg(test)]
mod tests;
