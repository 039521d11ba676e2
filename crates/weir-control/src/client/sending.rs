//! A file as the content of a request: read while it is sent.

use std::fs::File;
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// How much is read at a time.
const PIECE_BYTES: usize = 256 << 10;

/// A file that is sent.
#[derive(Debug)]
pub struct Sending {
    file: File,
    left: u64,
}

impl Sending {
    /// The whole file, as long as it is now.
    ///
    /// # Errors
    /// Its length cannot be found out.
    pub fn of(file: File) -> io::Result<Sending> {
        let left = file.metadata()?.len();
        Ok(Sending { file, left })
    }

    /// Bytes that are still to be sent.
    pub fn left(&self) -> u64 {
        self.left
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = io::Error;

    /// Reads a file of this machine, on a runtime that does nothing else.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let mut piece = vec![0; wanted];
        let read = self.file.read(&mut piece).and_then(|count| match count {
            0 => Err(io::Error::other("the file became shorter while it was sent")),
            count => Ok(count),
        });
        Poll::Ready(Some(read.map(|count| {
            piece.truncate(count);
            self.left -= count as u64;
            Frame::data(Bytes::from(piece))
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
