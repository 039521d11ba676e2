//! Any bytes as a condition, a measure and a script. None may panic, nor run beyond its limits.

use crate::condition::{Condition, Measure};
use crate::engine::OPERATIONS_MAX;
use crate::made::{MadeOrigin, MadeRow};
use crate::mistake::Source;
use crate::program::Program;
use crate::state::State;
use crate::{clock, trial};

/// Reads the bytes as a condition, a measure and a script, and calls the script.
pub fn script(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for fault in [Condition::parse(text).err(), Measure::parse(text).err()].into_iter().flatten() {
        assert!(text.is_char_boundary(fault.at), "{fault}");
    }
    let source = Source { file: "fuzzed".into(), text: text.into() };
    let program = match Program::compile(source, &[]) {
        Ok(program) => program,
        Err(mistake) => {
            assert!(!mistake.title.contains("the engine could not"), "{mistake}");
            drop(mistake.to_string());
            return;
        }
    };
    let row = MadeRow(vec![
        MadeOrigin::new("http://a.example:80").with("cpu", 0.5),
        MadeOrigin { is_backup: true, ..MadeOrigin::new("http://b.example:80") },
    ]);
    let state = State::of(64, 64 << 10, clock::now());
    let Ok(request) = trial::request("POST https://shop.example/login?a=b") else { return };
    for chance in 0..2 {
        let tried = request.ask(&program, &row, &state, (clock::now(), chance));
        // The operation that is one too many is counted.
        assert!(tried.operations <= OPERATIONS_MAX + 1, "{} operations", tried.operations);
        if let Err(failure) = tried.answer {
            assert!(!failure.why.contains("panicked"), "{failure}");
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_testkit::fuzz;

    #[test]
    fn scripts() {
        const WORDS: &[&[u8]] = &[
            b"origins",
            b"loop { }",
            b".where(\"cpu < \")",
            b"state.count(1, 2)",
            b"deny(",
            b"fn f(n) { f(n) }",
        ];
        fuzz("script", WORDS, super::script);
    }
}
