//! Reads the patterns in purge requests: regular expressions that applications make of tags, URLs and hosts.
//! Nothing is matched with them. What is not one of the known forms is *unread*, and the caller purges more.
//!
//! A dot within a word is a dot, as in `index.html`: applications write it unescaped into names and paths.
//! The time is linear in the length.

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
fn is_meta(byte: u8) -> bool {
    br"\^$|?*+()[]{}".contains(&byte)
}

/// Whether a regular expression is a mere text: nothing in it has another meaning.
pub fn is_text(text: &[u8]) -> bool {
    (0..text.len()).all(|at| !is_meta(text[at]) && (text[at] != b'.' || is_dot(text, at)))
}

/// Whether a dot stands within a word.
fn is_dot(text: &[u8], at: usize) -> bool {
    let is_of_word =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-_%".contains(byte));
    is_of_word(text.get(at + 1)) && is_of_word(at.checked_sub(1).and_then(|before| text.get(before)))
}

/// A list of tags, separated by blanks or commas. Some fields of responses separate by one of them alone, so
/// that a tag may have the other within: it is meant as well.
pub fn list(text: &[u8]) -> TagPattern {
    let mut tags = Vec::new();
    add_list(text, &mut tags);
    gathered(tags)
}

/// Adds the tags that a list may mean. Whether there are any.
fn add_list(text: &[u8], tags: &mut Vec<Vec<u8>>) -> bool {
    let before = tags.len();
    let parts = text.split(|byte| is_separator(*byte)).filter(|tag| !tag.is_empty());
    tags.extend(parts.map(<[u8]>::to_vec));
    let by_comma = text.split(|byte| *byte == b',');
    let by_blank = text.split(|byte| is_separator(*byte) && *byte != b',');
    for whole in by_comma.chain(by_blank).map(trimmed) {
        // A response keeps no longer one.
        if whole.iter().any(|byte| is_separator(*byte)) && whole.len() <= TAG_BYTES_MAX {
            tags.push(whole.to_vec());
        }
    }
    tags.len() > before
}

/// Without separators at both ends.
fn trimmed(text: &[u8]) -> &[u8] {
    let is_inner = |byte: &u8| !is_separator(*byte);
    let Some(first) = text.iter().position(is_inner) else { return &[] };
    &text[first..=text.iter().rposition(is_inner).unwrap_or(first)]
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
    // Without parentheses an anchor holds for one of several alternatives.
    let inner =
        inner.and_then(|text| match text.strip_prefix(b"(").and_then(|text| text.strip_suffix(b")")) {
            None => Some(text).filter(|text| !text.contains(&b'|')),
            inner => inner,
        });
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
            b'.' if !is_dot(self.text, self.at - 1) => return None,
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

/// Whether a text is compared whole with tags. With an end on one side only it says how a tag begins or ends,
/// but for what API Platform sends: a group of whole tags with a group of ends behind it.
fn is_whole(before: &[Item], core: &[Item], after: &[Item]) -> bool {
    let is_api_platform = matches!((before, core, after), ([], [Item::Group(_)], [Item::Group(_)]));
    before.is_empty() == after.is_empty() || is_api_platform
}

/// Adds the tags of an alternative. False where it is something else.
fn collect(items: &[Item], tags: &mut Vec<Vec<u8>>) -> bool {
    let Some(first) = items.iter().position(|item| !is_edge(item)) else { return false };
    let last = items.iter().rposition(|item| !is_edge(item)).unwrap_or(first);
    let core = &items[first..=last];
    if !is_whole(&items[..first], core, &items[last + 1..]) {
        return false;
    }
    if let [Item::Group(inner)] = core {
        return inner.iter().all(|one| collect(one, tags));
    }
    let byte = |item: &Item| match item {
        Item::Byte(byte) => Some(*byte),
        Item::Edge | Item::Group(_) => None,
    };
    let text: Option<Vec<u8>> = core.iter().map(byte).collect();
    text.is_some_and(|text| add_list(&text, tags))
}

#[cfg(test)]
mod tests;
