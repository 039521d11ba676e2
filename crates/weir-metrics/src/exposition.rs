//! Prometheus' text: a line a series, `name{label="value"} number [time]`; OpenMetrics' as far as it is the
//! same. It is read as a stream, line by line. One line that is none of that, and the page counts for
//! nothing.

use std::collections::HashSet;
use std::time::Instant;

use crate::samples::{Samples, Times};

/// The largest page, in bytes.
pub(crate) const PAGE_BYTES_MAX: u64 = 16 << 20;
/// The longest line, in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The most labels of a series.
const LABELS_MAX: usize = 64;

/// Why a page counts for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub(crate) struct PageError {
    line: u64,
    why: &'static str,
}

/// A page that is being read.
#[derive(Debug)]
pub(crate) struct Page<'w> {
    samples: Samples,
    /// The names whose labels are wanted.
    wanted: &'w HashSet<String>,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    lines: u64,
}

impl<'w> Page<'w> {
    pub(crate) fn new(wanted: &'w HashSet<String>, now: Instant) -> Page<'w> {
        Page { samples: Samples::new(now), wanted, begun: Vec::new(), lines: 0 }
    }

    /// Takes a piece of the page.
    ///
    /// # Errors
    /// The page counts for nothing.
    pub(crate) fn feed(&mut self, mut piece: &[u8]) -> Result<(), PageError> {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&piece[..end], &piece[end + 1..]);
            match self.begun.is_empty() {
                true => self.line(line)?,
                false => {
                    let mut whole = std::mem::take(&mut self.begun);
                    whole.extend_from_slice(line);
                    self.line(&whole)?;
                }
            }
            piece = rest;
        }
        self.begun.extend_from_slice(piece);
        if self.begun.len() > LINE_BYTES_MAX {
            return Err(PageError { line: self.lines + 1, why: "the line is too long" });
        }
        Ok(())
    }

    /// The page has ended.
    ///
    /// # Errors
    /// It counts for nothing.
    pub(crate) fn end(mut self) -> Result<Samples, PageError> {
        if !self.begun.is_empty() {
            let last = std::mem::take(&mut self.begun);
            self.line(&last)?;
        }
        match self.samples.names().is_empty() {
            true => Err(PageError { line: self.lines, why: "the page has no series" }),
            false => Ok(self.samples),
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), PageError> {
        self.lines += 1;
        let fault = |why| PageError { line: self.lines, why };
        if line.len() > LINE_BYTES_MAX {
            return Err(fault("the line is too long"));
        }
        let text = std::str::from_utf8(line).map_err(|_| fault("this is not UTF-8"))?.trim();
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        let (name, rest) = name(text).map_err(fault)?;
        let is_wanted = self.wanted.contains(name);
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest, is_wanted).map_err(fault)?,
            None => (is_wanted.then(Vec::new), rest),
        };
        // A time may follow, and in OpenMetrics an example. Weir knows when it has read the page.
        let word = rest.split_ascii_whitespace().next().ok_or_else(|| fault("there is no value"))?;
        let value = number(word).ok_or_else(|| fault("the value is no number"))?;
        self.samples.add(name, labels, value, Times::default());
        Ok(())
    }
}

/// The name at the beginning, and what follows.
fn name(text: &str) -> Result<(&str, &str), &'static str> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'.');
    let end = text.bytes().take_while(|byte| is_part(byte)).count();
    let (name, rest) = text.split_at(end);
    match name.bytes().next() {
        None => Err("a series begins with its name"),
        Some(first) if first.is_ascii_digit() => Err("a name begins with a letter"),
        Some(_) if rest.starts_with('{') => Ok((name, rest)),
        Some(_) if rest.starts_with([' ', '\t']) => match rest.trim_start().strip_prefix('{') {
            Some(_) => Ok((name, rest.trim_start())),
            None => Ok((name, rest)),
        },
        Some(_) => Err("a name is followed by labels or a value"),
    }
}

type Labels = Option<Vec<(Box<str>, Box<str>)>>;

/// The labels up to the `}`, where they are wanted, and what follows.
fn labels(mut rest: &str, is_wanted: bool) -> Result<(Labels, &str), &'static str> {
    let mut found = Vec::new();
    let mut count = 0;
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            found.sort_unstable();
            return Ok((is_wanted.then_some(found), after));
        }
        let end = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        let (label, after) = rest.split_at(end);
        count += 1;
        if label.is_empty() || count > LABELS_MAX {
            return Err(if label.is_empty() { "a label has a name" } else { "too many labels" });
        }
        let after = after.trim_start().strip_prefix('=').ok_or("a label has `=`")?;
        let after = after.trim_start().strip_prefix('"').ok_or("the value of a label is in quotes")?;
        let (value, after) = quoted(after).ok_or("the value of a label does not end")?;
        if is_wanted {
            found.push((label.into(), value.into_boxed_str()));
        }
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest.starts_with('}') => {}
            None => return Err("labels are separated by commas"),
        }
    }
}

/// A text up to its quote, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            _ => value.push(letter),
        }
    }
    None
}

/// A number as Go prints it.
fn number(word: &str) -> Option<f64> {
    match word {
        "+Inf" | "Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        _ if word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) => {
            word.parse().ok()
        }
        _ => None,
    }
}

/// Promises of the parser, for fuzz targets.
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing {
    use super::Page;
    use crate::samples::Samples;
    use std::collections::HashSet;

    /// A page in pieces of this size.
    pub(crate) fn read(page: &[u8], size: usize) -> Result<Samples, super::PageError> {
        let wanted = HashSet::from(["a".to_owned(), "node_cpu_seconds_total".to_owned()]);
        let mut reader = Page::new(&wanted, crate::clock::now());
        for piece in page.chunks(size) {
            reader.feed(piece)?;
        }
        reader.end()
    }

    /// A page says the same in one piece and in many.
    pub fn exposition(page: &[u8]) {
        let (whole, pieces) = (read(page, usize::MAX), read(page, 7));
        match (whole, pieces) {
            (Ok(whole), Ok(pieces)) => {
                assert_eq!(whole.names(), pieces.names());
                for name in whole.names() {
                    let of = |samples: &Samples| samples.get(name).map(|named| named.series.clone());
                    assert_eq!(of(&whole), of(&pieces));
                }
            }
            (whole, pieces) => assert_eq!(whole.is_ok(), pieces.is_ok()),
        }
    }
}

#[cfg(test)]
mod tests;
