//! Session affinity: which origin a client's requests go to once one of them has answered it. It decides
//! where a passed request goes. It must not decide whether the cache is asked.
//!
//! Three ways: a cookie of Weir's own that names the origin (`sealed`), a name of the origin at the end of
//! the origin's own session id ([`suffix`]), or a hash of a cookie or field. None of them keeps anything:
//! Weirs that have the same configuration and keys agree without a word.

#[cfg(any(test, feature = "testing"))]
pub(crate) mod fuzzing;
mod sealed;
pub mod suffix;

use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, digest};
use http::header::COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::sessions::named;
pub use sealed::{Key, SEALED_BYTES};

/// So many of a request's cookies of Weir's name are opened. A client has one. But a site that may set
/// cookies for the domain above can give it more, which come first.
const OPENED_MAX: usize = 16;

/// The number of an origin in sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OriginId(pub(crate) u64);

impl OriginId {
    /// That of an origin without a name for sessions: by its address.
    pub fn of_address(address: &str) -> OriginId {
        OriginId(hashed(b"address", address.as_bytes()))
    }

    /// That of the origin of this `id`.
    pub fn of_node(id: &str) -> OriginId {
        OriginId(hashed(b"node", id.as_bytes()))
    }
}

/// The first eight bytes of a digest, the same in every process.
fn hashed(kind: &[u8], text: &[u8]) -> u64 {
    let digest = digest(&SHA256, &[kind, b"\0", text].concat());
    digest.as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// How sessions are told from each other.
#[derive(Clone, Debug, PartialEq)]
pub enum By {
    /// Weir sets a cookie that names the origin.
    Own(OwnCookie),
    /// The origin's session id ends with the origin's name.
    Suffix {
        /// The cookie that has the id.
        cookie: String,
        /// The parameter of the path that has it where the cookie is missing.
        parameter: String,
    },
    /// A part of the request chooses the origin.
    Hash(SessionOf),
}

/// The part of a request that [`By::Hash`] reads.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionOf {
    /// A cookie.
    Cookie(String),
    /// A field.
    Header(HeaderName),
}

/// Weir's own cookie.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnCookie {
    /// Its name.
    pub name: String,
    /// What seals it: the first seals, all open.
    pub keys: Vec<Key>,
    /// Its attributes, as they follow the value: `; Path=/; HttpOnly`.
    pub attributes: String,
    /// Whether clients send it over TLS alone.
    pub secure: Secure,
    /// How long a session lasts after its cookie was set; for as long as the client keeps it where there is
    /// none.
    pub lifetime: Option<Duration>,
}

/// Whether a cookie is sent over TLS alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Secure {
    /// Where it was set over TLS.
    #[default]
    AsSet,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What an upstream says about sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct Affinity {
    /// How they are told apart.
    pub by: By,
    /// Whether a request of a session bypasses the cache.
    pub bypass: bool,
}

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// At this origin.
    At(OriginId),
    /// At the origin that this number chooses.
    Hashed(u64),
}

/// What a request says of its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// Nothing.
    #[default]
    Nothing,
    /// Something that Weir has not written, or that is out of date.
    Refused,
    /// This.
    Session {
        /// Where it is.
        session: Session,
        /// Where the request says it.
        place: Place,
    },
}

/// Where a request says which session it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a field.
    Field,
    /// In Weir's own cookie, of which half of the lifetime is over.
    AgingCookie,
    /// In its path: what is asked for is this session's alone.
    Path,
}

impl Reading {
    /// Where the session is, if there is one.
    pub fn session(&self) -> Option<Session> {
        match self {
            Reading::Session { session, .. } => Some(*session),
            Reading::Nothing | Reading::Refused => None,
        }
    }
}

/// A request, as far as sessions go.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The fields as the client sent them, with Weir's own cookie.
    pub received: &'a HeaderMap,
    /// The fields as origins get them.
    pub left: &'a HeaderMap,
    /// Path and query.
    pub target: &'a str,
}

impl Affinity {
    /// The name of Weir's own cookie, where there is one.
    pub fn own_cookie(&self) -> Option<&str> {
        match &self.by {
            By::Own(own) => Some(&own.name),
            By::Suffix { .. } | By::Hash(_) => None,
        }
    }

    /// The cookie that makes a session where an origin, or Weir, sets it.
    pub fn cookie(&self) -> Option<&str> {
        match &self.by {
            By::Own(OwnCookie { name, .. }) => Some(name),
            By::Suffix { cookie, .. } | By::Hash(SessionOf::Cookie(cookie)) => Some(cookie),
            By::Hash(SessionOf::Header(_)) => None,
        }
    }

    /// The session of a request to the upstream of this name.
    pub fn read(&self, upstream: &str, asked: &Asked<'_>, now: SystemTime) -> Reading {
        let found = |session, place| Reading::Session { session, place };
        match &self.by {
            By::Own(own) => own.read(upstream, asked.received, now),
            By::Suffix { cookie, parameter } => {
                let in_path = suffix::parameter(asked.target, parameter);
                let place = if in_path.is_some() { Place::Path } else { Place::Field };
                // The cookie counts first, as it does with Apache and in Java.
                let mut nodes = named::cookies(asked.left, cookie).map(suffix::node);
                let Some(first) = nodes.next().or_else(|| in_path.map(suffix::node)) else {
                    return Reading::Nothing;
                };
                match first.or_else(|| nodes.flatten().next()) {
                    Some(node) => found(Session::At(OriginId::of_node(node)), place),
                    None if place == Place::Path => found(Session::At(OriginId(0)), place),
                    None => Reading::Refused,
                }
            }
            By::Hash(of) => {
                let value = match of {
                    SessionOf::Cookie(name) => named::cookies(asked.left, name).next(),
                    SessionOf::Header(name) => asked.left.get(name).map(HeaderValue::as_bytes),
                };
                let value = value.filter(|value| !value.is_empty());
                value.map_or(Reading::Nothing, |value| {
                    found(Session::Hashed(hashed(b"session", value)), Place::Field)
                })
            }
        }
    }

    /// The text that tells a request's session from others: what its cookie, field or parameter has.
    pub fn text<'a>(&self, asked: &Asked<'a>) -> Option<&'a str> {
        let cookie = |headers: &'a HeaderMap, name| named::cookies(headers, name).next();
        let text = match &self.by {
            By::Own(own) => cookie(asked.received, &own.name),
            By::Suffix { cookie: name, parameter } => {
                cookie(asked.left, name).or_else(|| suffix::parameter(asked.target, parameter))
            }
            By::Hash(SessionOf::Cookie(name)) => cookie(asked.left, name),
            By::Hash(SessionOf::Header(name)) => asked.left.get(name).map(HeaderValue::as_bytes),
        };
        text.and_then(|text| std::str::from_utf8(text).ok()).filter(|text| !text.is_empty())
    }

    /// Whether a request for this target may bypass the cache for its session.
    pub fn may_bypass(&self, target: &str) -> bool {
        self.bypass
            || (matches!(self.by, By::Suffix { .. }) && memchr::memchr(b';', target.as_bytes()).is_some())
    }

    /// Whether a request bypasses the cache: it has a session and the upstream wants that, or its URL is one
    /// session's alone. An id of the origins' own counts even if it does not say where the session is.
    pub fn bypasses(&self, reading: &Reading) -> bool {
        match reading {
            Reading::Session { place: Place::Path, .. } => true,
            Reading::Session { .. } => self.bypass,
            Reading::Refused => self.bypass && matches!(self.by, By::Suffix { .. }),
            Reading::Nothing => false,
        }
    }

    /// The `Set-Cookie` by which Weir names this origin to a client of this scheme; `None` where it sets no
    /// cookie.
    pub fn set_cookie(
        &self,
        upstream: &str,
        origin: OriginId,
        (scheme, now): (&str, SystemTime),
    ) -> Option<HeaderValue> {
        match &self.by {
            By::Own(own) => own.set(upstream, origin, (scheme, now)),
            By::Suffix { .. } | By::Hash(_) => None,
        }
    }

    /// Whether these are the fields of a response with which an origin begins a session.
    pub fn is_begun_by(&self, response: &HeaderMap) -> bool {
        let Some(cookie) = self.cookie() else { return false };
        let mut lines = response.get_all(http::header::SET_COOKIE).iter();
        lines.any(|line| {
            let pair = line.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
            named::pair(pair).is_some_and(|(name, _)| name == cookie.as_bytes())
        })
    }
}

impl OwnCookie {
    fn read(&self, upstream: &str, headers: &HeaderMap, now: SystemTime) -> Reading {
        let (mut reading, mut left) = (Reading::Nothing, OPENED_MAX);
        for value in named::cookies(headers, &self.name) {
            // What cannot be one of ours costs nothing, and hides none.
            if !sealed::may_open(value) {
                reading = Reading::Refused;
                continue;
            }
            if left == 0 {
                break;
            }
            left -= 1;
            let opened = sealed::open(&self.keys, upstream, value);
            let Some((origin, issued_s)) = opened else {
                reading = Reading::Refused;
                continue;
            };
            let place = match self.lifetime {
                None => Place::Field,
                Some(lifetime) => match sealed::age(issued_s, now) {
                    Some(age) if age * 2 < lifetime => Place::Field,
                    Some(age) if age < lifetime => Place::AgingCookie,
                    _ => {
                        reading = Reading::Refused;
                        continue;
                    }
                },
            };
            return Reading::Session { session: Session::At(origin), place };
        }
        reading
    }

    fn set(
        &self,
        upstream: &str,
        origin: OriginId,
        (scheme, now): (&str, SystemTime),
    ) -> Option<HeaderValue> {
        let value = sealed::seal(self.keys.first()?, upstream, origin, now)?;
        let age = self.lifetime.map_or_else(String::new, |time| format!("; Max-Age={}", time.as_secs()));
        let is_secure = match self.secure {
            Secure::AsSet => scheme == "https",
            Secure::Always => true,
            Secure::Never => false,
        };
        let secure = if is_secure { "; Secure" } else { "" };
        HeaderValue::try_from(format!("{}={value}{age}{}{secure}", self.name, self.attributes)).ok()
    }
}

/// The Cookie fields of a request without the cookies of these names; `None` if it has none of them. All
/// other bytes stay.
pub fn without(headers: &HeaderMap, names: &[String]) -> Option<Vec<HeaderValue>> {
    if names.is_empty() || !headers.contains_key(COOKIE) {
        return None;
    }
    let is_own = |pair: &&[u8]| {
        // A cookie without a value is one as well.
        let name = named::pair(pair).map_or(pair.trim_ascii(), |(name, _)| name);
        names.iter().any(|own| own.as_bytes() == name)
    };
    let lines = || headers.get_all(COOKIE).iter();
    if !lines().any(|line| line.as_bytes().split(|byte| *byte == b';').any(|pair| is_own(&pair))) {
        return None;
    }
    let left = lines().filter_map(|line| {
        let pairs = line.as_bytes().split(|byte| *byte == b';').filter(|pair| !is_own(pair));
        let mut kept: Vec<u8> = Vec::with_capacity(line.len());
        for pair in pairs {
            if !kept.is_empty() {
                kept.push(b';');
            }
            kept.extend_from_slice(if kept.is_empty() { pair.trim_ascii_start() } else { pair });
        }
        // Invariant: these bytes came out of a field's value.
        HeaderValue::from_bytes(kept.trim_ascii()).ok().filter(|value| !value.is_empty())
    });
    Some(left.collect())
}

#[cfg(test)]
mod tests;
