//! The bytes of one version on their way out. A version that changes while it is sent breaks off: a body
//! never has bytes of two.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use rustix::fs::fstat;
use rustix::io::Errno;
use weir_body::{Body, Cut};
use weir_sealed::SealedPart;
use weir_share::Client;

use crate::file::{Content, File};
use crate::files::Files;
use crate::load::read_at;
use crate::pool::{On, Unanswered};
use crate::root::Wait;
use crate::stamp::Stamp;
use crate::sums::Sums;

/// The most bytes that are read at a time.
const CHUNK_BYTES_MAX: usize = 256 << 10;

/// The file was changed in place while it was sent, or its bytes are not what they must be.
pub(crate) const CHANGED: Cut = Cut { word: "file-changed" };
/// The system failed.
const FAILED: Cut = Cut { word: "file-failed" };
/// The file's device does not answer.
const HANGS: Cut = Cut { word: "file-hangs" };

impl From<Unanswered> for Cut {
    fn from(why: Unanswered) -> Cut {
        match why {
            Unanswered::Hangs | Unanswered::Crowded => HANGS,
            Unanswered::Panicked | Unanswered::NoThread => FAILED,
        }
    }
}

/// Bytes of a version, from one place to another.
#[derive(Debug)]
pub struct Reading {
    file: Arc<File>,
    files: Files,
    client: Option<Client>,
    at: u64,
    end: u64,
    /// What was read last; its memory is used again.
    buffer: Bytes,
    /// What the bytes must be.
    sums: Option<Arc<Sums>>,
    /// The block that was checked last.
    checked: Option<(usize, Bytes)>,
}

impl Reading {
    /// The bytes from `start` to `end`, which lies within the file.
    pub fn new(file: Arc<File>, files: Files, (start, end): (u64, u64)) -> Reading {
        Reading { file, files, client: None, at: start, end, buffer: Bytes::new(), sums: None, checked: None }
    }

    /// Reads them for a client.
    pub fn of(self, client: Option<Client>) -> Reading {
        Reading { client, ..self }
    }

    /// Gives only bytes of blocks that are what they must be.
    pub fn checked(self, sums: Option<Arc<Sums>>) -> Reading {
        Reading { sums, ..self }
    }

    /// Continues with other bytes of the same version.
    pub fn turn_to(&mut self, (start, end): (u64, u64)) {
        (self.at, self.end) = (start, end);
    }
}

impl Body for Reading {
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        let left = self.end - self.at;
        if left == 0 {
            return Ok(None);
        }
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(bytes_max).min(CHUNK_BYTES_MAX);
        if let Some(sums) = self.sums.clone() {
            let (block, start, length) = sums.block(self.at);
            let whole = self.block(&sums, (block, start, length)).await?;
            let within = usize::try_from(self.at - start).unwrap_or(usize::MAX);
            let end = within.saturating_add(wanted).min(length);
            let bytes = whole.slice(within..end);
            self.at += bytes.len() as u64;
            return Ok(Some(bytes));
        }
        let bytes = match self.file.content.at_hand() {
            Ok(bytes) => {
                let at = usize::try_from(self.at).unwrap_or(usize::MAX);
                bytes.slice(at..at + wanted)
            }
            Err(fd) => {
                let buffer = room(std::mem::take(&mut self.buffer), wanted);
                let (count, buffer) = match read(fd, buffer, (self.at, wanted), Wait::Never) {
                    Err(Stop::Wait) => self.read_apart(wanted).await?,
                    read => {
                        let read = read?;
                        check(fd, &self.file.stamp)?;
                        read
                    }
                };
                self.buffer = buffer;
                self.buffer.slice(..count)
            }
        };
        self.at += bytes.len() as u64;
        Ok(Some(bytes))
    }

    fn at_hand(&self) -> Option<(&[Bytes], usize, u64)> {
        // What must be checked is given by `next` alone.
        let Content::Memory(bytes) = self.unchecked()? else { return None };
        let within = usize::try_from(self.at).ok()?;
        Some((std::slice::from_ref(bytes), within, self.end - self.at))
    }

    fn sealed(&self) -> Option<SealedPart<'_>> {
        let Content::Sealed(sealed) = self.unchecked()? else { return None };
        sealed.part(self.at..self.end)
    }

    fn advance(&mut self, bytes: u64) {
        self.at += bytes;
    }
}

impl Reading {
    /// Reads on a thread of the file's device.
    async fn read_apart(&self, wanted: usize) -> Result<(usize, Bytes), Cut> {
        let (file, at) = (Arc::clone(&self.file), self.at);
        let job = move || {
            let Err(fd) = file.content.at_hand() else { return Err(Stop::Cut(FAILED)) };
            let read = read(fd, BytesMut::zeroed(wanted), (at, wanted), Wait::May)?;
            check(fd, &file.stamp).map_err(Stop::Cut)?;
            Ok(read)
        };
        Ok(self.files.pool().run_for((self.on(), self.client), move |_| job()).await??)
    }

    fn on(&self) -> On {
        On::Device(self.file.stamp.device)
    }

    fn unchecked(&self) -> Option<&Content> {
        self.sums.is_none().then_some(&self.file.content)
    }

    /// A whole block, checked.
    async fn block(
        &mut self,
        sums: &Sums,
        (block, start, length): (usize, u64, usize),
    ) -> Result<Bytes, Cut> {
        if let Some((_, bytes)) = self.checked.as_ref().filter(|(known, _)| *known == block) {
            return Ok(bytes.clone());
        }
        let bytes = match self.file.content.at_hand() {
            Ok(bytes) => {
                let at = usize::try_from(start).unwrap_or(usize::MAX);
                let end = at.saturating_add(length);
                if end > bytes.len() {
                    return Err(CHANGED);
                }
                bytes.slice(at..end)
            }
            Err(fd) => match read_whole(fd, (start, length), Wait::Never) {
                Err(Stop::Wait) => {
                    let file = Arc::clone(&self.file);
                    let job = move || match file.content.at_hand() {
                        Err(fd) => read_whole(fd, (start, length), Wait::May),
                        Ok(_) => Err(Stop::Cut(FAILED)),
                    };
                    self.files.pool().run_for((self.on(), self.client), move |_| job()).await??
                }
                read => read?,
            },
        };
        if !sums.fits(block, &bytes) {
            return Err(CHANGED);
        }
        self.checked = Some((block, bytes.clone()));
        Ok(bytes)
    }
}

/// Reads so many bytes.
fn read_whole(fd: &OwnedFd, (at, length): (u64, usize), wait: Wait) -> Result<Bytes, Stop> {
    let mut whole = BytesMut::with_capacity(length);
    while whole.len() < length {
        let (have, left) = (whole.len() as u64, length - whole.len());
        let (count, bytes) = read(fd, BytesMut::zeroed(left), (at + have, left), wait)?;
        if whole.is_empty() && count == length {
            return Ok(bytes);
        }
        whole.extend_from_slice(&bytes[..count]);
    }
    Ok(whole.freeze())
}

/// Why a read gave nothing.
enum Stop {
    Wait,
    Cut(Cut),
}

impl From<Stop> for Cut {
    fn from(stop: Stop) -> Cut {
        match stop {
            Stop::Wait => FAILED,
            Stop::Cut(cut) => cut,
        }
    }
}

/// Room for `wanted` bytes: that of the last ones, where nobody has them any more.
fn room(last: Bytes, wanted: usize) -> BytesMut {
    let mut buffer = last.try_into_mut().unwrap_or_default();
    buffer.resize(wanted, 0);
    buffer
}

/// Reads at least one byte. The end of the file is a change: it was longer.
fn read(
    fd: &OwnedFd,
    mut buffer: BytesMut,
    (at, wanted): (u64, usize),
    wait: Wait,
) -> Result<(usize, Bytes), Stop> {
    loop {
        match read_at(fd, &mut buffer[..wanted], at, wait) {
            Ok(0) => return Err(Stop::Cut(CHANGED)),
            Ok(count) => {
                buffer.truncate(count);
                return Ok((count, buffer.freeze()));
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if wait == Wait::Never => return Err(Stop::Wait),
            Err(_) => return Err(Stop::Cut(FAILED)),
        }
    }
}

fn check(fd: &OwnedFd, stamp: &Stamp) -> Result<(), Cut> {
    let stat = fstat(fd).map_err(|_| FAILED)?;
    if Stamp::of(&stat).has_bytes_of(stamp) { Ok(()) } else { Err(CHANGED) }
}
