//! Where a configured delivery of events goes: a file or a unix socket.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// How long one write may take before it is tried again.
const WRITE_TIME_MAX: Duration = Duration::from_secs(1);

/// Where events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventTarget {
    /// A file, appended to, made with mode 0640 if missing, opened again by [`Events::reopen`].
    File(PathBuf),
    /// A unix socket on which a reader listens.
    Socket(PathBuf),
}

/// How events are delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSettings {
    /// Where they go.
    pub target: EventTarget,
    /// How many undelivered events may wait.
    pub buffer: usize,
    /// The kinds that are delivered, as the sum of their bits.
    pub kinds: u32,
}

/// Where lines are written.
pub(super) struct Out {
    target: EventTarget,
    sink: Option<Sink>,
    /// Bytes of the pending lines that are written.
    sent: usize,
}

enum Sink {
    File(File),
    Socket(UnixStream),
}

impl Out {
    /// A file is opened at once.
    pub(super) fn new(target: EventTarget) -> io::Result<Out> {
        let mut out = Out { target, sink: None, sent: 0 };
        if out.is_file() {
            out.open()?;
        }
        Ok(out)
    }

    pub(super) fn is_file(&self) -> bool {
        matches!(self.target, EventTarget::File(_))
    }

    pub(super) fn open(&mut self) -> io::Result<()> {
        self.sink = Some(match &self.target {
            EventTarget::File(path) => {
                Sink::File(OpenOptions::new().append(true).create(true).mode(0o640).open(path)?)
            }
            EventTarget::Socket(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_write_timeout(Some(WRITE_TIME_MAX))?;
                Sink::Socket(stream)
            }
        });
        Ok(())
    }

    /// Writes all lines, and removes those that are written whole. After a broken connection a half-written
    /// line is sent again whole; a file goes on where it was.
    pub(super) fn write(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        if self.sink.is_none() {
            self.open()?;
        }
        while self.sent < lines.len() {
            let written = match &mut self.sink {
                Some(Sink::File(file)) => file.write(&lines[self.sent..]),
                Some(Sink::Socket(stream)) => stream.write(&lines[self.sent..]),
                None => Err(io::ErrorKind::NotConnected.into()),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let whole =
                        lines[..self.sent].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                    lines.drain(..whole);
                    self.sent -= whole;
                    let is_slow = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
                    if matches!(self.sink, Some(Sink::Socket(_))) && !is_slow {
                        (self.sink, self.sent) = (None, 0);
                    }
                    return Err(error);
                }
            }
        }
        lines.clear();
        self.sent = 0;
        Ok(())
    }
}
