//! A script in use: asked for each request, swapped while it is asked, counted, and paused where it fails
//! again and again. It must not read a file: who watches it hands it new programs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use weir_upstream::{Decider, DeciderForm, DeciderSnapshot, Deciding, Decision, Question};

use crate::asked::{Asked, Seen};
use crate::clock;
use crate::frame::Frame;
use crate::mistake::Failure;
use crate::program::{Answer, Program};
use crate::state::{Owner, State};

/// So many failures in a row
const FAILURES_MAX: u32 = 10;
/// of so many clients: one alone must not switch the script off, for itself as little as for others,
const CLIENTS: usize = 3;
/// pause a script for so long.
const PAUSE: Duration = Duration::from_secs(1);
/// A failure is logged once in so long.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// A script in use.
#[derive(Debug)]
pub struct Script {
    name: String,
    program: ArcSwap<Program>,
    state: State,
    counts: Counts,
    begun: Instant,
    /// Failures since it has last said something.
    in_row: AtomicU32,
    /// Until when it is not asked, in milliseconds since it began.
    paused_until_ms: AtomicU64,
    trouble: Mutex<Trouble>,
}

/// How often it was asked, by what it said.
#[derive(Debug, Default)]
struct Counts([AtomicU64; Asking::ALL.len()]);

/// What came of asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Asking {
    /// An origin.
    Origin,
    /// Some origins.
    Among,
    /// A denial.
    Denied,
    /// Nothing.
    Nothing,
    /// An error.
    Failed,
    /// It was not asked: it pauses.
    Paused,
}

impl Asking {
    /// All of them, in the order of their numbers.
    pub const ALL: [Asking; 6] =
        [Asking::Origin, Asking::Among, Asking::Denied, Asking::Nothing, Asking::Failed, Asking::Paused];

    /// The word for metrics and status.
    pub fn word(self) -> &'static str {
        match self {
            Asking::Origin => "origin",
            Asking::Among => "among",
            Asking::Denied => "denied",
            Asking::Nothing => "nothing",
            Asking::Failed => "failed",
            Asking::Paused => "paused",
        }
    }
}

#[derive(Debug, Default)]
struct Trouble {
    /// Why the newest text of its file is not in force.
    refused: Option<String>,
    /// The last failure.
    failure: Option<Failure>,
    /// Clients of the failures in a row, some of them.
    clients: Vec<Owner>,
    logged: Option<Instant>,
    /// Failures since then.
    unlogged: u64,
}

impl Script {
    /// A script of this name that begins with this program.
    pub fn new(name: impl Into<String>, program: Program) -> Script {
        let begun = clock::now();
        Script {
            name: name.into(),
            program: ArcSwap::from_pointee(program),
            state: State::new(begun),
            counts: Counts::default(),
            begun,
            in_row: AtomicU32::new(0),
            paused_until_ms: AtomicU64::new(0),
            trouble: Mutex::default(),
        }
    }

    /// The program in force.
    pub fn program(&self) -> Arc<Program> {
        self.program.load_full()
    }

    /// Puts another program in force. What is remembered stays.
    pub fn swap(&self, program: Program) {
        self.program.store(Arc::new(program));
        self.in_row.store(0, Ordering::Relaxed);
        self.paused_until_ms.store(0, Ordering::Relaxed);
        let mut trouble = self.trouble.lock();
        (trouble.failure, trouble.refused) = (None, None);
    }

    /// Notes that a newer text of its file was refused, and why. The old one stays in force.
    pub fn refuse(&self, why: impl Into<String>) {
        self.trouble.lock().refused = Some(why.into());
    }

    /// Whether a newer text of its file was refused.
    pub fn is_refused(&self) -> bool {
        self.trouble.lock().refused.is_some()
    }

    /// The file is what it was when the program in force was made.
    pub fn accept(&self) {
        self.trouble.lock().refused = None;
    }

    /// What it remembers.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// How often asking it came to this.
    pub fn count(&self, of: Asking) -> u64 {
        self.counts.0[of as usize].load(Ordering::Relaxed)
    }

    /// Asks it at a time of the caller's.
    fn asked(&self, question: &Question<'_>, now: Instant) -> Decision {
        if self.is_paused(now) {
            self.add(Asking::Paused);
            return Decision::Failed;
        }
        let row = Seen::new(question.origins);
        let asked = Asked::of(question);
        let frame = Frame::new(asked, &row, &self.state, now, fastrand::u64(..));
        match self.program.load().call(&frame) {
            Ok(answer) => {
                // Written only where it changes, since all workers would write it.
                if self.in_row.load(Ordering::Relaxed) != 0 {
                    self.in_row.store(0, Ordering::Relaxed);
                }
                self.said(answer)
            }
            Err(failure) => {
                self.failed(failure, Owner::of(asked.client().map(|client| client.ip())), now);
                Decision::Failed
            }
        }
    }

    fn said(&self, answer: Answer) -> Decision {
        let (asking, decision) = match answer {
            Answer::Nothing => (Asking::Nothing, Decision::Open),
            Answer::Origin(at) => (Asking::Origin, Decision::Origin(at)),
            Answer::Among(numbers) => (Asking::Among, Decision::Among(numbers)),
            Answer::Deny(denial) => (Asking::Denied, Decision::Deny(denial)),
        };
        self.add(asking);
        decision
    }

    fn failed(&self, failure: Failure, client: Owner, now: Instant) {
        self.add(Asking::Failed);
        let mut trouble = self.trouble.lock();
        let before = self.in_row.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            trouble.clients.clear();
        }
        if trouble.clients.len() < CLIENTS && !trouble.clients.contains(&client.witness()) {
            trouble.clients.push(client.witness());
        }
        let pauses = before.saturating_add(1) >= FAILURES_MAX && trouble.clients.len() >= CLIENTS;
        if pauses {
            self.in_row.store(0, Ordering::Relaxed);
            let until = self.ms(now + PAUSE);
            self.paused_until_ms.store(until, Ordering::Relaxed);
        }
        trouble.unlogged += 1;
        let is_due = trouble.logged.is_none_or(|logged| now.saturating_duration_since(logged) >= LOG_EVERY);
        let failures = trouble.unlogged;
        let (program, failure) = (self.program.load(), trouble.failure.insert(failure).clone());
        if is_due {
            trouble.logged = Some(now);
            trouble.unlogged = 0;
        }
        drop(trouble);
        if is_due {
            let at = match failure.place {
                Some((line, column)) => format!("{}:{line}:{column}", program.source().file),
                None => program.source().file.to_string(),
            };
            tracing::warn!(pick = %self.name, %at, failures, pauses, "script failed: {}", failure.why);
        }
    }

    fn is_paused(&self, now: Instant) -> bool {
        let until = self.paused_until_ms.load(Ordering::Relaxed);
        until != 0 && self.ms(now) < until
    }

    fn ms(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.begun).as_millis()).unwrap_or(u64::MAX)
    }

    fn add(&self, asking: Asking) {
        self.counts.0[asking as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl Decider for Script {
    fn name(&self) -> &str {
        &self.name
    }

    fn form(&self) -> DeciderForm {
        DeciderForm::Script
    }

    fn decide<'q>(&'q self, question: Question<'q>) -> Deciding<'q> {
        Deciding::Now(self.asked(&question, clock::now()))
    }

    fn snapshot(&self) -> DeciderSnapshot {
        let outcomes = Asking::ALL.map(|asking| (asking.word(), self.count(asking)));
        let is_paused = self.is_paused(clock::now());
        let trouble = self.trouble.lock();
        let paused = trouble.failure.as_ref().filter(|_| is_paused);
        let paused = paused.map(|failure| format!("it pauses, since it fails: {failure}"));
        let refused = trouble.refused.as_ref().map(|why| format!("its file is refused: {why}"));
        DeciderSnapshot { name: self.name.clone(), outcomes: outcomes.to_vec(), trouble: paused.or(refused) }
    }
}

#[cfg(test)]
mod tests;
