//! `slow`: readers and senders of a few bytes a second, stalls and early ends, beside users that ask as
//! usual. The usual users are what is measured: what slow ones make of others. They have a thread of their
//! own, so that what a thousand slow ones cost this tool is not taken for the server's time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;

use crate::plan::StressError;
use crate::scenario::catalogue::Part;
use crate::scenario::client::{Ask, Failure, Pace, Response, failure, paced};
use crate::scenario::module::{Module, check_time, check_users};
use crate::scenario::modules::range;
use crate::scenario::sizes::{Bytes, Sizes};
use crate::scenario::stage::{Measured, Sheet, Stage, beside};
use crate::tally::Fault;

/// How long a user waits before it asks again, and within which all slow ones begin.
const BEAT: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Slow {
    /// The users that ask as usual.
    users: usize,
    readers: usize,
    senders: usize,
    /// Readers that stop for `stall` seconds in the middle.
    stallers: usize,
    /// Users that leave in the middle of each body.
    leavers: usize,
    /// So many requests a second of all usual users together; else each asks again once it is answered.
    rate: Option<f64>,
    seconds: f64,
    stall: f64,
    /// For so many seconds before, the usual users are measured alone.
    alone: f64,
    /// Bytes a second of the slow readers.
    take: Bytes,
    /// Bytes a second of the slow senders.
    give: Bytes,
    /// Of what slow users ask for.
    size: Bytes,
    /// How many objects slow users share; with 0 each has one of its own.
    objects: usize,
    /// Of what the usual users ask for.
    usual_size: Bytes,
    usual_objects: u64,
    receive_buffer: Bytes,
    timeout: f64,
}

impl Default for Slow {
    fn default() -> Self {
        Self {
            users: 4,
            readers: 100,
            senders: 20,
            stallers: 20,
            leavers: 20,
            rate: None,
            seconds: 10.0,
            stall: 3.0,
            alone: 0.0,
            take: Bytes(10_000),
            give: Bytes(20),
            size: Bytes(5_000_000),
            objects: 0,
            usual_size: Bytes(10_000),
            usual_objects: 100,
            receive_buffer: Bytes(8192),
            timeout: 30.0,
        }
    }
}

/// When the requests of the usual users are due, by the stage's clock.
struct Dues {
    begun_ns: u64,
    gap_ns: Option<f64>,
    next: Cell<u64>,
}

impl Dues {
    fn new(stage: &Stage, rate: Option<f64>) -> Rc<Dues> {
        let gap_ns = rate.map(|rate| 1e9 / rate);
        Rc::new(Dues { begun_ns: stage.clock.nanoseconds(), gap_ns, next: Cell::new(0) })
    }

    /// The next one's; now, where there is no rate.
    fn next(&self, stage: &Stage) -> u64 {
        let Some(gap_ns) = self.gap_ns else { return stage.clock.nanoseconds() };
        let at = self.next.replace(self.next.get() + 1);
        self.begun_ns + (at as f64 * gap_ns) as u64
    }
}

/// What a slow user does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Reader,
    Sender,
    Staller,
    Leaver,
}

impl Module for Slow {
    fn check(&self) -> Result<(), String> {
        check_users(self.users)?;
        check_users(self.readers + self.senders + self.stallers + self.leavers + 1)?;
        for (name, seconds) in [("seconds", self.seconds), ("stall", self.stall), ("timeout", self.timeout)] {
            check_time(name, seconds)?;
        }
        if self.alone != 0.0 {
            check_time("alone", self.alone)?;
        }
        if self.rate.is_some_and(|rate| !(0.001..=1e6).contains(&rate)) {
            return Err("`rate` is from 0.001 to 1000000".to_owned());
        }
        let all = [self.take, self.give, self.size, self.receive_buffer];
        match all.iter().all(|bytes| bytes.0 > 0) && self.usual_objects > 0 {
            true => Ok(()),
            false => {
                Err("`take`, `give`, `size`, `receive_buffer` and `usual_objects` are above 0".to_owned())
            }
        }
    }

    fn run(&self, stage: &Stage) -> Result<Measured, StressError> {
        let (usual, slow) = (stage.cold("usual"), stage.cold("slow"));
        stage.catalogue.add(Part::new(&usual, Sizes::One(self.usual_size.0)));
        stage.catalogue.add(Part::new(&slow, Sizes::One(self.size.0)));
        let paths: Vec<String> = (0..self.usual_objects).map(|at| format!("{usual}{at}")).collect();
        range::fetch(stage, &paths, self.timeout)?;
        let is_http2 = stage.settings.http2;
        // A head over HTTP/2 is one frame, and cannot be given slowly by this client.
        let senders = if is_http2 { 0 } else { self.senders };
        let roles = self.roles(senders);
        let alone_ms = self.alone(stage, &paths)?;
        let end_ns = stage.end_ns(self.seconds);
        let of_slow = || self.crowd_of_slow(stage, (&roles, &slow), end_ns);
        let (mut measured, of_slow) = beside(|| self.crowd_of_usual(stage, &paths, end_ns), of_slow)?;
        measured.tally.add_faults(&of_slow.tally);
        // What this tool's own thread was busy with: near 1 the slow users were slower than they should be.
        let share = of_slow.tally.cpu_seconds / of_slow.tally.seconds.max(f64::MIN_POSITIVE);
        measured.figure("slow_client_share", share);
        of_slow.figures.iter().for_each(|(name, value)| measured.count(name, *value));
        if is_http2 && self.senders > 0 {
            measured.note("slow senders are left out over HTTP/2");
        }
        let names = ["readers_whole", "readers_cut", "readers_refused"];
        for name in names.into_iter().chain(["senders_answered", "senders_refused", "stallers_cut"]) {
            // So that a limit on it means something where it never happened.
            measured.count(name, 0.0);
        }
        if let Some(alone_ms) = alone_ms {
            let beside_ms = p99_ms(&measured);
            measured.figure("alone_p99_ms", alone_ms);
            measured.figure("p99_ratio", beside_ms / alone_ms.max(f64::MIN_POSITIVE));
        }
        Ok(measured)
    }
}

impl Slow {
    /// The users that ask as usual, to their ends.
    fn crowd_of_usual(&self, stage: &Stage, paths: &[String], end_ns: u64) -> Result<Measured, StressError> {
        let dues = Dues::new(stage, self.rate);
        stage.measure(self.users, |_, sheet| {
            let (stage, settings, paths, dues) = (stage.clone(), self.clone(), paths.to_vec(), dues.clone());
            async move { settings.usual(&stage, &paths, (&dues, end_ns), &sheet).await }
        })
    }

    /// The slow users, each in its role, to their ends. They begin one after the other within a beat, so that
    /// they do not all move at once ever after.
    fn crowd_of_slow(
        &self,
        stage: &Stage,
        (roles, prefix): (&[Role], &str),
        end_ns: u64,
    ) -> Result<Measured, StressError> {
        let gap = BEAT / u32::try_from(roles.len().max(1)).unwrap_or(u32::MAX);
        stage.measure(roles.len(), |at, sheet| {
            let (stage, settings, role) = (stage.clone(), self.clone(), roles[at]);
            let path = format!("{prefix}{}", if self.objects > 0 { at % self.objects } else { at });
            async move {
                tokio::time::sleep(gap * at as u32).await;
                settings.slow(&stage, (role, path), end_ns, &sheet).await;
            }
        })
    }

    /// What the slow users are.
    fn roles(&self, senders: usize) -> Vec<Role> {
        let all = [
            (Role::Reader, self.readers),
            (Role::Sender, senders),
            (Role::Staller, self.stallers),
            (Role::Leaver, self.leavers),
        ];
        all.iter().flat_map(|(role, count)| std::iter::repeat_n(*role, *count)).collect()
    }

    /// How long the usual users wait for a response while they are alone, where that is asked for.
    fn alone(&self, stage: &Stage, paths: &[String]) -> Result<Option<f64>, StressError> {
        if self.alone == 0.0 {
            return Ok(None);
        }
        let alone = self.crowd_of_usual(stage, paths, stage.end_ns(self.alone))?;
        Ok(Some(p99_ms(&alone)))
    }

    /// Asks as usual, and is measured.
    async fn usual(&self, stage: &Stage, paths: &[String], (dues, end_ns): (&Dues, u64), sheet: &Sheet) {
        let mut client = stage.client(self.timeout);
        let mut at = 0;
        loop {
            let due_ns = dues.next(stage);
            if due_ns >= end_ns || stage.is_stopped() {
                return;
            }
            let late_ns = match stage.due(due_ns, self.timeout).await {
                Ok(late_ns) => late_ns,
                Err(failure) => {
                    sheet.borrow_mut().fault(&failure);
                    continue;
                }
            };
            let path = &paths[at % paths.len()];
            at += 1;
            let got = client.ask(&Ask::get(path.clone()), stage.expect(path)).await;
            let judged = got.and_then(|mut response| {
                response.begin_earlier(late_ns);
                sheet.borrow_mut().response(&response);
                stage.judge(path, &response)
            });
            if let Err(failure) = judged {
                sheet.borrow_mut().fault(&failure);
                if self.rate.is_none() {
                    tokio::time::sleep(BEAT).await;
                }
            }
        }
    }

    /// One slow request after the other. A server may cut them and refuse them, but what it sends must be
    /// right.
    async fn slow(&self, stage: &Stage, (role, path): (Role, String), end_ns: u64, sheet: &Sheet) {
        let left_s = |end_ns: u64| end_ns.saturating_sub(stage.clock.nanoseconds()) as f64 / 1e9;
        while !stage.is_past(end_ns) {
            let mut client = stage.client(left_s(end_ns).max(0.001));
            client.pace = self.pace(role);
            client.receive_bytes = Some(self.receive_buffer.0.min(u64::from(u32::MAX)) as u32);
            let asked = client.ask(&Ask::get(path.clone()), stage.expect(&path)).await;
            // What is cut by the end of the time says nothing of the server.
            let asked = match stage.is_past(end_ns) {
                true => asked.map_err(|_| failure(Fault::Timeout, "")),
                false => asked,
            };
            note(role, &asked, &mut sheet.borrow_mut());
            if let Ok(response) = asked
                && response.status == 200
                && let Err(failure) = stage.judge(&path, &response)
            {
                sheet.borrow_mut().fault(&failure);
            }
            tokio::time::sleep(BEAT).await;
        }
    }

    fn pace(&self, role: Role) -> Pace {
        let mut pace = Pace::default();
        match role {
            Role::Reader => pace.take = Some(paced(self.take.0)),
            Role::Sender => pace.give = Some(paced(self.give.0)),
            Role::Staller => pace.stall = Some(Duration::from_nanos(crate::clock::nanoseconds(self.stall))),
            Role::Leaver => pace.leave_after = Some(self.size.0 / 2),
        }
        pace
    }
}

/// How long the slowest hundredth of what was measured took at least, in ms.
fn p99_ms(measured: &Measured) -> f64 {
    measured.tally.total_ns.value_at_quantile(0.99) as f64 / 1e6
}

/// Counts what became of a slow request.
fn note(role: Role, asked: &Result<Response, Failure>, sheet: &mut Measured) {
    let is_cut = asked.as_ref().is_err_and(|failure| failure.fault != Fault::Timeout);
    let is_whole = asked.as_ref().is_ok_and(|response| response.status == 200);
    let is_refused = is_cut || asked.as_ref().is_ok_and(|response| response.status != 200);
    let name = match role {
        Role::Reader if is_whole => "readers_whole",
        Role::Reader if is_cut => "readers_cut",
        Role::Reader if is_refused => "readers_refused",
        Role::Staller if is_cut => "stallers_cut",
        Role::Sender if is_whole => "senders_answered",
        Role::Sender if is_refused => "senders_refused",
        _ => return,
    };
    sheet.count(name, 1.0);
}
