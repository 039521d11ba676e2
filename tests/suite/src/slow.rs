//! The tests that are known to take more than ten seconds, each with its reason: `slow.txt`, a line each,
//! `SECONDS NAME REASON`. What is after a `#` at the begin of a line is for readers.

use std::collections::BTreeMap;
use std::path::Path;

use crate::programs::Program;

/// A test that takes longer, in seconds, stands in the list.
pub(crate) const SECONDS: u64 = 10;

/// The list.
pub(crate) struct Slow(BTreeMap<String, u64>);

impl Slow {
    pub(crate) fn read(path: &Path) -> Result<Slow, String> {
        let text = std::fs::read_to_string(path).map_err(|why| format!("read {}: {why}", path.display()))?;
        Slow::parse(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    pub(crate) fn parse(text: &str) -> Result<Slow, String> {
        let mut slow = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.splitn(3, ' ').collect();
            let seconds = words[0].parse().ok().filter(|seconds| *seconds > 0);
            let (Some(seconds), [_, name, reason]) = (seconds, &words[..]) else {
                return Err(format!("{line:?} is not `SECONDS NAME REASON`"));
            };
            if reason.trim().is_empty() || slow.insert((*name).to_owned(), seconds).is_some() {
                return Err(format!("{name} has no reason, or two lines"));
            }
        }
        Ok(Slow(slow))
    }

    /// How long a test takes that is in the list.
    pub(crate) fn seconds(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// The names of the list that no test has.
    pub(crate) fn gone(&self, programs: &[Program]) -> impl Iterator<Item = &str> {
        let is_there = |name: &str| {
            let parts =
                programs.iter().map(|program| (&program.tests, name.strip_prefix(program.name.as_str())));
            let mut tests = parts.filter_map(|(tests, rest)| Some((tests, rest?.strip_prefix("::")?)));
            tests.any(|(tests, test)| tests.iter().any(|known| known == test))
        };
        self.0.keys().map(String::as_str).filter(move |name| !is_there(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_time_a_name_and_a_reason() {
        let slow = Slow::parse("# words\n\n12 a/it::b::c it waits for a minute\n").unwrap();
        assert_eq!(slow.seconds("a/it::b::c"), Some(12));
        assert_eq!(slow.seconds("a/it::b"), None);
        for wrong in ["12 a", "x a it waits", "12 a ", "0 a it waits", "12 a it waits\n13 a it waits"] {
            assert!(Slow::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_name_that_no_test_has_is_gone() {
        let slow =
            Slow::parse("12 a/it::b::c it waits\n13 a/it::b::d it waits\n14 a::b::c it waits\n").unwrap();
        let tests = vec!["b::c".to_owned()];
        let (name, target) = ("a/it".to_owned(), String::new());
        let program = Program { name, target, path: "p".into(), folder: "f".into(), tests };
        assert_eq!(slow.gone(&[program]).collect::<Vec<_>>(), ["a/it::b::d", "a::b::c"]);
    }

    #[test]
    fn the_list_can_be_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("slow.txt");
        Slow::read(&path).unwrap();
    }
}
