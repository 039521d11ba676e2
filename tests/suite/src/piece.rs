//! Runs one piece: a process of a test program, which runs its tests one after another, and says when each
//! begins and ends. From that come the times of the tests.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::plan::Piece;
use crate::programs::Program;

/// Ticks of a processor in a second, as Linux shows them to all programs.
const TICKS: u64 = 100;

/// What came of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    Ignored,
    /// The process ended before its turn.
    NotRun,
}

/// A test that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tested {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    pub(crate) took: Duration,
    /// What the test and the processes took of the processor that it started and waited for.
    pub(crate) cpu: Duration,
}

/// What came of a piece.
pub(crate) struct End {
    pub(crate) program: usize,
    pub(crate) tests: Vec<Tested>,
    /// What its failed tests printed.
    pub(crate) said: String,
    /// The tests that needed what is not here, and said so, each with its sentence.
    pub(crate) skipped: Vec<(String, String)>,
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
}

/// Runs it to its end.
pub(crate) fn run(programs: &[Program], piece: Piece) -> End {
    let program = &programs[piece.program];
    let begun = Instant::now();
    let mut command = Command::new(&program.path);
    command.args(["--exact", "--test-threads=1", "--show-output"]).args(&piece.tests);
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut reading = Reading::new(piece.tests);
    let mut is_green = false;
    match command.spawn() {
        Ok(mut child) => {
            let used = |pid| stat(&format!("/proc/{pid}/stat")).unwrap_or_default();
            let mut bytes = [0; 8192];
            let mut stdout = child.stdout.take();
            while !reading.is_closed() {
                let Some(Ok(read @ 1..)) = stdout.as_mut().map(|stdout| stdout.read(&mut bytes)) else {
                    break;
                };
                reading.feed(&String::from_utf8_lossy(&bytes[..read]), begun.elapsed(), used(child.id()));
            }
            is_green = child.wait().is_ok_and(|status| status.success());
        }
        Err(why) => {
            reading.feed(&format!("start {}: {why}", program.path.display()), begun.elapsed(), Duration::ZERO)
        }
    }
    let (tests, said, skipped) = reading.close(is_green, begun.elapsed());
    End { program: piece.program, tests, said, skipped, begun, ended: Instant::now() }
}

/// What a process and its descendants that were waited for have used of the processor.
pub(crate) fn stat(path: &str) -> Option<Duration> {
    let text = std::fs::read_to_string(path).ok()?;
    let fields: Vec<u64> =
        text.rsplit(") ").next()?.split(' ').map(|field| field.trim().parse().unwrap_or(0)).collect();
    // Of itself, in its own code and in the kernel's, and of its children.
    let ticks: u64 = fields.get(11..15)?.iter().sum();
    Some(Duration::from_millis(ticks * 1000 / TICKS))
}

/// The output of a process, as far as it has come.
struct Reading {
    tests: Vec<Tested>,
    text: String,
    /// Where in the text the line begins that is not complete.
    line: usize,
    /// The test that is running, and when it began: by the clock, and by what the process had used.
    running: Option<(usize, Duration, Duration)>,
}

impl Reading {
    fn new(names: Vec<String>) -> Reading {
        let test =
            |name| Tested { name, outcome: Outcome::NotRun, took: Duration::ZERO, cpu: Duration::ZERO };
        Reading { tests: names.into_iter().map(test).collect(), text: String::new(), line: 0, running: None }
    }

    /// Takes more of the output, at this time and after so much use of the processor.
    fn feed(&mut self, more: &str, at: Duration, used: Duration) {
        self.text.push_str(more);
        while self.line < self.text.len() {
            let rest = &self.text[self.line..];
            let (line, length) = match rest.split_once('\n') {
                Some((line, _)) => (line, Some(line.len() + 1)),
                None => (rest, None),
            };
            if let (None, Some((name, _))) = (self.running, begins(line)) {
                let place = self.tests.iter().position(|test| test.name == name);
                self.running = place.map(|place| (place, at, used));
            }
            let Some(length) = length else { return };
            if let (Some((place, since, before)), Some(outcome)) = (self.running, ends(line)) {
                let test = &mut self.tests[place];
                test.outcome = outcome;
                test.took = at.saturating_sub(since);
                test.cpu = used.saturating_sub(before);
                self.running = None;
            }
            self.line += length;
        }
    }

    /// Whether the process has said all.
    fn is_closed(&self) -> bool {
        let last = self.text[..self.line].trim_end().rsplit('\n').next().unwrap_or_default();
        last.starts_with("test result: ")
    }

    /// The tests, what failed ones printed, and what the skipped ones said.
    fn close(mut self, is_green: bool, at: Duration) -> (Vec<Tested>, String, Vec<(String, String)>) {
        let is_whole = self.is_closed();
        if let Some((place, since, _)) = self.running {
            // It ended its process, or another's output is where its end was said.
            self.tests[place].took = at.saturating_sub(since);
            self.tests[place].outcome = if is_green { Outcome::Passed } else { Outcome::Failed };
        }
        let failed: Vec<&str> = match self.text.rsplit_once("\nfailures:\n") {
            Some((_, list)) if is_whole => list.lines().map_while(|line| line.strip_prefix("    ")).collect(),
            _ => Vec::new(),
        };
        let has_run = self.tests.iter().any(|test| test.outcome != Outcome::NotRun);
        for test in &mut self.tests {
            let is_missing = test.outcome == Outcome::NotRun && (is_whole || !has_run);
            if failed.contains(&test.name.as_str()) || is_missing {
                test.outcome = Outcome::Failed;
            }
        }
        if !is_green && !self.tests.iter().any(|test| test.outcome == Outcome::Failed) {
            self.tests.iter_mut().for_each(|test| test.outcome = Outcome::Failed);
        }
        let is_failed = self.tests.iter().any(|test| test.outcome == Outcome::Failed);
        let from = self.text.find("\nfailures:\n").filter(|_| is_whole).unwrap_or(0);
        let said = if is_failed { self.text[from..].trim().to_owned() } else { String::new() };
        let skipped = skipped(&self.text);
        (self.tests, said, skipped)
    }
}

/// The name of the test that begins, and what is behind it, if the line says so.
fn begins(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    Some((name.strip_suffix(" - should panic").unwrap_or(name), rest))
}

/// What came of the test that is running, if the line says so. A process that it has started may have written
/// between its name and that.
fn ends(line: &str) -> Option<Outcome> {
    let said = begins(line).map_or(line, |(_, rest)| rest);
    match said {
        _ if said.ends_with("FAILED") => Some(Outcome::Failed),
        _ if said.ends_with("ok") => Some(Outcome::Passed),
        _ if said.starts_with("ignored") => Some(Outcome::Ignored),
        _ => None,
    }
}

/// The tests that passed because they had to skip what they are for, each with its sentence.
fn skipped(text: &str) -> Vec<(String, String)> {
    let Some((_, successes)) = text.split_once("\nsuccesses:\n") else { return Vec::new() };
    let mut name = "";
    let mut skipped = Vec::new();
    for line in successes.split("\nsuccesses:\n").next().unwrap_or_default().lines() {
        if let Some(test) = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----")) {
            name = test;
        } else if line.starts_with("skipped") {
            skipped.push((name.to_owned(), line.to_owned()));
        }
    }
    skipped
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn names(names: &[&str]) -> Reading {
        Reading::new(names.iter().map(ToString::to_string).collect())
    }

    fn outcomes(tests: &[Tested]) -> Vec<(&str, Outcome, u64, u64)> {
        tests.iter().map(|t| (t.name.as_str(), t.outcome, t.took.as_secs(), t.cpu.as_secs())).collect()
    }

    #[test]
    fn a_test_takes_from_its_name_to_its_outcome() {
        let mut reading = names(&["a", "b::c", "d", "e"]);
        reading.feed("\nrunning 3 tests\ntest a ... ", SECOND, SECOND);
        reading.feed("ok\ntest b::c - should panic ... ", SECOND * 3, SECOND * 2);
        reading.feed("a child says", SECOND * 4, SECOND * 2);
        reading.feed(" this\nok\ntest d ... FAILED\n", SECOND * 8, SECOND * 2);
        assert!(!reading.is_closed());
        reading.feed("test e ... ignored, takes too long\n", SECOND * 8, SECOND * 2);
        let end = "\nsuccesses:\n\n---- a stdout ----\nskipped: no b here\n\n\nsuccesses:\n    a\n    b::c\n\
                   \nfailures:\n\n---- d stdout ----\nwords\n\n\nfailures:\n    d\n\n\
                   test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured\n\n";
        reading.feed(end, SECOND * 9, SECOND * 2);
        assert!(reading.is_closed());
        let (tests, said, skipped) = reading.close(false, SECOND * 9);
        let expected = [
            ("a", Outcome::Passed, 2, 1),
            ("b::c", Outcome::Passed, 5, 0),
            ("d", Outcome::Failed, 0, 0),
            ("e", Outcome::Ignored, 0, 0),
        ];
        assert_eq!(outcomes(&tests), expected);
        assert!(said.starts_with("failures:\n\n---- d stdout"), "{said}");
        assert_eq!(skipped, [("a".to_owned(), "skipped: no b here".to_owned())]);
    }

    #[test]
    fn a_test_that_ends_its_process_has_failed_and_later_ones_have_not_run() {
        let mut reading = names(&["a", "b", "c"]);
        reading.feed("\nrunning 3 tests\ntest a ... ok\ntest b ... ", SECOND, SECOND);
        let (tests, said, _) = reading.close(false, SECOND * 2);
        let expected =
            [("a", Outcome::Passed, 0, 0), ("b", Outcome::Failed, 1, 0), ("c", Outcome::NotRun, 0, 0)];
        assert_eq!(outcomes(&tests), expected);
        assert!(said.ends_with("test b ..."), "{said}");
    }

    #[test]
    fn what_never_ran_and_never_will_has_failed() {
        let outcome = |text: &str, is_green| {
            let mut reading = names(&["a"]);
            reading.feed(text, SECOND, SECOND);
            reading.close(is_green, SECOND).0[0].outcome
        };
        assert_eq!(outcome("start: no such file", false), Outcome::Failed);
        assert_eq!(outcome("\nrunning 0 tests\n\ntest result: ok. 0 passed\n\n", true), Outcome::Failed);
        assert_eq!(outcome("test a ... ok\n\ntest result: ok. 1 passed\n\n", true), Outcome::Passed);
        // Something ended the process with an error after its last test.
        assert_eq!(outcome("test a ... ok\n\ntest result: ok. 1 passed\n\n", false), Outcome::Failed);
    }

    #[test]
    fn what_a_process_used_is_read() {
        assert!(stat("/proc/self/stat").is_some());
        assert!(stat("/proc/self/none").is_none());
    }
}
