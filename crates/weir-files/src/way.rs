//! The path of a URL as a way below a root (RFC 3986 §3.3): decoded once, with single slashes. What could be
//! read in two ways is refused, so that a route and the file system never mean different things. Pure.

use std::borrow::Cow;

use crate::root::Hidden;

/// The folder for what other protocols ask of a site (RFC 8615): its name begins with a dot and is no secret.
const WELL_KNOWN: &[u8] = b".well-known";
/// The longest way that is tried, in bytes: the kernel takes no longer one.
const BYTES_MAX: usize = 4096;

/// A way below a root: names with a slash between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way<'p> {
    names: Cow<'p, [u8]>,
    is_folder: bool,
}

/// Why a path names no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It could be read in two ways: a name of dots, an encoded slash, a backslash, a control character, NUL,
    /// an escape that is none.
    Ambiguous,
    /// A name begins with a dot.
    Hidden,
    /// It is longer than any file's, and neither of the others.
    TooLong,
}

impl<'p> Way<'p> {
    /// The way of a path, without its query.
    ///
    /// # Errors
    /// The path names no file.
    pub fn read(path: &'p str, hidden: Hidden) -> Result<Way<'p>, Unfit> {
        let path = path.as_bytes();
        let rest = path.strip_prefix(b"/").unwrap_or(path);
        let is_folder = rest.is_empty() || rest.ends_with(b"/");
        let names = match is_plain(rest) {
            true => Cow::Borrowed(rest.strip_suffix(b"/").unwrap_or(rest)),
            false => Cow::Owned(decoded(rest)?),
        };
        for (place, name) in names.split(|byte| *byte == b'/').enumerate() {
            check(name, place, hidden)?;
        }
        match names.len() > BYTES_MAX {
            true => Err(Unfit::TooLong),
            false => Ok(Way { names, is_folder }),
        }
    }

    /// The names, with a slash between them; empty for the root itself.
    pub fn names(&self) -> &[u8] {
        &self.names
    }

    /// Whether the path ends with a slash.
    pub fn is_folder(&self) -> bool {
        self.is_folder
    }
}

/// Whether a path has neither an escape nor an empty name, except behind its last slash.
fn is_plain(path: &[u8]) -> bool {
    let pairs = path.iter().zip(path.get(1..).unwrap_or_default());
    !path.starts_with(b"/")
        && !path.contains(&b'%')
        && !pairs.fold(false, |odd, (one, next)| odd | ((*one == b'/') & (*next == b'/')))
}

/// The names of a path, decoded once, without empty ones.
fn decoded(path: &[u8]) -> Result<Vec<u8>, Unfit> {
    let mut out = Vec::with_capacity(path.len());
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        if !out.is_empty() {
            out.push(b'/');
        }
        let mut rest = name;
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            if *first != b'%' {
                out.push(*first);
                continue;
            }
            let digit = |at: usize| after.get(at).and_then(|digit| char::from(*digit).to_digit(16));
            let (Some(high), Some(low)) = (digit(0), digit(1)) else { return Err(Unfit::Ambiguous) };
            match u8::try_from(high * 16 + low).unwrap_or(0) {
                b'/' => return Err(Unfit::Ambiguous),
                byte => out.push(byte),
            }
            rest = &after[2..];
        }
    }
    Ok(out)
}

fn check(name: &[u8], place: usize, hidden: Hidden) -> Result<(), Unfit> {
    // Routes leave out what follows a `;`, and read what is left of dots as a step upwards.
    let before = name.split(|byte| *byte == b';').next().unwrap_or_default();
    if matches!(before, b"." | b"..") || name.iter().any(|byte| byte.is_ascii_control() || *byte == b'\\') {
        return Err(Unfit::Ambiguous);
    }
    let is_hidden = name.starts_with(b".") && !(place == 0 && name == WELL_KNOWN);
    match is_hidden && hidden == Hidden::NotServed {
        true => Err(Unfit::Hidden),
        false => Ok(()),
    }
}

/// Whether a file's name can be asked for at all, and is not hidden.
pub(crate) fn is_served(name: &[u8], is_top: bool, hidden: Hidden) -> bool {
    !name.is_empty() && !name.contains(&b'/') && check(name, usize::from(!is_top), hidden).is_ok()
}

#[cfg(test)]
mod tests;
