//! The fields of a request towards the origin. They hold only what was parsed: no hop-by-hop fields, and none
//! by which one client could poison what others get. They say who sent the request and through whom. RFC 9110
//! §7.6, RFC 8586. `Forwarded` (RFC 7239) is not passed on: the `X-Forwarded-*` fields say the same.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{ACCEPT_ENCODING, COOKIE, EXPECT, Entry, HOST, MAX_FORWARDS, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use smallvec::SmallVec;
use weir_policy::{
    SURROGATE_CAPABILITY, Variant, accept_encoding, is_hop_by_hop, is_safe, respelled, strip_named_by,
};

use super::Trust;
use super::client::X_FORWARDED_FOR;
use super::overrides::METHOD_OVERRIDES;

/// Fields that are not forwarded. They name another URL, host, scheme or method than the request's own, so
/// an origin that obeys them answers for something that is not in the key. Those of [`METHOD_OVERRIDES`] go
/// through with unsafe methods, which have no key. `Proxy` would become `HTTP_PROXY`
/// in a CGI's environment; `Translate` asks IIS for the source of a page.
pub const STRIPPED: [&str; 47] = [
    "client-cert",
    "client-cert-chain",
    "forwarded",
    "front-end-https",
    "http-host",
    "proxy",
    "translate",
    "x-envoy-original-path",
    "x-forwarded",
    "x-forwarded-base-url",
    "x-forwarded-method",
    "x-forwarded-path",
    "x-forwarded-prefix",
    "x-forwarded-protocol",
    "x-forwarded-request-uri",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-forwarded-uri",
    "x-forwarded-url",
    "x-host",
    "x-host-override",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-http-path-override",
    "x-invoke-path",
    "x-matched-path",
    "x-method",
    "x-method-override",
    "x-middleware-subrequest",
    "x-ms-original-url",
    "x-now-route-matches",
    "x-orig-url",
    "x-original-host",
    "x-original-method",
    "x-original-path",
    "x-original-uri",
    "x-original-url",
    "x-override-url",
    "x-proxy-url",
    "x-real-host",
    "x-request-uri",
    "x-rewrite-uri",
    "x-rewrite-url",
    "x-scheme",
    "x-url-scheme",
];

/// Fields that say who the client is, or which port it used. They are believed from trusted peers only, else
/// removed. A fill carries none of them, except those in the key.
pub const OF_TRUSTED_PEERS: [&str; 21] = [
    "cf-connecting-ip",
    "client-ip",
    "cloudfront-viewer-address",
    "early-data",
    "fastly-client-ip",
    "fly-client-ip",
    "true-client-ip",
    "x-appengine-user-ip",
    "x-arbitrary-ip",
    "x-azure-clientip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-forwarded-port",
    "x-nf-client-connection-ip",
    "x-original-forwarded-for",
    "x-proxyuser-ip",
    "x-real-ip",
    "x-remote-addr",
    "x-remote-ip",
    "x-vercel-forwarded-for",
];

/// Whether a field belongs to one client's request, so that a fill does not carry it: the wanted part, its
/// conditions, and instance manipulations (RFC 3229).
fn is_of_one_client(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "range"
            | "if-range"
            | "if-match"
            | "if-none-match"
            | "if-modified-since"
            | "if-unmodified-since"
            | "a-im"
    )
}

/// The certificate of the client (RFC 9440 §2.2). Weir removes it from every request and writes it itself.
pub(crate) const CLIENT_CERT: HeaderName = HeaderName::from_static("client-cert");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
/// The request's name in all logs.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");
const SURROGATE_CAPABILITY_FIELD: HeaderName = HeaderName::from_static("surrogate-capability");

/// How many fields Weir writes into a request that may lack all of them.
const WRITTEN: usize = 10;
const ALWAYS_REMOVED: Names = Names::new(&STRIPPED);
const OF_PEERS: Names = Names::new(&OF_TRUSTED_PEERS);

/// A sorted list of names in lower case. The first letter rules out most fields.
struct Names {
    names: &'static [&'static str],
    /// A bit for each first letter of a name.
    firsts: u32,
}

impl Names {
    const fn new(names: &'static [&'static str]) -> Names {
        let (mut firsts, mut at) = (0, 0);
        while at < names.len() {
            firsts |= letter(names[at].as_bytes()[0]);
            at += 1;
        }
        Names { names, firsts }
    }

    /// Whether the name is in the list.
    fn contains(&self, name: &str) -> bool {
        let first = name.as_bytes().first().map_or(0, |byte| letter(*byte));
        first & self.firsts != 0 && self.names.binary_search(&name).is_ok()
    }
}

/// The bit of a letter. Other bytes may share it; the search then tells them apart.
const fn letter(byte: u8) -> u32 {
    1 << (byte & 31)
}

/// Who sent the request.
#[derive(Clone, Copy, Debug)]
pub struct From<'a> {
    /// The peer's address; none over a unix socket.
    pub address: Option<IpAddr>,
    /// The client's address, where a trusted peer names one other than its own.
    pub client: Option<IpAddr>,
    /// Whether the peer is trusted.
    pub trust: Trust,
    /// The request's method.
    pub method: &'a Method,
    /// The protocol in which the request came: `HTTP/1.1`.
    pub protocol: &'a str,
    /// The scheme the client used.
    pub scheme: &'a str,
    /// The request's normalised authority.
    pub host: &'a str,
    /// The request's id.
    pub request_id: &'a str,
    /// Our own name in `CDN-Loop` and `Via`.
    pub own: &'a Own,
    /// The client's verified certificate, as a field has it (RFC 9440).
    pub certificate: Option<&'a HeaderValue>,
}

/// Our own name, and the members of lists that say it.
#[derive(Clone, Debug)]
pub struct Own {
    /// The name.
    pub id: Arc<str>,
    cdn_loop: HeaderValue,
    /// By what was received: HTTP/1.1, HTTP/2, HTTP/1.0.
    via: [HeaderValue; 3],
}

impl Own {
    /// That of an id of visible ASCII.
    pub fn new(id: &str) -> Own {
        // Invariant: the id can stand in a field.
        let value = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("weir"));
        let via = ["1.1", "2", "1.0"].map(|version| value(&format!("{version} {id}")));
        Own { id: id.into(), cdn_loop: value(id), via }
    }

    /// The member of `Via` after a message in this protocol (RFC 9110 §7.6.3).
    pub fn via(&self, protocol: &str) -> HeaderValue {
        let at = match protocol {
            "HTTP/2.0" => 1,
            "HTTP/1.0" => 2,
            _ => 0,
        };
        self.via[at].clone()
    }
}

/// Whether the request has been here before: `CDN-Loop` contains our own id, or `Via` our own name.
///
/// Members are split at every comma, even in a quoted string or a comment. A client that opens a quote or a
/// comment and does not close it must not hide what we append after it.
pub fn is_loop(headers: &HeaderMap, own_id: &str) -> bool {
    let own = own_id.as_bytes();
    let in_loop = members(headers, &CDN_LOOP).any(|member| {
        let id = member.split(|byte| *byte == b';').next().unwrap_or_default();
        id.trim_ascii().eq_ignore_ascii_case(own)
    });
    in_loop
        || members(headers, &VIA).any(|member| {
            let mut words = member.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            words.nth(1).is_some_and(|by| by.eq_ignore_ascii_case(own))
        })
}

fn members<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    headers.get_all(name).into_iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
}

/// Whether the request asks Weir itself and no origin: `OPTIONS` with `Max-Forwards: 0` (RFC 9110 §7.6.2).
pub fn ends_here(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS && forwards_left(headers) == Some(0)
}

/// How often the request may still be forwarded, where it says so.
fn forwards_left(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(MAX_FORWARDS)?.as_bytes();
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

/// The scheme the client used: the listener's, or what a trusted proxy says in one plain word. A list is not
/// believed: nobody can tell which of its members the proxy has seen itself.
pub fn scheme(headers: &HeaderMap, trust: Trust, listener: &'static str) -> &'static str {
    match (trust, only(headers, &X_FORWARDED_PROTO)) {
        (Trust::Trusted, Some(said)) if said.eq_ignore_ascii_case(b"https") => "https",
        (Trust::Trusted, Some(said)) if said.eq_ignore_ascii_case(b"http") => "http",
        _ => listener,
    }
}

/// The value of a field that occurs exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).into_iter();
    let value = values.next()?;
    values.next().is_none().then(|| value.as_bytes().trim_ascii())
}

/// The request id of a trusted peer, if it sent a valid one.
pub fn known_id(headers: &HeaderMap, trust: Trust) -> Option<&str> {
    let id = only(headers, &X_REQUEST_ID)?;
    let is_sane = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:/+=@;,".contains(byte);
    let sane = (1..=128).contains(&id.len()) && id.iter().all(is_sane);
    std::str::from_utf8(id).ok().filter(|_| trust == Trust::Trusted && sane)
}

/// The fields to send to an origin. `Host` is still the client's.
///
/// `X-Forwarded-For` is continued if the peer is trusted, else written afresh. `X-Forwarded-Port` follows
/// from scheme and host, unless a trusted peer says it. `X-Forwarded-Proto`, `X-Forwarded-Host`,
/// `X-Request-Id` and `Host` are written; `Via` and `CDN-Loop` are continued. The connection answers
/// `Expect`.
pub fn towards_origin(headers: &HeaderMap, from: &From<'_>) -> HeaderMap {
    let mut out = copied(headers, from, |_| true);
    if !is_safe(from.method) {
        pass_overrides(headers, &mut out);
    }
    if let Some(chain) = forwarded_for(headers, from) {
        out.insert(X_FORWARDED_FOR, chain);
    }
    write_own(&mut out, headers, from);
    out
}

/// The fields of a request that go on as they are, but for those that are written into every request. None
/// goes on that `is_sent` does not let through.
fn copied(headers: &HeaderMap, from: &From<'_>, is_sent: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let mut out = HeaderMap::with_capacity(headers.len() + WRITTEN);
    for (name, value) in headers {
        let is_left = *name == HOST
            || is_hop_by_hop(name)
            || (is_own(name) && *name != X_FORWARDED_PORT)
            || is_removed(name, from.trust);
        if !is_left && is_sent(name) {
            out.append(name, value.clone());
        }
    }
    strip_named_by(headers, &mut out);
    out
}

/// Lets through what overrides the method, unless `Connection` names it.
fn pass_overrides(headers: &HeaderMap, out: &mut HeaderMap) {
    for name in &METHOD_OVERRIDES {
        for value in headers.get_all(name) {
            out.append(name, value.clone());
        }
    }
    strip_named_by(headers, out);
}

/// Names of a request's fields that its request to the origin does not have, but for those of one connection.
pub fn lost(headers: &HeaderMap, sent: &HeaderMap) -> Vec<String> {
    let mut left = headers.clone();
    weir_policy::strip_hop_by_hop(&mut left);
    let is_lost = |name: &&HeaderName| !sent.contains_key(*name) && **name != HOST;
    left.keys().filter(is_lost).map(ToString::to_string).collect()
}

/// Writes what every request to an origin has, but for `X-Forwarded-For`.
fn write_own(out: &mut HeaderMap, headers: &HeaderMap, from: &From<'_>) {
    if let Some(left) = forwards_left(headers) {
        put(out, MAX_FORWARDS, left.saturating_sub(1).to_string().as_bytes());
    }
    out.insert(X_FORWARDED_PROTO, proto(from.scheme));
    if let Entry::Vacant(vacant) = out.entry(X_FORWARDED_PORT) {
        vacant.insert(port(from.scheme, from.host));
    }
    put(out, X_REQUEST_ID, from.request_id.as_bytes());
    continue_list(out, VIA, from.own.via(from.protocol));
    continue_list(out, CDN_LOOP, from.own.cdn_loop.clone());
    if let Some(host) = host(headers, from.host) {
        out.insert(X_FORWARDED_HOST, host.clone());
        out.insert(HOST, host);
    }
    if let Some(certificate) = from.certificate {
        out.insert(CLIENT_CERT, certificate.clone());
    }
}

/// The normalised authority as a value: the client's own, where it is written like that.
fn host(headers: &HeaderMap, normal: &str) -> Option<HeaderValue> {
    match headers.get(HOST).filter(|said| said.as_bytes() == normal.as_bytes()) {
        Some(said) => Some(said.clone()),
        None => HeaderValue::from_str(normal).ok(),
    }
}

fn is_removed(name: &HeaderName, trust: Trust) -> bool {
    let text = name.as_str();
    ALWAYS_REMOVED.contains(text)
        || *name == EXPECT
        || (trust == Trust::Untrusted && OF_PEERS.contains(text))
        || respelled(name).is_some_and(|hyphenated| is_decided_spelling(&hyphenated))
}

/// Whether Weir strips, writes, keys or selects by a field of this name. A name that becomes such a field
/// when its other marks are read as hyphens is the same field to an origin behind CGI (RFC 3875 §4.1.18), and
/// would evade all of that.
fn is_decided_spelling(hyphenated: &str) -> bool {
    const FAMILIES: [&str; 10] = [
        "accept-",
        "cache-",
        "cdn-",
        "content-",
        "if-",
        "max-",
        "proxy-",
        "surrogate-",
        "x-forwarded-",
        "x-request-",
    ];
    ALWAYS_REMOVED.contains(hyphenated)
        || OF_PEERS.contains(hyphenated)
        || FAMILIES.iter().any(|family| hyphenated.starts_with(family))
}

/// The fields of a fill's request, for all clients. Of those towards an origin it lacks what belongs to one
/// client alone, except the fields in the key (`keyed`). `X-Forwarded-Port` follows from scheme and host. The
/// content codings stand there in their normal form, so that clients that accept the same ask the same.
///
/// `X-Forwarded-For` is the one address that no client can have written. Without it an origin would count and
/// limit all clients as one, and take a fill for a request of its own machine.
pub fn of_fill(headers: &HeaderMap, from: &From<'_>, keyed: &[HeaderName]) -> HeaderMap {
    let mut out = copied(headers, from, |name| {
        *name != SURROGATE_CAPABILITY_FIELD
            && !is_of_one_client(name)
            && (!OF_PEERS.contains(name.as_str()) || keyed.contains(name))
    });
    let forwarded = match keyed.contains(&X_FORWARDED_FOR) {
        true => forwarded_for(headers, from),
        false => from.client.or(from.address).map(address),
    };
    if let Some(forwarded) = forwarded {
        out.insert(X_FORWARDED_FOR, forwarded);
    }
    write_own(&mut out, headers, from);
    match accept_encoding(&out) {
        Some(normal) => drop(out.insert(ACCEPT_ENCODING, normal)),
        None => drop(out.remove(ACCEPT_ENCODING)),
    }
    out.insert(SURROGATE_CAPABILITY_FIELD, HeaderValue::from_static(SURROGATE_CAPABILITY));
    out
}

/// Whether Weir itself writes the field into every request.
fn is_own(name: &HeaderName) -> bool {
    matches!(name.as_str().as_bytes(), [b'x', b'-', b'f' | b'r', ..])
        && [X_FORWARDED_FOR, X_FORWARDED_PROTO, X_FORWARDED_PORT, X_FORWARDED_HOST, X_REQUEST_ID]
            .contains(name)
}

fn proto(scheme: &str) -> HeaderValue {
    HeaderValue::from_static(if scheme == "https" { "https" } else { "http" })
}

/// The port of a normalised authority, or else the scheme's.
fn port(scheme: &str, host: &str) -> HeaderValue {
    let named = host.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
    let default = HeaderValue::from_static(if scheme == "https" { "443" } else { "80" });
    named.and_then(|port| HeaderValue::from_str(port).ok()).unwrap_or(default)
}

/// An address as a value.
fn address(address: IpAddr) -> HeaderValue {
    let mut text = SmallVec::<[u8; 64]>::new();
    write_address(&mut text, address);
    // Invariant: an address is visible ASCII.
    HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("unknown"))
}

/// Writes an address; one of version 4 without the machinery of formatting.
fn write_address(out: &mut SmallVec<[u8; 64]>, address: IpAddr) {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            for (at, octet) in address.octets().into_iter().enumerate() {
                if at > 0 {
                    out.push(b'.');
                }
                out.extend_from_slice(itoa::Buffer::new().format(octet).as_bytes());
            }
        }
        IpAddr::V6(address) => out.extend_from_slice(address.to_string().as_bytes()),
    }
}

/// Keeps of a fill's request only what no client has chosen, and what distinguishes the stored response from
/// other variants and objects. Those are the fields that Weir writes, the fields that the response varies on,
/// the fields and cookies in the key, and the stored coding.
pub fn of_nobody(
    fields: &HeaderMap,
    key: &[u8],
    variant: &Variant,
    coding: Option<&HeaderValue>,
) -> HeaderMap {
    const OWN: [HeaderName; 6] = [
        HOST,
        X_FORWARDED_PROTO,
        X_FORWARDED_HOST,
        X_FORWARDED_PORT,
        X_REQUEST_ID,
        SURROGATE_CAPABILITY_FIELD,
    ];
    let mut out = HeaderMap::new();
    let selecting = variant.selecting.iter().map(|field| &field.name);
    for name in OWN.iter().chain(selecting) {
        out.remove(name);
        for value in fields.get_all(name) {
            out.append(name, value.clone());
        }
    }
    // After the members that others have written, our own comes last.
    for name in [VIA, CDN_LOOP] {
        if let Some(own) = members(fields, &name).last() {
            put(&mut out, name, own.trim_ascii());
        }
    }
    if let Some(coding) = coding {
        out.entry(ACCEPT_ENCODING).or_insert_with(|| coding.clone());
    }
    of_key(&mut out, key);
    out
}

/// The fields and cookies that a full key names after its first line.
fn of_key(out: &mut HeaderMap, key: &[u8]) {
    let mut cookies = Vec::new();
    for line in key.split(|byte| *byte == b'\n').skip(1) {
        if let Some(cookie) = line.strip_prefix(b"cookie ") {
            if cookie.contains(&b'=') {
                cookies.extend_from_slice(if cookies.is_empty() { b"" } else { b"; " });
                cookies.extend_from_slice(cookie);
            }
            continue;
        }
        if line.starts_with(b"value ") {
            continue;
        }
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (HeaderName::from_bytes(&line[..at]), HeaderValue::from_bytes(&line[at + 1..]));
        if let (Ok(name), Ok(value)) = (name, value)
            && !out.get_all(&name).iter().any(|there| there == value)
        {
            out.append(name, value);
        }
    }
    // Where the response varies by cookie, the whole field is there already.
    if !cookies.is_empty() && !out.contains_key(COOKIE) {
        put(out, COOKIE, &cookies);
    }
}

/// The addresses that the request came by, as far as the peer is believed; `None` where there are none.
fn forwarded_for(headers: &HeaderMap, from: &From<'_>) -> Option<HeaderValue> {
    let mut chain = SmallVec::<[u8; 64]>::new();
    if from.trust == Trust::Trusted {
        for value in headers.get_all(X_FORWARDED_FOR) {
            join(&mut chain, value.as_bytes());
        }
    }
    if let Some(address) = from.address {
        join(&mut chain, b"");
        write_address(&mut chain, address);
    }
    HeaderValue::from_bytes(&chain).ok().filter(|chain| !chain.is_empty())
}

/// Joins all lines of a field and one more member into one list.
fn continue_list(out: &mut HeaderMap, name: HeaderName, member: HeaderValue) {
    let mut list = match out.entry(name) {
        Entry::Vacant(vacant) => {
            vacant.insert(member);
            return;
        }
        Entry::Occupied(list) => list,
    };
    let mut joined = SmallVec::<[u8; 64]>::new();
    for value in list.iter() {
        join(&mut joined, value.as_bytes());
    }
    join(&mut joined, member.as_bytes());
    match HeaderValue::from_bytes(&joined) {
        Ok(value) => drop(list.insert(value)),
        Err(_) => drop(list.remove()),
    }
}

fn join(list: &mut SmallVec<[u8; 64]>, member: &[u8]) {
    if !list.is_empty() {
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(member);
}

fn put(out: &mut HeaderMap, name: HeaderName, value: &[u8]) {
    match HeaderValue::from_bytes(value) {
        Ok(value) => drop(out.insert(name, value)),
        Err(_) => drop(out.remove(name)),
    }
}
