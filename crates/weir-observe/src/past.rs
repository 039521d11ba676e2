//! The last requests that failed, were cut, whose client left, or that were slow, also when no reader of the
//! log listened.
//!
//! A worker looks at the numbers of a finished request ([`PastKind::of`]): that of a hit costs two
//! comparisons. Of what is of a kind, its `gate` lets so many through a second for each client, so that a
//! flood of failures makes few texts. The log's thread puts them on the shelf of their kind. A full shelf
//! gives up an entry of the site, and in it of the client, that has the most: a flood by one client pushes
//! out its own entries. What is kept ends with the process.

mod gate;
mod shelf;

use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde::ser::{Serialize, SerializeMap, Serializer};

pub(super) use self::gate::Gate;
use self::shelf::Shelf;
use super::full;
use super::lines;
use super::log::{Detail, Keeper, Wish};
use super::record::{Completion, Facts, Record};

/// Requests of each kind that are kept.
const EACH_MAX: usize = 250;
/// A request is slow where its first byte came no sooner.
const SLOW_MIN: Duration = Duration::from_millis(10);

/// Why a finished request is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PastKind {
    /// It was answered with a status of 5xx.
    Failed,
    /// Its response was cut.
    Cut,
    /// Its client left first.
    ClientGone,
    /// Its first byte was late.
    Slow,
}

impl PastKind {
    /// Every kind, in the order of its discriminant.
    pub const ALL: [PastKind; 4] = [PastKind::Failed, PastKind::Cut, PastKind::ClientGone, PastKind::Slow];

    /// The kind of a request by its numbers.
    #[inline]
    pub(super) fn of(facts: &Facts) -> Option<PastKind> {
        match facts.completion {
            Completion::Cut => Some(PastKind::Cut),
            Completion::ClientGone => Some(PastKind::ClientGone),
            Completion::Whole if facts.status >= 500 => Some(PastKind::Failed),
            Completion::Whole => {
                facts.first_byte.is_some_and(|took| took >= SLOW_MIN).then_some(PastKind::Slow)
            }
        }
    }

    /// The word of the log.
    pub fn word(self) -> &'static str {
        match self {
            PastKind::Failed => "failed",
            PastKind::Cut => "cut",
            PastKind::ClientGone => "client-gone",
            PastKind::Slow => "slow",
        }
    }
}

/// What is kept of the past.
#[derive(Debug)]
pub(super) struct Past {
    begun: SystemTime,
    shelves: Mutex<[Shelf; PastKind::ALL.len()]>,
}

impl Past {
    /// Nothing yet.
    pub(super) fn new(begun: SystemTime) -> Past {
        Past { begun, shelves: Mutex::new(PastKind::ALL.map(Shelf::new)) }
    }

    /// Keeps a request, if it is of a kind.
    pub(super) fn keep(&self, record: &Record) {
        let Some(kind) = PastKind::of(&record.facts) else { return };
        let entry = shelf::entry(record);
        self.shelves.lock()[kind as usize].put(entry);
    }

    /// What is kept that fits.
    pub(super) fn list(&self, wish: &Wish) -> PastList {
        let kept: Vec<_> = {
            let shelves = self.shelves.lock();
            let all = PastKind::ALL.iter().zip(&*shelves);
            all.flat_map(|(kind, shelf)| shelf.records().map(|record| (*kind, record))).collect()
        };
        let is_wanted = |record: &Record| {
            let sites = wish.sites.as_ref();
            sites.is_none_or(|sites| sites.iter().any(|site| **site == *record.description.site))
                && wish.condition.as_ref().is_none_or(|condition| condition.fits(record))
        };
        let mut fitting: Vec<_> = kept.into_iter().filter(|(_, record)| is_wanted(record)).collect();
        fitting.sort_by_key(|(_, record)| record.description.wall + record.facts.total);
        let line = |(kind, record): &(PastKind, std::sync::Arc<Record>)| {
            let mut line = Vec::new();
            lines::json(&Kept { kind: *kind, record, detail: wish.detail }, &mut line);
            line.truncate(line.trim_ascii_end().len());
            line
        };
        PastList { since: self.begun, lines: fitting.iter().map(line).collect() }
    }
}

/// The way of a log's thread to the shelves.
#[derive(Debug)]
pub(super) struct Keeping(pub(super) std::sync::Arc<Past>);

impl Keeper<Record> for Keeping {
    fn keep(&mut self, line: &Record) {
        self.0.keep(line);
    }
}

/// The requests of the past that fit a question.
#[derive(Clone, Debug)]
pub struct PastList {
    /// Since when requests are kept: the start of the process.
    pub since: SystemTime,
    /// The requests, in the order in which they ended: a JSON object each.
    pub lines: Vec<Vec<u8>>,
}

/// A request of the past as JSON.
struct Kept<'r> {
    kind: PastKind,
    record: &'r Record,
    detail: Detail,
}

impl Serialize for Kept<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.record.entries(&mut map)?;
        map.serialize_entry("kept", self.kind.word())?;
        if self.detail == Detail::Full {
            full::entries(self.record, &mut map)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests;
