//! A body of several parts: `multipart/byteranges` (RFC 9110 §14.6, RFC 2046 §5.1.1). Its length is known
//! before the first byte, and one part is read at a time. It must not decide which parts are sent.

use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use http::HeaderValue;
use weir_body::{Body, Cut, kept};
use weir_policy::{Interval, Parts};

/// The delimiters and heads of the parts.
pub(crate) struct Form {
    boundary: String,
    /// The Content-Type of the whole representation.
    content_type: Option<HeaderValue>,
    parts: Parts,
}

impl Form {
    /// A form for `parts`. Nobody can predict its boundary, so that no body contains it.
    pub(crate) fn new(parts: Parts, content_type: Option<HeaderValue>) -> Form {
        // The standard library's hash seeds come from the system's random source.
        let word = |number: u64| RandomState::new().hash_one(number);
        Form { boundary: format!("{:016x}{:016x}", word(0), word(1)), content_type, parts }
    }

    /// The Content-Type of the response.
    pub(crate) fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// Length of the body in bytes: all parts with their delimiters and heads.
    pub(crate) fn length(&self) -> u64 {
        let part = |at| self.part(at).map(|(text, part)| text.len() as u64 + part.length());
        (0..).map_while(part).sum::<u64>() + self.closing().len() as u64
    }

    /// The bytes of the first part.
    pub(crate) fn first(&self) -> Interval {
        self.part(0).map_or(Interval::new(0, 0), |(_, part)| part)
    }

    /// The delimiter and head of a part, and its bytes.
    fn part(&self, at: usize) -> Option<(Bytes, Interval)> {
        let (part, range) = self.parts.iter().nth(at)?;
        let mut text = Vec::with_capacity(160);
        text.extend_from_slice(if at == 0 { b"--" } else { b"\r\n--" });
        text.extend_from_slice(self.boundary.as_bytes());
        text.extend_from_slice(b"\r\n");
        if let Some(content_type) = &self.content_type {
            weir_wire::print::field(&mut text, "Content-Type", content_type.as_bytes());
        }
        weir_wire::print::field(&mut text, "Content-Range", range.to_string().as_bytes());
        text.extend_from_slice(b"\r\n");
        Some((text.into(), part))
    }

    /// The closing delimiter.
    fn closing(&self) -> Bytes {
        let mut text = String::with_capacity(40);
        // Invariant: writing to a string does not fail.
        let _ = write!(text, "\r\n--{}--\r\n", self.boundary);
        text.into()
    }
}

/// A body any part of which can be sent.
pub(crate) trait Turn: Body {
    /// Goes on with these bytes of the same version.
    fn turn_to(&mut self, of: Interval);
}

/// The parts of a body in a [`Form`].
pub(crate) struct Multipart<B> {
    form: Form,
    /// The source of the current part's bytes.
    source: B,
    /// Parts begun; one more once the closing delimiter has begun.
    begun: usize,
    /// Bytes of the form to be sent before the next byte of the current part.
    text: Bytes,
    /// Bytes of the current part that have not been sent.
    left: u64,
}

impl<B: Turn> Multipart<B> {
    /// The parts of `source`, which is positioned at the first of them.
    pub(crate) fn new(form: Form, source: B) -> Multipart<B> {
        Multipart { form, source, begun: 0, text: Bytes::new(), left: 0 }
    }

    /// Begins the next part, or the closing delimiter. False where nothing is left.
    fn turn(&mut self) -> bool {
        match self.form.part(self.begun) {
            Some((text, part)) => {
                if self.begun > 0 {
                    self.source.turn_to(part);
                }
                (self.text, self.left) = (text, part.length());
            }
            None if self.begun == self.form.parts.iter().len() => self.text = self.form.closing(),
            None => return false,
        }
        self.begun += 1;
        true
    }
}

impl<B: Turn> Body for Multipart<B> {
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        loop {
            if !self.text.is_empty() {
                let bytes = self.text.split_to(self.text.len().min(bytes_max));
                return Ok(Some(bytes));
            }
            if self.left > 0 {
                let bytes_max = usize::try_from(self.left).map_or(bytes_max, |left| left.min(bytes_max));
                let piece = self.source.next(bytes_max).await?;
                let piece = piece.ok_or(Cut { word: "body-too-short" })?;
                let sent = piece.len() as u64;
                self.left = self.left.checked_sub(sent).ok_or(Cut { word: "body-too-long" })?;
                return Ok(Some(piece));
            }
            if !self.turn() {
                return Ok(None);
            }
        }
    }

    fn let_go(&mut self, unsent: Bytes) -> Option<Bytes> {
        self.source.let_go(Bytes::new());
        // Which of the parts they are of is not kept. They may be a slice of a whole body.
        kept(Bytes::copy_from_slice(&unsent))
    }

    fn may_let_go(&self) -> bool {
        self.source.may_let_go()
    }

    fn holds_origin(&self) -> bool {
        self.source.holds_origin()
    }
}

#[cfg(test)]
mod tests;
