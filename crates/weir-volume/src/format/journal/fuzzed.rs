//! Promises of the journal's reader that hold for any bytes: no panic; frames that are written again read the
//! same; a torn end loses frames and changes none.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{FRAME_HEADER_BYTES, Superblock, header, read};

const NUMBER: u64 = 3;

/// Reads any bytes as what follows a journal's header, as they are and with a correct checksum of the first
/// frame.
pub fn journal(data: &[u8]) {
    let superblock = Superblock {
        id: 1 << 100 | 2,
        secret: 0x0123_4567_89ab_cdef,
        segment_bytes: 16 << 20,
        shard_bits: 12,
        made_for_bytes: 1 << 30,
    };
    check(data, &superblock);
    let Some(count) = data.get(12..16).and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)))
    else {
        return;
    };
    let end = (FRAME_HEADER_BYTES as u64).saturating_add(u64::from(count) * super::CHANGE_BYTES as u64);
    let Some(frame) = usize::try_from(end).ok().and_then(|end| data.get(..end)) else { return };
    let mut sound = data.to_vec();
    let sum = xxh3_64_with_seed(&frame[8..], superblock.secret);
    sound[..8].copy_from_slice(&sum.to_le_bytes());
    check(&sound, &superblock);
}

fn check(frames: &[u8], superblock: &Superblock) {
    let bytes = [&header(superblock, NUMBER), frames].concat();
    let all = read(&bytes, superblock, NUMBER);
    let mut again = header(superblock, NUMBER);
    all.iter().for_each(|frame| again.extend(frame.to_bytes(superblock, NUMBER)));
    assert_eq!(read(&again, superblock, NUMBER), all, "what is written again reads otherwise");
    let torn = read(&bytes[..bytes.len() - 1], superblock, NUMBER);
    assert!(all.starts_with(&torn), "a torn journal says something else");
    assert!(
        all.is_empty() || read(&bytes, superblock, NUMBER + 1).is_empty(),
        "it is another journal's, too"
    );
}
