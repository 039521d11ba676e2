//! A response's head in bytes, with a version and a checksum: writes and reads [`weir_policy::Stored`].
//!
//! The volume itself never looks inside. Monotonic time means nothing to the next process, so the head has
//! its age and the wall clock at the moment of writing; the reader adds the wall time that has passed since.
//! A wall clock that was set back makes nothing younger than it was. One that was far ahead makes the head
//! stale, so that nothing becomes immortal. The codec carries field names and knows none.

use std::time::{Duration, SystemTime};

use bytes::{Buf, BufMut, Bytes, TryGetError};
use http::{HeaderMap, HeaderValue, StatusCode};
use smallvec::SmallVec;
use weir_policy::{
    ETag, Facts, LifetimeSource, Now, Selecting, Stored, StoredFlags, Tags, Validators, Variant,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::format::take;

/// The version that is written.
const VERSION: u8 = 2;
/// The oldest version that is read. It has flags of one byte, and s-maxage is must-revalidate there.
const VERSION_MIN: u8 = 1;
/// How far the wall clock may have been set back without making everything stale.
pub const SKEW_MAX: Duration = Duration::from_secs(60);
/// An absent value.
const ABSENT: u32 = u32::MAX;
const SUM_BYTES: usize = 8;

/// A head that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The bytes are cut short or changed.
    #[error("the stored head is damaged")]
    Damaged,
    /// It was written by another version of Weir.
    #[error("a stored head has format {0}, and this weir reads formats 1 to {VERSION}")]
    Version(u8),
}

impl From<TryGetError> for Unreadable {
    fn from(_: TryGetError) -> Unreadable {
        Unreadable::Damaged
    }
}

/// Encodes a head. `now` is the moment of writing.
pub fn encode(stored: &Stored, now: Now) -> Vec<u8> {
    let text: usize = stored.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 7).sum();
    let mut out = Vec::with_capacity(text + 256);
    out.put_u8(VERSION);
    out.put_u8(source_code(stored.facts.source));
    out.put_u16_le(stored.facts.flags.0);
    out.put_u16_le(stored.status.as_u16());
    put_facts(&mut out, &stored.facts, now);
    out.put_u32_le(u32::try_from(stored.headers.len()).unwrap_or(u32::MAX));
    for (name, value) in &stored.headers {
        put_name(&mut out, name.as_str());
        put_value(&mut out, Some(value));
    }
    put_value(&mut out, stored.validators.etag.as_ref().map(ETag::value));
    put_date(&mut out, stored.validators.last_modified);
    put_date(&mut out, stored.validators.date);
    out.put_u16_le(u16::try_from(stored.variant.selecting.len()).unwrap_or(u16::MAX));
    for field in &stored.variant.selecting {
        put_name(&mut out, field.name.as_str());
        put_text(&mut out, field.value.as_deref());
    }
    put_value(&mut out, stored.variant.language.as_ref());
    let sum = xxh3_64(&out);
    out.put_u64_le(sum);
    out
}

/// Decodes a head. `now` is the moment of reading. The values are slices of `bytes`.
///
/// # Errors
/// [`Unreadable`] for anything but what [`encode`] wrote.
pub fn decode(bytes: &Bytes, now: Now) -> Result<Stored, Unreadable> {
    let version = *bytes.first().ok_or(Unreadable::Damaged)?;
    let end = bytes.len().checked_sub(SUM_BYTES).ok_or(Unreadable::Damaged)?;
    if (&bytes[end..]).try_get_u64_le()? != xxh3_64(&bytes[..end]) {
        return Err(Unreadable::Damaged);
    }
    if !(VERSION_MIN..=VERSION).contains(&version) {
        return Err(Unreadable::Version(version));
    }
    let mut cursor: &[u8] = &bytes[1..end];
    let source = source_of(cursor.try_get_u8()?).ok_or(Unreadable::Damaged)?;
    let (low, high) = (cursor.try_get_u8()?, cursor.try_get_u8()?);
    let flags = StoredFlags(u16::from_le_bytes([low, if version == VERSION_MIN { 0 } else { high }]));
    let status = StatusCode::from_u16(cursor.try_get_u16_le()?).map_err(|_| Unreadable::Damaged)?;
    let facts = facts(&mut cursor, source, flags, now)?;
    let mut headers = headers(&mut cursor, bytes)?;
    let etag = value(&mut cursor, bytes)?;
    let etag = etag.map(|tag| ETag::read(&tag).ok_or(Unreadable::Damaged)).transpose()?;
    let validators = Validators { etag, last_modified: date(&mut cursor)?, date: date(&mut cursor)? };
    let mut selecting = SmallVec::new();
    for _ in 0..cursor.try_get_u16_le()? {
        let name = name(&mut cursor)?.try_into().map_err(|_| Unreadable::Damaged)?;
        let value = text(&mut cursor)?;
        selecting.push(Selecting::from_parts(name, value.map(Into::into)));
    }
    let language = value(&mut cursor, bytes)?;
    if !cursor.is_empty() {
        return Err(Unreadable::Damaged);
    }
    let variant = Variant::from_parts(selecting, language, &mut headers);
    let tags = Tags::read(&headers);
    Ok(Stored { status, headers, validators, variant, facts, tags })
}

fn headers(cursor: &mut &[u8], bytes: &Bytes) -> Result<HeaderMap, Unreadable> {
    let count = cursor.try_get_u32_le()? as usize;
    // A field takes at least 7 bytes, so a wrong count reserves no memory.
    let mut headers =
        HeaderMap::try_with_capacity(count.min(cursor.len() / 7)).map_err(|_| Unreadable::Damaged)?;
    for _ in 0..count {
        let name = name(cursor)?;
        let value = value(cursor, bytes)?.ok_or(Unreadable::Damaged)?;
        append(&mut headers, name, value)?;
    }
    Ok(headers)
}

fn append(headers: &mut HeaderMap, name: &[u8], value: HeaderValue) -> Result<(), Unreadable> {
    // `Selecting` makes the name; the store itself knows no field name.
    let name = Selecting::from_parts(name.try_into().map_err(|_| Unreadable::Damaged)?, None).name;
    headers.try_append(name, value).map_err(|_| Unreadable::Damaged)?;
    Ok(())
}

fn put_facts(out: &mut Vec<u8>, facts: &Facts, now: Now) {
    put_duration(out, facts.lifetime);
    put_duration(out, facts.initial_age);
    put_duration(out, facts.while_revalidate);
    put_duration(out, facts.if_error);
    put_duration(out, now.since(facts.received_mono));
    put_time(out, now.wall);
    put_time(out, facts.received_wall);
}

fn facts(
    cursor: &mut &[u8],
    source: LifetimeSource,
    flags: StoredFlags,
    now: Now,
) -> Result<Facts, Unreadable> {
    let lifetime = duration(cursor)?;
    let initial_age = duration(cursor)?;
    let while_revalidate = duration(cursor)?;
    let if_error = duration(cursor)?;
    let resident = duration(cursor)?;
    let written = time(cursor)?;
    let received_wall = time(cursor)?;
    let gone_by = match now.wall.duration_since(written) {
        Ok(gone_by) => gone_by,
        Err(ahead) if ahead.duration() <= SKEW_MAX => Duration::ZERO,
        // Nobody knows how old it is. It counts as old enough to be validated before it is used again.
        Err(_) => lifetime,
    };
    let held = resident.saturating_add(gone_by);
    // A monotonic clock that began a moment ago may not reach back so far. The rest becomes initial age.
    let (received_mono, initial_age) = match now.mono.checked_sub(held) {
        Some(received) => (received, initial_age),
        None => (now.mono, initial_age.saturating_add(held)),
    };
    // Ages are sums of the two. They stay far below what a Duration can hold.
    let initial_age = initial_age.min(AGE_MAX);
    Ok(Facts {
        lifetime,
        source,
        initial_age,
        received_mono,
        received_wall,
        while_revalidate,
        if_error,
        flags,
    })
}

/// The largest age that is counted: a thousand years.
const AGE_MAX: Duration = Duration::from_secs(1000 * 365 * 24 * 60 * 60);

fn put_duration(out: &mut Vec<u8>, duration: Duration) {
    out.put_u64_le(duration.as_secs());
    out.put_u32_le(duration.subsec_nanos());
}

fn duration(cursor: &mut &[u8]) -> Result<Duration, Unreadable> {
    let (seconds, nanoseconds) = (cursor.try_get_u64_le()?, cursor.try_get_u32_le()?);
    if nanoseconds >= 1_000_000_000 {
        return Err(Unreadable::Damaged);
    }
    Ok(Duration::new(seconds, nanoseconds))
}

/// Seconds since 1970, rounded down, then nanoseconds.
fn put_time(out: &mut Vec<u8>, time: SystemTime) {
    let (seconds, nanoseconds) = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => (i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            match before.subsec_nanos() {
                0 => (-seconds, 0),
                nanoseconds => ((-seconds).saturating_sub(1), 1_000_000_000 - nanoseconds),
            }
        }
    };
    out.put_i64_le(seconds);
    out.put_u32_le(nanoseconds);
}

fn time(cursor: &mut &[u8]) -> Result<SystemTime, Unreadable> {
    let (seconds, nanoseconds) = (cursor.try_get_i64_le()?, cursor.try_get_u32_le()?);
    if nanoseconds >= 1_000_000_000 {
        return Err(Unreadable::Damaged);
    }
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let at = if seconds < 0 { epoch.checked_sub(whole) } else { epoch.checked_add(whole) };
    at.and_then(|at| at.checked_add(Duration::from_nanos(nanoseconds.into()))).ok_or(Unreadable::Damaged)
}

fn put_date(out: &mut Vec<u8>, date: Option<SystemTime>) {
    out.put_u8(u8::from(date.is_some()));
    put_time(out, date.unwrap_or(SystemTime::UNIX_EPOCH));
}

fn date(cursor: &mut &[u8]) -> Result<Option<SystemTime>, Unreadable> {
    let has = cursor.try_get_u8()?;
    let time = time(cursor)?;
    match has {
        0 => Ok(None),
        1 => Ok(Some(time)),
        _ => Err(Unreadable::Damaged),
    }
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    // Invariant: the http crate refuses names of 64 KiB and more.
    out.put_u16_le(u16::try_from(name.len()).unwrap_or(u16::MAX));
    out.put_slice(name.as_bytes());
}

fn name<'a>(cursor: &mut &'a [u8]) -> Result<&'a [u8], Unreadable> {
    let length = cursor.try_get_u16_le()?;
    Ok(take(cursor, usize::from(length))?)
}

fn put_text(out: &mut Vec<u8>, text: Option<&[u8]>) {
    out.put_u32_le(text.map_or(ABSENT, |text| u32::try_from(text.len()).unwrap_or(ABSENT)));
    out.put_slice(text.unwrap_or_default());
}

fn text<'a>(cursor: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Unreadable> {
    match cursor.try_get_u32_le()? {
        ABSENT => Ok(None),
        length => Ok(Some(take(cursor, length as usize)?)),
    }
}

fn put_value(out: &mut Vec<u8>, value: Option<&HeaderValue>) {
    out.put_u8(u8::from(value.is_some_and(HeaderValue::is_sensitive)));
    put_text(out, value.map(HeaderValue::as_bytes));
}

fn value(cursor: &mut &[u8], bytes: &Bytes) -> Result<Option<HeaderValue>, Unreadable> {
    let is_sensitive = match cursor.try_get_u8()? {
        0 => false,
        1 => true,
        _ => return Err(Unreadable::Damaged),
    };
    let Some(text) = text(cursor)? else { return Ok(None) };
    let mut value = HeaderValue::from_maybe_shared(bytes.slice_ref(text)).map_err(|_| Unreadable::Damaged)?;
    value.set_sensitive(is_sensitive);
    Ok(Some(value))
}

const SOURCES: [LifetimeSource; 9] = [
    LifetimeSource::Override,
    LifetimeSource::CdnCacheControl,
    LifetimeSource::SurrogateControl,
    LifetimeSource::SMaxage,
    LifetimeSource::MaxAge,
    LifetimeSource::Expires,
    LifetimeSource::Route,
    LifetimeSource::Heuristic,
    LifetimeSource::Nothing,
];

/// The byte for where a lifetime came from.
pub(crate) fn source_code(source: LifetimeSource) -> u8 {
    match source {
        LifetimeSource::Override => 0,
        LifetimeSource::CdnCacheControl => 1,
        LifetimeSource::SurrogateControl => 2,
        LifetimeSource::SMaxage => 3,
        LifetimeSource::MaxAge => 4,
        LifetimeSource::Expires => 5,
        LifetimeSource::Route => 6,
        LifetimeSource::Heuristic => 7,
        LifetimeSource::Nothing => 8,
    }
}

/// What such a byte means.
pub(crate) fn source_of(code: u8) -> Option<LifetimeSource> {
    SOURCES.get(usize::from(code)).copied()
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod fuzzed;
#[cfg(test)]
mod tests;
