//! The limits of a head, each with the status of passing it.

/// What a head may have. The same limits bound the trailers of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The bytes of the start line without its CRLF. A longer one is 414. Only `head_bytes_max` bounds field
    /// lines.
    pub line_bytes_max: usize,
    /// The bytes of the whole head with its empty line. A longer one is 431.
    pub head_bytes_max: usize,
    /// The field lines of a head. More are 431.
    pub fields_max: usize,
}

impl Limits {
    /// The limits of an origin's response: 64 KiB of head, 200 fields.
    #[must_use]
    pub fn origin() -> Self {
        Self { line_bytes_max: 8192, head_bytes_max: 65_536, fields_max: 200 }
    }

    /// A start line is never longer than its head, so that the order of the two refusals does not depend on
    /// how the bytes arrive.
    pub(crate) fn start_line_bytes_max(&self) -> usize {
        self.line_bytes_max.min(self.head_bytes_max.saturating_sub(4))
    }
}

impl Default for Limits {
    /// The limits of a client's request: a line of 8 KiB, 32 KiB of head, 100 fields.
    fn default() -> Self {
        Self { line_bytes_max: 8192, head_bytes_max: 32_768, fields_max: 100 }
    }
}
