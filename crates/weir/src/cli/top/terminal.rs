//! Waiting for keys. A terminal that is gone is told apart from one on which nobody presses a key: what reads
//! the keys would otherwise read the end of it again and again.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::time::Duration;

use ratatui::crossterm::event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What came of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// There may be keys.
    There,
    /// The terminal is gone: its window was closed, or its connection has ended.
    Gone,
}

/// Waits for a key, at most so long.
///
/// # Errors
/// The terminal cannot be read.
pub(super) fn wait(patience: Duration) -> io::Result<Waited> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return wait_on(stdin, patience);
    }
    // Keys are read from the terminal of the session then.
    event::poll(patience).map(|_| Waited::There)
}

fn wait_on(input: impl AsFd, patience: Duration) -> io::Result<Waited> {
    let mut input = [PollFd::new(&input, PollFlags::IN)];
    let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
    match poll(&mut input, Some(&patience)) {
        // A signal: the window may have another size.
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let is_gone = input[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
    Ok(if is_gone { Waited::Gone } else { Waited::There })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_terminal_that_is_gone_is_told() {
        let (mut keys, input) = UnixStream::pair().unwrap();
        assert_eq!(wait_on(&input, Duration::ZERO).unwrap(), Waited::There, "nobody presses a key");
        keys.write_all(b"q").unwrap();
        assert_eq!(wait_on(&input, Duration::from_secs(5)).unwrap(), Waited::There);
        drop(keys);
        assert_eq!(wait_on(&input, Duration::from_secs(5)).unwrap(), Waited::Gone);
    }
}
