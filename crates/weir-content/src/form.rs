//! The bytes at the end of a file: what is known of the content before them. Pure. `docs/format/content.md`
//! draws them.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::xxh3_64;

use crate::entry::Entry;

/// The last bytes of every file.
pub const FOOT_BYTES: usize = 32;
/// The longest description in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 16 << 10;
/// The longest URL in bytes.
pub const URL_BYTES_MAX: usize = 8 << 10;
/// The longest name of a site, and the longest media type, in bytes.
pub const WORD_BYTES_MAX: usize = 1024;
const MAGIC: &[u8; 8] = b"WEIRHAND";
const VERSION: u32 = 1;
/// Numbers, times and digest.
const FIXED_BYTES: usize = 8 + 8 + 8 + 16;

/// Why the end of a file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// It is too short.
    #[error("it is too short")]
    Short,
    /// It does not end as such files do.
    #[error("it does not end as such a file does")]
    Foreign,
    /// A newer Weir has written it.
    #[error("version {0} of its form is newer than this Weir")]
    Newer(u32),
    /// The checksum differs, or what it covers makes no sense.
    #[error("its description is damaged")]
    Damaged,
}

/// What the foot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foot {
    /// The length of the description before it.
    pub description_bytes: usize,
    /// The length of the content.
    pub body_bytes: u64,
    checksum: u64,
}

/// The bytes behind the content of an entry.
pub fn write(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::with_capacity(FIXED_BYTES + FOOT_BYTES + entry.url.len() + 128);
    out.extend_from_slice(&entry.number.to_le_bytes());
    out.extend_from_slice(&ms(entry.laid).to_le_bytes());
    out.extend_from_slice(&entry.ends.map_or(0, ms).to_le_bytes());
    out.extend_from_slice(&entry.digest.to_le_bytes());
    for text in [&entry.url, &entry.site, &entry.content_type] {
        // Invariant: an upload checks the lengths, which are below 64 KiB.
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    let description_bytes = u32::try_from(out.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&description_bytes.to_le_bytes());
    out.extend_from_slice(&entry.body_bytes.to_le_bytes());
    let checksum = xxh3_64(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// Reads the foot of a file of that length.
///
/// # Errors
/// See [`Unread`].
pub fn read_foot(foot: &[u8; FOOT_BYTES], file_bytes: u64) -> Result<Foot, Unread> {
    let (magic, rest) = foot.split_at(8);
    if magic != MAGIC {
        return Err(Unread::Foreign);
    }
    let mut rest = Reader(rest);
    let version = rest.u32()?;
    if version != VERSION {
        return Err(Unread::Newer(version));
    }
    let description_bytes = rest.u32()? as usize;
    let (body_bytes, checksum) = (rest.u64()?, rest.u64()?);
    let all = body_bytes.checked_add(description_bytes as u64 + FOOT_BYTES as u64);
    let is_sound = description_bytes <= DESCRIPTION_BYTES_MAX && all == Some(file_bytes);
    if is_sound { Ok(Foot { description_bytes, body_bytes, checksum }) } else { Err(Unread::Damaged) }
}

/// Reads description and foot together.
///
/// # Errors
/// See [`Unread`].
pub fn read(foot: &Foot, bytes: &[u8]) -> Result<Entry, Unread> {
    let checked = bytes.len().checked_sub(8).ok_or(Unread::Short)?;
    if bytes.len() != foot.description_bytes + FOOT_BYTES || xxh3_64(&bytes[..checked]) != foot.checksum {
        return Err(Unread::Damaged);
    }
    let mut rest = Reader(&bytes[..foot.description_bytes]);
    let (number, laid, ends, digest) = (rest.u64()?, rest.u64()?, rest.u64()?, rest.u128()?);
    let (url, site, content_type) = (rest.text()?, rest.text()?, rest.text()?);
    if !rest.0.is_empty() || number == 0 {
        return Err(Unread::Damaged);
    }
    let laid = time(laid).ok_or(Unread::Damaged)?;
    let ends = match ends {
        0 => None,
        ends => Some(time(ends).ok_or(Unread::Damaged)?),
    };
    Ok(Entry { number, url, site, content_type, body_bytes: foot.body_bytes, digest, laid, ends })
}

/// Whole milliseconds since 1970; zero before.
fn ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn time(ms: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(ms))
}

/// A time as the file has it.
pub(crate) fn rounded(at: SystemTime) -> SystemTime {
    time(ms(at)).unwrap_or(UNIX_EPOCH)
}

struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Unread> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or(Unread::Damaged)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn u32(&mut self) -> Result<u32, Unread> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Unread> {
        self.take().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Result<u128, Unread> {
        self.take().map(u128::from_le_bytes)
    }

    fn text(&mut self) -> Result<Arc<str>, Unread> {
        let length = usize::from(u16::from_le_bytes(self.take()?));
        let (text, rest) = self.0.split_at_checked(length).ok_or(Unread::Damaged)?;
        self.0 = rest;
        std::str::from_utf8(text).map(Arc::from).map_err(|_| Unread::Damaged)
    }
}

/// What the fuzz target calls: bytes from a drive never make it panic, and what is read is written the same.
pub fn fuzzed(bytes: &[u8]) {
    let Some((_, foot)) = bytes.split_last_chunk::<FOOT_BYTES>() else { return };
    let Ok(foot) = read_foot(foot, bytes.len() as u64) else { return };
    let end = &bytes[bytes.len() - foot.description_bytes - FOOT_BYTES..];
    if let Ok(entry) = read(&foot, end) {
        assert_eq!(write(&entry), end);
    }
}

#[cfg(test)]
mod tests;
