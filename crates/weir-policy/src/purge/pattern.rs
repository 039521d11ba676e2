//! Reads the patterns in purge requests: regular expressions that applications make of tags, URLs and hosts.
//! Nothing is matched with them. What is not one of the known forms is *unread*, and the caller purges more.
//!
//! A dot is a dot: applications write it unescaped into names and paths. The time is linear in the length.

use std::str;

use crate::tags::{TAG_BYTES_MAX, TAGS_MAX};

/// How deep parentheses may be nested.
const DEPTH_MAX: usize = 8;

/// What a pattern of tags means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagPattern {
    /// These tags, exactly; at least one and at most [`TAGS_MAX`].
    Tags(Vec<Vec<u8>>),
    /// Whatever its tags.
    All,
    /// It cannot be read.
    Unread,
}

/// What a pattern of a URL's path means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlPattern {
    /// All that begin so.
    Prefix(String),
    /// This one.
    Exact(String),
    /// All.
    All,
    /// It cannot be read.
    Unread,
}

/// What a pattern of hosts means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// These; at least one.
    Named(Vec<String>),
    /// All.
    All,
    /// It cannot be read.
    Unread,
}

/// Whether a byte has a meaning of its own in regular expressions. The dot is left out.
pub fn is_meta(byte: u8) -> bool {
    br"\^$|?*+()[]{}".contains(&byte)
}

/// A list of tags, separated by blanks or commas.
pub fn list(text: &[u8]) -> TagPattern {
    gathered(
        text.split(|byte| is_separator(*byte)).map(<[u8]>::to_vec).filter(|tag| !tag.is_empty()).collect(),
    )
}

/// A regular expression over tags: alternatives, each between anchors, commas or word boundaries, or a list.
pub fn tags(text: &[u8]) -> TagPattern {
    if is_any(text) {
        return TagPattern::All;
    }
    let mut cursor = Cursor { text, at: 0 };
    let read = cursor.alternatives(0).filter(|_| cursor.at == text.len());
    let mut tags = Vec::new();
    match read {
        Some(read) if read.iter().all(|one| collect(one, &mut tags)) => gathered(tags),
        _ => TagPattern::Unread,
    }
}

/// A regular expression over paths with their queries.
pub fn url(text: &[u8]) -> UrlPattern {
    if is_any(text) || text == b"/.*" {
        return UrlPattern::All;
    }
    let Some(rest) = text.strip_prefix(b"^").filter(|rest| rest.starts_with(b"/")) else {
        return UrlPattern::Unread;
    };
    let begin = rest.strip_suffix(b"$").unwrap_or(rest);
    let prefix = begin.strip_suffix(b".*");
    match (prefix.map(literal), rest.strip_suffix(b"$").map(literal)) {
        (Some(Some(path)), _) if path == "/" => UrlPattern::All,
        (Some(Some(path)), _) => UrlPattern::Prefix(path),
        (None, Some(Some(path))) => UrlPattern::Exact(path),
        _ => UrlPattern::Unread,
    }
}

/// A regular expression over hosts.
pub fn hosts(text: &[u8]) -> HostPattern {
    if is_any(text) {
        return HostPattern::All;
    }
    let inner = text.strip_prefix(b"^").and_then(|text| text.strip_suffix(b"$"));
    let inner =
        inner.map(|text| text.strip_prefix(b"(").and_then(|text| text.strip_suffix(b")")).unwrap_or(text));
    let names = inner.map(|text| text.split(|byte| *byte == b'|').map(literal));
    let is_host = |name: &String| {
        let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        !name.is_empty() && name.bytes().all(is_of_host)
    };
    let names = names.and_then(|names| names.map(|name| name.filter(is_host)).collect::<Option<Vec<_>>>());
    names.map_or(HostPattern::Unread, HostPattern::Named)
}

fn is_any(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"^").unwrap_or(text);
    matches!(text.strip_suffix(b"$").unwrap_or(text), b".*" | b".+" | b"(.*)")
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b',')
}

fn gathered(mut tags: Vec<Vec<u8>>) -> TagPattern {
    tags.sort_unstable();
    tags.dedup();
    // A response keeps no longer tag, so that none could be found by it.
    match tags.is_empty() || tags.len() > TAGS_MAX || tags.iter().any(|tag| tag.len() > TAG_BYTES_MAX) {
        true => TagPattern::Unread,
        false => TagPattern::Tags(tags),
    }
}

/// A text without its escapes; `None` where it is more than a text, or no ASCII text.
fn literal(text: &[u8]) -> Option<String> {
    let mut cursor = Cursor { text, at: 0 };
    let mut plain = Vec::with_capacity(text.len());
    while cursor.at < text.len() {
        match cursor.item(DEPTH_MAX)? {
            Item::Byte(byte) => plain.push(byte),
            Item::Edge | Item::Group(_) => return None,
        }
    }
    str::from_utf8(&plain)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()))
        .map(str::to_owned)
}

/// A piece of an alternative.
#[derive(Debug)]
enum Item {
    Byte(u8),
    /// `^`, `$` or `\b`.
    Edge,
    /// `(…|…)`.
    Group(Vec<Vec<Item>>),
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Alternatives up to a `)` or the end.
    fn alternatives(&mut self, depth: usize) -> Option<Vec<Vec<Item>>> {
        let mut all = vec![Vec::new()];
        loop {
            match self.peek() {
                None | Some(b')') => return Some(all),
                Some(b'|') => {
                    self.at += 1;
                    all.push(Vec::new());
                }
                Some(_) => {
                    let item = self.item(depth)?;
                    all.last_mut()?.push(item);
                }
            }
        }
    }

    /// The next item. `None` where it is none of the known ones.
    fn item(&mut self, depth: usize) -> Option<Item> {
        let byte = self.peek()?;
        self.at += 1;
        let item = match byte {
            b'^' | b'$' => Item::Edge,
            b'\\' => {
                let escaped = self.peek()?;
                self.at += 1;
                match escaped {
                    b'b' => Item::Edge,
                    // A letter or digit after a backslash is a class or a reference.
                    escaped if escaped.is_ascii_alphanumeric() => return None,
                    escaped => Item::Byte(escaped),
                }
            }
            b'(' if depth < DEPTH_MAX => {
                let inner = self.alternatives(depth + 1)?;
                if self.peek() != Some(b')') {
                    return None;
                }
                self.at += 1;
                Item::Group(inner)
            }
            byte if is_meta(byte) => return None,
            byte => Item::Byte(byte),
        };
        // What is repeated is not what it says.
        (!matches!(self.peek(), Some(b'*' | b'+' | b'?' | b'{'))).then_some(item)
    }
}

/// Whether an item only says where a tag ends: an anchor, or a group of anchors and separators.
fn is_edge(item: &Item) -> bool {
    let one = |one: &Vec<Item>| match one.as_slice() {
        [Item::Edge] => true,
        [Item::Byte(byte)] => is_separator(*byte),
        _ => false,
    };
    match item {
        Item::Edge => true,
        Item::Byte(_) => false,
        Item::Group(inner) => inner.iter().all(one),
    }
}

/// Adds the tags of an alternative. False where it is something else.
fn collect(items: &[Item], tags: &mut Vec<Vec<u8>>) -> bool {
    let Some(first) = items.iter().position(|item| !is_edge(item)) else { return false };
    let last = items.iter().rposition(|item| !is_edge(item)).unwrap_or(first);
    let core = &items[first..=last];
    if let [Item::Group(inner)] = core {
        return inner.iter().all(|one| collect(one, tags));
    }
    let before = tags.len();
    let mut tag = Vec::new();
    let mut end = |tag: &mut Vec<u8>| {
        if !tag.is_empty() {
            tags.push(std::mem::take(tag));
        }
    };
    for item in core {
        match item {
            Item::Byte(byte) if is_separator(*byte) => end(&mut tag),
            Item::Byte(byte) => tag.push(*byte),
            Item::Edge | Item::Group(_) => return false,
        }
    }
    end(&mut tag);
    tags.len() > before
}

#[cfg(test)]
mod tests;
