//! What a row says of an object beside its place: all that a search asks for, so that no head is read from
//! the drive. `docs/format/catalogue.md` draws it. It does no I/O.

use std::time::{Duration, SystemTime};

use bytes::{Buf, BufMut};
use smallvec::SmallVec;
use weir_policy::{Facts, LifetimeSource, Now, Stored, StoredFlags, Tags, media_type};

use crate::format::codec::{SKEW_MAX, source_code, source_of};
use crate::format::record::ExtentRef;
use crate::format::take;

/// The most tags of an object that its row has. Of an object with more the head is read.
pub const ROW_TAGS_MAX: usize = 64;
/// The most segments with bytes of one body that its row names. Of a body in more the head is read.
pub const ROW_SEGMENTS_MAX: usize = 16;

/// Most numbers take six bytes: lengths up to 256 TiB, times up to the year 10889.
const NUMBER_BYTES: usize = 6;
const NUMBER_MAX: u64 = (1 << (8 * NUMBER_BYTES)) - 1;
/// The length of a body that is not known.
const UNKNOWN: u64 = NUMBER_MAX;
/// In place of the count of segments.
const HELD_WHOLE: u8 = 254;
const HELD_ELSEWHERE: u8 = 255;
/// In the count of tags: the object has more.
const MORE_TAGS: u16 = 1 << 15;

/// Where the bytes of a body lie that are held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// All of them in the segment of the record.
    Whole,
    /// So many bytes in each of these segments.
    In(SmallVec<[(u64, u64); 2]>),
    /// In more segments than a row names.
    Elsewhere,
}

impl Held {
    /// What the record in segment `own` has of a body of that length.
    pub(crate) fn of(extents: &[ExtentRef], own: u64, length: Option<u64>) -> Held {
        let mut segments: SmallVec<[(u64, u64); 2]> = SmallVec::new();
        for extent in extents {
            let (segment, bytes) = (extent.place.segment, u64::from(extent.length));
            if let Some((_, sum)) = segments.iter_mut().find(|(named, _)| *named == segment) {
                *sum += bytes;
            } else if segments.len() == ROW_SEGMENTS_MAX {
                return Held::Elsewhere;
            } else {
                segments.push((segment, bytes));
            }
        }
        match (segments.as_slice(), length) {
            ([], Some(0)) => Held::Whole,
            ([(segment, bytes)], Some(length)) if *segment == own && *bytes == length => Held::Whole,
            _ => Held::In(segments),
        }
    }
}

/// What a row says of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The status.
    pub status: u16,
    /// The length of the body in bytes, if it is known.
    pub length: Option<u64>,
    /// Which bytes of it are held.
    pub held: Held,
    /// The media type without parameters, in lower case.
    pub media_type: Option<Box<str>>,
    /// The tags, if they are at most [`ROW_TAGS_MAX`].
    pub tags: Option<Tags>,
    /// When the response came, to a millisecond.
    pub received: SystemTime,
    freshness: Freshness,
}

/// What the freshness of an object is worked out from, at the moment when the row was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Freshness {
    written_ms: u64,
    age_ms: u64,
    lifetime_ms: u64,
    source: LifetimeSource,
    flags: StoredFlags,
}

impl Summary {
    /// The summary of a head. `now` is the moment of writing.
    pub fn of(stored: &Stored, length: Option<u64>, held: Held, now: Now) -> Summary {
        let facts = &stored.facts;
        let age = facts.initial_age + now.since(facts.received_mono);
        Summary {
            status: stored.status.as_u16(),
            length: length.filter(|length| *length < UNKNOWN),
            held,
            media_type: media_type(&stored.headers).map(String::into_boxed_str),
            tags: Some(&stored.tags).filter(|tags| tags.hashes().len() <= ROW_TAGS_MAX).cloned(),
            received: time_of(ms_of(facts.received_wall)),
            freshness: Freshness {
                written_ms: ms_of(now.wall),
                age_ms: ms(age),
                lifetime_ms: ms(facts.lifetime),
                source: facts.source,
                flags: facts.flags,
            },
        }
    }

    /// What freshness needs of it now, without the windows for stale responses. A wall clock that was set
    /// back by much makes it stale, as it does a head.
    pub fn facts(&self, now: Now) -> Facts {
        let Freshness { written_ms, age_ms, lifetime_ms, source, flags } = self.freshness;
        let lifetime = Duration::from_millis(lifetime_ms);
        let gone_by = match now.wall.duration_since(time_of(written_ms)) {
            Ok(gone_by) => gone_by,
            Err(ahead) if ahead.duration() <= SKEW_MAX => Duration::ZERO,
            Err(_) => lifetime,
        };
        let age = Duration::from_millis(age_ms).saturating_add(gone_by);
        let (received_mono, initial_age) = match now.mono.checked_sub(age) {
            Some(received) => (received, Duration::ZERO),
            None => (now.mono, age),
        };
        Facts {
            lifetime,
            source,
            initial_age,
            received_mono,
            received_wall: self.received,
            while_revalidate: Duration::ZERO,
            if_error: Duration::ZERO,
            flags,
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let Freshness { written_ms, age_ms, lifetime_ms, source, flags } = self.freshness;
        out.put_u16_le(self.status);
        out.put_u8(source_code(source));
        // No search asks for the second byte.
        out.put_u8(flags.0.to_le_bytes()[0]);
        let numbers = [self.length.unwrap_or(UNKNOWN), written_ms, age_ms, lifetime_ms, ms_of(self.received)];
        numbers.into_iter().for_each(|number| put_number(out, number));
        match &self.held {
            Held::Whole => out.put_u8(HELD_WHOLE),
            Held::Elsewhere => out.put_u8(HELD_ELSEWHERE),
            Held::In(segments) => {
                // Invariant: `Held::of` names at most ROW_SEGMENTS_MAX.
                out.put_u8(segments.len().min(ROW_SEGMENTS_MAX) as u8);
                for (segment, bytes) in segments.iter().take(ROW_SEGMENTS_MAX) {
                    out.put_u64_le(*segment);
                    put_number(out, *bytes);
                }
            }
        }
        let media_type = self.media_type.as_deref().unwrap_or_default().as_bytes();
        let media_type = &media_type[..media_type.len().min(usize::from(u8::MAX))];
        out.put_u8(media_type.len() as u8);
        out.put_slice(media_type);
        let Some(tags) = &self.tags else { return out.put_u16_le(MORE_TAGS) };
        // Tags that are not all are more than a row has.
        out.put_u16_le(tags.hashes().len() as u16);
        tags.hashes().iter().for_each(|tag| out.put_u64_le(*tag));
    }

    /// Reads it from the beginning of `cursor`; `None` for what [`Summary::put`] has not written.
    pub(crate) fn read(cursor: &mut &[u8]) -> Option<Summary> {
        let status = cursor.try_get_u16_le().ok()?;
        let source = source_of(cursor.try_get_u8().ok()?)?;
        let flags = StoredFlags(cursor.try_get_u8().ok()?.into());
        let length = Some(number(cursor)?).filter(|length| *length != UNKNOWN);
        let (written_ms, age_ms, lifetime_ms) = (number(cursor)?, number(cursor)?, number(cursor)?);
        let received = time_of(number(cursor)?);
        let held = match cursor.try_get_u8().ok()? {
            HELD_WHOLE => Held::Whole,
            HELD_ELSEWHERE => Held::Elsewhere,
            count if usize::from(count) <= ROW_SEGMENTS_MAX => {
                let segment = |cursor: &mut &[u8]| Some((cursor.try_get_u64_le().ok()?, number(cursor)?));
                Held::In((0..count).map(|_| segment(cursor)).collect::<Option<_>>()?)
            }
            _ => return None,
        };
        let length_of_type = usize::from(cursor.try_get_u8().ok()?);
        let media_type = std::str::from_utf8(take(cursor, length_of_type).ok()?).ok()?;
        let media_type = Some(media_type).filter(|named| !named.is_empty()).map(Into::into);
        let tags = match cursor.try_get_u16_le().ok()? {
            MORE_TAGS => None,
            count if usize::from(count) <= ROW_TAGS_MAX => {
                let hashes = (0..count).map(|_| cursor.try_get_u64_le().ok()).collect::<Option<Vec<_>>>()?;
                Some(Tags::of_hashes(hashes, true))
            }
            _ => return None,
        };
        let freshness = Freshness { written_ms, age_ms, lifetime_ms, source, flags };
        Some(Summary { status, length, held, media_type, tags, received, freshness })
    }
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    out.put_uint_le(number.min(NUMBER_MAX), NUMBER_BYTES);
}

fn number(cursor: &mut &[u8]) -> Option<u64> {
    cursor.try_get_uint_le(NUMBER_BYTES).ok()
}

/// Milliseconds, rounded down.
fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(NUMBER_MAX).min(NUMBER_MAX)
}

/// Milliseconds since 1970; 0 for what was before.
fn ms_of(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, ms)
}

fn time_of(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms)).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
pub(crate) mod tests;
