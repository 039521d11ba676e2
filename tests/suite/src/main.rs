//! Runs the tests of a workspace: several processes at a time, the longest tests first.
//!
//! `weir-suite MESSAGES MOST [PART]...`: `MESSAGES` is what `cargo test --no-run --message-format=json`
//! printed, `MOST` how many processes run at a time at most; with parts, only tests run that have one of them
//! in their names, as `weir/it::range::`. [`programs`] reads which test programs there are, [`plan`] divides
//! their tests into pieces, [`crowd`] says how many pieces run beside each other, [`piece`] runs one and
//! times its tests, and [`report`] prints what came of them. `tests/suite/slow.txt` lists the tests that take
//! more than ten seconds, with their reasons.
//!
//! It changes nothing of what a test is: each runs in its program, in the folder of its package, as cargo
//! runs it.

#![forbid(unsafe_code)]
// It measures how long tests take.
#![allow(clippy::disallowed_methods)]

mod crowd;
mod piece;
mod plan;
mod programs;
mod report;
mod slow;

use std::collections::VecDeque;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Instant;

use crowd::Crowd;
use piece::{End, Outcome};
use plan::Piece;
use programs::Program;
use report::Report;
use slow::Slow;

/// More failed tests than this fail for good; fewer are run again, each alone.
const AGAIN_MAX: usize = 5;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [messages, most, parts @ ..] = &args[..] else {
        eprintln!("say `weir-suite MESSAGES MOST [PART]...`");
        return ExitCode::FAILURE;
    };
    let green = most.parse().map_err(|_| format!("{most:?} is no number")).and_then(|most| {
        let slow = Slow::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("slow.txt"))?;
        let mut programs = programs::read(Path::new(messages))?;
        slow.gone(&programs)
            .for_each(|name| println!("warning: {name} is in slow.txt, and there is no such test"));
        programs::leave(&mut programs, parts);
        run(&programs, slow, most, &Path::new(messages).with_extension("times"))
    });
    match green {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("suite: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all tests; whether all are green.
fn run(programs: &[Program], slow: Slow, most: usize, times: &Path) -> Result<bool, String> {
    let begun = Instant::now();
    let pieces = plan::pieces(programs, &slow);
    let mut report = Report::new(programs, slow);
    beside(programs, pieces, Crowd::new(most), |end| report.take(end));
    let again = report.to_try_again(AGAIN_MAX);
    for piece in again {
        beside(programs, vec![piece], Crowd::new(1), |end| report.take_again(end));
    }
    report.write_times(times)?;
    Ok(report.close(begun.elapsed()))
}

/// Runs pieces beside each other. What a piece did not come to, since its process ended early, is run in
/// another.
fn beside(programs: &[Program], pieces: Vec<Piece>, mut crowd: Crowd, mut take: impl FnMut(End)) {
    let (tell, hear) = mpsc::channel::<End>();
    let mut waiting = VecDeque::from(pieces);
    let mut running = 0;
    std::thread::scope(|scope| {
        while running > 0 || !waiting.is_empty() {
            while crowd.admits(running) {
                let Some(piece) = waiting.pop_front() else { break };
                let tell = tell.clone();
                running += 1;
                scope.spawn(move || tell.send(piece::run(programs, piece)));
            }
            let Ok(mut end) = hear.recv_timeout(Crowd::LOOK) else { continue };
            running -= 1;
            let left = end.tests.extract_if(.., |test| matches!(test.outcome, Outcome::NotRun));
            let tests: Vec<String> = left.map(|test| test.name).collect();
            if !tests.is_empty() {
                waiting.push_front(Piece { program: end.program, tests });
            }
            take(end);
        }
    });
}
