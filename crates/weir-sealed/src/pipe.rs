//! From sealed bytes into a socket: a pipe of the thread refers to their pages, and the kernel moves what the
//! pipe refers to. `sendfile` does the same with a pipe of its own, but looks up the pages of a file in
//! memory one by one; those of a mapping are found together.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice};

use crate::{SealedPart, system};

/// The bytes that a pipe may refer to at once, where the system gives that many.
const PIPE_BYTES: usize = 1 << 20;
/// Through a pipe for fewer, a copy costs less.
const PIPE_BYTES_MIN: usize = 64 << 10;

thread_local! {
    static PIPE: RefCell<Option<Pipe>> = const { RefCell::new(None) };
}

/// Has the kernel send a part without a copy. Where the system does not do that, it copies.
///
/// # Errors
/// `WouldBlock` where the socket takes nothing; what the socket says else.
pub fn send(socket: BorrowedFd<'_>, part: SealedPart<'_>) -> io::Result<usize> {
    let sent = PIPE.with_borrow_mut(|pipe| {
        if pipe.is_none() {
            *pipe = Some(Pipe::new()?);
        }
        let Some(open) = pipe.as_mut().filter(|pipe| !pipe.is_small) else { return Err(NotSent::Unfit) };
        let sent = open.send(socket, part);
        if !open.is_empty {
            // What it still refers to must not reach another client.
            *pipe = None;
        }
        sent
    });
    match sent {
        Ok(sent) => Ok(sent),
        Err(NotSent::Socket(errno)) => Err(errno.into()),
        Err(NotSent::Unfit) => Ok(rustix::net::send(socket, part.bytes(), SendFlags::NOSIGNAL)?),
    }
}

/// Why nothing was sent.
enum NotSent {
    /// The socket does not take it.
    Socket(Errno),
    /// The system has no pipe, or does not do this with one.
    Unfit,
}

impl From<Errno> for NotSent {
    fn from(_: Errno) -> NotSent {
        NotSent::Unfit
    }
}

/// A pipe that is empty between two calls.
struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    /// Where it empties what a socket has not taken.
    nowhere: File,
    is_empty: bool,
    is_small: bool,
}

impl Pipe {
    fn new() -> Result<Pipe, NotSent> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A user without privileges gets so much for a few pipes only; the usual size will do.
        let bytes = fcntl_setpipe_size(&into, PIPE_BYTES).or_else(|_| fcntl_getpipe_size(&into))?;
        let nowhere = File::options().write(true).open("/dev/null").map_err(|_| NotSent::Unfit)?;
        Ok(Pipe { out, into, nowhere, is_empty: true, is_small: bytes < PIPE_BYTES_MIN })
    }

    /// Sends as much of a part as the socket takes.
    fn send(&mut self, socket: BorrowedFd<'_>, part: SealedPart<'_>) -> Result<usize, NotSent> {
        let mut sent = 0;
        while sent < part.len() {
            let mut waits = match system::refer(self.into.as_fd(), part.after(sent)) {
                Ok(0) => return Err(NotSent::Unfit),
                Ok(bytes) => bytes,
                Err(Errno::INTR) => continue,
                Err(_) if sent > 0 => return Ok(sent),
                Err(errno) => return Err(errno.into()),
            };
            self.is_empty = false;
            while waits > 0 {
                match splice(&self.out, None, socket, None, waits, SpliceFlags::NONBLOCK) {
                    Ok(0) => return Err(NotSent::Socket(Errno::PIPE)),
                    Ok(bytes) => (waits, sent) = (waits - bytes, sent + bytes),
                    Err(Errno::INTR) => {}
                    Err(errno) => {
                        self.empty(waits);
                        return match (sent, errno) {
                            (1.., _) => Ok(sent),
                            (0, Errno::INVAL | Errno::NOSYS | Errno::PERM) => Err(NotSent::Unfit),
                            (0, _) => Err(NotSent::Socket(errno)),
                        };
                    }
                }
            }
            self.is_empty = true;
        }
        Ok(sent)
    }

    /// Lets go of what waits.
    fn empty(&mut self, mut waits: usize) {
        while waits > 0 {
            match splice(&self.out, None, &self.nowhere, None, waits, SpliceFlags::NONBLOCK) {
                Ok(bytes @ 1..) => waits -= bytes,
                Err(Errno::INTR) => {}
                Ok(0) | Err(_) => return,
            }
        }
        self.is_empty = true;
    }
}

#[cfg(test)]
mod tests;
