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

/// Has the kernel send a part without a copy. Where the system does not do that, it copies. Fewer bytes than
/// the part has are sent only where the socket takes no more.
///
/// # Errors
/// `WouldBlock` where the socket takes nothing; what the socket says else.
pub fn send(socket: BorrowedFd<'_>, part: SealedPart<'_>) -> io::Result<usize> {
    let begun = PIPE.with_borrow_mut(|pipe| send_by(pipe, socket, part));
    finish(socket, part, begun)
}

/// Copies what is left of a part where the pipe was unfit for it.
fn finish(
    socket: BorrowedFd<'_>,
    part: SealedPart<'_>,
    (sent, ended): (usize, Result<(), Stop>),
) -> io::Result<usize> {
    let copied = match ended {
        Ok(()) => Ok(0),
        Err(Stop::Socket(errno)) => Err(errno),
        Err(Stop::Unfit) => rustix::net::send(socket, part.after(sent).bytes(), SendFlags::NOSIGNAL),
    };
    match copied {
        Ok(copied) => Ok(sent + copied),
        Err(_) if sent > 0 => Ok(sent),
        Err(errno) => Err(errno.into()),
    }
}

/// Sends by the thread's pipe, which is made where there is none. Returns what was sent, and why no more.
fn send_by(
    pipe: &mut Option<Pipe>,
    socket: BorrowedFd<'_>,
    part: SealedPart<'_>,
) -> (usize, Result<(), Stop>) {
    if pipe.is_none() {
        *pipe = Pipe::new().ok();
    }
    let Some(open) = pipe.as_mut().filter(|pipe| !pipe.is_small) else { return (0, Err(Stop::Unfit)) };
    let mut sent = 0;
    let ended = open.send(socket, part, &mut sent);
    if !open.is_empty {
        // What it still refers to must not reach another client.
        *pipe = None;
    }
    (sent, ended)
}

/// Why not all of a part was sent.
#[derive(Debug)]
enum Stop {
    /// The socket takes no more.
    Socket(Errno),
    /// The system has no pipe, or does not do this with one.
    Unfit,
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
    fn new() -> io::Result<Pipe> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A user without privileges gets so much for a few pipes only; the usual size will do.
        let bytes = fcntl_setpipe_size(&into, PIPE_BYTES).or_else(|_| fcntl_getpipe_size(&into))?;
        let nowhere = File::options().write(true).open("/dev/null")?;
        Ok(Pipe { out, into, nowhere, is_empty: true, is_small: bytes < PIPE_BYTES_MIN })
    }

    /// Sends a part, and counts what was `sent` of it.
    fn send(&mut self, socket: BorrowedFd<'_>, part: SealedPart<'_>, sent: &mut usize) -> Result<(), Stop> {
        while *sent < part.len() {
            let mut waits = match system::refer(self.into.as_fd(), part.after(*sent)) {
                Ok(bytes @ 1..) => bytes,
                Err(Errno::INTR) => continue,
                Ok(0) | Err(_) => return Err(Stop::Unfit),
            };
            self.is_empty = false;
            while waits > 0 {
                match splice(&self.out, None, socket, None, waits, SpliceFlags::NONBLOCK) {
                    Ok(bytes @ 1..) => (waits, *sent) = (waits - bytes, *sent + bytes),
                    Err(Errno::INTR) => {}
                    ended => {
                        self.empty(waits);
                        return Err(match ended {
                            Err(Errno::INVAL | Errno::NOSYS | Errno::PERM) => Stop::Unfit,
                            Err(errno) => Stop::Socket(errno),
                            Ok(_) => Stop::Socket(Errno::PIPE),
                        });
                    }
                }
            }
            self.is_empty = true;
        }
        Ok(())
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
