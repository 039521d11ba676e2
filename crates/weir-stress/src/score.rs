//! The score of a load, for every protocol: how many requests have begun, what they asked for, and the
//! judgement of what came back.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering::Relaxed;

use crate::body::Body;
use crate::clock::Clock;
use crate::pick::Picker;
use crate::plan::{Plan, StressError};
use crate::tally::{Fault, Tally};

/// The load is given up after this many faults in a row, without a response in between.
const FAULTS_IN_A_ROW_MAX: u64 = 1000;
/// The same for loads with few users, for each user.
const FAULTS_IN_A_ROW_PER_USER: u64 = 20;

/// The requested object.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Want {
    pub(crate) object: u64,
    /// The interval that the response must have.
    pub(crate) interval: Option<(u64, u64)>,
    /// When the request had to begin: its times count from here. With spaced requests that may be before a
    /// user was free for it, so that a server that stalls is not spared the requests that it held up.
    pub(crate) due_ns: u64,
}

/// A whole response, to be judged.
pub(crate) struct Done<'a> {
    pub(crate) want: Want,
    pub(crate) status: u16,
    /// `Content-Range: bytes a-b/l` as (a, b + 1, l).
    pub(crate) range: Option<(u64, u64, u64)>,
    pub(crate) body: &'a Body,
    pub(crate) first_byte_ns: u64,
}

pub(crate) struct Score {
    plan: Plan,
    pub(crate) clock: Clock,
    pub(crate) tally: Tally,
    picker: Picker,
    started: u64,
    working: usize,
    faults_in_a_row: u64,
    /// When the next request may begin, where they are spaced.
    next_ns: u64,
    /// When the requests that are under way were due, where they are spaced.
    outstanding: BTreeSet<u64>,
    /// The digest of each object's body, if all must be equal.
    digests: HashMap<(u64, Option<(u64, u64)>), u64>,
}

impl Score {
    pub(crate) fn new(plan: &Plan, seed: u64) -> Self {
        Self {
            plan: plan.clone(),
            clock: Clock::start(),
            tally: Tally::recorded(plan.recorder.clone()),
            picker: Picker::new(plan.pick, plan.first, plan.objects, plan.wonders, seed),
            started: 0,
            working: 0,
            faults_in_a_row: 0,
            next_ns: 0,
            outstanding: BTreeSet::new(),
            digests: HashMap::new(),
        }
    }

    /// Ends a timed load at once, whatever is still outstanding.
    pub(crate) fn is_over(&self) -> bool {
        self.plan.time_ns.is_some_and(|end| self.clock.nanoseconds() >= end)
            || self.plan.stop.as_ref().is_some_and(|stop| stop.load(Relaxed))
    }

    /// Ends a counted load with its last response.
    pub(crate) fn is_done(&self) -> bool {
        let all_begun = self.plan.requests_max.is_some_and(|max| self.started >= max);
        (all_begun && self.working == 0) || self.is_over()
    }

    pub(crate) fn may_begin(&self) -> bool {
        self.plan.requests_max.is_none_or(|max| self.started < max) && !self.is_over()
    }

    /// How long the next request must still wait. A late one lets those after it begin sooner.
    pub(crate) fn wait_ns(&self) -> u64 {
        self.plan.gap_ns.map_or(0, |_| self.next_ns.saturating_sub(self.clock.nanoseconds()))
    }

    /// Counts a request that begins. Appends the object's path to `path`, and the value of `Range` to `range`
    /// where one is asked for.
    pub(crate) fn begin(&mut self, path: &mut Vec<u8>, range: &mut Vec<u8>) -> Want {
        self.started += 1;
        self.working += 1;
        let due_ns = self.due();
        let object = self.picker.next();
        let target = &self.plan.target;
        path.extend_from_slice(target.before.as_bytes());
        if let Some(after) = &target.after {
            push_number(path, object);
            path.extend_from_slice(after.as_bytes());
        }
        let interval = self.plan.ranges_of.map(|length| write_range(&mut self.picker, length, range));
        Want { object, interval, due_ns }
    }

    /// When the request that begins now was due.
    fn due(&mut self) -> u64 {
        let Some(gap_ns) = self.plan.gap_ns else { return self.clock.nanoseconds() };
        let due_ns = self.next_ns;
        self.next_ns += gap_ns;
        self.outstanding.insert(due_ns);
        due_ns
    }

    /// Counts the time of a connection that can carry a request now.
    pub(crate) fn connected(&mut self, dialled_ns: u64) {
        let took_ns = self.clock.nanoseconds().saturating_sub(dialled_ns);
        self.tally.connect_ns.saturating_record(took_ns.max(1));
    }

    /// Counts and judges a whole response.
    pub(crate) fn finish(&mut self, done: &Done<'_>) {
        let now_ns = self.clock.nanoseconds();
        let due_ns = done.want.due_ns;
        let since = |ns: u64| ns.saturating_sub(due_ns);
        self.tally.response(done.status, done.body.received, since(done.first_byte_ns), since(now_ns));
        self.outstanding.remove(&due_ns);
        self.faults_in_a_row = 0;
        self.working -= 1;
        self.judge(done);
    }

    fn judge(&mut self, done: &Done<'_>) {
        let (plan, body) = (&self.plan, done.body);
        let Want { object, interval, .. } = done.want;
        if done.status != plan.status {
            let status = done.status;
            return self.tally.fault(Fault::Status, || format!("{status} for object {object}"));
        }
        if let (Some((start, end)), Some(length)) = (interval, plan.ranges_of)
            && (done.range != Some((start, end, length)) || body.received != end - start)
        {
            let (got, received) = (done.range, body.received);
            return self.tally.fault(Fault::Range, || {
                format!("{start}..{end} of {length} was answered {got:?} with {received} bytes")
            });
        }
        if plan.length.or(body.expected_bytes).is_some_and(|length| length != body.received) {
            let received = body.received;
            return self.tally.fault(Fault::Length, || format!("{received} bytes for object {object}"));
        }
        if body.is_old {
            return self.tally.fault(Fault::Old, || format!("an old version of object {object}"));
        }
        let known =
            body.digest().map(|digest| (*self.digests.entry((object, interval)).or_insert(digest), digest));
        if !body.is_right() || known.is_some_and(|(first, digest)| first != digest) {
            let place = body.wrong_at.map_or(String::new(), |at| format!(", from byte {at} on"));
            self.tally.fault(Fault::Content, || format!("wrong bytes for object {object}{place}"));
        }
    }

    /// Counts a request without a whole response.
    pub(crate) fn fail(&mut self, want: Want, fault: Fault, detail: impl FnOnce() -> String) {
        self.tally.fault(fault, detail);
        self.outstanding.remove(&want.due_ns);
        self.faults_in_a_row += 1;
        self.working -= 1;
    }

    /// Ends the count. Where requests are spaced, those that were due and have no response count with the
    /// time that they have waited so far, if that is more than half of the others took: a server that stalls
    /// at the end is not spared.
    pub(crate) fn end(&mut self) {
        let now_ns = self.clock.nanoseconds();
        self.tally.seconds = now_ns as f64 / 1e9;
        let Some(gap_ns) = self.plan.gap_ns.filter(|gap| *gap > 0) else { return };
        let mut due = std::mem::take(&mut self.outstanding);
        let left = self.plan.requests_max.map_or(u64::MAX, |max| max.saturating_sub(self.started));
        let unbegun = (now_ns.saturating_sub(self.next_ns)).div_ceil(gap_ns).min(left);
        due.extend((0..unbegun).map(|at| self.next_ns + at * gap_ns));
        let median_ns = self.tally.total_ns.value_at_quantile(0.5);
        for waited_ns in due.into_iter().map(|due_ns| now_ns.saturating_sub(due_ns)) {
            if waited_ns > median_ns {
                self.tally.unanswered(waited_ns);
            }
        }
    }

    /// Says whether all requests fail.
    ///
    /// # Errors
    /// They do.
    pub(crate) fn hope(&self) -> Result<(), StressError> {
        let users = (self.plan.users * self.plan.streams()) as u64;
        if self.faults_in_a_row <= FAULTS_IN_A_ROW_MAX.min(FAULTS_IN_A_ROW_PER_USER * users) {
            return Ok(());
        }
        let first = self.tally.first_fault.clone().unwrap_or_default();
        Err(StressError::Hopeless { faults: self.faults_in_a_row, first })
    }
}

/// Chooses an interval and one of the ways to ask for it.
fn write_range(picker: &mut Picker, length: u64, out: &mut Vec<u8>) -> (u64, u64) {
    let (mut start, mut end) = picker.interval(length);
    out.extend_from_slice(b"bytes=");
    match picker.below(8) {
        // From a place to the end.
        0 => end = length,
        // The last bytes.
        1 => (start, end) = (length - (end - start), length),
        _ => {}
    }
    if end == length && start > 0 && picker.below(2) == 0 {
        out.push(b'-');
        push_number(out, end - start);
    } else {
        push_number(out, start);
        out.push(b'-');
        if end < length || picker.below(2) == 0 {
            push_number(out, end - 1);
        }
    }
    (start, end)
}

fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
