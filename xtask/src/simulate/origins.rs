//! `cargo run -p xtask -- simulate origins [seed]`: how long requests wait, and how many fail, by the pick
//! and by what is wrong with the origins. Requests come at random times and wait for nobody (open loop). The
//! picks are those of `weir-upstream`; the origins are queues with a few workers each. It measures no
//! machine.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use weir_upstream::simulated::{Group, Wanted};
use weir_upstream::{HashOf, Pick};

/// Requests of each run.
const REQUESTS: usize = 6_000;
/// Requests that an origin works on at once; others wait.
const WORKERS: usize = 8;
/// Requests under way that an origin has room for, those that wait there included.
const ROOM: usize = 64;
/// The mean time that a request takes an origin of speed 1, in microseconds.
const WORK_US: f64 = 10_000.0;
/// The share of the origins' capacity that the requests need.
const LOAD: f64 = 0.6;
/// A request that waits for longer has failed.
const PATIENCE_US: u64 = 2_000_000;
/// Weir's defaults: failures in a row that eject an origin, and for how long.
const FAILURES: u32 = 5;
const BACKOFF_US: u64 = 1_000_000;

/// What is wrong with the origins.
struct Case {
    name: &'static str,
    origins: usize,
    /// How many times longer work takes at an origin, by its number and the part of the run that is over.
    slowness: fn(usize, f64) -> f64,
    /// Whether an origin refuses requests at a time in microseconds.
    refuses: fn(usize, u64) -> bool,
}

/// All cases.
const CASES: [Case; 7] = [
    Case { name: "3, alike", origins: 3, slowness: |_, _| 1.0, refuses: never },
    Case { name: "8, one four times slower", origins: 8, slowness: one_slow, refuses: never },
    Case { name: "8, one degrades tenfold", origins: 8, slowness: degrading, refuses: never },
    Case { name: "8, one flaps", origins: 8, slowness: |_, _| 1.0, refuses: flaps },
    Case { name: "8, all take half as long again", origins: 8, slowness: all_slow, refuses: never },
    Case { name: "100, of four speeds", origins: 100, slowness: mixed, refuses: never },
    Case { name: "1,000, of four speeds", origins: 1000, slowness: mixed, refuses: never },
];

fn never(_: usize, _: u64) -> bool {
    false
}

fn one_slow(at: usize, _: f64) -> f64 {
    if at == 0 { 4.0 } else { 1.0 }
}

fn degrading(at: usize, over: f64) -> f64 {
    if at == 0 { 1.0 + 9.0 * over } else { 1.0 }
}

fn all_slow(_: usize, over: f64) -> f64 {
    if over > 0.5 { 1.5 } else { 1.0 }
}

fn mixed(at: usize, _: f64) -> f64 {
    [2.0, 1.0, 0.75, 0.5][at % 4]
}

fn flaps(at: usize, now_us: u64) -> bool {
    at == 0 && now_us % 1_300_000 < 500_000
}

/// The picks of the table.
fn picks() -> [Pick; 11] {
    [
        Pick::RoundRobin,
        Pick::Random,
        Pick::LeastRequests,
        Pick::TwoChoices,
        Pick::Latency,
        Pick::ByRequests,
        Pick::ByTraffic,
        Pick::ByBusyness,
        Pick::ClientAddress,
        Pick::Hash { of: HashOf::Uri, bound: 1.25 },
        Pick::First,
    ]
}

/// The table of all cases and picks, as Markdown.
pub(crate) fn table(seed: u64) -> String {
    let mut text = String::from(
        "| origins | pick | mean ms | p99 ms | share of the slowest | failed |\n|---|---|---|---|---|---|\n",
    );
    for case in &CASES {
        picks().iter().for_each(|pick| text.push_str(&row(case, pick, seed)));
    }
    text
}

/// The rows that a build without optimization makes soon.
#[cfg(test)]
pub(crate) fn quick_rows(seed: u64) -> Vec<String> {
    let quick = |case: &Case, pick: &Pick| case.origins <= 8 || *pick == Pick::TwoChoices;
    let rows = CASES.iter().flat_map(|case| {
        let of_case = picks().into_iter().filter(|pick| quick(case, pick));
        of_case.map(|pick| row(case, &pick, seed)).collect::<Vec<_>>()
    });
    rows.collect()
}

fn row(case: &Case, pick: &Pick, seed: u64) -> String {
    let Outcome { mean_us, p99_us, slowest, failed } = Run::new(case, pick.clone(), seed).outcome();
    let (name, word) = (case.name, pick.word().word());
    format!(
        "| {name} | `{word}` | {:.1} | {:.1} | {:.2} % | {:.2} % |\n",
        mean_us / 1000.0,
        p99_us / 1000.0,
        slowest * 100.0,
        failed * 100.0
    )
}

/// The result of a run.
struct Outcome {
    mean_us: f64,
    p99_us: f64,
    /// Of the requests, those of the first origin: the slowest one, where one is.
    slowest: f64,
    failed: f64,
}

/// A request.
struct Request {
    came_us: u64,
    uri: String,
    client: IpAddr,
}

/// An origin.
#[derive(Default)]
struct Origin {
    working: usize,
    /// The requests that wait, and when they came here.
    waiting: VecDeque<(usize, u64)>,
    failures: u32,
    ejected_until_us: Option<u64>,
}

/// One case with one pick.
struct Run<'c> {
    case: &'c Case,
    picks: Vec<Pick>,
    random: Random,
    group: Group,
    origins: Vec<Origin>,
    requests: Vec<Request>,
    /// What ends when: the time, the request, its origin and when it came there.
    ends: BinaryHeap<Reverse<(u64, usize, usize, u64)>>,
    length_us: u64,
    times_us: Vec<u64>,
    failed: usize,
    of_first: usize,
}

impl<'c> Run<'c> {
    fn new(case: &'c Case, pick: Pick, seed: u64) -> Run<'c> {
        let mut random = Random(seed);
        let capacity: f64 =
            (0..case.origins).map(|at| WORKERS as f64 / (WORK_US * (case.slowness)(at, 0.0))).sum();
        let mut now_us = 0.0;
        let requests = (0..REQUESTS).map(|_| {
            now_us += -random.part().ln() / (capacity * LOAD);
            // A few URLs have most of the requests.
            let popular = (random.part().powi(3) * 5000.0) as u32;
            let client = IpAddr::from(Ipv4Addr::from_bits((random.next() as u32 % 2000) << 8));
            Request { came_us: now_us as u64, uri: format!("/{popular}"), client }
        });
        Run {
            case,
            picks: vec![pick],
            requests: requests.collect(),
            random,
            group: Group::new(&vec![1; case.origins], ROOM),
            origins: (0..case.origins).map(|_| Origin::default()).collect(),
            ends: BinaryHeap::new(),
            length_us: now_us as u64,
            times_us: Vec::with_capacity(REQUESTS),
            failed: 0,
            of_first: 0,
        }
    }

    fn outcome(mut self) -> Outcome {
        for number in 0..REQUESTS {
            let now_us = self.requests[number].came_us;
            self.end_until(now_us);
            self.arrive(number, now_us);
        }
        self.end_until(u64::MAX);
        self.times_us.sort_unstable();
        let answered = self.times_us.len().max(1);
        let p99_us = self.times_us.get(answered * 99 / 100).copied().unwrap_or_default();
        Outcome {
            mean_us: self.times_us.iter().sum::<u64>() as f64 / answered as f64,
            p99_us: p99_us as f64,
            slowest: self.of_first as f64 / REQUESTS as f64,
            failed: self.failed as f64 / REQUESTS as f64,
        }
    }

    /// A request comes: it is sent to one origin, and where that refuses it, to another one.
    fn arrive(&mut self, number: usize, now_us: u64) {
        self.bring_back(now_us);
        let mut tried = Vec::new();
        for _ in 0..2 {
            let request = &self.requests[number];
            let wanted = Wanted { uri: &request.uri, client: request.client, tried: &tried };
            let chance = (self.random.next(), (now_us / 1000) as u32);
            let Some(picked) = self.group.pick(&self.picks, &wanted, chance) else { break };
            if !(self.case.refuses)(picked.at, now_us) {
                self.origins[picked.at].failures = 0;
                self.of_first += usize::from(picked.at == 0);
                return self.begin(number, picked.at, now_us);
            }
            self.group.end(picked.at);
            self.refused(picked.at, now_us);
            tried.push(picked.at);
        }
        self.failed += 1;
    }

    fn refused(&mut self, at: usize, now_us: u64) {
        self.origins[at].failures += 1;
        if self.origins[at].failures >= FAILURES {
            self.origins[at].ejected_until_us = Some(now_us + BACKOFF_US);
            self.renew();
        }
    }

    fn bring_back(&mut self, now_us: u64) {
        let mut is_changed = false;
        for origin in &mut self.origins {
            if origin.ejected_until_us.is_some_and(|until_us| until_us <= now_us) {
                // One more failure ejects it again.
                (origin.ejected_until_us, origin.failures) = (None, FAILURES - 1);
                is_changed = true;
            }
        }
        if is_changed {
            self.renew();
        }
    }

    fn renew(&mut self) {
        let origins = &self.origins;
        self.group.take(|at| origins[at].ejected_until_us.is_none());
    }

    /// A request is at an origin: a worker takes it, or it waits.
    fn begin(&mut self, number: usize, at: usize, now_us: u64) {
        if self.origins[at].working == WORKERS {
            return self.origins[at].waiting.push_back((number, now_us));
        }
        self.work(number, at, (now_us, now_us));
    }

    fn work(&mut self, number: usize, at: usize, (now_us, came_us): (u64, u64)) {
        self.origins[at].working += 1;
        let over = (now_us as f64 / self.length_us as f64).min(1.0);
        let work_us = -self.random.part().ln() * WORK_US * (self.case.slowness)(at, over);
        self.ends.push(Reverse((now_us + work_us as u64, number, at, came_us)));
    }

    fn end_until(&mut self, now_us: u64) {
        while let Some(Reverse((end_us, number, at, came_us))) = self.ends.peek().copied()
            && end_us <= now_us
        {
            self.ends.pop();
            self.group.end(at);
            let took_us = end_us - came_us;
            let took = (u32::try_from(took_us).unwrap_or(u32::MAX), 1000);
            self.group.answered(at, took, (end_us / 1000) as u32);
            match end_us - self.requests[number].came_us {
                time_us if time_us > PATIENCE_US => self.failed += 1,
                time_us => self.times_us.push(time_us),
            }
            self.origins[at].working -= 1;
            if let Some((next, came_us)) = self.origins[at].waiting.pop_front() {
                self.work(next, at, (end_us, came_us));
            }
        }
    }
}

/// Numbers that follow from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let number = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ number >> 31
    }

    /// A part of 1, never 0.
    fn part(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}
