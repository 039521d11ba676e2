//! A document that comes piece by piece from a worker, as a stream that blocks. It ends whatever goes on.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use weir_edge::Document;

/// The longest time that a document may take.
const TIME_MAX: Duration = Duration::from_secs(600);

/// The document.
pub(super) struct Piecemeal {
    document: Document,
    rest: Bytes,
    until: Instant,
}

impl Piecemeal {
    pub(super) fn of(document: Document) -> Piecemeal {
        Piecemeal { document, rest: Bytes::new(), until: weir_clock::now().mono + TIME_MAX }
    }
}

impl Read for Piecemeal {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            if weir_clock::now().mono >= self.until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.rest = match self.document.blocking_recv() {
                Some(Ok(piece)) => piece,
                Some(Err(why)) => return Err(io::Error::other(why)),
                None => return Ok(0),
            };
        }
        let count = self.rest.len().min(into.len());
        self.rest.copy_to_slice(&mut into[..count]);
        Ok(count)
    }
}
