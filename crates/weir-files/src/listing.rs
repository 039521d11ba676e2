//! The list of a folder, for people and for programs. It shows what can be asked for, and nothing else.

use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::time::SystemTime;

use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;
use weir_policy::http_date;
use weir_share::Client;

pub use self::room::ListText;
pub(crate) use self::room::Room;
use self::room::Taken;
use crate::root::{RootRules, Symlinks};
use crate::stamp::time;
use crate::way::is_served;

mod room;

/// The most entries that are shown.
const ENTRIES_MAX: usize = 2_000;
/// The most names of a folder that are looked at, shown or not.
const NAMES_MAX: usize = 20_000;
/// What a list may have while it is made.
const ENTRIES_BYTES: u64 = 1 << 20;

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingForm {
    /// A page.
    Html,
    /// A list of objects.
    Json,
}

/// What a folder has.
#[derive(Debug)]
pub struct Listing {
    entries: Vec<Entry>,
    /// Whether there is more than is shown.
    is_cut: bool,
    room: Room,
    client: Option<Client>,
    _taken: Option<Taken>,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// Folders first, then by name.
    is_file: bool,
    name: Vec<u8>,
    /// In bytes; none for a folder and for a link.
    length: Option<u64>,
    modified: Option<SystemTime>,
}

impl Listing {
    /// Reads an open folder. It may wait for a device. [`Errno::MFILE`] says that too many are read or sent.
    pub(crate) fn read(
        folder: &OwnedFd,
        rules: &RootRules,
        is_top: bool,
        (room, client): (&Room, Option<Client>),
    ) -> Result<Listing, Errno> {
        let _taken = Some(room.take(client, ENTRIES_BYTES).ok_or(Errno::MFILE)?);
        let mut listing = Listing { entries: Vec::new(), is_cut: false, room: room.clone(), client, _taken };
        for (number, entry) in Dir::read_from(folder)?.enumerate() {
            let entry = entry?;
            if number == NAMES_MAX {
                listing.is_cut = true;
                break;
            }
            let name = entry.file_name().to_bytes();
            if !is_served(name, is_top, rules.hidden) {
                continue;
            }
            // A link is not followed here: what it points to may lie elsewhere.
            let Ok(stat) = statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let (is_file, length) = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => (true, u64::try_from(stat.st_size).ok()),
                FileType::Directory => (false, None),
                FileType::Symlink if rules.symlinks == Symlinks::Beneath => (true, None),
                _ => continue,
            };
            if listing.entries.len() == ENTRIES_MAX {
                listing.is_cut = true;
                break;
            }
            let modified = time(stat.st_mtime);
            listing.entries.push(Entry { is_file, name: name.to_vec(), length, modified });
        }
        let key = |entry: &Entry| (entry.is_file, entry.name.clone());
        listing.entries.sort_by_cached_key(key);
        Ok(listing)
    }

    /// Whom it is for.
    pub(crate) fn client(&self) -> Option<Client> {
        self.client
    }

    /// Its text for the folder with this path; none where too many lists are being sent.
    pub(crate) fn text(&self, form: ListingForm, path: &str) -> Option<ListText> {
        let text = match form {
            ListingForm::Html => self.html(path),
            ListingForm::Json => self.json(),
        };
        self.room.send(self.client, text)
    }

    /// A page in HTML for the folder with this path, as it was asked for.
    fn html(&self, path: &str) -> String {
        let title = escaped(&readable(path));
        let mut out = format!(
            "<!doctype html>\n<html><head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
             <body><h1>{title}</h1>\n<table>\n"
        );
        if path != "/" {
            out.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
        }
        for entry in &self.entries {
            let slash = if entry.is_file { "" } else { "/" };
            let modified = entry.modified.and_then(http_date).unwrap_or_default();
            let length = entry.length.map(|length| length.to_string()).unwrap_or_default();
            // Invariant: writing to a string does not fail.
            let _ = writeln!(
                out,
                "<tr><td><a href=\"./{}{slash}\">{}{slash}</a></td><td>{modified}</td><td>{length}</td></tr>",
                encoded(&entry.name),
                escaped(&String::from_utf8_lossy(&entry.name)),
            );
        }
        out.push_str("</table>\n");
        if self.is_cut {
            let _ = writeln!(out, "<p>There is more: the first {ENTRIES_MAX} are shown.</p>");
        }
        out.push_str("</body></html>\n");
        out
    }

    /// The same as JSON: a list of objects with `name`, `type`, `size` and `modified`.
    fn json(&self) -> String {
        let mut out = String::from("[");
        for (place, entry) in self.entries.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let kind = if entry.is_file { "file" } else { "folder" };
            let _ = write!(
                out,
                "{comma}\n{{\"name\":{},\"url\":\"./{}\",\"type\":\"{kind}\"",
                quoted(&String::from_utf8_lossy(&entry.name)),
                encoded(&entry.name),
            );
            if let Some(length) = entry.length {
                let _ = write!(out, ",\"size\":{length}");
            }
            if let Some(modified) = entry.modified.and_then(http_date) {
                let _ = write!(out, ",\"modified\":\"{modified}\"");
            }
            out.push('}');
        }
        out.push_str("\n]\n");
        out
    }
}

/// A path for people.
fn readable(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A text for HTML, in an element or a quoted attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // They would turn the letters around that follow.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.push(char::REPLACEMENT_CHARACTER);
            }
            letter => out.push(letter),
        }
    }
    out
}

/// A name as a segment of a URL's path (RFC 3986 §3.3).
fn encoded(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(*byte))
            }
            byte => {
                // Invariant: writing to a string does not fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// A string of JSON (RFC 8259 §7).
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => {
                // Invariant: writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::{Entry, Listing, Room};

    #[test]
    fn names_cannot_become_markup() {
        let name = "<img src=x onerror=alert(1)>&\"'.html";
        let entry = Entry { is_file: true, name: name.into(), length: Some(3), modified: None };
        let folder = Entry { is_file: false, name: b"a b".into(), length: None, modified: None };
        let entries = vec![folder, entry];
        let listing = Listing { entries, is_cut: true, room: Room::default(), client: None, _taken: None };
        let html = listing.html("/%3Cscript%3E/");
        assert!(!html.contains("<img") && !html.contains("<script>"), "{html}");
        assert!(html.contains("&lt;script&gt;") && html.contains("href=\"./a%20b/\""), "{html}");
        assert!(html.contains("There is more"), "{html}");
        let json = listing.json();
        assert!(json.contains("\\\"'.html\"") && json.contains("\"size\":3"), "{json}");
        assert_eq!(super::escaped("a\u{202e}txt.exe"), "a\u{fffd}txt.exe");
    }
}
