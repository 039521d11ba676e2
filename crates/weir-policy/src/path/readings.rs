//! All ways in which origins read a path with dot segments, or with separators behind a `;`. What `\`, `;`,
//! an escape, an empty segment and a dot segment mean differs between servers, and so does where such a
//! path leads. Pure; it must not know a route.

use super::{has_dot_segment, is_plain, octets, read_path};

/// The most kinds of doubt in one path. Each doubles the readings.
const DOUBTS_MAX: u32 = 4;
/// The most characters in all readings of a path together: what they cost grows with them.
const CHARACTERS_MAX: usize = 32 << 10;

/// The ways in which a path may be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readings {
    /// The paths, each begins with `/`. They may repeat.
    pub paths: Vec<String>,
    /// Whether a segment is one of dots only to origins that take `\` for `/`, or let `;` end a segment.
    pub has_marked_dots: bool,
}

/// A path may be read in more ways than anybody would mean, or is too long for the ways that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// What a path is made of, where origins may differ about it. The numbers are bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// `%2F` is a slash.
    Slash = 1,
    /// `\` is a slash.
    Backslash = 2,
    /// `%5C` is one.
    EncodedBackslash = 4,
    /// `;` ends the name of a segment.
    Parameter = 8,
    /// `%3B` does.
    EncodedParameter = 16,
    /// `%2E` is a dot.
    Dot = 32,
    /// Segments without a name are left out.
    Merged = 64,
    /// What follows a `;` ends at `/` alone: parameters are taken off before all else is read as a slash.
    Swallowed = 128,
}

/// The reading with the most segments.
const ALL: u8 = 127;
const MARKS: u8 = Doubt::Backslash as u8
    | Doubt::EncodedBackslash as u8
    | Doubt::Parameter as u8
    | Doubt::EncodedParameter as u8;
const PARAMETERS: u8 = Doubt::Parameter as u8 | Doubt::EncodedParameter as u8;
const SEPARATORS: u8 = Doubt::Slash as u8 | Doubt::Backslash as u8 | Doubt::EncodedBackslash as u8;

/// The ways in which origins may read a path that has a dot segment ([`has_dot_segment`]), or a `;` beside
/// separators of which not all origins know, as it may swallow them, or that may begin with a host
/// ([`may_name_host`]). `None` for others: no reading of them has more above a segment than
/// [`read_path`](super::read_path) finds. Each way is read with its dot segments resolved, and with them
/// kept, as by programs that normalise nothing.
///
/// # Errors
/// There are too many.
pub fn readings(path: &str) -> Result<Option<Readings>, TooMany> {
    if is_plain(path.as_bytes()) {
        return Ok(None);
    }
    let mut found = of_path(path)?;
    for rest in behind_hosts(path) {
        let more = of_path(&rest)?;
        let own = || Readings { paths: vec![read_path(path).into_owned()], has_marked_dots: false };
        let all = found.get_or_insert_with(own);
        match more {
            Some(more) => {
                all.has_marked_dots |= more.has_marked_dots;
                all.paths.extend(more.paths);
            }
            None => all.paths.push(read_path(&rest).into_owned()),
        }
    }
    Ok(found)
}

/// Whether a path begins with two slashes: a reference of which the first name is a host (RFC 3986 §4.2).
/// PHP's `parse_url`, `URL` of browsers and Node, the JDK and Python's `urlsplit` read the path of a request
/// so; some take `\` for a slash.
pub fn may_name_host(path: &str) -> bool {
    matches!(path.as_bytes(), [b'/', b'/' | b'\\', ..])
}

/// What follows the host with which a path may begin, as a path. It may end at a `\`.
fn behind_hosts(path: &str) -> impl Iterator<Item = String> {
    let named = path.trim_start_matches(['/', '\\']);
    let ends = [named.find(['/', '\\']), named.find('/')];
    let count = match ends {
        _ if !may_name_host(path) => 0,
        [first, second] if first == second => 1,
        _ => 2,
    };
    ends.into_iter().take(count).map(|end| match end {
        Some(at) => format!("/{}", &named[at + 1..]),
        None => "/".to_owned(),
    })
}

/// The ways of a path that begins with no host.
fn of_path(path: &str) -> Result<Option<Readings>, TooMany> {
    let pieces: Vec<Piece> = octets(path.as_bytes()).map(Piece::of).collect();
    let mut doubts =
        pieces.iter().fold(0, |doubts, piece| doubts | piece.doubt.map_or(0, |doubt| doubt as u8));
    let may_swallow = doubts & PARAMETERS != 0 && doubts & SEPARATORS != 0;
    if !may_swallow && !has_dot_segment(path) {
        return Ok(None);
    }
    if may_swallow {
        doubts |= Doubt::Swallowed as u8;
    }
    let widest = written(&pieces, ALL & !(Doubt::Merged as u8));
    // The first is what stands before the path's first slash.
    if widest.split('/').skip(1).any(str::is_empty) {
        doubts |= Doubt::Merged as u8;
    }
    if doubts.count_ones() > DOUBTS_MAX || pieces.len() << doubts.count_ones() > CHARACTERS_MAX {
        return Err(TooMany);
    }
    let dots = |reading| written(&pieces, reading).split('/').filter(|name| is_dots(name)).count();
    let mut paths = Vec::with_capacity(2 << doubts.count_ones());
    // All subsets of the doubts, from all to none.
    let mut reading = doubts;
    loop {
        let written = written(&pieces, reading);
        let resolved = resolved(&written);
        paths.push(if written.starts_with('/') { written } else { format!("/{written}") });
        paths.push(resolved);
        if reading == 0 {
            break;
        }
        reading = (reading - 1) & doubts;
    }
    Ok(Some(Readings { paths, has_marked_dots: dots(ALL) > dots(ALL & !MARKS) }))
}

/// A character of a path.
struct Piece {
    /// Decoded, where it is visible ASCII.
    byte: u8,
    /// As it is where it means nothing.
    written: [u8; 3],
    written_bytes: usize,
    doubt: Option<Doubt>,
}

impl Piece {
    fn of((byte, as_written): (u8, &[u8])) -> Piece {
        let is_encoded = as_written.len() > 1;
        let doubt = match (byte, is_encoded) {
            (b'/', true) => Some(Doubt::Slash),
            (b'\\', false) => Some(Doubt::Backslash),
            (b'\\', true) => Some(Doubt::EncodedBackslash),
            (b';', false) => Some(Doubt::Parameter),
            (b';', true) => Some(Doubt::EncodedParameter),
            (b'.', true) => Some(Doubt::Dot),
            _ => None,
        };
        let is_decoded = is_encoded && byte.is_ascii_graphic() && !matches!(byte, b'%' | b'?' | b'#' | b'*');
        // What is encoded and means nothing stays encoded, but for `\` and `;`.
        let stays = matches!(doubt, Some(Doubt::Slash | Doubt::Dot)) || !is_decoded;
        let mut written = [byte, 0, 0];
        let mut written_bytes = 1;
        if is_encoded && stays {
            written_bytes = as_written.len().min(3);
            written[..written_bytes].copy_from_slice(&as_written[..written_bytes]);
            written.make_ascii_uppercase();
        }
        Piece { byte, written, written_bytes, doubt }
    }
}

/// The path by one reading, with its dot segments and a slash between any two segments. It is one text,
/// since a path of many segments is read in many ways.
fn written(pieces: &[Piece], reading: u8) -> String {
    let (merges, swallows) = (reading & Doubt::Merged as u8 != 0, reading & Doubt::Swallowed as u8 != 0);
    let mut text: Vec<u8> = Vec::with_capacity(pieces.len());
    let mut is_parameter = false;
    for piece in pieces {
        let counts = piece.doubt.is_none_or(|doubt| reading & doubt as u8 != 0);
        let byte = if counts { piece.byte } else { 0 };
        match (byte, piece.doubt) {
            (_, Some(_)) if is_parameter && swallows => {}
            (b'/' | b'\\', Some(_)) | (b'/', None) => {
                is_parameter = false;
                // A segment without a name is left out, but for what stands before the first slash.
                if !merges || text.last() != Some(&b'/') {
                    text.push(b'/');
                }
            }
            (b';', Some(_)) => is_parameter = true,
            _ if is_parameter => {}
            (b'.', _) => text.push(b'.'),
            _ => text.extend_from_slice(&piece.written[..piece.written_bytes]),
        }
    }
    // Invariant: what is not ASCII stays encoded.
    String::from_utf8_lossy(&text).into_owned()
}

/// A path without its segments of dots (RFC 3986 §5.2.4). What stands before its first slash is left out.
fn resolved(path: &str) -> String {
    let mut left = String::with_capacity(path.len() + 1);
    let mut names = path.split('/').skip(1).peekable();
    while let Some(name) = names.next() {
        match name {
            ".." => left.truncate(left.rfind('/').unwrap_or(0)),
            "." => {}
            _ => {
                left.push('/');
                left.push_str(name);
                continue;
            }
        }
        if names.peek().is_none() {
            left.push('/');
        }
    }
    if left.is_empty() {
        left.push('/');
    }
    left
}

fn is_dots(name: &str) -> bool {
    matches!(name, "." | "..")
}

#[cfg(test)]
mod tests;
