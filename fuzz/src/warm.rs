//! Promises of sitemaps, for any bytes: no panic; what is named is never blank, has no blank at its ends, and
//! within the bounds; how the bytes are cut changes nothing, nor does gzip around them; where who takes
//! the entries stops, the reading stops.

use std::io::{Cursor, Read};

use weir_warm::sitemap::{ENTRIES_MAX, Entry, SitemapError, is_url, read, without_fragment};

/// Gives a byte at a time.
struct Slow<'d>(&'d [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let most = into.len().min(1);
        self.0.read(&mut into[..most])
    }
}

/// What a document names, and whether it was read to its end.
fn named(from: impl Read) -> (Vec<Entry>, Result<(), String>) {
    let mut all = Vec::new();
    let ended = read(from, &mut |entry| {
        all.push(entry);
        Ok(())
    });
    (all, ended.map_err(|why| why.to_string()))
}

/// Reads a document.
pub fn sitemap(data: &[u8]) {
    let (all, ended) = named(Cursor::new(data));
    assert!(all.len() as u64 <= ENTRIES_MAX);
    for entry in &all {
        let (Entry::Url(text) | Entry::Sitemap(text)) = entry;
        assert!(!text.is_empty() && text.trim() == text, "{text:?}");
        assert!(!without_fragment(text).contains('#') && (!is_url(text) || is_url(without_fragment(text))));
    }
    assert_eq!(named(Slow(data)), (all.clone(), ended.clone()), "cut otherwise");
    let is_gzip = data.starts_with(&[0x1f, 0x8b]);
    if !is_gzip {
        let packed = stored(data);
        assert_eq!(named(Cursor::new(packed)), (all.clone(), ended), "as gzip");
    }
    let mut count = 0;
    let stopped = read(Cursor::new(data), &mut |_| {
        count += 1;
        Err("no more".to_owned())
    });
    assert!(count <= 1 && (count == 0 || matches!(stopped, Err(SitemapError::Refused(_)))));
}

/// Bytes as gzip (RFC 1952) of one stored block (RFC 1951 §3.2.4).
fn stored(data: &[u8]) -> Vec<u8> {
    // Invariant: targets cut their input far below 64 KiB.
    let length = u16::try_from(data.len()).unwrap_or(u16::MAX);
    let data = &data[..usize::from(length)];
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(&crc32(data).to_le_bytes());
    out.extend_from_slice(&u32::from(length).to_le_bytes());
    out
}

fn crc32(data: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !data.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}
