//! Numbers of questions: 64 bits that nobody can guess. They are drawn many at once.

use aws_lc_rs::rand;

const AT_ONCE: usize = 256;

/// Numbers that were drawn and not used yet.
#[derive(Debug)]
pub(super) struct Ids {
    bytes: [u8; AT_ONCE * 8],
    used: usize,
}

impl Default for Ids {
    fn default() -> Ids {
        Ids { bytes: [0; AT_ONCE * 8], used: AT_ONCE }
    }
}

impl Ids {
    /// The next one; `None` where the system has no random numbers.
    pub(super) fn next(&mut self) -> Option<u64> {
        if self.used == AT_ONCE {
            rand::fill(&mut self.bytes).ok()?;
            self.used = 0;
        }
        let (ids, _) = self.bytes.as_chunks::<8>();
        let id = u64::from_be_bytes(ids[self.used]);
        self.used += 1;
        Some(id)
    }
}
