//! The readers of a log as it is made: who wants which lines, and how many of them a worker hands in.
//!
//! A worker tries a reader's condition on the numbers of a request. It makes texts only where some reader
//! wants them and has room: each reader has room for so many lines a second of each worker, so that no number
//! of readers costs requests much. Lines without room are counted and told to the reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use thiserror::Error;

use crate::condition::Condition;
use crate::record::Facts;
use crate::site::SiteId;

/// The most readers of a log at a time by the control socket.
const READERS_OF_SOCKET_MAX: usize = 20;
/// The most of them by tokens.
const READERS_OF_TOKENS_MAX: usize = 40;
/// Those by tokens of one site.
const READERS_OF_SITE_MAX: usize = 10;
/// All of them: each has a bit.
const READERS_MAX: usize = READERS_OF_SOCKET_MAX + READERS_OF_TOKENS_MAX;
/// Lines a second for a reader, of all workers.
const LINES_PER_SECOND: u32 = 2000;
/// The least of them that each worker may hand in at once.
const LINES_OF_WORKER_MIN: u32 = 64;
/// How often room is made.
const ROOM_EVERY: Duration = Duration::from_millis(100);

/// Which readers a line is for, by bits.
pub(super) type Mask = u64;

/// How much a reader wants of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The line, as it is in the log.
    #[default]
    Line,
    /// The line and all that was decided.
    Full,
}

/// Which reader: those of the control socket and those with tokens are counted apart, and so are the
/// tokens of each site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReadBy {
    /// A user of the control socket.
    #[default]
    Socket,
    /// A token, of these sites or of the whole Weir.
    Token(Option<Vec<String>>),
}

/// A log has as many readers as it may have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TooManyReaders {
    /// By the control socket.
    #[error("{READERS_OF_SOCKET_MAX} read the log by the control socket, and more may not")]
    OfSocket,
    /// By tokens.
    #[error("{READERS_OF_TOKENS_MAX} read the log with tokens, and more may not")]
    OfTokens,
    /// By tokens of this site.
    #[error("{READERS_OF_SITE_MAX} read the log with tokens of {0}, and more may not")]
    OfSite(String),
}

/// What a reader wants of a log.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Only lines that fit; all without one.
    pub condition: Option<Condition>,
    /// Only of these sites; `None`: all, and what concerns no site.
    pub sites: Option<Vec<String>>,
    /// How much of each line.
    pub detail: Detail,
    /// The reader.
    pub by: ReadBy,
}

/// One reader, as workers see it.
#[derive(Debug)]
pub(super) struct Reader {
    bit: Mask,
    by: ReadBy,
    condition: Option<Condition>,
    detail: Detail,
    /// Its sites by number, where all are known.
    sites: Option<Vec<SiteId>>,
    /// By worker.
    rooms: Vec<Room>,
}

/// A worker's room for a reader. It stands alone in its cache lines: each worker writes its own.
#[derive(Debug)]
#[repr(align(128))]
struct Room {
    left: AtomicU32,
    lost: AtomicU64,
}

/// The readers of a log.
#[derive(Debug, Default)]
pub(super) struct Readers {
    all: ArcSwap<Vec<Arc<Reader>>>,
    /// Held while the list changes: the bits that are taken.
    taken: Mutex<Mask>,
}

impl Readers {
    /// A reader of `workers` queues. `number` knows sites by name.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn join(
        &self,
        wish: Wish,
        workers: usize,
        number: &dyn Fn(&str) -> Option<SiteId>,
    ) -> Result<Arc<Reader>, TooManyReaders> {
        let mut taken = self.taken.lock();
        self.check_room(&wish.by)?;
        let free = (0..READERS_MAX).map(|at| 1 << at).find(|bit| *taken & bit == 0);
        let bit = free.ok_or(TooManyReaders::OfTokens)?;
        let known = |name: &String| number(name).filter(|id| *id != SiteId::NONE);
        let room = || Room { left: AtomicU32::new(rate(workers)), lost: AtomicU64::new(0) };
        let reader = Arc::new(Reader {
            bit,
            by: wish.by,
            condition: wish.condition.map(|condition| condition.of_sites(number)),
            detail: wish.detail,
            sites: wish.sites.and_then(|sites| sites.iter().map(known).collect()),
            rooms: (0..workers).map(|_| room()).collect(),
        });
        *taken |= bit;
        let mut all = Vec::clone(&self.all.load());
        all.push(reader.clone());
        self.all.store(Arc::new(all));
        Ok(reader)
    }

    /// Whether there is a place for one more.
    fn check_room(&self, by: &ReadBy) -> Result<(), TooManyReaders> {
        let all = self.all.load();
        let count = |is_meant: &dyn Fn(&ReadBy) -> bool| all.iter().filter(|one| is_meant(&one.by)).count();
        let ReadBy::Token(sites) = by else {
            let there = count(&|by| *by == ReadBy::Socket);
            return if there < READERS_OF_SOCKET_MAX { Ok(()) } else { Err(TooManyReaders::OfSocket) };
        };
        if count(&|by| *by != ReadBy::Socket) >= READERS_OF_TOKENS_MAX {
            return Err(TooManyReaders::OfTokens);
        }
        let is_full = |site: &&String| count(&|by| by.is_of(site)) >= READERS_OF_SITE_MAX;
        match sites.iter().flatten().find(is_full) {
            Some(site) => Err(TooManyReaders::OfSite(site.clone())),
            None => Ok(()),
        }
    }

    /// Removes a reader.
    pub(super) fn leave(&self, reader: &Arc<Reader>) {
        let mut taken = self.taken.lock();
        let mut all = Vec::clone(&self.all.load());
        all.retain(|other| !Arc::ptr_eq(other, reader));
        self.all.store(Arc::new(all));
        *taken &= !reader.bit;
    }

    /// The readers that a request of a worker may be for, by its numbers. Those without room have lost it.
    pub(super) fn of(&self, worker: usize, facts: &Facts) -> Mask {
        let mut mask = 0;
        for reader in self.all.load().iter() {
            if reader.may_want(facts) {
                mask |= reader.take(worker);
            }
        }
        mask
    }

    /// All readers.
    pub(super) fn all(&self, worker: usize) -> Mask {
        self.all.load().iter().fold(0, |mask, reader| mask | reader.take(worker))
    }

    /// Whether a reader wants lines in full, of this site among others.
    pub(super) fn want_full_of(&self, site: SiteId) -> bool {
        self.all.load().iter().any(|reader| reader.detail == Detail::Full && reader.may_see(site))
    }

    /// Whether one of these readers wants lines in full.
    pub(super) fn want_full(&self, mask: Mask) -> bool {
        self.all.load().iter().any(|reader| reader.bit & mask != 0 && reader.detail == Detail::Full)
    }

    /// Counts a line of a worker that there was no place for, for those it was for.
    pub(super) fn lose(&self, worker: usize, mask: Mask) {
        for reader in self.all.load().iter().filter(|reader| reader.bit & mask != 0) {
            reader.rooms[worker].lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl ReadBy {
    /// Whether it is a token of this site, among others or alone.
    fn is_of(&self, site: &str) -> bool {
        matches!(self, ReadBy::Token(Some(sites)) if sites.iter().any(|own| own == site))
    }
}

impl Reader {
    fn may_want(&self, facts: &Facts) -> bool {
        self.may_see(facts.site) && self.condition.as_ref().is_none_or(|condition| condition.may_fit(facts))
    }

    /// Whether lines of a site may be for it, as far as numbers say.
    fn may_see(&self, site: SiteId) -> bool {
        self.sites.as_ref().is_none_or(|own| site == SiteId::NONE || own.contains(&site))
    }

    /// Takes room for a line of a worker: its bit, or none.
    fn take(&self, worker: usize) -> Mask {
        let room = &self.rooms[worker];
        let left = room.left.load(Ordering::Relaxed);
        if left == 0 {
            room.lost.fetch_add(1, Ordering::Relaxed);
            return 0;
        }
        // One thread takes and another one fills: what is lost in between is room, which comes back.
        room.left.store(left - 1, Ordering::Relaxed);
        self.bit
    }

    pub(super) fn is_in(&self, mask: Mask) -> bool {
        self.bit & mask != 0
    }

    pub(super) fn detail(&self) -> Detail {
        self.detail
    }

    pub(super) fn condition(&self) -> Option<&Condition> {
        self.condition.as_ref()
    }

    /// Lines that were lost since the last call.
    pub(super) fn lost(&self) -> u64 {
        self.rooms.iter().map(|room| room.lost.swap(0, Ordering::Relaxed)).sum()
    }

    fn make_room(&self) {
        let rate = rate(self.rooms.len());
        let more = (rate / 10).max(1);
        for room in &self.rooms {
            let left = room.left.load(Ordering::Relaxed);
            room.left.store((left + more).min(rate), Ordering::Relaxed);
        }
    }
}

/// Lines a second of one worker.
fn rate(workers: usize) -> u32 {
    let workers = u32::try_from(workers).unwrap_or(u32::MAX).max(1);
    (LINES_PER_SECOND / workers).max(LINES_OF_WORKER_MIN)
}

/// When room is made.
#[derive(Debug)]
pub(super) struct Rounds {
    next: Instant,
}

impl Rounds {
    pub(super) fn new(now: Instant) -> Rounds {
        Rounds { next: now + ROOM_EVERY }
    }

    /// Makes room where it is time.
    pub(super) fn look<'r>(&mut self, now: Instant, readers: impl Iterator<Item = &'r Arc<Reader>>) {
        if now < self.next {
            return;
        }
        self.next = now + ROOM_EVERY;
        readers.for_each(|reader| reader.make_room());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::LogOf;

    fn facts(status: u16, site: usize) -> Facts {
        Facts { status, site: SiteId::new(site), ..Facts::default() }
    }

    fn wish(condition: &str, sites: Option<&[&str]>) -> Wish {
        let condition = (!condition.is_empty()).then(|| Condition::read(condition, LogOf::Clients).unwrap());
        let sites = sites.map(|sites| sites.iter().map(ToString::to_string).collect());
        Wish { condition, sites, ..Wish::default() }
    }

    #[test]
    fn a_line_is_for_those_who_may_want_it() {
        let readers = Readers::default();
        let number = |name: &str| (name == "a").then(|| SiteId::new(0));
        let join = |condition, sites| readers.join(wish(condition, sites), 1, &number).unwrap();
        let all = join("", None);
        let bad = join("status >= 500 and url ~ x", None);
        let of_a = join("", Some(&["a"]));
        let of_a_by_name = join("site == a", None);
        // The log's thread looks at the names of those.
        let of_later = join("", Some(&["later"]));
        let names = |mask| {
            let is_in = |reader: &Arc<Reader>| reader.is_in(mask);
            [&all, &bad, &of_a, &of_a_by_name, &of_later].map(is_in)
        };
        assert_eq!(names(readers.of(0, &facts(200, 0))), [true, false, true, true, true]);
        assert_eq!(names(readers.of(0, &facts(502, 1))), [true, true, false, false, true]);
        readers.leave(&all);
        assert_eq!(names(readers.of(0, &facts(200, 1))), [false, false, false, false, true]);
        // Its bit is given away again.
        assert!(join("", None).is_in(1));
    }

    #[test]
    fn a_reader_has_room_for_so_many_lines_and_hears_of_the_others() {
        let readers = Readers::default();
        let many = readers.join(wish("", None), 2, &|_| None).unwrap();
        let few = readers.join(wish("status == 500", None), 2, &|_| None).unwrap();
        let taken = (0..5000).filter(|_| many.is_in(readers.of(0, &facts(200, 0)))).count();
        assert_eq!(taken, 1000);
        assert_eq!((many.lost(), many.lost(), few.lost()), (4000, 0, 0));
        // Another worker, and another reader, have their own.
        assert!(many.is_in(readers.of(1, &facts(200, 0))));
        assert!(few.is_in(readers.of(0, &facts(500, 0))));
        assert_eq!(many.lost(), 1);
        let now = weir_clock::mono();
        let mut rounds = Rounds::new(now);
        rounds.look(now, [&many].into_iter());
        assert!(!many.is_in(readers.of(0, &facts(200, 0))));
        rounds.look(now + ROOM_EVERY, [&many].into_iter());
        let taken = (0..5000).filter(|_| many.is_in(readers.of(0, &facts(200, 0)))).count();
        assert_eq!(taken, 100);
    }

    #[test]
    fn tokens_take_no_place_of_the_socket_and_those_of_a_site_none_of_others() {
        let readers = Readers::default();
        let join = |by: &ReadBy| readers.join(Wish { by: by.clone(), ..Wish::default() }, 1, &|_| None);
        let of = |sites: &[&str]| ReadBy::Token(Some(sites.iter().map(ToString::to_string).collect()));
        let refused = |by: &ReadBy| join(by).unwrap_err();
        let of_a: Vec<_> = (0..READERS_OF_SITE_MAX).map(|_| join(&of(&["a"])).unwrap()).collect();
        assert_eq!(refused(&of(&["a"])), TooManyReaders::OfSite("a".to_owned()));
        assert_eq!(refused(&of(&["b", "a"])), TooManyReaders::OfSite("a".to_owned()));
        let whole = ReadBy::Token(None);
        let mut others = vec![join(&of(&["b"])).unwrap()];
        others.extend((others.len() + of_a.len()..READERS_OF_TOKENS_MAX).map(|_| join(&whole).unwrap()));
        assert_eq!(refused(&whole), TooManyReaders::OfTokens);
        assert_eq!(refused(&of(&["b"])), TooManyReaders::OfTokens);
        let _of_socket: Vec<_> = (0..READERS_OF_SOCKET_MAX).map(|_| join(&ReadBy::Socket).unwrap()).collect();
        assert_eq!(refused(&ReadBy::Socket), TooManyReaders::OfSocket);
        readers.leave(&of_a[7]);
        assert!(join(&of(&["a"])).is_ok());
    }

    #[test]
    fn steps_are_noted_for_sites_that_a_full_reader_may_see() {
        let readers = Readers::default();
        let number = |name: &str| name.parse().ok().map(SiteId::new);
        let join = |sites: Option<&[&str]>, detail| {
            let sites: Option<Vec<String>> =
                sites.map(|sites| sites.iter().map(|one| (*one).into()).collect());
            readers.join(Wish { sites, detail, ..Wish::default() }, 1, &number).unwrap()
        };
        let wanted = || [1, 2].map(|site| readers.want_full_of(SiteId::new(site)));
        join(None, Detail::Line);
        assert_eq!(wanted(), [false, false], "it wants lines alone");
        join(Some(&["1"]), Detail::Full);
        assert_eq!(wanted(), [true, false]);
        assert!(readers.want_full_of(SiteId::NONE), "the site is not known yet");
        let all = join(None, Detail::Full);
        assert_eq!(wanted(), [true, true]);
        readers.leave(&all);
        // Of a site whose number is not known: it may be any.
        join(Some(&["nowhere"]), Detail::Full);
        assert_eq!(wanted(), [true, true]);
    }
}
