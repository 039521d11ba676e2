//! What boxes tell: good ones, ones that do not fit, and arbitrary bytes.

use proptest::prelude::*;

use super::*;

/// Bytes of which only the first ones are held.
struct Front<'b> {
    bytes: &'b [u8],
    held: usize,
    /// The number of bytes read.
    looked: usize,
}

impl Peek for Front<'_> {
    async fn peek(&mut self, offset: u64, out: &mut [u8]) -> Result<(), NotHeld> {
        let at = usize::try_from(offset).unwrap();
        assert!(at + out.len() <= self.bytes.len(), "it looks behind the end");
        if at + out.len() > self.held {
            return Err(NotHeld);
        }
        out.copy_from_slice(&self.bytes[at..at + out.len()]);
        self.looked += out.len();
        Ok(())
    }
}

fn wait<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("nothing here waits"),
    }
}

fn found_in(bytes: &[u8], held: usize) -> Result<Option<u64>, NotHeld> {
    let mut front = Front { bytes, held, looked: 0 };
    let found = wait(find(&mut front, bytes.len() as u64));
    assert!(front.looked <= 2 * 16 * BOXES_MAX + 33);
    found
}

fn found(bytes: &[u8]) -> Option<u64> {
    found_in(bytes, bytes.len()).unwrap()
}

fn boxed(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(content.len() + 8).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(kind);
    bytes.extend_from_slice(content);
    bytes
}

/// A box whose size is written in 64 bits.
fn boxed_64(kind: &[u8; 4], size: u64, content: &[u8]) -> Vec<u8> {
    [&1u32.to_be_bytes()[..], kind, &size.to_be_bytes(), content].concat()
}

fn mvhd(units_per_s: u32, duration: u32) -> Vec<u8> {
    let mut content = vec![0; 12];
    content.extend(units_per_s.to_be_bytes());
    content.extend(duration.to_be_bytes());
    content.extend([0; 80]);
    boxed(b"mvhd", &content)
}

fn mvhd_64(units_per_s: u32, duration: u64) -> Vec<u8> {
    let mut content = vec![1, 0, 0, 0];
    content.extend([0; 16]);
    content.extend(units_per_s.to_be_bytes());
    content.extend(duration.to_be_bytes());
    boxed(b"mvhd", &content)
}

fn file(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.concat()
}

fn ftyp() -> Vec<u8> {
    boxed(b"ftyp", b"isom\0\0\0\0")
}

#[test]
fn the_mean_is_the_length_over_the_duration() {
    let mdat = boxed(b"mdat", &vec![0; 100_000]);
    let moov = boxed(b"moov", &mvhd(1000, 10_000));
    let front = file(&[ftyp(), moov.clone(), mdat.clone()]);
    assert_eq!(found(&front), Some(front.len() as u64 / 10));
    let back = file(&[ftyp(), boxed(b"free", b""), mdat.clone(), moov]);
    assert_eq!(found(&back), Some(back.len() as u64 / 10));
    let later =
        file(&[ftyp(), boxed(b"moov", &file(&[boxed(b"iods", b"x"), mvhd_64(90_000, 900_000)])), mdat]);
    assert_eq!(found(&later), Some(later.len() as u64 / 10));
}

#[test]
fn sizes_of_64_bits_and_to_the_end_are_followed() {
    let moov = boxed(b"moov", &mvhd(1000, 10_000));
    let wide = boxed_64(b"mdat", 16 + 50_000, &vec![0; 50_000]);
    let bytes = file(&[ftyp(), wide, moov]);
    assert_eq!(found(&bytes), Some(bytes.len() as u64 / 10));
    let mut open = mvhd(1, 2);
    open.extend(vec![0; 5000]);
    let mut bytes = 0u32.to_be_bytes().to_vec();
    bytes.extend(b"moov");
    bytes.extend(&open);
    assert_eq!(found(&bytes), Some(bytes.len() as u64 / 2));
}

#[test]
fn what_is_not_held_is_not_known_yet() {
    let moov = boxed(b"moov", &mvhd(1000, 10_000));
    let mdat = boxed(b"mdat", &vec![0; 100_000]);
    let front = file(&[ftyp(), moov.clone(), mdat.clone()]);
    assert_eq!(found_in(&front, 0), Err(NotHeld));
    assert_eq!(found_in(&front, 40), Err(NotHeld));
    assert_eq!(found_in(&front, 100), Ok(Some(front.len() as u64 / 10)));
    let back = file(&[ftyp(), mdat, moov]);
    assert_eq!(found_in(&back, 90_000), Err(NotHeld));
}

#[test]
fn what_does_not_fit_tells_nothing() {
    let body = boxed(b"mdat", &vec![0; 100_000]);
    let with = |moov: Vec<u8>| found(&file(&[ftyp(), moov, body.clone()]));
    assert_eq!(with(boxed(b"moov", &mvhd(1000, 10_000))), Some(10_014));
    // No duration, an unknown one, no time unit, an unknown version, an implausible rate.
    for header in [
        mvhd(1000, 0),
        mvhd(1000, u32::MAX),
        mvhd_64(1000, u64::MAX),
        mvhd(0, 10),
        mvhd(1, 3_000_000_000),
        boxed(b"mvhd", &[2; 100]),
        boxed(b"mvhd", b""),
        boxed(b"mvhd", &[0; 19]),
        boxed(b"trak", &[0; 100]),
        Vec::new(),
    ] {
        assert_eq!(with(boxed(b"moov", &header)), None);
    }
    // Sizes that point behind the end, or nowhere.
    for size in [0u64, 8, 15, 1 << 40, u64::MAX] {
        assert_eq!(found(&file(&[ftyp(), boxed_64(b"free", size, &[0; 64])])), None, "{size}");
    }
    assert_eq!(found(&file(&[ftyp(), vec![0, 0, 0, 7], b"moov".to_vec(), vec![0; 64]])), None);
    assert_eq!(found(&file(&[ftyp(), vec![0, 0, 0, 1], b"moov".to_vec()])), None);
    assert_eq!(found(b"<!doctype html><title>Not Found</title>"), None);
    assert_eq!(found(b""), None);
    // More boxes than any file needs, and a larger moov.
    let many = vec![boxed(b"free", b""); BOXES_MAX];
    assert_eq!(found(&file(&[many.concat(), boxed(b"moov", &mvhd(1000, 10_000))])), None);
    let large = file(&[mvhd(1000, 10_000), vec![0; MOOV_BYTES_MAX as usize]]);
    assert_eq!(found(&boxed(b"moov", &large)), None);
}

#[test]
fn types_are_told_without_their_parameters() {
    for kind in ["video/mp4", "VIDEO/MP4; codecs=\"avc1\"", "audio/mp4 ;x", "video/quicktime"] {
        assert!(is_mp4(kind.as_bytes()), "{kind}");
    }
    for kind in ["", "video/mp4x", "video/webm", "application/mp4", "text/html"] {
        assert!(!is_mp4(kind.as_bytes()), "{kind}");
    }
}

proptest! {
    /// Whatever the bytes are, reading ends and stays within the file and its bounds.
    #[test]
    fn any_bytes_are_borne(
        mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        places in prop::collection::vec((0usize..400, 0usize..4), 0..8),
        held in 0usize..500,
    ) {
        for (at, kind) in places {
            let kind = [b"moov", b"mvhd", b"free", b"mdat"][kind];
            if at + 8 <= bytes.len() {
                bytes[at..at + 8].copy_from_slice(&[0, 0, 0, 40, kind[0], kind[1], kind[2], kind[3]]);
            }
        }
        let whole = found(&bytes);
        match found_in(&bytes, held) {
            Ok(early) => prop_assert_eq!(early, whole),
            Err(NotHeld) => prop_assert!(held < bytes.len()),
        }
    }
}
