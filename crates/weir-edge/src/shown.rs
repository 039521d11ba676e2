//! What `Weir-Debug: 1` shows of a response, as fields. It must not decide who may see them.

use http::HeaderName;
use http::header::CACHE_CONTROL;
use weir_clock as clock;
use weir_observe::Storing;
use weir_observe::trace::{KEY_BYTES_MAX, Place};
use weir_policy::tags;

use crate::exchange::Note;
use crate::notes;

const KEY: HeaderName = HeaderName::from_static("weir-debug-key");
const TAGS: HeaderName = HeaderName::from_static("weir-debug-tags");
const LIFETIME: HeaderName = HeaderName::from_static("weir-debug-lifetime");
const HELD: HeaderName = HeaderName::from_static("weir-debug-held");
const OUTCOME: HeaderName = HeaderName::from_static("weir-debug-outcome");

/// The most tags that are shown, and their bytes.
const TAGS_SHOWN_MAX: usize = 64;
const TAGS_BYTES_MAX: usize = 2048;

/// For caches on the way to the client (RFC 9213 §2.2).
const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");

/// What the fields of a response show: structured fields (RFC 9651). Beside them are lines that
/// keep caches on the way from storing them for others.
pub(crate) fn fields(note: &Note<'_>) -> Vec<(HeaderName, Vec<u8>)> {
    let no_store = |name| (name, b"no-store".to_vec());
    let mut fields = vec![(OUTCOME, outcome(note)), no_store(CACHE_CONTROL), no_store(CDN_CACHE_CONTROL)];
    let Some(notes) = &note.told.notes else { return fields };
    if let Some(key) = note.key_text().filter(|_| notes.is_keyed) {
        fields.push((KEY, strings(key.lines().map(str::as_bytes), KEY_BYTES_MAX)));
    }
    if let Some(generation) = &notes.generation {
        let head = generation.head();
        let freshness = weir_policy::freshness(&head.stored, clock::now());
        let (left_s, age_s) = (freshness.left_s(), freshness.age_s());
        let source = head.stored.facts.lifetime_from();
        let lifetime = format!("{left_s}; age={age_s}; source={source}");
        fields.push((LIFETIME, lifetime.into_bytes()));
        let mut held = notes::extent(generation).word().as_bytes().to_vec();
        match notes::place(generation) {
            Place::Memory => held.extend_from_slice(b"; place=memory"),
            Place::Volume(name) => {
                held.extend_from_slice(b"; place=volume; volume=");
                string(name.as_bytes(), &mut held);
            }
        }
        fields.push((HELD, held));
        let tags = strings(tags::of(&head.stored.headers).take(TAGS_SHOWN_MAX), TAGS_BYTES_MAX);
        if !tags.is_empty() {
            fields.push((TAGS, tags));
        }
    }
    fields
}

/// The outcome and its reason, the gate, the site, the route and the origin.
fn outcome(note: &Note<'_>) -> Vec<u8> {
    let told = &note.told;
    let facts = &told.facts;
    let mut out = facts.outcome.word().as_bytes().to_vec();
    let reason = facts.reason();
    if !reason.is_empty() {
        parameter("reason", reason.as_bytes(), &mut out);
    }
    if let Storing::Stored { ttl_s, source } = facts.storing {
        out.extend_from_slice(format!("; stored={ttl_s}").as_bytes());
        parameter("stored-by", source.as_bytes(), &mut out);
    }
    parameter("gate", told.gate.name().as_bytes(), &mut out);
    let names = [
        ("site", told.site.map(|site| &site.name)),
        ("route", told.route.map(|route| &route.name)),
        ("origin", told.origin.as_ref()),
    ];
    for (name, value) in names {
        if let Some(value) = value {
            parameter(name, value.as_bytes(), &mut out);
        }
    }
    out
}

fn parameter(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"; ");
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
    string(value, out);
}

/// A list of strings of so many bytes at most; the token `cut` ends one that has more. Of a first string that
/// is too long by itself the beginning is in it.
fn strings<'s>(texts: impl Iterator<Item = &'s [u8]>, bytes_max: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for text in texts {
        let mut own = if out.is_empty() { Vec::new() } else { b", ".to_vec() };
        let separator = own.len();
        string(text, &mut own);
        if out.len() + own.len() > bytes_max {
            if out.is_empty() {
                beginning(text, bytes_max.saturating_sub(b", cut".len()), &mut out);
                out.extend_from_slice(b", cut");
            } else {
                out.extend_from_slice(&own[..separator]);
                out.extend_from_slice(b"cut");
            }
            break;
        }
        out.append(&mut own);
    }
    out
}

/// The beginning of a text as a string of so many bytes at most, with its quotes.
fn beginning(text: &[u8], bytes_max: usize, out: &mut Vec<u8>) {
    let mut bytes = b"\"\"".len();
    let mut fits = |byte: &u8| {
        bytes += match byte {
            b'"' | b'\\' => 2,
            0x20..=0x7e => 1,
            _ => 3,
        };
        bytes <= bytes_max
    };
    let end = text.iter().take_while(|byte| fits(byte)).count();
    string(&text[..end], out);
}

/// A string (RFC 9651 §3.3.3). Bytes that it cannot have are written as in URLs, `%0A`.
fn string(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.push(b'"');
    for byte in text.iter().copied() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x20..=0x7e => out.push(byte),
            _ => out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_bounded_and_do_nothing() {
        let list = |texts: &[&[u8]], max| String::from_utf8(strings(texts.iter().copied(), max)).unwrap();
        assert_eq!(list(&[b"a", b"b\"c\\"], 100), r#""a", "b\"c\\""#);
        assert_eq!(list(&[b"\r\n\x1b\xff\x80"], 100), r#""%0D%0A%1B%FF%80""#);
        assert_eq!(list(&[b"abcdef", b"ghijkl", b"m"], 16), r#""abcdef", cut"#);
        assert_eq!(list(&[&[b'x'; 200]], 100), format!("\"{}\", cut", "x".repeat(93)));
        assert_eq!(list(&[b"ab\"\xff\xffcdef", b"e"], 15), r#""ab\"%FF", cut"#);
        assert_eq!(list(&[], 100), "");
    }
}
