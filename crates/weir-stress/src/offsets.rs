//! The offset pattern: a body in which every line has its own offset, so that a shifted, repeated or missing
//! piece shows, also to a person with `curl -r`.
//!
//! Lines of 16 bytes: the line's offset in 15 decimal digits and a line feed. Byte `o` is the same in offset
//! bodies of any length.

/// Bytes of a line.
const LINE: u64 = 16;

/// Writes the pattern's bytes from `offset` on into all of `out`.
pub fn fill(offset: u64, out: &mut [u8]) {
    let mut skip = (offset % LINE) as usize;
    let mut rest = out;
    let mut line = line(offset - offset % LINE);
    while !rest.is_empty() {
        let taken = rest.len().min(line.len() - skip);
        rest[..taken].copy_from_slice(&line[skip..skip + taken]);
        rest = &mut rest[taken..];
        skip = 0;
        add(&mut line, LINE);
    }
}

/// The first `length` bytes of the pattern.
pub fn body(length: u64) -> Vec<u8> {
    let mut body = vec![0; length as usize];
    fill(0, &mut body);
    body
}

/// Whether `bytes` are what the pattern has at `offset`.
pub fn matches(offset: u64, bytes: &[u8]) -> bool {
    let mut at = offset;
    bytes.chunks(4096).all(|chunk| {
        let mut expected = [0; 4096];
        fill(at, &mut expected[..chunk.len()]);
        at += chunk.len() as u64;
        chunk == &expected[..chunk.len()]
    })
}

fn line(mut offset: u64) -> [u8; LINE as usize] {
    let mut line = [b'0'; LINE as usize];
    line[LINE as usize - 1] = b'\n';
    for digit in line[..LINE as usize - 1].iter_mut().rev() {
        *digit = b'0' + (offset % 10) as u8;
        offset /= 10;
    }
    line
}

/// Adds to the decimal digits of a line. They begin again past 15 digits.
fn add(line: &mut [u8; LINE as usize], mut amount: u64) {
    for digit in line[..LINE as usize - 1].iter_mut().rev() {
        if amount == 0 {
            return;
        }
        let sum = u64::from(*digit - b'0') + amount;
        *digit = b'0' + (sum % 10) as u8;
        amount = sum / 10;
    }
}
