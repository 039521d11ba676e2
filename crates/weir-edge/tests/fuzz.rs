//! Runs this crate's fuzz bodies over their seeds and every small change of them, on any toolchain.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../../fuzz/src/listen.rs"]
mod listen;

use std::path::Path;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let seeds: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!seeds.is_empty(), "no seeds for {target}");
    seeds
}

#[test]
fn proxy_headers_keep_their_promises() {
    for seed in seeds("proxy_header") {
        listen::proxy_header(&seed);
        // Changes further on only concern the payload.
        for at in 0..seed.len().min(64) {
            for byte in [0, 1, 0x0a, 0x0d, 0x11, 0x20, 0x21, b'0', b'9', b'+', b':', 0x7f, 0xff] {
                let mut changed = seed.clone();
                changed.truncate(300);
                changed[at] = byte;
                listen::proxy_header(&changed);
                changed.insert(at, byte);
                listen::proxy_header(&changed);
                changed.drain(at..at + 2);
                listen::proxy_header(&changed);
            }
        }
    }
}
