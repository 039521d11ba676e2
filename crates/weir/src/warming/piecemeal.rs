//! A document that comes piece by piece from a worker, as a stream that blocks. It ends whatever goes on.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use tokio::sync::mpsc::error::TryRecvError;
use weir_control::Progress;
use weir_edge::Document;

/// The longest time that a document may take.
const TIME_MAX: Duration = Duration::from_secs(600);

/// Between two looks whether a piece has come, or whether the job is to end: at first, and at most.
const LOOK_PAUSE: Duration = Duration::from_millis(1);
const LOOK_PAUSE_MAX: Duration = Duration::from_millis(50);

/// The document.
pub(super) struct Piecemeal<'p> {
    document: Document,
    progress: &'p Progress,
    rest: Bytes,
    until: Instant,
}

impl<'p> Piecemeal<'p> {
    pub(super) fn of(document: Document, progress: &'p Progress) -> Piecemeal<'p> {
        Piecemeal { document, progress, rest: Bytes::new(), until: weir_clock::now().mono + TIME_MAX }
    }
}

impl Read for Piecemeal<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut pause = LOOK_PAUSE;
        while self.rest.is_empty() {
            if self.progress.is_over() {
                return Err(io::Error::other("the job is to end"));
            }
            if weir_clock::now().mono >= self.until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match self.document.try_recv() {
                Ok(Ok(piece)) => self.rest = piece,
                Ok(Err(why)) => return Err(io::Error::other(why)),
                Err(TryRecvError::Disconnected) => return Ok(0),
                Err(TryRecvError::Empty) => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(LOOK_PAUSE_MAX);
                }
            }
        }
        let count = self.rest.len().min(into.len());
        self.rest.copy_to_slice(&mut into[..count]);
        Ok(count)
    }
}
