//! From an open file to a version that can be sent: its fields, and its bytes in memory where there is room.
//! What is read is one version: the file is looked at before and after.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use rustix::fs::{fstat, sendfile};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use weir_body::PrintedSlot;
use weir_clock::Now;
use weir_policy::{Coding, Stored, http_date};
use weir_sealed::{Draft, Sealed};

use crate::file::{Content, File};
use crate::hot::{Charge, Hot};
use crate::kind;
use crate::look::{LookedFile, Opened};
use crate::open::Version;
use crate::root::Wait;
use crate::stamp::{Age, Stamp};

/// From this length on a body is sent by the kernel from a sealed file; below, a copy costs less.
pub(crate) const SEALED_BYTES_MIN: u64 = 128 << 10;
/// Files up to this length are read where requests are answered, if the page cache has them.
const SMALL_BYTES_MAX: u64 = 64 << 10;

/// Why a file is not read.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// It would have to wait for a device.
    WouldWait,
    /// It has just changed, or changes while it is read; it is worth another look after so long.
    Changing(Duration),
    /// So many files are open that no more may be.
    Crowded,
    /// The system failed.
    System(Errno),
}

/// How a file is to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// In memory, where there is room.
    Memory,
    /// Open.
    Open,
}

/// A file, and its siblings.
type Versions = (Arc<File>, Vec<(Coding, Arc<File>)>);

/// Makes all versions of what was looked at, each with its charge.
pub(crate) fn load(
    looked: LookedFile,
    hot: &Hot,
    (hold, wait): (Hold, Wait),
    now: Now,
) -> Result<Versions, LoadError> {
    let LookedFile { names, plain, siblings } = looked;
    let media_type = kind::of(&names).media_type;
    let varies = if siblings.is_empty() { Varies::No } else { Varies::ByCoding };
    let one = |opened: Opened, coding: Option<Coding>| {
        let age = opened.stamp.age(now.wall);
        if let Age::Young(rest) = age {
            return Err(LoadError::Changing(rest));
        }
        let stamp = opened.stamp;
        let (content, charge) = content(opened, hot, (hold, wait), now)?;
        let mut place = None;
        if matches!(content, Content::Open(_)) {
            let varies = matches!(varies, Varies::ByCoding);
            let version = Version { stamp, age, media_type, coding, varies };
            if let Some(file) = hot.opens.find(&version) {
                return Ok(file);
            }
            place = Some(hot.opens.place(version).ok_or(LoadError::Crowded)?);
        }
        let fields = fields(&stamp, age, &Form { media_type, coding, varies }, now.wall);
        let stored = Stored::of_own(StatusCode::OK, fields, now);
        let printed = PrintedSlot::default();
        let file = Arc::new(File { stamp, age, content, stored, printed, _charge: charge, place });
        if let Some(place) = &file.place {
            hot.opens.share(place, &file);
        }
        Ok(file)
    };
    let plain = one(plain, None)?;
    let mut coded = Vec::with_capacity(siblings.len());
    for (coding, opened) in siblings {
        coded.push((coding, one(opened, Some(coding))?));
    }
    Ok((plain, coded))
}

#[derive(Clone, Copy)]
enum Varies {
    No,
    ByCoding,
}

/// What a file's fields say beside its version.
struct Form {
    media_type: &'static str,
    coding: Option<Coding>,
    varies: Varies,
}

fn fields(stamp: &Stamp, age: Age, form: &Form, wall: SystemTime) -> HeaderMap {
    let Form { media_type, coding, varies } = *form;
    let mut fields = HeaderMap::with_capacity(8);
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    if let Some(coding) = coding {
        fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    }
    let modified = stamp.modified(wall).and_then(http_date);
    let texts = [(header::ETAG, Some(stamp.tag(age))), (header::LAST_MODIFIED, modified)];
    for (name, text) in texts {
        // Invariant: tags and dates have only bytes that a field may have.
        fields.extend(text.and_then(|text| HeaderValue::try_from(text).ok()).map(|value| (name, value)));
    }
    if matches!(varies, Varies::ByCoding) {
        fields.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    fields
}

fn content(
    opened: Opened,
    hot: &Hot,
    (hold, wait): (Hold, Wait),
    now: Now,
) -> Result<(Content, Option<Charge>), LoadError> {
    let (fd, stamp) = (opened.fd, opened.stamp);
    if hold == Hold::Open || stamp.length > hot.file_bytes_max() {
        return Ok((Content::Open(fd), None));
    }
    if wait == Wait::Never && stamp.length > SMALL_BYTES_MAX {
        return Err(LoadError::WouldWait);
    }
    // First of all: others leave memory for the charge, and must not do so in vain.
    let is_to_be_sealed = stamp.length >= SEALED_BYTES_MIN;
    let draft = if is_to_be_sealed { hot.draft(now.mono) } else { None };
    if is_to_be_sealed && draft.is_none() {
        return Ok((Content::Open(fd), None));
    }
    let Some(charge) = hot.charge(stamp.length) else { return Ok((Content::Open(fd), None)) };
    let content = match draft {
        Some(draft) => match sealed(&fd, stamp.length, draft) {
            Ok(sealed) => sealed.map(Content::Sealed),
            Err(error) => {
                if is_of_memory(&error) {
                    hot.pause_sealing(now.mono);
                }
                return Ok((Content::Open(fd), None));
            }
        },
        None => read(&fd, stamp.length, wait)?.map(Content::Memory),
    };
    let after = fstat(&fd).map_err(LoadError::System)?;
    match content {
        Some(content) if Stamp::of(&after) == stamp => Ok((content, Some(charge))),
        _ => Err(LoadError::Changing(crate::stamp::GRAIN)),
    }
}

/// Whether the system has no memory, no mapping or no file to spare. All else is a matter of this file: where
/// it cannot be read, its readers find out where that is.
fn is_of_memory(error: &io::Error) -> bool {
    const SCARCE: [Errno; 6] =
        [Errno::NOMEM, Errno::NOSPC, Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::PERM];
    Errno::from_io_error(error).is_some_and(|errno| SCARCE.contains(&errno))
}

/// All bytes of a file; none where it has become shorter.
fn read(fd: &OwnedFd, length: u64, wait: Wait) -> Result<Option<Bytes>, LoadError> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    let mut done = 0;
    while done < bytes.len() {
        match read_at(fd, &mut bytes[done..], done as u64, wait) {
            Ok(0) => return Ok(None),
            Ok(count) => done += count,
            Err(Errno::AGAIN) if wait == Wait::Never => return Err(LoadError::WouldWait),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(LoadError::System(errno)),
        }
    }
    Ok(Some(bytes.into()))
}

/// Reads at `offset`. [`Errno::AGAIN`] says that it would have to wait.
pub(crate) fn read_at(fd: &OwnedFd, into: &mut [u8], offset: u64, wait: Wait) -> Result<usize, Errno> {
    match wait {
        Wait::May => rustix::io::pread(fd, into, offset),
        Wait::Never => match preadv2(fd, &mut [IoSliceMut::new(into)], offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Err(Errno::AGAIN),
            read => read,
        },
    }
}

/// The bytes of a file in memory that nobody can change; none where it has become shorter.
fn sealed(fd: &OwnedFd, length: u64, draft: Draft) -> io::Result<Option<Sealed>> {
    let mut offset = 0;
    while offset < length {
        let left = usize::try_from(length - offset).unwrap_or(usize::MAX);
        match sendfile(draft.file(), fd, Some(&mut offset), left) {
            Ok(0) => return Ok(None),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::INVAL | Errno::NOSYS) => return copied(fd, length, draft),
            Err(errno) => return Err(errno.into()),
        }
    }
    draft.seal(()).map(Some)
}

/// The same, for file systems that the kernel does not send from.
fn copied(fd: &OwnedFd, length: u64, draft: Draft) -> io::Result<Option<Sealed>> {
    let mut buffer = vec![0; 64 << 10];
    let mut offset = 0;
    while offset < length {
        let wanted = usize::try_from(length - offset).map_or(buffer.len(), |left| left.min(buffer.len()));
        let count = match read_at(fd, &mut buffer[..wanted], offset, Wait::May) {
            Ok(0) => return Ok(None),
            Err(Errno::INTR) => continue,
            read => read?,
        };
        draft.file().write_all_at(&buffer[..count], offset)?;
        offset += count as u64;
    }
    draft.seal(()).map(Some)
}
