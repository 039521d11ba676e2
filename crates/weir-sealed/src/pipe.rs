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
/// A thread without a pipe copies so much before it tries to get one again.
const COPIED_BYTES: usize = 256 << 20;

thread_local! {
    static MEANS: RefCell<Means> = const { RefCell::new(Means::Untried) };
}

/// Has the kernel send a part without a copy. Where the system does not do that, it copies. Fewer bytes than
/// the part has are sent only where the socket takes no more.
///
/// # Errors
/// `WouldBlock` where the socket takes nothing; what the socket says else.
pub fn send(socket: BorrowedFd<'_>, part: SealedPart<'_>) -> io::Result<usize> {
    let begun = MEANS.with_borrow_mut(|means| means.send(socket, part));
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

/// How the thread sends.
enum Means {
    Untried,
    Pipe(Pipe),
    /// It gets no pipe for now: the system gives each user only so many large ones. The bytes until it tries
    /// again.
    Copies(usize),
}

impl Means {
    /// Sends by the pipe, which is made where there is none. Returns what was sent, and why no more.
    fn send(&mut self, socket: BorrowedFd<'_>, part: SealedPart<'_>) -> (usize, Result<(), Stop>) {
        match self {
            Means::Copies(left @ 1..) => *left = left.saturating_sub(part.len()),
            Means::Copies(0) | Means::Untried => {
                *self = Pipe::new().map_or(Means::Copies(COPIED_BYTES), Means::Pipe)
            }
            Means::Pipe(_) => {}
        }
        let Means::Pipe(pipe) = self else { return (0, Err(Stop::Unfit)) };
        let mut sent = 0;
        let ended = pipe.send(socket, part, &mut sent);
        if matches!(ended, Err(Stop::Unfit)) {
            *self = Means::Copies(COPIED_BYTES);
        } else if !pipe.is_empty {
            // What it still refers to must not reach another client.
            *self = Means::Untried;
        }
        (sent, ended)
    }
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
}

impl Pipe {
    /// Makes one.
    ///
    /// # Errors
    /// The system gives none, or only one so small that a copy costs less.
    fn new() -> io::Result<Pipe> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A user without privileges gets so much for a few pipes only; the usual size will do.
        let bytes = fcntl_setpipe_size(&into, PIPE_BYTES).or_else(|_| fcntl_getpipe_size(&into))?;
        if bytes < PIPE_BYTES_MIN {
            return Err(Errno::PERM.into());
        }
        let nowhere = File::options().write(true).open("/dev/null")?;
        Ok(Pipe { out, into, nowhere, is_empty: true })
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
