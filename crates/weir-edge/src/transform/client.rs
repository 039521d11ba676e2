//! The client of a request: the peer, or the client that a trusted peer names. It must not believe any other
//! peer.

use std::net::{IpAddr, SocketAddr};

use http::header::{CONNECTION, FORWARDED, VIA};
use http::{HeaderMap, HeaderName};

use weir_front::listen::{Peer, Trusted};

pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client: the peer, or the one that a trusted peer names. That is the last address in `X-Forwarded-For`
/// that is not a trusted peer's own, or the first where all are. Anybody may have written the addresses to
/// its left.
///
/// `None` where the client cannot be known: the address cannot be parsed, or a trusted peer does not say for
/// whom it passes the request on. `Forwarded` (RFC 7239) is not read: a proxy that writes the one field
/// usually lets a client's other one through.
pub(crate) fn client_of(peer: Peer, trusted: &Trusted, headers: &HeaderMap) -> Option<Peer> {
    if !trusted.contains(&peer) {
        return Some(peer);
    }
    // Most requests have none of them, and one look at all names is less than a search for each.
    let is_told = |name: &HeaderName| {
        matches!(name.as_str().len(), 3 | 9 | 10 | 15)
            && [VIA, FORWARDED, CONNECTION, X_FORWARDED_FOR].contains(name)
    };
    if !headers.keys().any(is_told) {
        return Some(peer);
    }
    // A client could else make the field disappear that the peer has written, by naming it in `Connection`.
    if names(headers).any(|name| [X_FORWARDED_FOR, FORWARDED, VIA].iter().any(|known| known.as_str() == name))
    {
        return None;
    }
    if !headers.contains_key(X_FORWARDED_FOR) {
        let is_passed_on = headers.contains_key(FORWARDED) || headers.contains_key(VIA);
        return (!is_passed_on).then_some(peer);
    }
    let lines = headers.get_all(X_FORWARDED_FOR).into_iter().rev();
    let mut first = None;
    for member in lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b',')) {
        let client = Peer::at(address(std::str::from_utf8(member.trim_ascii()).ok()?)?);
        if !trusted.contains(&client) {
            return Some(client);
        }
        first = Some(client);
    }
    first
}

/// The names in Connection, in lower case.
fn names(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let lines = headers.get_all(CONNECTION).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(|name| name.trim().to_ascii_lowercase())
}

/// An address, as some write it with a port or in brackets.
fn address(text: &str) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    match bare.parse::<IpAddr>() {
        Ok(ip) => Some(SocketAddr::new(ip, 0)),
        Err(_) => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn peer(text: &str) -> Peer {
        match text {
            "unix" => Peer::Unix,
            text => Peer::at(SocketAddr::new(text.parse().unwrap(), 1)),
        }
    }

    fn check(of: &str, fields: &[(&'static str, &str)], expect: Option<&str>) {
        let headers = fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()));
        let headers: HeaderMap = headers.collect();
        let found = client_of(peer(of), &Trusted::default(), &headers).map(|found| found.to_string());
        assert_eq!(found.as_deref(), expect, "{of} {fields:?}");
    }

    #[test]
    fn who_is_not_trusted_speaks_for_nobody_else() {
        check("192.0.2.1", &[], Some("192.0.2.1"));
        check("192.0.2.1", &[("x-forwarded-for", "127.0.0.1")], Some("192.0.2.1"));
        check("::ffff:192.0.2.1", &[("via", "1.1 x")], Some("192.0.2.1"));
    }

    #[test]
    fn trusted_peers_say_for_whom_they_speak() {
        check("127.0.0.1", &[], Some("127.0.0.1"));
        check("unix", &[], Some("unix"));
        check("unix", &[("x-forwarded-for", "192.0.2.7")], Some("192.0.2.7"));
        check("127.0.0.1", &[("x-forwarded-for", "192.0.2.7")], Some("192.0.2.7"));
        check("127.0.0.1", &[("x-forwarded-for", "127.0.0.1, 192.0.2.7")], Some("192.0.2.7"));
        check("127.0.0.1", &[("x-forwarded-for", "192.0.2.7, 127.0.0.9")], Some("192.0.2.7"));
        check("127.0.0.1", &[("x-forwarded-for", "127.0.0.3, 127.0.0.9")], Some("127.0.0.3"));
        let lines = [("x-forwarded-for", "127.0.0.1"), ("x-forwarded-for", "2001:db8::1")];
        check("127.0.0.1", &lines, Some("2001:db8::1"));
        // What the client itself has written does not hide it.
        check("127.0.0.1", &[("x-forwarded-for", "caf\u{e9}, unknown, 192.0.2.7")], Some("192.0.2.7"));
        check("127.0.0.1", &[("x-forwarded-for", "192.0.2.7:4711")], Some("192.0.2.7"));
        check("127.0.0.1", &[("x-forwarded-for", "[2001:db8::1]:80")], Some("2001:db8::1"));
    }

    #[test]
    fn who_cannot_be_known_is_nobody() {
        for fields in [
            &[("x-forwarded-for", "unknown")][..],
            &[("x-forwarded-for", "127.0.0.1, ")],
            &[("x-forwarded-for", "")],
            &[("forwarded", "for=127.0.0.1")],
            &[("via", "1.1 front")],
            &[("connection", "close, X-Forwarded-For")],
        ] {
            check("127.0.0.1", fields, None);
        }
    }
}
