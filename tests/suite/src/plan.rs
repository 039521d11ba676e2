//! Which tests run in one process, and in which order the processes begin.

use std::cmp::Reverse;

use crate::programs::Program;
use crate::slow::Slow;

/// Tests that run in one process, one after another, of those that are not slow: enough that starting it
/// costs little, and so few that the last process is not waited for.
const TESTS: usize = 8;

/// Tests of one program that run in one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The place of their program.
    pub(crate) program: usize,
    pub(crate) tests: Vec<String>,
}

/// All tests, each in one piece: first the slow ones, each alone, the longest first; then the others of the
/// programs that have slow ones, since those wait for much and leave room for what computes.
pub(crate) fn pieces(programs: &[Program], slow: &Slow) -> Vec<Piece> {
    let mut alone: Vec<(u64, Piece)> = Vec::new();
    let mut others: Vec<(u64, Piece)> = Vec::new();
    for (at, program) in programs.iter().enumerate() {
        let seconds = |test: &String| slow.seconds(&format!("{}::{test}", program.name));
        let (long, short): (Vec<_>, Vec<_>) =
            program.tests.iter().cloned().partition(|test| seconds(test).is_some());
        let sum = long.iter().filter_map(seconds).sum();
        let piece = |tests: &[String]| Piece { program: at, tests: tests.to_vec() };
        alone.extend(long.iter().map(|test| (seconds(test).unwrap_or(0), piece(std::slice::from_ref(test)))));
        others.extend(short.chunks(TESTS).map(|tests| (sum, piece(tests))));
    }
    alone.sort_by_key(|(seconds, _)| Reverse(*seconds));
    others.sort_by_key(|(sum, _)| Reverse(*sum));
    alone.into_iter().chain(others).map(|(_, piece)| piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_is_in_one_piece_and_the_longest_is_first() {
        let program = |name: &str, tests: usize| Program {
            name: name.to_owned(),
            target: String::new(),
            path: "p".into(),
            folder: "f".into(),
            tests: (0..tests).map(|test| format!("t{test}")).collect(),
        };
        let programs = [program("a", 3), program("b", 20), program("c", 1)];
        let slow = Slow::parse("11 b::t4 waits\n70 c::t0 waits\n30 b::t5 waits\n").unwrap();
        let pieces = pieces(&programs, &slow);
        let begins: Vec<(usize, &str, usize)> =
            pieces.iter().map(|piece| (piece.program, piece.tests[0].as_str(), piece.tests.len())).collect();
        let expected = [
            (2, "t0", 1),
            (1, "t5", 1),
            (1, "t4", 1),
            (1, "t0", 8),
            (1, "t10", 8),
            (1, "t18", 2),
            (0, "t0", 3),
        ];
        assert_eq!(begins, expected);
    }
}
