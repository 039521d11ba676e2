//! Who may: the checks that every request of the API passes before anything is done for it.
//!
//! A process that may open the control socket may do all. On the admin listener the order is: the host, so
//! that no web page reads by DNS rebinding; the page that a browser asks for; the token; its role. There are
//! no cookies, so that nobody's browser can be made to act.

use std::net::IpAddr;
use std::time::Duration;

use http::header::{AUTHORIZATION, HOST, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderName, HeaderValue, StatusCode};
use weir_config::value::HostPattern;
use weir_observe::Actor;

use crate::answer::Refusal;
use crate::call::{Caller, Door, Role};
use crate::clock;
use crate::control::Control;
use crate::tokens::Presented;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// What a browser says of a request that no other site's page has made.
const OWN_FETCH_SITES: [&[u8]; 2] = [b"same-origin", b"none"];
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"weir\"");
const HELP_TOKEN: &str =
    "make one with `weir token add` on its machine, and send it as `Authorization: Bearer TOKEN`";

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    /// The user of the process that has opened the control socket.
    User(String),
    /// A client of the admin listener; `None` over a unix socket.
    Client(Option<IpAddr>),
}

impl Peer {
    pub(crate) fn door(&self) -> Door {
        match self {
            Peer::User(_) => Door::Socket,
            Peer::Client(_) => Door::Listener,
        }
    }

    /// It, as long as it has shown no token.
    pub(crate) fn actor(&self) -> Actor {
        match self {
            Peer::User(name) => Actor::User(name.clone()),
            Peer::Client(Some(address)) => Actor::Stranger(address.to_string()),
            Peer::Client(None) => Actor::Nobody,
        }
    }
}

/// Refuses a request of the admin listener that names another host, or that a page of another origin has
/// made a browser send.
///
/// # Errors
/// 421 (RFC 9110 §15.5.20) or 403.
pub(crate) fn check_origin(control: &Control, peer: &Peer, head: &Parts) -> Result<(), Refusal> {
    if let Peer::Client(Some(_)) = peer
        && !is_for_us(&control.admin_hosts(), head)
    {
        let message =
            "this listener answers to its address, to localhost and to the names of `[admin] hosts`";
        return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", message)
            .help("add the name that you asked for there"));
    }
    if peer.door() == Door::Listener && !is_from_here(head) {
        let message = "a web page of another origin has made a browser send this";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "foreign-origin", message)
            .help("ask from a program, without `Origin` and `Sec-Fetch-Site`"));
    }
    Ok(())
}

/// Who the caller is.
///
/// # Errors
/// 401 without a token that is good, 429 after many wrong ones.
///
/// # Cancel safety
/// Safe.
pub(crate) async fn caller(control: &Control, peer: &Peer, head: &Parts) -> Result<Caller, Refusal> {
    let address = match peer {
        Peer::User(_) => {
            let (actor, role, door) = (peer.actor(), Role::Admin, Door::Socket);
            return Ok(Caller { identity: actor.to_string(), actor, role, sites: None, door });
        }
        Peer::Client(address) => *address,
    };
    let mut shown = head.headers.get_all(AUTHORIZATION).iter();
    let presented = match (shown.next(), shown.next()) {
        (None, _) => return Err(unauthorized("no-token", "this needs a token").help(HELP_TOKEN)),
        (Some(value), None) => bearer(value),
        (Some(_), Some(_)) => None,
    };
    if presented.is_some() {
        control.tokens().read_again().await;
    }
    let looked = presented.map_or(Presented::Unknown, |text| control.tokens().look(text, clock::wall()));
    match looked {
        Presented::Good(token, identity) => {
            let from = address.map_or_else(String::new, |address| address.to_string());
            let sites = Some(token.sites).filter(|sites| !sites.is_empty());
            let actor = Actor::Token(token.name, from);
            Ok(Caller { actor, identity, role: token.role, sites, door: Door::Listener })
        }
        // A token that was good has not been guessed.
        Presented::Expired(name) => {
            let message = format!("the token {name} has expired");
            Err(unauthorized("expired-token", &message).help(HELP_TOKEN))
        }
        Presented::Unknown => match control.guesses().note(address, clock::mono()) {
            None => Err(unauthorized("wrong-token", "there is no such token").help(HELP_TOKEN)),
            Some(left) => Err(too_many(left)),
        },
    }
}

/// Refuses a caller whose role does not suffice.
///
/// # Errors
/// 403.
pub(crate) fn check_role(caller: &Caller, needed: Role) -> Result<(), Refusal> {
    if caller.role.may(needed) {
        return Ok(());
    }
    let message = format!("this needs the role {}, and the token has {}", needed.word(), caller.role.word());
    Err(Refusal::new(StatusCode::FORBIDDEN, "role", message).help("use a token with that role"))
}

/// Refuses a caller that is limited to sites what concerns the whole Weir.
///
/// # Errors
/// 403.
pub(crate) fn check_whole(caller: &Caller) -> Result<(), Refusal> {
    let Some(sites) = &caller.sites else { return Ok(()) };
    let message = format!("this concerns the whole Weir, and the token is for {} alone", sites.join(", "));
    Err(Refusal::new(StatusCode::FORBIDDEN, "whole", message).help("use a token without sites"))
}

fn unauthorized(word: &str, message: &str) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, word, message).field(WWW_AUTHENTICATE, CHALLENGE)
}

fn too_many(left: Duration) -> Refusal {
    let message = "too many wrong tokens came from this address";
    let seconds = HeaderValue::from(left.as_secs() + 1);
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too-many-wrong-tokens", message)
        .help("wait, or use a right one: that is taken at any time")
        .field(RETRY_AFTER, seconds)
}

/// The token of `Authorization: Bearer` (RFC 6750 §2.1).
fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether the request names this listener: by an address, as `localhost`, or by a name of `[admin] hosts`. A
/// web page whose own name leads to this address names itself, and is refused.
fn is_for_us(hosts: &[HostPattern], head: &Parts) -> bool {
    let Some(host) = host_of(head) else { return false };
    // The host of an absolute target counts as well.
    let named = [Some(host), head.uri.authority().map(|authority| authority.as_str().as_bytes())];
    named
        .into_iter()
        .flatten()
        .all(|named| Authority::try_from(named).is_ok_and(|named| is_own(named.host(), hosts)))
}

/// The only `Host`.
fn host_of(head: &Parts) -> Option<&[u8]> {
    let mut hosts = head.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(host.as_bytes()),
        _ => None,
    }
}

fn is_own(host: &str, hosts: &[HostPattern]) -> bool {
    let host = host.to_ascii_lowercase();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host);
    address.parse::<IpAddr>().is_ok()
        || host == "localhost"
        || hosts.iter().any(|pattern| pattern.fits(&host))
}

/// Whether no page of another origin has sent the request. A browser says it by `Sec-Fetch-Site`, or by an
/// `Origin` that is not the listener's own (RFC 6454 §7).
fn is_from_here(head: &Parts) -> bool {
    let fetched = head.headers.get_all(SEC_FETCH_SITE).iter();
    if fetched.into_iter().any(|value| !OWN_FETCH_SITES.contains(&value.as_bytes())) {
        return false;
    }
    let own = host_of(head).unwrap_or_default();
    let mut origins = head.headers.get_all(ORIGIN).iter();
    origins.all(|origin| {
        let authority = origin.to_str().ok().and_then(|origin| Some(origin.split_once("://")?.1));
        authority.is_some_and(|authority| authority.as_bytes().eq_ignore_ascii_case(own))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().uri("/v1/status");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn it_answers_to_addresses_localhost_and_the_names_of_the_configuration() {
        let hosts = ["weir.example", "*.internal"].map(|text| text.parse().unwrap());
        let own = ["127.0.0.1", "10.1.2.3", "[::1]", "localhost", "LocalHost", "weir.example", "a.internal"];
        let others = [
            "evil.example",
            "weir.example.evil.example",
            "internal",
            ".internal",
            "127.0.0.1.evil.example",
            "",
        ];
        assert!(own.iter().all(|host| is_own(host, &hosts)));
        assert!(others.iter().all(|host| !is_own(host, &hosts)));
        assert!(is_own("anything", &["*".parse().unwrap()]) && !is_own("anything", &[]));
    }

    #[test]
    fn no_page_of_another_origin_asks() {
        let host = ("host", "127.0.0.1:9180");
        for fields in [
            &[host][..],
            &[host, ("origin", "http://127.0.0.1:9180")],
            &[host, ("sec-fetch-site", "same-origin")],
            &[host, ("sec-fetch-site", "none")],
        ] {
            assert!(is_from_here(&head(fields)), "{fields:?}");
        }
        for fields in [
            &[host, ("origin", "http://evil.example")][..],
            &[host, ("origin", "null")],
            &[host, ("origin", "http://127.0.0.1:9181")],
            &[host, ("origin", "http://127.0.0.1:9180"), ("origin", "http://evil.example")],
            &[host, ("sec-fetch-site", "cross-site")],
            &[host, ("sec-fetch-site", "same-site")],
            &[host, ("sec-fetch-site", "")],
            &[host, ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")],
        ] {
            assert!(!is_from_here(&head(fields)), "{fields:?}");
        }
    }

    #[test]
    fn a_token_stands_behind_its_scheme() {
        for (text, expect) in [
            ("Bearer weir_1", Some("weir_1")),
            ("bearer  weir_1 ", Some("weir_1")),
            ("Basic weir_1", None),
            ("weir_1", None),
            ("", None),
        ] {
            assert_eq!(bearer(&HeaderValue::from_static(text)), expect, "{text}");
        }
    }
}
