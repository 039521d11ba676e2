//! Finds the lines of a head as its bytes arrive. It looks at each byte once.
//!
//! A refusal belongs to the position of one byte and is raised before any later byte is read. So the same
//! bytes are refused for the same reason, however they were split into reads.

use crate::fault::Fault;
use crate::limits::Limits;
use memchr::memchr;

/// What the first line of the block must obey beside the common limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// A request or status line, bounded by its own limit.
    StartLine,
    /// A field line: these are the trailers of a chunked body.
    Fields,
}

/// How far the scan has come with the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The end has not arrived yet.
    More,
    /// The start line ends before this position (of its CR). Returned once.
    StartLine(usize),
    /// The length of the whole block with its empty line.
    Whole(usize),
}

/// The scan of one head. Keeps its allocation for the next head.
#[derive(Debug)]
pub(crate) struct Scan {
    opening: Opening,
    scanned: usize,
    line_start: usize,
    ends: Vec<usize>,
}

impl Scan {
    pub(crate) fn new(opening: Opening) -> Self {
        Self { opening, scanned: 0, line_start: 0, ends: Vec::new() }
    }

    /// The positions of the CR of each line so far, without the empty line.
    pub(crate) fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// Begins the next head.
    pub(crate) fn reset(&mut self) {
        self.scanned = 0;
        self.line_start = 0;
        self.ends.clear();
    }

    /// Scans what has arrived since the last call. `bytes` begins where the head begins.
    ///
    /// # Errors
    /// A bare LF, or a limit that was passed.
    pub(crate) fn advance(&mut self, bytes: &[u8], limits: &Limits) -> Result<Progress, Fault> {
        while let Some(found) = memchr(b'\n', &bytes[self.scanned..]) {
            let line_feed = self.scanned + found;
            self.check_line(line_feed, limits)?;
            if line_feed >= limits.head_bytes_max {
                return Err(Fault::HeadLarge);
            }
            if line_feed == self.line_start || bytes[line_feed - 1] != b'\r' {
                return Err(Fault::BareLf);
            }
            let (start, end) = (self.line_start, line_feed - 1);
            self.scanned = line_feed + 1;
            self.line_start = self.scanned;
            if start == end {
                return Ok(Progress::Whole(self.scanned));
            }
            self.ends.push(end);
            let fields = self.ends.len() - usize::from(self.opening == Opening::StartLine);
            if fields > limits.fields_max {
                return Err(Fault::FieldsMany);
            }
            if fields == 0 {
                return Ok(Progress::StartLine(end));
            }
        }
        self.scanned = bytes.len();
        self.check_line(bytes.len(), limits)?;
        if bytes.len() >= limits.head_bytes_max {
            return Err(Fault::HeadLarge);
        }
        Ok(Progress::More)
    }

    /// Checks the length of the start line. `line_feed` is the first position that could end it.
    fn check_line(&self, line_feed: usize, limits: &Limits) -> Result<(), Fault> {
        let in_start_line = self.opening == Opening::StartLine && self.ends.is_empty();
        if in_start_line && line_feed > limits.start_line_bytes_max() + 1 {
            return Err(Fault::LineLong);
        }
        Ok(())
    }
}
