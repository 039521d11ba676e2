//! Reads field lines into a `HeaderMap` (RFC 9112 section 5), and notes the few names that framing needs.
//!
//! Values are slices of the head that arrived, never copies. The constructors of the `http` crate check the
//! bytes of names and values; a slow path then finds the exact word for what they refuse.

use crate::fault::Fault;
use crate::syntax::{is_ows, is_tchar};
use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE, CONTENT_TYPE, DATE, EXPECT,
    FROM, HOST, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_RANGE, IF_UNMODIFIED_SINCE,
    MAX_FORWARDS, ORIGIN, PROXY_AUTHORIZATION, RANGE, REFERER, SEC_WEBSOCKET_KEY, TRANSFER_ENCODING, UPGRADE,
    USER_AGENT,
};
use memchr::memchr;
use std::ops::Range;

/// The names that framing needs and that were seen: a bit set, so that absent ones are not looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen(u8);

impl Seen {
    pub(crate) const HOST: Self = Self(1);
    pub(crate) const HOST_TWICE: Self = Self(2);
    pub(crate) const LENGTH: Self = Self(4);
    pub(crate) const LENGTH_TWICE: Self = Self(8);
    pub(crate) const CODING: Self = Self(16);
    pub(crate) const CONNECTION: Self = Self(32);
    pub(crate) const EXPECT: Self = Self(64);
    pub(crate) const UPGRADE: Self = Self(128);

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn add(&mut self, once: Self, twice: Self) {
        self.0 |= if self.has(once) { twice.0 } else { once.0 };
    }
}

/// What the field lines said about framing and routing.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) seen: Seen,
    /// The position of the last `Host` value in the block.
    pub(crate) host: Range<usize>,
}

/// A map for `lines` field lines. It grows for more than a plain head has: `HeaderMap` takes at most 32,768
/// names, and panics only if they are asked for at once.
pub(crate) fn map_for(lines: usize) -> HeaderMap {
    HeaderMap::with_capacity(lines.min(256))
}

/// Reads the field lines of `block`: the first begins at `start`, each ends before the CR at one of `ends`.
///
/// # Errors
/// The first line that is not `field-name ":" OWS field-value OWS`.
pub(crate) fn read(
    block: &Bytes,
    start: usize,
    ends: &[usize],
    fields: &mut HeaderMap,
) -> Result<Notes, Fault> {
    let mut notes = Notes::default();
    let mut line_start = start;
    for end in ends {
        let line = &block[line_start..*end];
        let Some(colon) = memchr(b':', line) else {
            return Err(diagnose(line));
        };
        let name = match common(&line[..colon]) {
            Some(name) => name,
            None => HeaderName::from_bytes(&line[..colon]).map_err(|_| diagnose(line))?,
        };
        let (from, to) = value_bounds(line, colon + 1);
        let place = line_start + from..line_start + to;
        let value = block.slice(place.clone());
        let Ok(value) = HeaderValue::from_maybe_shared(value) else {
            return Err(diagnose(line));
        };
        note(&name, place, &mut notes)?;
        fields.try_append(name, value).map_err(|_| Fault::FieldsMany)?;
        line_start = end + 2;
    }
    Ok(notes)
}

/// The names that browsers and proxies send with most requests and that the `http` crate does not know: those
/// it would copy, byte by byte, into memory of their own.
fn common(name: &[u8]) -> Option<HeaderName> {
    Some(match name {
        b"Sec-Fetch-Dest" | b"sec-fetch-dest" => const { HeaderName::from_static("sec-fetch-dest") },
        b"Sec-Fetch-Mode" | b"sec-fetch-mode" => const { HeaderName::from_static("sec-fetch-mode") },
        b"Sec-Fetch-Site" | b"sec-fetch-site" => const { HeaderName::from_static("sec-fetch-site") },
        b"Sec-Fetch-User" | b"sec-fetch-user" => const { HeaderName::from_static("sec-fetch-user") },
        b"sec-ch-ua" => const { HeaderName::from_static("sec-ch-ua") },
        b"sec-ch-ua-mobile" => const { HeaderName::from_static("sec-ch-ua-mobile") },
        b"sec-ch-ua-platform" => const { HeaderName::from_static("sec-ch-ua-platform") },
        b"Priority" | b"priority" => const { HeaderName::from_static("priority") },
        b"X-Forwarded-For" | b"x-forwarded-for" => const { HeaderName::from_static("x-forwarded-for") },
        b"X-Forwarded-Host" | b"x-forwarded-host" => const { HeaderName::from_static("x-forwarded-host") },
        b"X-Forwarded-Port" | b"x-forwarded-port" => const { HeaderName::from_static("x-forwarded-port") },
        b"X-Forwarded-Proto" | b"x-forwarded-proto" => const { HeaderName::from_static("x-forwarded-proto") },
        b"X-Request-Id" | b"x-request-id" => const { HeaderName::from_static("x-request-id") },
        _ => return None,
    })
}

fn value_bounds(line: &[u8], after_colon: usize) -> (usize, usize) {
    let mut from = after_colon;
    let mut to = line.len();
    while from < to && is_ows(line[from]) {
        from += 1;
    }
    while from < to && is_ows(line[to - 1]) {
        to -= 1;
    }
    (from, to)
}

pub(crate) fn note(name: &HeaderName, place: Range<usize>, notes: &mut Notes) -> Result<(), Fault> {
    let seen = &mut notes.seen;
    if *name == HOST {
        notes.host = place;
        seen.add(Seen::HOST, Seen::HOST_TWICE);
    } else if *name == CONTENT_LENGTH {
        seen.add(Seen::LENGTH, Seen::LENGTH_TWICE);
    } else if *name == TRANSFER_ENCODING {
        seen.add(Seen::CODING, Seen::CODING);
    } else if *name == CONNECTION {
        seen.add(Seen::CONNECTION, Seen::CONNECTION);
    } else if *name == EXPECT {
        seen.add(Seen::EXPECT, Seen::EXPECT);
    } else if *name == UPGRADE {
        seen.add(Seen::UPGRADE, Seen::UPGRADE);
    } else if is_lookalike(name.as_str()) {
        return Err(Fault::Lookalike);
    }
    Ok(())
}

/// The fields of a request that have one value (RFC 9110 section 5.3), each with the word for two different
/// values. Of two values some peers take the first, others the last.
static SINGLETONS: [(HeaderName, &str); 19] = [
    (AUTHORIZATION, "field-twice:authorization"),
    (CONTENT_LOCATION, "field-twice:content-location"),
    (CONTENT_RANGE, "field-twice:content-range"),
    (CONTENT_TYPE, "field-twice:content-type"),
    (DATE, "field-twice:date"),
    (FROM, "field-twice:from"),
    (IF_MODIFIED_SINCE, "field-twice:if-modified-since"),
    (IF_RANGE, "field-twice:if-range"),
    (IF_UNMODIFIED_SINCE, "field-twice:if-unmodified-since"),
    (MAX_FORWARDS, "field-twice:max-forwards"),
    (ORIGIN, "field-twice:origin"),
    (PROXY_AUTHORIZATION, "field-twice:proxy-authorization"),
    (RANGE, "field-twice:range"),
    (REFERER, "field-twice:referer"),
    (SEC_WEBSOCKET_KEY, "field-twice:sec-websocket-key"),
    (USER_AGENT, "field-twice:user-agent"),
    (HeaderName::from_static("depth"), "field-twice:depth"),
    (HeaderName::from_static("destination"), "field-twice:destination"),
    (HeaderName::from_static("overwrite"), "field-twice:overwrite"),
];

/// The word for two values of the field at this position of the list.
pub(crate) fn word_of_singleton(place: u8) -> &'static str {
    SINGLETONS.get(usize::from(place)).map_or("field-twice", |(_, word)| word)
}

/// Refuses a request in which a field of one value has several different ones.
pub(crate) fn check_singletons(fields: &HeaderMap) -> Result<(), Fault> {
    // As many names as lines: none comes twice.
    if fields.len() == fields.keys_len() {
        return Ok(());
    }
    let differs = |name: &HeaderName| {
        let mut values = fields.get_all(name).iter();
        values.next().is_some_and(|first| values.any(|other| other != first))
    };
    match (0..).zip(&SINGLETONS).find(|(_, (name, _))| differs(name)) {
        Some((place, _)) => Err(Fault::FieldTwice(place)),
        None => Ok(()),
    }
}

/// Whether a peer may take this name for one of the two names. A peer may drop what is not a letter or digit
/// (CGI makes `Content_Length` and `Content-Length` one variable), may stop at the first odd byte, or may
/// take any byte for the hyphen.
fn is_lookalike(name: &str) -> bool {
    const SHORTEST: usize = "content-length".len();
    if name.len() < SHORTEST {
        return false;
    }
    let letters = || name.bytes().filter(u8::is_ascii_alphanumeric);
    let (first, second) = match letters().next() {
        Some(b'c') => ("content", "length"),
        Some(b't') => ("transfer", "encoding"),
        _ => return false,
    };
    let like = || first.bytes().chain(second.bytes()).map(Some).chain(std::iter::repeat(None));
    let is_beginning = |(letter, like)| like == Some(letter);
    letters().zip(like()).all(is_beginning)
        || letters().take(first.len()).chain(letters().skip(first.len() + 1)).zip(like()).all(is_beginning)
}

/// The word for a refused field line.
#[cold]
fn diagnose(line: &[u8]) -> Fault {
    match line.iter().position(|byte| matches!(byte, b'\0' | b'\r')) {
        Some(at) if line[at] == b'\0' => return Fault::Nul,
        Some(_) => return Fault::BareCr,
        None => {}
    }
    if line.first().is_some_and(|byte| is_ows(*byte)) {
        return Fault::ObsFold;
    }
    let Some(colon) = memchr(b':', line) else {
        return Fault::NoColon;
    };
    let name = &line[..colon];
    match name.iter().position(|byte| !is_tchar(*byte)) {
        Some(at) if name[at..].iter().all(|byte| is_ows(*byte)) => Fault::SpaceBeforeColon,
        Some(at) if name[at].is_ascii_control() => Fault::Control,
        Some(_) => Fault::FieldName,
        None if name.is_empty() => Fault::FieldName,
        None => Fault::Control,
    }
}
