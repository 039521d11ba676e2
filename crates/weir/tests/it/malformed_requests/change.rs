//! Changes messages of the tables at random, repeatably.

/// A number from the environment.
pub fn environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// SplitMix64 (Steele, Lea and Flood 2014): enough randomness for mutations, and repeatable.
pub struct Random(pub u64);

impl Random {
    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound.max(1) as u64).unwrap()
    }
}

/// One byte changed, bytes removed, bytes doubled, or a word put in.
pub fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    const WORDS: [&[u8]; 14] = [
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b":",
        b"\0",
        b"_",
        b"0",
        b"GET /c HTTP/1.1\r\n",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"\r\n\r\n",
    ];
    let at = random.below(bytes.len() + 1);
    let end = (at + random.below(12)).min(bytes.len());
    match random.below(4) {
        0 if at < bytes.len() => bytes[at] = u8::try_from(random.below(256)).unwrap(),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let doubled = bytes[at..end].to_vec();
            bytes.splice(at..at, doubled);
        }
        _ => drop(bytes.splice(at..at, WORDS[random.below(WORDS.len())].iter().copied())),
    }
}
