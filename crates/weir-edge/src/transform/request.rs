//! The fields of a request towards the origin. They hold only what was parsed: no hop-by-hop fields, and none
//! by which one client could poison what others get. They say who sent the request and through whom. RFC 9110
//! §7.6, RFC 8586. `Forwarded` (RFC 7239) is not passed on: the `X-Forwarded-*` fields say the same.

use std::io::Write;
use std::net::IpAddr;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, COOKIE, EXPECT, Entry, HOST, MAX_FORWARDS, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use smallvec::SmallVec;
use weir_policy::{SURROGATE_CAPABILITY, Variant, accept_encoding, strip_hop_by_hop};

use super::Trust;
use super::client::X_FORWARDED_FOR;

/// Fields that are never forwarded. They name another URL, host, scheme or method than the request's own, so
/// an origin that obeys them answers for something that is not in the key. `Proxy` would become `HTTP_PROXY`
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
    /// The protocol in which the request came: `HTTP/1.1`.
    pub protocol: &'a str,
    /// The scheme the client used.
    pub scheme: &'a str,
    /// The request's normalised authority.
    pub host: &'a str,
    /// The request's id.
    pub request_id: &'a str,
    /// Our own id in `CDN-Loop` and `Via`.
    pub own_id: &'a str,
    /// The client's verified certificate, as a field has it (RFC 9440).
    pub certificate: Option<&'a HeaderValue>,
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

/// The protocol's version as `Via` says it (RFC 9110 §7.6.3).
fn received(protocol: &str) -> &str {
    match protocol.strip_prefix("HTTP/") {
        Some("2.0") => "2",
        Some(version) => version,
        None => "1.1",
    }
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
    let mut out = HeaderMap::with_capacity(headers.len() + WRITTEN);
    for (name, value) in headers {
        if !is_removed(name, from.trust) {
            out.append(name, value.clone());
        }
    }
    strip_hop_by_hop(&mut out);
    if let Some(left) = forwards_left(headers) {
        put(&mut out, MAX_FORWARDS, left.saturating_sub(1).to_string().as_bytes());
    }
    forwarded_for(&mut out, headers, from);
    out.insert(X_FORWARDED_PROTO, proto(from.scheme));
    if let Entry::Vacant(vacant) = out.entry(X_FORWARDED_PORT) {
        vacant.insert(port(from.scheme, from.host));
    }
    put(&mut out, X_REQUEST_ID, from.request_id.as_bytes());
    continue_list(&mut out, VIA, &[received(from.protocol), " ", from.own_id]);
    continue_list(&mut out, CDN_LOOP, &[from.own_id]);
    put(&mut out, X_FORWARDED_HOST, from.host.as_bytes());
    put(&mut out, HOST, from.host.as_bytes());
    if let Some(certificate) = from.certificate {
        out.insert(CLIENT_CERT, certificate.clone());
    }
    out
}

fn is_removed(name: &HeaderName, trust: Trust) -> bool {
    let text = name.as_str();
    ALWAYS_REMOVED.contains(text)
        || *name == EXPECT
        || (trust == Trust::Untrusted && OF_PEERS.contains(text))
        || (text.contains('_') && is_decided_spelling(&text.replace('_', "-")))
}

/// Whether Weir strips, writes, keys or selects by a field of this name. A name that becomes such a field
/// when its underscores are read as hyphens is the same field to an origin behind CGI (RFC 3875 §4.1.18), and
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
    let mut headers = towards_origin(headers, from);
    let is_gone = |name: &HeaderName| {
        // The fields that Weir writes into every request.
        let is_written = matches!(name.as_str().as_bytes(), [b'x', b'-', b'f' | b'r', ..]) && is_own(name);
        !is_written && (is_of_one_client(name) || (OF_PEERS.contains(name.as_str()) && !keyed.contains(name)))
    };
    let gone: SmallVec<[HeaderName; 4]> = headers.keys().filter(|name| is_gone(name)).cloned().collect();
    for name in &gone {
        headers.remove(name);
    }
    let client = from.client.or(from.address);
    // An untrusted peer's address stands there alone already.
    let is_there = from.trust == Trust::Untrusted && client == from.address;
    if !is_there && !keyed.contains(&X_FORWARDED_FOR) {
        match client {
            Some(client) => drop(headers.insert(X_FORWARDED_FOR, address(client))),
            None => drop(headers.remove(X_FORWARDED_FOR)),
        }
    }
    if from.trust == Trust::Trusted && !keyed.contains(&X_FORWARDED_PORT) {
        headers.insert(X_FORWARDED_PORT, port(from.scheme, from.host));
    }
    match accept_encoding(&headers) {
        Some(normal) => drop(headers.insert(ACCEPT_ENCODING, normal)),
        None => drop(headers.remove(ACCEPT_ENCODING)),
    }
    headers.insert(SURROGATE_CAPABILITY_FIELD, HeaderValue::from_static(SURROGATE_CAPABILITY));
    headers
}

/// Whether Weir itself writes the field into every request.
fn is_own(name: &HeaderName) -> bool {
    [X_FORWARDED_FOR, X_FORWARDED_PROTO, X_FORWARDED_PORT, X_FORWARDED_HOST, X_REQUEST_ID].contains(name)
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
    let mut text = Vec::with_capacity(40);
    write_address(&mut text, address);
    // Invariant: an address is visible ASCII.
    HeaderValue::from_maybe_shared(Bytes::from(text)).unwrap_or(HeaderValue::from_static("unknown"))
}

/// Writes an address; one of version 4 without the machinery of formatting.
fn write_address(out: &mut Vec<u8>, address: IpAddr) {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            for (at, octet) in address.octets().into_iter().enumerate() {
                if at > 0 {
                    out.push(b'.');
                }
                out.extend_from_slice(itoa::Buffer::new().format(octet).as_bytes());
            }
        }
        // Writing to a vector cannot fail.
        IpAddr::V6(address) => drop(write!(out, "{address}")),
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

fn forwarded_for(out: &mut HeaderMap, headers: &HeaderMap, from: &From<'_>) {
    let mut chain = Vec::new();
    if from.trust == Trust::Trusted {
        for value in headers.get_all(X_FORWARDED_FOR) {
            join(&mut chain, &[value.as_bytes()]);
        }
    }
    if let Some(address) = from.address {
        join(&mut chain, &[]);
        write_address(&mut chain, address);
    }
    match HeaderValue::from_maybe_shared(Bytes::from(chain)) {
        Ok(value) if !value.is_empty() => drop(out.insert(X_FORWARDED_FOR, value)),
        _ => drop(out.remove(X_FORWARDED_FOR)),
    }
}

/// Joins all lines of a field and one more member into one list.
fn continue_list(out: &mut HeaderMap, name: HeaderName, member: &[&str]) {
    let mut list = Vec::with_capacity(32);
    for value in out.get_all(&name) {
        join(&mut list, &[value.as_bytes()]);
    }
    if !list.is_empty() {
        list.extend_from_slice(b", ");
    }
    for part in member {
        list.extend_from_slice(part.as_bytes());
    }
    match HeaderValue::from_maybe_shared(Bytes::from(list)) {
        Ok(value) => drop(out.insert(name, value)),
        Err(_) => drop(out.remove(name)),
    }
}

fn join(list: &mut Vec<u8>, member: &[&[u8]]) {
    if !list.is_empty() {
        list.extend_from_slice(b", ");
    }
    for part in member {
        list.extend_from_slice(part);
    }
}

fn put(out: &mut HeaderMap, name: HeaderName, value: &[u8]) {
    match HeaderValue::from_bytes(value) {
        Ok(value) => drop(out.insert(name, value)),
        Err(_) => drop(out.remove(name)),
    }
}
