//! The normal form of a list field that nothing is known of: all lines as one, without the blanks around commas
//! and at both ends. Nothing inside a quoted string is touched.

use http::HeaderValue;

/// The bytes of a field's normal form, one after the other, without a buffer.
pub(super) struct Members<'a, I: Iterator<Item = &'a HeaderValue>> {
    lines: I,
    line: &'a [u8],
    at: usize,
    quoted: bool,
    escaped: bool,
}

impl<'a, I: Iterator<Item = &'a HeaderValue>> Members<'a, I> {
    pub(super) fn of(mut lines: I) -> Members<'a, I> {
        let line = lines.next().map_or(&b""[..], |line| line.as_bytes().trim_ascii());
        Members { lines, line, at: 0, quoted: false, escaped: false }
    }

    /// Whether the blank at `at` stands beside a comma.
    fn is_loose(&self, at: usize) -> bool {
        let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
        let before = self.line[..at].iter().rev().find(|byte| !is_blank(byte));
        let after = self.line[at..].iter().find(|byte| !is_blank(byte));
        before == Some(&b',') || after == Some(&b',')
    }

    fn step(&mut self, byte: u8) {
        if self.escaped {
            self.escaped = false;
        } else if self.quoted && byte == b'\\' {
            self.escaped = true;
        } else if byte == b'"' {
            self.quoted = !self.quoted;
        }
    }
}

impl<'a, I: Iterator<Item = &'a HeaderValue>> Iterator for Members<'a, I> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        loop {
            let Some(byte) = self.line.get(self.at).copied() else {
                self.line = self.lines.next()?.as_bytes().trim_ascii();
                (self.at, self.quoted, self.escaped) = (0, false, false);
                return Some(b',');
            };
            let at = self.at;
            self.at += 1;
            if !self.quoted && matches!(byte, b' ' | b'\t') && self.is_loose(at) {
                continue;
            }
            self.step(byte);
            return Some(byte);
        }
    }
}

/// The normal form of a field, to be kept.
pub(super) fn normal_form<'a>(lines: impl Iterator<Item = &'a HeaderValue>) -> Box<[u8]> {
    Members::of(lines).collect()
}
