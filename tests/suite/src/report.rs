//! What came of the tests: a line for each, one for each program as its own runner would print it, and at the
//! end what a reader should know: the slowest tests, what is slow without a reason, what was skipped, and
//! what failed.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::piece::{End, Outcome, Tested, stat};
use crate::plan::Piece;
use crate::programs::Program;
use crate::slow::{self, Slow};

/// How many of the slowest tests are shown.
const SLOWEST: usize = 20;
/// Programs whose tests have deadlines that others can make them miss: a failed one is run again, alone.
const CROWDED: [&str; 2] = ["weir/it", "weir-stress"];

/// What came of a program's tests so far.
#[derive(Clone, Default)]
struct Sum {
    passed: usize,
    failed: usize,
    ignored: usize,
    begun: Option<Instant>,
    ended: Option<Instant>,
}

pub(crate) struct Report<'p> {
    programs: &'p [Program],
    slow: Slow,
    sums: Vec<Sum>,
    tests: Vec<(usize, Tested)>,
    skipped: Vec<String>,
    /// What failed beside others and not alone.
    saved: Vec<(usize, String)>,
}

impl<'p> Report<'p> {
    pub(crate) fn new(programs: &'p [Program], slow: Slow) -> Report<'p> {
        let sums = vec![Sum::default(); programs.len()];
        Report { programs, slow, sums, tests: Vec::new(), skipped: Vec::new(), saved: Vec::new() }
    }

    /// Takes what came of a piece.
    pub(crate) fn take(&mut self, end: End) {
        let sum = &mut self.sums[end.program];
        sum.begun = Some(sum.begun.map_or(end.begun, |begun| begun.min(end.begun)));
        sum.ended = Some(sum.ended.map_or(end.ended, |ended| ended.max(end.ended)));
        for test in &end.tests {
            match test.outcome {
                Outcome::Passed => sum.passed += 1,
                Outcome::Failed => sum.failed += 1,
                Outcome::Ignored => sum.ignored += 1,
                Outcome::NotRun => {}
            }
        }
        self.print(&end);
        let name = &self.programs[end.program].name;
        self.skipped.extend(end.skipped.iter().map(|(test, why)| format!("{name}::{test}: {why}")));
        self.tests.extend(end.tests.into_iter().map(|test| (end.program, test)));
        let sum = &self.sums[end.program];
        let is_done = sum.passed + sum.ignored == self.programs[end.program].tests.len();
        if is_done {
            println!("{}", self.closing(end.program));
        }
    }

    /// The failed tests, if they may have failed because others ran beside them, and are not more than these.
    pub(crate) fn to_try_again(&self, most: usize) -> Vec<Piece> {
        let failed: Vec<_> = self.tests.iter().filter(|(_, test)| test.outcome == Outcome::Failed).collect();
        let is_crowded =
            |program: usize| CROWDED.iter().any(|name| self.programs[program].name.starts_with(name));
        if failed.len() > most || !failed.iter().all(|(program, _)| is_crowded(*program)) {
            return Vec::new();
        }
        let piece =
            |(program, test): &&(usize, Tested)| Piece { program: *program, tests: vec![test.name.clone()] };
        failed.iter().map(piece).collect()
    }

    /// Takes what came of a failed test that was run again, alone.
    pub(crate) fn take_again(&mut self, end: End) {
        println!("again, alone, since it failed beside others:");
        self.print(&end);
        let is_saved = end.tests.iter().all(|test| test.outcome == Outcome::Passed);
        if is_saved {
            self.sums[end.program].failed -= end.tests.len();
            self.sums[end.program].passed += end.tests.len();
            for test in end.tests {
                let is_it =
                    |known: &&mut (usize, Tested)| known.0 == end.program && known.1.name == test.name;
                self.tests.iter_mut().filter(is_it).for_each(|known| known.1.outcome = Outcome::Passed);
                self.saved.push((end.program, test.name));
            }
        }
    }

    fn print(&self, end: &End) {
        let name = &self.programs[end.program].name;
        for test in &end.tests {
            let outcome = match test.outcome {
                Outcome::Passed => "ok",
                Outcome::Failed => "FAILED",
                Outcome::Ignored => "ignored",
                Outcome::NotRun => continue,
            };
            println!("test {name}::{} ... {outcome} <{:.3}s>", test.name, test.took.as_secs_f64());
        }
        if !end.said.is_empty() {
            println!("\n{}\n", end.said);
        }
    }

    /// The closing line of a program.
    fn closing(&self, program: usize) -> String {
        let sum = &self.sums[program];
        let name = &self.programs[program].name;
        let took = sum.begun.zip(sum.ended).map_or(Duration::ZERO, |(begun, ended)| ended - begun);
        let result = if sum.failed == 0 { "ok" } else { "FAILED" };
        format!(
            "test result: {result}. {} passed; {} failed; {} ignored; 0 measured; 0 filtered out; \
             finished in {:.2}s ({name})",
            sum.passed,
            sum.failed,
            sum.ignored,
            took.as_secs_f64()
        )
    }

    /// Writes what each test took, in seconds and in seconds of the processor, the longest first.
    pub(crate) fn write_times(&mut self, path: &Path) -> Result<(), String> {
        self.tests.sort_by_key(|(_, test)| std::cmp::Reverse(test.took));
        let text: String = self.tests.iter().map(|(program, test)| self.row(*program, test)).collect();
        std::fs::write(path, text).map_err(|why| format!("write {}: {why}", path.display()))
    }

    fn row(&self, program: usize, test: &Tested) -> String {
        let (took, cpu) = (test.took.as_secs_f64(), test.cpu.as_secs_f64());
        format!("{took:8.2} {cpu:8.2}  {}\n", self.name(program, &test.name))
    }

    fn name(&self, program: usize, test: &str) -> String {
        format!("{}::{test}", self.programs[program].name)
    }

    /// Prints what is left to say; whether all tests are green.
    pub(crate) fn close(&self, took: Duration) -> bool {
        let mut text = String::new();
        let has_failed =
            |at: &usize| self.sums[*at].failed > 0 || self.saved.iter().any(|(program, _)| program == at);
        for at in (0..self.programs.len()).filter(has_failed) {
            let _ = writeln!(text, "{}", self.closing(at));
        }
        let _ = writeln!(text, "\nThe slowest tests: seconds, seconds of the processor\n");
        self.tests.iter().take(SLOWEST).for_each(|(program, test)| text.push_str(&self.row(*program, test)));
        text.push('\n');
        for sentence in self.skipped.iter().map(|test| format!("skipped: {test}")).chain(self.unlisted()) {
            let _ = writeln!(text, "{sentence}");
        }
        for (program, test) in self.tests.iter().filter(|(_, test)| test.outcome == Outcome::Failed) {
            let target = &self.programs[*program].target;
            let _ = writeln!(text, "failed: cargo test {target} -- --exact {}", test.name);
        }
        let all = |of: fn(&Sum) -> usize| self.sums.iter().map(of).sum::<usize>();
        let failed = all(|sum| sum.failed);
        let cpu = stat("/proc/self/stat").unwrap_or_default().as_secs();
        let (passed, ignored, took) = (all(|sum| sum.passed), all(|sum| sum.ignored), took.as_secs());
        let _ = write!(
            text,
            "suite: {passed} passed, {failed} failed, {ignored} ignored, \
             in {took} s ({cpu} s of the processor)"
        );
        if !self.saved.is_empty() {
            let saved: Vec<_> = self.saved.iter().map(|(program, test)| self.name(*program, test)).collect();
            let _ = write!(text, "; passed alone, after they had failed beside others: {}", saved.join(" "));
        }
        println!("{text}");
        failed == 0
    }

    /// Warnings of slow tests that are not in the list.
    fn unlisted(&self) -> impl Iterator<Item = String> {
        let listed = |name: &str| self.slow.seconds(name).is_some();
        let long = self.tests.iter().filter(|(_, test)| test.took.as_secs() >= slow::SECONDS);
        let long = long.map(|(program, test)| (self.name(*program, &test.name), test.took.as_secs()));
        let long = long.filter(move |(name, _)| !listed(name));
        long.map(|(name, took)| format!("warning: {name} took {took} s and is not in tests/suite/slow.txt"))
    }
}
