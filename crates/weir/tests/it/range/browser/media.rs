//! Media for a browser, made by hand: a WAV, and an MP4 with its `moov` at the end, as cameras write it.

/// Samples a second, of two channels and 16 bits each.
const SAMPLES_PER_SECOND: u32 = 44_100;
/// Samples of one frame of FLAC.
const FRAME_SAMPLES: u32 = 4096;

/// The two channels at a position: two tones with different beats, so that no two seconds sound alike.
fn samples(at: u32) -> (i16, i16) {
    let second = (at / SAMPLES_PER_SECOND) as i16;
    ((at % 100) as i16 * 40 + second, (at % 147) as i16 * 27 - second)
}

/// A WAV of this many seconds.
pub fn wav(seconds: u32) -> Vec<u8> {
    let frames = SAMPLES_PER_SECOND * seconds;
    let data = frames * 4;
    let mut out = Vec::with_capacity(44 + data as usize);
    out.extend(b"RIFF");
    out.extend((36 + data).to_le_bytes());
    out.extend(b"WAVEfmt ");
    out.extend(16u32.to_le_bytes());
    out.extend(1u16.to_le_bytes());
    out.extend(2u16.to_le_bytes());
    out.extend(SAMPLES_PER_SECOND.to_le_bytes());
    out.extend((SAMPLES_PER_SECOND * 4).to_le_bytes());
    out.extend(4u16.to_le_bytes());
    out.extend(16u16.to_le_bytes());
    out.extend(b"data");
    out.extend(data.to_le_bytes());
    for at in 0..frames {
        let (left, right) = samples(at);
        out.extend(left.to_le_bytes());
        out.extend(right.to_le_bytes());
    }
    out
}

/// An MP4 of at least this many seconds: FLAC with verbatim frames (RFC 9639 §9.2.4).
pub fn mp4(seconds: u32) -> Vec<u8> {
    let frames = (SAMPLES_PER_SECOND * seconds).div_ceil(FRAME_SAMPLES);
    let table = crc16_table();
    let mut out = atom(b"ftyp", b"isom\0\0\x02\0isommp41");
    let begun = out.len();
    out.extend([0; 8]);
    let mut sizes = Vec::new();
    for number in 0..frames {
        let from = out.len();
        frame(&mut out, number, &table);
        sizes.push((out.len() - from) as u32);
    }
    let length = (out.len() - begun) as u32;
    out[begun..begun + 4].copy_from_slice(&length.to_be_bytes());
    out[begun + 4..begun + 8].copy_from_slice(b"mdat");
    out.extend(moov(&sizes, begun as u32 + 8));
    out
}

fn atom(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32 + 8).to_be_bytes(), &name[..], content].concat()
}

/// An atom with a version and flags, and words behind them.
fn full(name: &[u8; 4], flags: u32, words: &[u32]) -> Vec<u8> {
    let words = std::iter::once(&flags).chain(words);
    atom(name, &words.flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>())
}

/// ISO/IEC 14496-12 §8.
fn moov(sizes: &[u32], media_at: u32) -> Vec<u8> {
    const MATRIX: [u32; 9] = [0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x4000_0000];
    let (count, duration) = (sizes.len() as u32, sizes.len() as u32 * FRAME_SAMPLES);
    let mut movie = vec![0, 0, SAMPLES_PER_SECOND, duration, 0x10000, 0x100_0000, 0, 0];
    movie.extend(MATRIX);
    movie.extend([0, 0, 0, 0, 0, 0, 2]);
    let mut track = vec![0, 0, 1, 0, duration, 0, 0, 0, 0x100_0000];
    track.extend(MATRIX);
    track.extend([0, 0]);
    let handler = [&[0; 8], &b"soun"[..], &[0; 13]].concat();
    let mut lengths = vec![0, count];
    lengths.extend(sizes);
    let tables = [
        atom(b"stsd", &[&[0, 0, 0, 0, 0, 0, 0, 1], &sample_entry(duration)[..]].concat()),
        full(b"stts", 0, &[1, count, FRAME_SAMPLES]),
        full(b"stsc", 0, &[1, 1, count, 1]),
        full(b"stsz", 0, &lengths),
        full(b"stco", 0, &[1, media_at]),
    ];
    let place = full(b"dref", 0, &[1, 12, u32::from_be_bytes(*b"url "), 1]);
    let information =
        [full(b"smhd", 0, &[0]), atom(b"dinf", &place), atom(b"stbl", &tables.concat())].concat();
    let media = [
        full(b"mdhd", 0, &[0, 0, SAMPLES_PER_SECOND, duration, 0x55c4_0000]),
        atom(b"hdlr", &handler),
        atom(b"minf", &information),
    ];
    let track = [full(b"tkhd", 3, &track), atom(b"mdia", &media.concat())].concat();
    atom(b"moov", &[full(b"mvhd", 0, &movie), atom(b"trak", &track)].concat())
}

/// `fLaC` with the stream's metadata (RFC 9639 §8.2).
fn sample_entry(samples: u32) -> Vec<u8> {
    let mut facts = vec![0x80, 0, 0, 34];
    facts.extend((FRAME_SAMPLES as u16).to_be_bytes());
    facts.extend((FRAME_SAMPLES as u16).to_be_bytes());
    facts.extend([0; 6]);
    let word = u64::from(SAMPLES_PER_SECOND) << 44 | 1 << 41 | 15 << 36 | u64::from(samples);
    facts.extend(word.to_be_bytes());
    facts.extend([0; 16]);
    let mut entry = vec![0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 16, 0, 0, 0, 0];
    entry.extend((SAMPLES_PER_SECOND << 16).to_be_bytes());
    entry.extend(atom(b"dfLa", &[&[0; 4], &facts[..]].concat()));
    atom(b"fLaC", &entry)
}

/// A frame (RFC 9639 §9): its header, two verbatim subframes, and its checksum.
fn frame(out: &mut Vec<u8>, number: u32, table: &[u16; 256]) {
    let from = out.len();
    out.extend([0xff, 0xf8, 0xc9, 0x18]);
    match number {
        0..0x80 => out.push(number as u8),
        0x80..0x800 => out.extend([0xc0 | (number >> 6) as u8, 0x80 | (number & 0x3f) as u8]),
        _ => {
            let middle = 0x80 | (number >> 6 & 0x3f) as u8;
            out.extend([0xe0 | (number >> 12) as u8, middle, 0x80 | (number & 0x3f) as u8]);
        }
    }
    let check = out[from..].iter().fold(0u8, |crc, byte| {
        (0..8).fold(crc ^ byte, |crc, _| crc << 1 ^ if crc & 0x80 == 0 { 0 } else { 0x07 })
    });
    out.push(check);
    for channel in 0..2 {
        out.push(0x02);
        for at in number * FRAME_SAMPLES..(number + 1) * FRAME_SAMPLES {
            let (left, right) = samples(at);
            out.extend(if channel == 0 { left } else { right }.to_be_bytes());
        }
    }
    let next = |crc: u16, byte: &u8| crc << 8 ^ table[usize::from((crc >> 8) as u8 ^ byte)];
    let check = out[from..].iter().fold(0u16, next);
    out.extend(check.to_be_bytes());
}

fn crc16_table() -> [u16; 256] {
    std::array::from_fn(|byte| {
        let shift = |crc: u16, _| crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x8005 };
        (0..8).fold((byte as u16) << 8, shift)
    })
}
