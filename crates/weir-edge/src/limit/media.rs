//! How fast an MP4 is played: its length over the duration in its `moov` box (ISO/IEC 14496-12 §4.2, §8.2).
//! It looks only at held bytes: the heads of boxes and the 32 bytes of the duration. The file is untrusted
//! input: where anything does not fit, no rate is told.

use weir_policy::Interval;
use weir_store::{Generation, Place, Read};

/// The most boxes that are looked at, in the file and in its `moov` each.
const BOXES_MAX: usize = 64;
/// The largest `moov` that is accepted, in bytes.
const MOOV_BYTES_MAX: u64 = 16 << 20;
/// The lowest mean rate that is accepted, in bytes a second; speech needs more.
const MEAN_BYTES_MIN: u64 = 500;

/// What a generation remembers where its bytes tell no rate.
const TELLS_NOTHING: u64 = u64::MAX;

/// The result of looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Its mean rate in bytes a second.
    Mean(u64),
    /// It tells no rate, and never will.
    Nothing,
    /// The bytes that tell it are not held yet.
    NotYet,
}

/// Whether a `Content-Type` is one of an MP4.
pub(super) fn is_mp4(content_type: &[u8]) -> bool {
    let kind = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    [&b"video/mp4"[..], b"audio/mp4", b"video/quicktime"].iter().any(|known| kind.eq_ignore_ascii_case(known))
}

/// The mean rate of a generation; a result is kept.
///
/// # Cancel safety
/// Safe.
pub(super) async fn mean_rate(generation: &Generation) -> Found {
    match generation.finding() {
        0 => {}
        TELLS_NOTHING => return Found::Nothing,
        mean => return Found::Mean(mean),
    }
    let Some(length) = generation.length() else { return Found::NotYet };
    let found = find(&mut Bytes { generation, place: Place::default() }, length).await;
    match found {
        Ok(Some(mean)) => {
            generation.set_finding(mean);
            Found::Mean(mean)
        }
        Ok(None) => {
            generation.set_finding(TELLS_NOTHING);
            Found::Nothing
        }
        Err(NotHeld) => Found::NotYet,
    }
}

/// Bytes are not held.
#[derive(Debug, PartialEq, Eq)]
struct NotHeld;

/// Bytes that can be read at any offset.
trait Peek {
    /// Fills `out` with the bytes at `offset`, which lies within the length.
    ///
    /// # Errors
    /// Some of them are not held.
    ///
    /// # Cancel safety
    /// Safe.
    async fn peek(&mut self, offset: u64, out: &mut [u8]) -> Result<(), NotHeld>;
}

/// A generation's bytes, in memory or on the volume.
struct Bytes<'g> {
    generation: &'g Generation,
    place: Place,
}

impl Peek for Bytes<'_> {
    async fn peek(&mut self, offset: u64, out: &mut [u8]) -> Result<(), NotHeld> {
        let mut done = 0;
        while done < out.len() {
            let (at, left) = (offset + done as u64, out.len() - done);
            let piece = match self.generation.read(at, left) {
                Read::Piece(piece) => piece,
                // Bytes that are not held are not read: a failed read would count as damage.
                _ if self.generation.is_on_disk()
                    && self.generation.gap(Interval::new(at, at + left as u64)).is_none() =>
                {
                    let read = self.generation.fetch(&mut self.place, at, left).await;
                    read.ok().flatten().ok_or(NotHeld)?
                }
                _ => return Err(NotHeld),
            };
            let length = piece.len().min(left);
            out[done..done + length].copy_from_slice(&piece[..length]);
            done += length;
        }
        Ok(())
    }
}

/// A box: its kind, and where its content begins and ends.
struct Mp4Box {
    kind: [u8; 4],
    content: u64,
    end: u64,
}

/// The mean rate in bytes a second of a file of `length` bytes; `None` where it tells none that is plausible.
async fn find(bytes: &mut impl Peek, length: u64) -> Result<Option<u64>, NotHeld> {
    let Some(moov) = find_box(bytes, *b"moov", 0, length).await? else { return Ok(None) };
    if moov.end - moov.content > MOOV_BYTES_MAX {
        return Ok(None);
    }
    let Some(header) = find_box(bytes, *b"mvhd", moov.content, moov.end).await? else { return Ok(None) };
    let mut fields = [0; 32];
    // The version, two times, the units in a second, and the duration in units; the times and the duration
    // have 4 or 8 bytes.
    let mut version = [0; 1];
    if header.end == header.content {
        return Ok(None);
    }
    bytes.peek(header.content, &mut version).await?;
    let (times, needed) = match version[0] {
        0 => (4, 20),
        1 => (8, 32),
        _ => return Ok(None),
    };
    if header.end - header.content < needed as u64 {
        return Ok(None);
    }
    bytes.peek(header.content, &mut fields[..needed]).await?;
    let units = 4 + 2 * times;
    let duration = &fields[units + 4..needed];
    // All ones: the duration is unknown.
    if duration.iter().all(|byte| *byte == u8::MAX) {
        return Ok(None);
    }
    Ok(mean(length, number(&fields[units..units + 4]), number(duration)))
}

fn mean(length: u64, units_per_s: u64, duration: u64) -> Option<u64> {
    let mean = (u128::from(length) * u128::from(units_per_s)).checked_div(u128::from(duration))?;
    u64::try_from(mean).ok().filter(|mean| (MEAN_BYTES_MIN..TELLS_NOTHING).contains(mean))
}

/// The first box of a kind in `[at, end)`.
async fn find_box(
    bytes: &mut impl Peek,
    kind: [u8; 4],
    mut at: u64,
    end: u64,
) -> Result<Option<Mp4Box>, NotHeld> {
    for _ in 0..BOXES_MAX {
        let Some(found) = box_at(bytes, at, end).await? else { return Ok(None) };
        if found.kind == kind {
            return Ok(Some(found));
        }
        at = found.end;
    }
    Ok(None)
}

/// The box at `at`; `None` where no box fits there before `end`.
async fn box_at(bytes: &mut impl Peek, at: u64, end: u64) -> Result<Option<Mp4Box>, NotHeld> {
    let left = end - at;
    if left < 8 {
        return Ok(None);
    }
    let mut head = [0; 8];
    bytes.peek(at, &mut head).await?;
    let [.., a, b, c, d] = head;
    let (head_bytes, size) = match number(&head[..4]) {
        // The box ends with the file.
        0 => (8, left),
        1 if left < 16 => return Ok(None),
        1 => {
            let mut size = [0; 8];
            bytes.peek(at + 8, &mut size).await?;
            (16, number(&size))
        }
        size => (8, size),
    };
    if size < head_bytes || size > left {
        return Ok(None);
    }
    Ok(Some(Mp4Box { kind: [a, b, c, d], content: at + head_bytes, end: at + size }))
}

/// A big-endian number of at most 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests;
