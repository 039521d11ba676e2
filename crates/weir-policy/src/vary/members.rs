//! The normal form of a list field with an unknown meaning: all lines as one, without the blanks around
//! commas and at both ends. Quoted strings are not touched.

use http::HeaderValue;

/// The bytes of a field's normal form in order, without a buffer.
pub(super) struct Members<'a, I: Iterator<Item = &'a HeaderValue>> {
    lines: I,
    line: &'a [u8],
    at: usize,
    /// Blanks before this position belong to a member.
    kept_to: usize,
    quoted: bool,
    escaped: bool,
}

impl<'a, I: Iterator<Item = &'a HeaderValue>> Members<'a, I> {
    pub(super) fn of(mut lines: I) -> Members<'a, I> {
        let line = lines.next().map_or(&b""[..], |line| line.as_bytes().trim_ascii());
        Members { lines, line, at: 0, kept_to: 0, quoted: false, escaped: false }
    }

    /// Looks at the run of blanks that begins at `at`. Leaves it out beside a comma, and keeps it elsewhere.
    fn blanks(&mut self, at: usize) {
        let run = self.line[at..].iter().take_while(|byte| is_blank(**byte)).count();
        let end = at + run;
        if self.line.get(end) == Some(&b',') || (at > 0 && self.line[at - 1] == b',') {
            self.at = end;
        } else {
            self.kept_to = end;
        }
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
                (self.at, self.kept_to, self.quoted, self.escaped) = (0, 0, false, false);
                return Some(b',');
            };
            if is_blank(byte) && !self.quoted && self.at >= self.kept_to {
                self.blanks(self.at);
                continue;
            }
            self.at += 1;
            self.step(byte);
            return Some(byte);
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The normal form of a field, to be stored.
pub(super) fn normal_form<'a>(lines: impl Iterator<Item = &'a HeaderValue>) -> Box<[u8]> {
    Members::of(lines).collect()
}
