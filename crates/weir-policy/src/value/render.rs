//! Rendering: a value as bytes. What stands for a placeholder is written as its place demands, so that it
//! can never end a line, a field or a path.

use super::table::What;
use super::{Filter, Part, Placeholder, Value};
use crate::cookies::cookies;
use crate::request::{RequestView, split_port};

/// What is known of a request.
pub trait Known {
    /// Appends what stands for a placeholder: of several fields, cookies or parameters of a name the first.
    /// False where there is none; then nothing is appended.
    fn write(&self, what: &What, out: &mut Vec<u8>) -> bool;

    /// Calls `to` with all that stands for it, in order.
    fn each(&self, what: &What, to: &mut dyn FnMut(&[u8])) {
        let mut out = Vec::new();
        if self.write(what, &mut out) {
            to(&out);
        }
    }
}

/// What becomes of bytes that would mean something where the value goes, and of what there is none of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As they are; nothing where there is none. The caller refuses what is no value of a field.
    Plain,
    /// All but visible ASCII percent-encoded; nothing where there is none.
    Url,
    /// As [`Style::Url`], and `?` and `#` of single texts as well, so that they stay in the path. Behind the
    /// first `?` also what would end a parameter or its name, or is a blank there: `&`, `;`, `=` and `+`.
    Path,
    /// Quotes, backslashes and all but visible ASCII as `\xHH`; `-` where there is none. What stands for a
    /// placeholder is cut off behind [`LOG_BYTES_MAX`].
    Log,
}

/// The longest text of a request in a line of a log, in bytes as received.
pub const LOG_BYTES_MAX: usize = 2 << 10;

impl Value {
    /// Appends the value.
    pub fn write(&self, known: &dyn Known, style: Style, out: &mut Vec<u8>) {
        let begin = out.len();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Of(placeholder) => {
                    let is_in_query = style == Style::Path && out[begin..].contains(&b'?');
                    placeholder.write(known, Place { style, is_in_query }, out);
                }
            }
        }
    }

    /// The value as bytes of its own.
    pub fn render(&self, known: &dyn Known, style: Style) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        self.write(known, style, &mut out);
        out
    }
}

/// Where a placeholder stands.
#[derive(Clone, Copy)]
struct Place {
    style: Style,
    /// Behind the `?` of a target.
    is_in_query: bool,
}

impl Placeholder {
    fn write(&self, known: &dyn Known, place: Place, out: &mut Vec<u8>) {
        let begin = out.len();
        let is_there = known.write(&self.what, out);
        if place.style == Style::Log {
            out.truncate(begin + LOG_BYTES_MAX);
        }
        match self.filtered(is_there, begin, out) {
            Filtered::Json => {}
            Filtered::There if place.style == Style::Plain => {}
            Filtered::There => escape(place, &self.what, begin, out),
            Filtered::None if place.style == Style::Log => out.push(b'-'),
            Filtered::None => {}
        }
    }

    /// Applies the filters to what follows `begin`.
    fn filtered(&self, mut is_there: bool, begin: usize, out: &mut Vec<u8>) -> Filtered {
        let mut is_json = false;
        for filter in &self.filters {
            match filter {
                Filter::Default(text) if out.len() == begin => {
                    out.extend_from_slice(text.as_bytes());
                    is_there = true;
                }
                Filter::Default(_) => {}
                Filter::Lower => out[begin..].make_ascii_lowercase(),
                Filter::Json if !is_there => {
                    out.extend_from_slice(b"null");
                    (is_there, is_json) = (true, true);
                }
                Filter::Json => {
                    let text = out.split_off(begin);
                    json(&String::from_utf8_lossy(&text), out);
                    is_json = true;
                }
            }
        }
        match (is_there, is_json) {
            (_, true) => Filtered::Json,
            (true, _) => Filtered::There,
            (false, _) => Filtered::None,
        }
    }

    /// Appends lines that tell requests apart by this placeholder: one for each field, cookie or parameter
    /// of the name. No name has `=`, and no value a line break, so that no line can look like another.
    pub fn write_key_lines(&self, known: &dyn Known, out: &mut Vec<u8>) {
        let mut has_any = false;
        known.each(&self.what, &mut |value| {
            has_any = true;
            self.key_line(Some(value), out);
        });
        if !has_any {
            self.key_line(None, out);
        }
    }

    /// A line; one with the name alone where there is no value: absent and empty differ.
    fn key_line(&self, value: Option<&[u8]>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\nvalue ");
        out.extend_from_slice(self.what.to_string().as_bytes());
        let mut text = value.unwrap_or_default().to_vec();
        let filtered = self.filtered(value.is_some(), 0, &mut text);
        if !matches!(filtered, Filtered::None) {
            out.push(b'=');
            out.extend(text.iter().map(|byte| if matches!(byte, b'\n' | b'\r' | 0) { b'?' } else { *byte }));
        }
    }
}

/// What the filters have made of a placeholder's text.
#[derive(Clone, Copy)]
enum Filtered {
    None,
    There,
    Json,
}

impl What {
    /// Whether it is a single text, in which `?` begins no query.
    fn is_single(&self) -> bool {
        !matches!(self, What::Query | What::Uri)
    }

    /// Whether a byte of the text would mean something in a query where the text stands for one parameter's
    /// value. What maps say is the operator's, and a `+` of a query has been a blank there before.
    fn means_something(&self, byte: u8) -> bool {
        match byte {
            b'&' | b';' | b'=' => self.is_single() && !matches!(self, What::Map(_)),
            b'+' => self.is_single() && !matches!(self, What::Map(_) | What::QueryOf(_)),
            _ => false,
        }
    }
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Rewrites what follows `begin`, where it has bytes that must not stay.
fn escape(place: Place, what: &What, begin: usize, out: &mut Vec<u8>) {
    let (style, is_single) = (place.style, what.is_single());
    let must_go = |byte: &u8| match style {
        _ if place.is_in_query && what.means_something(*byte) => true,
        Style::Plain => false,
        Style::Url => !byte.is_ascii_graphic(),
        Style::Path => !byte.is_ascii_graphic() || *byte == b'#' || (is_single && *byte == b'?'),
        Style::Log => matches!(byte, b'"' | b'\\') || !(0x20..0x7f).contains(byte),
    };
    if !out[begin..].iter().any(must_go) {
        return;
    }
    let text = out.split_off(begin);
    let mark: &[u8] = if style == Style::Log { b"\\x" } else { b"%" };
    for byte in text {
        if must_go(&byte) {
            out.extend_from_slice(mark);
            out.extend([byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]));
        } else {
            out.push(byte);
        }
    }
}

/// A JSON string in visible ASCII and spaces (RFC 8259 §7).
fn json(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
            ' '..='~' => out.push(c as u8),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let digits = [12, 8, 4, 0].map(|shift| HEX[usize::from(*unit >> shift & 15)]);
                    out.extend_from_slice(b"\\u");
                    out.extend(digits.map(|digit| digit.to_ascii_lowercase()));
                }
            }
        }
    }
    out.push(b'"');
}

/// Appends what a request itself says of a placeholder. None where it is not the request that knows.
pub fn of_request(view: &RequestView<'_>, what: &What, out: &mut Vec<u8>) -> Option<bool> {
    let text: Option<&[u8]> = match what {
        What::Method => Some(view.method.as_str().as_bytes()),
        What::Scheme => Some(view.scheme.as_bytes()),
        What::Host => Some(view.host.as_bytes()),
        What::Hostname => Some(view.hostname().as_bytes()),
        What::Port => Some(split_port(view.host).1.unwrap_or(default_port(view.scheme)).as_bytes()),
        What::Path => Some(view.path().as_bytes()),
        What::Query => query(view).map(str::as_bytes),
        What::Uri => Some(view.path_and_query.as_bytes()),
        What::QueryOf(name) => parameters(view, name).next().map(str::as_bytes),
        What::Header(name) => view.headers.get(name).map(|value| value.as_bytes()),
        What::Cookie(name) => {
            let mut all = cookies(view.headers).filter(|(found, _)| *found == name.as_bytes());
            all.next().map(|(_, value)| value)
        }
        _ => return None,
    };
    out.extend_from_slice(text.unwrap_or_default());
    Some(text.is_some())
}

/// What a request says by itself, with nothing beside it.
impl Known for RequestView<'_> {
    fn write(&self, what: &What, out: &mut Vec<u8>) -> bool {
        of_request(self, what, out).unwrap_or(false)
    }

    fn each(&self, what: &What, to: &mut dyn FnMut(&[u8])) {
        let mut out = Vec::new();
        if !each_of_request(self, what, to) && self.write(what, &mut out) {
            to(&out);
        }
    }
}

/// Calls `to` with all that a request itself says of a placeholder. False where it is not the request that
/// knows, or can have only one.
pub fn each_of_request(view: &RequestView<'_>, what: &What, to: &mut dyn FnMut(&[u8])) -> bool {
    match what {
        What::QueryOf(name) => parameters(view, name).for_each(|value| to(value.as_bytes())),
        What::Header(name) => view.headers.get_all(name).iter().for_each(|value| to(value.as_bytes())),
        What::Cookie(name) => {
            let all = cookies(view.headers).filter(|(found, _)| *found == name.as_bytes());
            all.for_each(|(_, value)| to(value));
        }
        _ => return false,
    }
    true
}

fn query<'a>(view: &RequestView<'a>) -> Option<&'a str> {
    view.path_and_query.split_once('?').map(|(_, query)| query)
}

/// The values of a parameter, as received.
fn parameters<'a>(view: &RequestView<'a>, name: &str) -> impl Iterator<Item = &'a str> {
    let all = query(view).unwrap_or_default().split('&');
    all.filter_map(move |parameter| match parameter.split_once('=') {
        Some((found, value)) => (found == name).then_some(value),
        None => (parameter == name && !parameter.is_empty()).then_some(""),
    })
}

fn default_port(scheme: &str) -> &'static str {
    if scheme == "https" { "443" } else { "80" }
}
