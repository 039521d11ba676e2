//! A record as a line: JSON, the combined format, or the columns a person reads on a terminal. Pure; the
//! caller writes.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use super::record::{Completion, Outcome, Record, Sharing, Storing};

const TARGET_COLUMNS_MIN: usize = 12;
const OUTCOME_COLUMNS_MIN: usize = 4;
/// What a terminal line needs besides its target and reason.
const OTHER_COLUMNS: usize = 72;

/// `2026-11-20T12:00:01.123Z`.
pub(super) fn rfc3339(wall: SystemTime) -> String {
    format!("{:.3}", timestamp(wall))
}

/// As [`rfc3339`], with microseconds: what several files say is put in order by it.
pub(super) fn rfc3339_exact(wall: SystemTime) -> String {
    format!("{:.6}", timestamp(wall))
}

/// A JSON object and a line feed.
pub(super) fn json(object: &impl Serialize, out: &mut Vec<u8>) {
    let before = out.len();
    match object.serialize(&mut Serializer::with_formatter(&mut *out, Escaping)) {
        Ok(()) => out.push(b'\n'),
        Err(_) => out.truncate(before),
    }
}

/// A value as JSON that does nothing to a terminal.
///
/// # Errors
/// The value's own.
pub fn plain_json(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut out, Escaping))?;
    Ok(out)
}

/// The line that the record has. A request of an earlier configuration has none, and gets a JSON object.
pub(super) fn own(record: &Record, out: &mut Vec<u8>) {
    match &record.description.line {
        Some(line) => {
            out.extend_from_slice(line);
            out.push(b'\n');
        }
        None => json(record, out),
    }
}

/// JSON in which every character that controls a terminal is escaped: people read lines with clients' fields
/// on terminals.
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut shown = 0;
        for (at, c) in fragment.char_indices().filter(|(_, c)| steers(*c)) {
            writer.write_all(&fragment.as_bytes()[shown..at])?;
            writer.write_all(escaped(c).as_bytes())?;
            shown = at + c.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[shown..])
    }
}

/// A character as JSON escapes it: two escapes where it is beyond U+FFFF.
pub fn escaped(c: char) -> String {
    c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// Whether a character moves the cursor, ends a line, turns the direction of writing, or is not seen at all:
/// two texts that look the same would differ. The last are those with `Default_Ignorable_Code_Point` of
/// Unicode 16, and the other format characters (`Cf`) without a shape of their own.
pub fn steers(c: char) -> bool {
    // A text without any is looked at fast.
    !c.is_ascii() && is_unseen(c) || c.is_control()
}

fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// The combined format of Apache and nginx, in the zone `zone`.
pub(super) fn combined(record: &Record, zone: &TimeZone, out: &mut Vec<u8>) {
    let texts = &record.description;
    let time = timestamp(texts.wall).to_zoned(zone.clone()).strftime("%d/%b/%Y:%H:%M:%S %z").to_string();
    out.extend_from_slice(or_dash(&texts.client).as_bytes());
    out.extend_from_slice(b" - - [");
    out.extend_from_slice(time.as_bytes());
    out.extend_from_slice(b"] \"");
    if let Some(method) = &texts.method {
        quoted(method.as_str(), out);
        out.push(b' ');
        quoted(&texts.target, out);
        out.push(b' ');
        quoted(texts.version, out);
    } else {
        out.push(b'-');
    }
    out.extend_from_slice(format!("\" {} {} \"", record.facts.status, record.facts.body_bytes).as_bytes());
    quoted(texts.referer.as_deref().unwrap_or("-"), out);
    out.extend_from_slice(b"\" \"");
    quoted(texts.user_agent.as_deref().unwrap_or("-"), out);
    out.extend_from_slice(b"\"\n");
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// Text inside double quotes: quotes, backslashes and everything but visible ASCII become `\xHH`, so that a
/// line stays a line.
fn quoted(text: &str, out: &mut Vec<u8>) {
    for &byte in text.as_bytes() {
        match byte {
            b'"' | b'\\' | 0..=0x1f | 0x7f.. => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                out.extend_from_slice(b"\\x");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
            _ => out.push(byte),
        }
    }
}

/// Whether a terminal line is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// No escape sequences.
    Never,
    /// Outcomes and errors in colour.
    Always,
}

/// The terminal's lines: columns that widen as longer words come, and never narrow.
#[derive(Debug)]
pub(super) struct TerminalLines {
    colour: Colour,
    zone: TimeZone,
    target_columns: usize,
    target_columns_max: usize,
    outcome_columns: usize,
    hinted: bool,
}

impl TerminalLines {
    pub(super) fn new(columns: usize, colour: Colour, zone: TimeZone) -> Self {
        TerminalLines {
            colour,
            zone,
            target_columns: TARGET_COLUMNS_MIN,
            target_columns_max: columns.saturating_sub(OTHER_COLUMNS).clamp(24, 60),
            outcome_columns: OUTCOME_COLUMNS_MIN,
            hinted: false,
        }
    }

    /// One line, and once a second one with a hint.
    pub(super) fn line(&mut self, record: &Record, out: &mut Vec<u8>) {
        let (facts, texts) = (&record.facts, &record.description);
        let time = timestamp(texts.wall).to_zoned(self.zone.clone()).strftime("%H:%M:%S").to_string();
        let method = texts.method.as_ref().map_or("-", |method| method.as_str());
        let target = format!("{method} {}", shortened(or_dash(&texts.target), self.target_columns_max));
        self.target_columns = self.target_columns.max(target.chars().count());
        self.outcome_columns = self.outcome_columns.max(facts.outcome.word().len());
        let status = if facts.status == 0 { "  -".to_owned() } else { facts.status.to_string() };
        let mut line = String::with_capacity(120);
        // Invariant: writing to a String cannot fail.
        let _ = write!(
            line,
            "{time}  {target:<target_columns$}  {status}  {}  {:>7}  {:>7}  {}",
            self.coloured(facts.outcome, facts.status),
            size(facts.body_bytes),
            took(facts.total),
            reason(record),
            target_columns = self.target_columns,
        );
        out.extend_from_slice(line.trim_end().as_bytes());
        out.push(b'\n');
        if facts.storing == Storing::NotStored("no-freshness") && !self.hinted {
            self.hinted = true;
            out.extend_from_slice(
                b"          hint: the origin names no lifetime for this; --ttl 60s stores such answers for a \
                  minute\n",
            );
        }
    }

    fn coloured(&self, outcome: Outcome, status: u16) -> String {
        let word = format!("{:<width$}", outcome.word(), width = self.outcome_columns);
        if self.colour == Colour::Never {
            return word;
        }
        let code = match outcome {
            _ if status >= 500 || status == 0 => "31",
            Outcome::Hit | Outcome::Stale | Outcome::Revalidated => "32",
            Outcome::Miss => "33",
            Outcome::Refused => "31",
            Outcome::Pass | Outcome::Local => "36",
        };
        format!("\x1b[{code}m{word}\x1b[0m")
    }
}

/// The reason: the last column.
fn reason(record: &Record) -> String {
    let facts = &record.facts;
    let ended = match facts.completion {
        Completion::Whole => "",
        Completion::Cut => "; cut before its end",
        Completion::ClientGone => "; the client left",
    };
    let shared = if facts.sharing == Sharing::Joined { ", read another's download" } else { "" };
    let detail = facts.detail;
    let said = match (facts.outcome, facts.storing, facts.ttl_left_s) {
        (Outcome::Hit, _, Some(left_s)) => format!("{left_s} s left"),
        (Outcome::Stale, _, Some(left_s)) if detail.is_empty() => format!("stale for {} s", -left_s),
        (Outcome::Stale, _, Some(left_s)) => format!("stale for {} s ({detail})", -left_s),
        (Outcome::Revalidated, Storing::Stored { ttl_s, source }, _) => {
            format!("unchanged, {ttl_s} s more ({source})")
        }
        (Outcome::Revalidated, _, Some(left_s)) => format!("unchanged, {left_s} s left"),
        (_, Storing::Stored { ttl_s, source }, _) => format!("stored {ttl_s} s ({source})"),
        (_, Storing::NotStored(word), _) => format!("not stored: {word}"),
        _ => detail.to_owned(),
    };
    said + shared + ended
}

/// `842 B`, `18.4 kB`, `123 MB`: powers of a thousand, seven columns at most.
pub(super) fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["kB", "MB", "GB", "TB"] {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    if value < 99.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// `0.06 ms`, `8.4 ms`, `84 ms`, `12.3 s`.
pub(super) fn took(duration: Duration) -> String {
    let ms = duration.as_secs_f64() * 1000.0;
    if ms < 0.995 {
        format!("{ms:.2} ms")
    } else if ms < 9.95 {
        format!("{ms:.1} ms")
    } else if ms < 9_999.5 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.1} s", ms / 1000.0)
    }
}

/// The text with replacements for what would move the cursor, and an ellipsis where it is too long.
fn shortened(text: &str, columns_max: usize) -> String {
    let visible = |c: char| if steers(c) { '?' } else { c };
    if text.chars().count() <= columns_max {
        return text.chars().map(visible).collect();
    }
    text.chars().take(columns_max - 1).map(visible).chain(['…']).collect()
}

fn timestamp(wall: SystemTime) -> Timestamp {
    Timestamp::try_from(wall).unwrap_or(Timestamp::UNIX_EPOCH)
}
