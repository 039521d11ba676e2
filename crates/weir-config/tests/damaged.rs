//! Damaged configurations are refused with a report, never with a panic, and never by the model alone:
//! whatever the checks let through must fit it.

#![allow(clippy::unwrap_used)]

use std::path::Path;

/// A generator of numbers that is the same in every run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

const PIECES: [&str; 28] = [
    "\"",
    "[",
    "]",
    "[[",
    "{",
    "}",
    "=",
    "\n",
    "#",
    "ä",
    "\u{0}",
    "${",
    "${X}",
    "1",
    "-1",
    "99999999999999999999",
    "true",
    "1.5",
    "\"*\"",
    "[[site]]",
    "[site.route]",
    "[upstream]",
    "\"60s\"",
    "{ file = \"x\" }",
    "1979-05-27",
    "[]",
    "upstream = \"a\"",
    "'''",
];

fn damage(text: &str, numbers: &mut Numbers) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=numbers.below(3) {
        let at = numbers.below(chars.len());
        let length = numbers.below(12).min(chars.len() - at);
        match numbers.below(4) {
            0 => drop(chars.drain(at..at + length)),
            1 => {
                let piece: Vec<char> = chars[at..at + length].to_vec();
                let to = numbers.below(chars.len());
                chars.splice(to..to, piece);
            }
            2 => drop(chars.splice(at..at, PIECES[numbers.below(PIECES.len())].chars())),
            _ => drop(chars.splice(at..at + length, PIECES[numbers.below(PIECES.len())].chars())),
        }
        if chars.is_empty() {
            chars.push(' ');
        }
    }
    chars.into_iter().collect()
}

#[test]
fn no_damage_makes_the_loader_panic() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folder = std::env::temp_dir().join(format!("weir-damaged-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("weir.toml");
    let mut numbers = Numbers(0x5745_4952);
    let no_environment = |_: &str| None;
    for name in ["shop.toml", "api.toml", "static-site.toml"] {
        let text = std::fs::read_to_string(examples.join(name)).unwrap();
        for round in 0..400 {
            let damaged = damage(&text, &mut numbers);
            std::fs::write(&path, &damaged).unwrap();
            let Err(mistakes) = weir_config::load_with(&path, &no_environment) else { continue };
            let report = mistakes.to_string();
            assert!(mistakes.count() > 0, "{name}, round {round}:\n{damaged}");
            assert!(
                !report.contains("does not fit its model"),
                "{name}, round {round}:\n{report}\n{damaged}"
            );
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
