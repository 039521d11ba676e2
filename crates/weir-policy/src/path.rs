//! Paths as origins read them: decoded, with single slashes, without dot segments (RFC 3986 §6.2.2). Routes
//! and conditions compare this reading, so that no spelling of a path goes round them. The key and the
//! request to the origin keep the path as it was received. Pure.

mod readings;

use std::borrow::Cow;

pub use readings::{Readings, TooMany, may_name_host, readings};

/// The path as most origins read it; the path itself where it can be read in one way only.
///
/// Escapes are read as by [`read_escapes`], `\` becomes `/`, several `/` become one, parameters of segments
/// (`;x=1`) are left out, and segments `.` and `..` are resolved. The path begins with `/`.
pub fn read_path(path: &str) -> Cow<'_, str> {
    if is_plain(path.as_bytes()) {
        return Cow::Borrowed(path);
    }
    let text = slashed(path.as_bytes());
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut is_folder = false;
    for segment in text.split(|byte| *byte == b'/') {
        let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
        is_folder = matches!(name, b"." | b".." | b"");
        match name {
            b".." => drop(segments.pop()),
            _ if is_folder => {}
            _ => segments.push(name),
        }
    }
    let mut read = String::with_capacity(text.len() + 1);
    for segment in &segments {
        read.push('/');
        // Invariant: what is not ASCII stays encoded.
        read.push_str(&String::from_utf8_lossy(segment));
    }
    if is_folder || segments.is_empty() {
        read.push('/');
    }
    Cow::Owned(read)
}

/// A path, or a pattern of paths, with the escapes of visible ASCII decoded, once. `%25`, `%3F`, `%23`, `%2A`
/// and all others stay, with capital digits.
pub fn read_escapes(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    // Invariant: what is not ASCII is left as it is.
    Cow::Owned(String::from_utf8_lossy(&unescaped(path.as_bytes())).into_owned())
}

/// Whether a path has a segment `.` or `..`, with its dots and slashes plain or encoded (RFC 3986 §3.3,
/// §6.2.2.3). Some origins take `\` for `/`, and some let parameters follow the dots.
pub fn has_dot_segment(path: &str) -> bool {
    if is_plain(path.as_bytes()) {
        return false;
    }
    let text = slashed(path.as_bytes());
    text.split(|byte| *byte == b'/')
        .any(|segment| matches!(segment.split(|byte| *byte == b';').next(), Some(b"." | b"..")))
}

/// Whether a path has no escape, no `\`, no `;`, no `//` and no segment that begins with a dot. Most have
/// none: for them this is the whole cost.
fn is_plain(path: &[u8]) -> bool {
    let pairs = path.iter().zip(path.get(1..).unwrap_or_default());
    !pairs.fold(false, |odd, (before, byte)| {
        odd | (*byte == b'%')
            | (*byte == b'\\')
            | (*byte == b';')
            | ((*before == b'/') & ((*byte == b'/') | (*byte == b'.')))
    })
}

/// The path decoded, with `/` for `\`.
fn slashed(path: &[u8]) -> Vec<u8> {
    let mut text = unescaped(path);
    text.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
    text
}

/// The path with the escapes of visible ASCII decoded. What would end a path, begin another escape or be a
/// star of a pattern stays encoded.
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(path.len());
    for (byte, written) in octets(path) {
        match byte {
            byte if written.len() == 1 => text.push(byte),
            byte if byte.is_ascii_graphic() && !matches!(byte, b'%' | b'?' | b'#' | b'*') => text.push(byte),
            _ => text.extend(written.iter().map(u8::to_ascii_uppercase)),
        }
    }
    text
}

/// The bytes of a path, query or cookie's name, each decoded once if it is encoded, and beside it as it is
/// written.
pub(crate) fn octets(text: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let digit = |at: usize| rest.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let (byte, length) = match (first, digit(1), digit(2)) {
            (b'%', Some(high), Some(low)) => (u8::try_from(high * 16 + low).unwrap_or(b'%'), 3),
            (byte, ..) => (byte, 1),
        };
        let (written, after) = rest.split_at(length);
        rest = after;
        Some((byte, written))
    })
}

#[cfg(test)]
mod tests;
