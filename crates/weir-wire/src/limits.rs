//! The limits of a head, each with the status that passing it costs.

/// What a head may hold. The same limits bound the trailers of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the start line without its CRLF; more is 414. Field lines are bounded by `head_bytes_max`
    /// alone.
    pub line_bytes_max: usize,
    /// Bytes of the whole head with its empty line; more is 431.
    pub head_bytes_max: usize,
    /// Field lines of a head; more is 431.
    pub fields_max: usize,
}

impl Limits {
    /// The limits of an origin's response: 64 KiB of head, 200 fields.
    #[must_use]
    pub fn origin() -> Self {
        Self { line_bytes_max: 8192, head_bytes_max: 65_536, fields_max: 200 }
    }

    /// A start line can never be longer than its head, so that the order of the two refusals does not depend
    /// on how the bytes arrived.
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
