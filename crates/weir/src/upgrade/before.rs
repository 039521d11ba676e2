//! The processes before this one that still finish their requests: what is known of each, and which of them
//! is to end. It must not act on this process: see `attending`.
//!
//! Each has a link of its own to this process. The next process gets the links: so none of them depends on
//! those between. At most [`OLD_MAX`] have all their time: beyond that the oldest is to end as if it were
//! stopped.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};
use weir_control::{OldProcess, rfc3339};

use super::link::Link;
use super::living::Living;
use super::message::{Holds, Message};

/// So many processes before this one may take all the time that they have.
const OLD_MAX: usize = 3;
/// A process that has not ended so long after its time does not end by itself.
const OVERDUE: Duration = Duration::from_secs(20);
/// How long those that attend the others may take to let go of the links.
const LET_GO_TIME_MAX: Duration = Duration::from_secs(15);
/// Of eight parts of the memory, what the others may hold together. As much counts until one has said what it
/// holds.
const ELSEWHERE_EIGHTHS: u64 = 7;

/// The processes before this one.
#[derive(Default)]
pub(crate) struct Before {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    all: Vec<Old>,
    next: u64,
    /// Another process takes over: nobody attends them here any more.
    is_left: bool,
    /// Readers hold what should be free for others.
    is_short: bool,
}

/// One of them.
pub(crate) struct Old {
    pub(crate) pid: u32,
    pub(crate) link: Arc<Link>,
    /// See [`super::message::LEVEL`].
    pub(crate) level: u32,
    /// When it was replaced, in milliseconds since 1970.
    pub(crate) since_ms: u64,
    /// Whether the volumes may still be open there.
    pub(crate) has_volumes: bool,
    /// Whether it was told to end sooner than it would.
    pub(crate) is_told: bool,
    pub(crate) holds: Option<Holds>,
    /// When it ends at the latest.
    ends: Option<Instant>,
    living: Living,
    number: u64,
    /// Whether a thread reads its link.
    is_attended: bool,
}

impl Old {
    /// The process that this one takes over from.
    pub(crate) fn replaced_now(pid: u32, link: Link, level: u32) -> Old {
        let since = weir_clock::now().wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let since_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Old::new(pid, link, level).since(since_ms)
    }

    pub(super) fn new(pid: u32, link: Link, level: u32) -> Old {
        Old {
            pid,
            link: Arc::new(link),
            level,
            since_ms: 0,
            has_volumes: true,
            is_told: false,
            holds: None,
            ends: None,
            living: Living::of(pid),
            number: 0,
            is_attended: false,
        }
    }

    pub(super) fn since(self, since_ms: u64) -> Old {
        Old { since_ms, ..self }
    }

    pub(super) fn note(&mut self, holds: Holds) {
        self.ends = Some(weir_clock::mono() + Duration::from_millis(holds.ends_in_ms));
        self.holds = Some(holds);
    }

    /// Whether it knows the words for what it holds, and when it is to end.
    fn speaks(&self) -> bool {
        self.level > 0
    }

    fn end_within(&mut self, most: Duration) {
        let until = weir_clock::mono() + most;
        if self.speaks() && self.ends.is_none_or(|ends| until < ends) {
            let ms = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
            // One that does not hear it is overdue later.
            let _ = self.link.say_now(&Message::EndWithin { ms });
            self.ends = Some(until);
        }
        self.is_told = true;
    }

    fn shown(&self) -> OldProcess {
        let left = self.ends.map(|ends| ends.saturating_duration_since(weir_clock::mono()));
        OldProcess {
            pid: self.pid,
            since: rfc3339(SystemTime::UNIX_EPOCH + Duration::from_millis(self.since_ms)),
            connections: self.holds.map(|holds| holds.connections),
            held_bytes: self.holds.map(|holds| holds.bytes),
            ends: left.map(|left| rfc3339(weir_clock::now().wall + left)),
            ends_in_s: left.map(|left| left.as_secs()),
        }
    }
}

impl Before {
    /// What is shown of them, the oldest first.
    pub(crate) fn shown(&self) -> Vec<OldProcess> {
        let state = self.state.lock();
        let mut all: Vec<&Old> = state.all.iter().collect();
        all.sort_by_key(|old| old.since_ms);
        all.into_iter().map(Old::shown).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().all.is_empty()
    }

    /// Whether one of them may have the volumes open.
    pub(crate) fn has_volumes(&self) -> bool {
        self.state.lock().all.iter().any(|old| old.has_volumes)
    }

    /// Has all of them end within that time.
    pub(crate) fn end_all(&self, most: Duration) {
        self.state.lock().all.iter_mut().for_each(|old| old.end_within(most));
    }

    /// Blocks until all of them have ended, or the patience is over; those that are left then are killed.
    pub(crate) fn await_end(&self, patience: Duration) {
        let until = weir_clock::mono() + patience;
        let mut state = self.state.lock();
        while !state.all.is_empty() {
            if self.changed.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        state.all.iter().for_each(|old| old.living.kill());
    }

    /// Has all of them open their log files again.
    pub(crate) fn reopen_logs(&self) {
        for old in self.state.lock().all.iter().filter(|old| old.speaks()) {
            if let Err(error) = old.link.say_now(&Message::ReopenLogs) {
                tracing::warn!(%error, pid = old.pid, "an old process goes on in its old log file");
            }
        }
    }

    /// Gives the links to the process that takes over, if it knows what to do with them. Blocks until nobody
    /// reads them here. Returns the links that could not be handed on, and are to be attended here again.
    pub(super) fn hand_on(&self, to: &Link) -> Vec<(u64, Arc<Link>)> {
        let mut state = self.state.lock();
        state.is_left = true;
        let until = weir_clock::mono() + LET_GO_TIME_MAX;
        while state.all.iter().any(|old| old.is_attended) {
            if self.changed.wait_until(&mut state, until).timed_out() {
                tracing::warn!("the link to an old process is busy; this one goes on with it");
                break;
            }
        }
        let mut unattended = Vec::new();
        state.all.retain(|old| {
            if old.is_attended {
                return true;
            }
            let handed_on = hand_on(old, to);
            if let Err(error) = &handed_on {
                tracing::warn!(%error, pid = old.pid, "an old process cannot be handed on");
                unattended.push((old.number, Arc::clone(&old.link)));
            }
            handed_on.is_err()
        });
        state.is_left = false;
        unattended
    }

    /// Whether another process takes over, so that nobody is to read the links here.
    pub(super) fn is_left(&self) -> bool {
        self.state.lock().is_left
    }

    /// Adds one. Returns its number.
    pub(super) fn add(&self, old: Old) -> u64 {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.all.push(Old { number, ..old });
        number
    }

    /// Notes whether a thread reads the link of one.
    pub(super) fn set_attended(&self, number: u64, is_attended: bool) {
        self.with(number, |old| old.is_attended = is_attended);
        self.changed.notify_all();
    }

    /// Removes one that has ended. Returns its pid, and whether it was the last.
    pub(super) fn remove(&self, number: u64) -> Option<(u32, bool)> {
        let mut state = self.state.lock();
        let at = state.all.iter().position(|old| old.number == number)?;
        let ended = state.all.remove(at);
        self.changed.notify_all();
        Some((ended.pid, state.all.is_empty()))
    }

    /// What follows from the time, and from what they hold of so much memory. One that has to end has so much
    /// time.
    pub(super) fn tend(&self, memory_bytes: u64, most: Duration) {
        let mut state = self.state.lock();
        state.end_oldest(memory_bytes, most);
        state.kill_overdue();
    }

    /// Has `leave` free in this process what they hold of so much memory; it returns how much that is.
    pub(super) fn settle(&self, memory_bytes: u64, leave: impl FnOnce(u64) -> u64) {
        let mut state = self.state.lock();
        let wanted = state.elsewhere_bytes(memory_bytes);
        let is_short = leave(wanted) < wanted;
        if is_short && !state.is_short {
            tracing::warn!("readers hold memory that old processes hold as well: together it is too much");
        }
        state.is_short = is_short;
    }

    pub(super) fn with<T>(&self, number: u64, act: impl FnOnce(&mut Old) -> T) -> Option<T> {
        self.state.lock().all.iter_mut().find(|old| old.number == number).map(act)
    }
}

fn hand_on(old: &Old, to: &Link) -> io::Result<()> {
    let Old { pid, level, since_ms, has_volumes, is_told, holds, .. } = *old;
    let left_ms = old.ends.map(|ends| ends.saturating_duration_since(weir_clock::mono()).as_millis());
    let ends_in_ms = u64::try_from(left_ms.unwrap_or_default()).unwrap_or(u64::MAX);
    let holds = holds.map(|holds| Holds { ends_in_ms, ..holds });
    let before = Message::Before { pid, level, since_ms, has_volumes, is_told, holds };
    to.send(&before, &[], &[old.link.copy()?])
}

impl State {
    /// What is to be left free of so much memory.
    fn elsewhere_bytes(&self, memory_bytes: u64) -> u64 {
        let told: u64 = self.all.iter().filter_map(|old| old.holds).map(|holds| holds.bytes).sum();
        let is_untold = self.all.iter().any(|old| old.speaks() && old.holds.is_none());
        if is_untold { told.max(elsewhere_bytes_max(memory_bytes)) } else { told }
    }

    /// Has the oldest end where there are too many, or where they hold too much.
    fn end_oldest(&mut self, memory_bytes: u64, most: Duration) {
        let mut all: Vec<&mut Old> = self.all.iter_mut().filter(|old| old.speaks()).collect();
        all.sort_by_key(|old| old.since_ms);
        let too_many = all.len().saturating_sub(OLD_MAX);
        let held: u64 = all.iter().filter_map(|old| old.holds).map(|holds| holds.bytes).sum();
        let hold_too_much = usize::from(held > elsewhere_bytes_max(memory_bytes));
        for old in all.into_iter().take(too_many.max(hold_too_much)).filter(|old| !old.is_told) {
            tracing::info!(pid = old.pid, within_s = most.as_secs(), "the oldest process is to end");
            old.end_within(most);
        }
    }

    /// Kills what should have ended long ago.
    fn kill_overdue(&mut self) {
        let now = weir_clock::mono();
        for old in self.all.iter_mut().filter(|old| old.ends.is_some_and(|ends| now > ends + OVERDUE)) {
            tracing::warn!(pid = old.pid, "an old process did not end in its time, and is killed");
            old.living.kill();
            // Not again before long: it may wait for a drive.
            old.ends = Some(now);
        }
    }
}

/// What the processes before one with so much memory may hold together.
pub(crate) fn elsewhere_bytes_max(memory_bytes: u64) -> u64 {
    memory_bytes / 8 * ELSEWHERE_EIGHTHS
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: u64 = 800;

    fn state(olds: &[(u64, u32, Option<u64>)]) -> (State, Vec<Link>) {
        let mut links = Vec::new();
        let old = |&(since_ms, level, bytes): &(u64, u32, Option<u64>)| {
            let (here, there) = Link::pair().unwrap();
            links.push(Link::over(there).unwrap());
            let mut old = Old::new(u32::MAX, here, level).since(since_ms);
            let holds = bytes.map(|bytes| Holds { connections: 1, bytes, ends_in_ms: 3_600_000 });
            holds.into_iter().for_each(|holds| old.note(holds));
            old
        };
        (State { all: olds.iter().map(old).collect(), ..State::default() }, links)
    }

    #[test]
    fn what_the_others_hold_is_counted_and_as_much_as_may_be_until_one_has_said_it() {
        let check =
            |olds: &[_], expect| assert_eq!(state(olds).0.elsewhere_bytes(MEMORY), expect, "{olds:?}");
        check(&[], 0);
        check(&[(1, 1, Some(100)), (2, 1, Some(50))], 150);
        check(&[(1, 1, Some(100)), (2, 1, None)], 700);
        // One of the first versions never says it.
        check(&[(1, 0, None), (2, 1, Some(50))], 50);
    }

    #[test]
    fn the_oldest_ends_where_there_are_more_than_three_or_they_hold_too_much() {
        let check = |olds: &[(u64, u32, Option<u64>)], expect: &[u64]| {
            let (mut state, links) = state(olds);
            state.end_oldest(MEMORY, Duration::from_secs(30));
            // Once is enough.
            state.end_oldest(MEMORY, Duration::from_secs(30));
            let told: Vec<u64> = state.all.iter().filter(|old| old.is_told).map(|old| old.since_ms).collect();
            assert_eq!(told, expect, "{olds:?}");
            for (old, link) in state.all.iter().zip(links) {
                let heard = link.receive(Some(Duration::from_millis(1)));
                assert_eq!(heard.is_ok(), expect.contains(&old.since_ms), "{olds:?}: {heard:?}");
                if let Ok(Some(received)) = heard {
                    assert_eq!(received.message, Message::EndWithin { ms: 30_000 });
                    assert!(link.receive(Some(Duration::from_millis(1))).is_err(), "once");
                }
            }
        };
        check(&[(1, 1, Some(1)), (2, 1, Some(1)), (3, 1, Some(1))], &[]);
        check(&[(3, 1, Some(1)), (1, 1, Some(1)), (2, 1, Some(1)), (4, 1, Some(1))], &[1]);
        check(&[(1, 1, None), (2, 1, Some(1)), (3, 1, None), (4, 1, None), (5, 1, None)], &[1, 2]);
        // One of the first versions knows no such word.
        check(&[(1, 0, None), (2, 1, Some(1)), (3, 1, Some(1)), (4, 1, Some(1))], &[]);
        check(&[(1, 1, Some(400)), (2, 1, Some(299))], &[]);
        check(&[(1, 1, Some(400)), (2, 1, Some(301))], &[1]);
    }

    #[test]
    fn what_does_not_end_in_its_time_is_killed() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let (here, _there) = Link::pair().unwrap();
        let old = Old::new(child.id(), here, 1);
        let mut state = State { all: vec![old], ..State::default() };
        state.all[0].ends = Some(weir_clock::mono());
        state.kill_overdue();
        assert!(child.try_wait().unwrap().is_none(), "it has a while");
        state.all[0].ends = weir_clock::mono().checked_sub(OVERDUE + Duration::from_secs(1));
        state.kill_overdue();
        assert!(!child.wait().unwrap().success());
    }
}
