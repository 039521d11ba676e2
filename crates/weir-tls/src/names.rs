//! The names in a certificate, and which hosts they cover (RFC 9525 §6.3, RFC 6125 §6.4.3).

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

/// The names in a certificate: its subject alternative names, in their order. A common name does not count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    dns: Box<[Box<str>]>,
    addresses: Box<[IpAddr]>,
}

impl Names {
    /// Names from any source: DNS names in lower case, a wildcard as its whole first label. Others are
    /// dropped.
    pub fn new<'a>(dns: impl IntoIterator<Item = &'a str>, addresses: Vec<IpAddr>) -> Names {
        let dns = dns.into_iter().filter(|name| is_usable(name)).map(|name| lower(name).into()).collect();
        Names { dns, addresses: addresses.into() }
    }

    /// The DNS names, in lower case; a wildcard begins with `*.`.
    pub fn dns(&self) -> impl Iterator<Item = &str> {
        self.dns.iter().map(AsRef::as_ref)
    }

    /// The addresses.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.dns.is_empty() && self.addresses.is_empty()
    }

    /// Whether `name` is one of them, as it is written, wildcards included, or an address.
    pub fn cover_all(&self, name: &str) -> bool {
        self.dns().any(|own| own == lower(name)) || self.cover(name)
    }

    /// Whether one of them is `host`: a name or an address, without a port. A `*` stands for one label.
    pub fn cover(&self, host: &str) -> bool {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return self.addresses.contains(&address);
        }
        let host = lower(host);
        let below = host.split_once('.').map(|(_, below)| below);
        self.dns().any(|name| match name.strip_prefix("*.") {
            Some(parent) => below == Some(parent),
            None => name == host,
        })
    }
}

/// For people: `www.example.com, *.example.net, 192.0.2.1`.
impl fmt::Display for Names {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dns = self.dns().map(str::to_owned);
        let all: Vec<String> = dns.chain(self.addresses.iter().map(ToString::to_string)).collect();
        out.write_str(&all.join(", "))
    }
}

/// A name in lower case, without the dot at its end.
pub(crate) fn lower(name: &str) -> Cow<'_, str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}

/// Whether a client can ask for it: labels of letters, digits, `-` and `_`, the first perhaps `*`.
fn is_usable(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let rest = name.strip_prefix("*.").unwrap_or(name);
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= 253 && rest.split('.').all(is_label)
}

#[cfg(test)]
mod tests;
