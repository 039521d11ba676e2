//! Changes messages of the tables at random, repeatably.

use weir_testkit::Random;

/// A number from the environment.
pub fn environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Changes a byte, removes bytes, doubles bytes, or inserts a word.
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
    let mut below = |bound: usize| usize::try_from(random.below(bound as u64)).unwrap();
    let at = below(bytes.len() + 1);
    let end = (at + below(12)).min(bytes.len());
    match below(4) {
        0 if at < bytes.len() => bytes[at] = u8::try_from(below(256)).unwrap(),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let doubled = bytes[at..end].to_vec();
            bytes.splice(at..at, doubled);
        }
        _ => drop(bytes.splice(at..at, WORDS[below(WORDS.len())].iter().copied())),
    }
}
