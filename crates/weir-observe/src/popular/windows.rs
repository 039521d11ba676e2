//! The last minute and the last hour, as slices that rotate: six slices of ten seconds, six of ten minutes.
//! The slice that is written counts for both. It must not read a clock.

use std::collections::{HashMap, VecDeque};
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use weir_share::Client;

use super::lists::{Item, Kind, Lists, Sample, TopBy, TopOrder, What};
use super::reading::{Reading, Traffic};
use super::sketch::{Row, Sketch};
use crate::site::SiteId;

/// How long the slices of a minute are.
const SHORT: Duration = Duration::from_secs(10);
/// How many of them are one slice of the hour.
const SHORTS_IN_LONG: u32 = 60;
/// Slices of a window that have ended; with the one that is written there is one more.
const ENDED_MAX: usize = 5;
/// Readings of the last seconds that are kept.
const RECENT_MAX: usize = 5;

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopWindow {
    /// The last 50 to 60 seconds.
    Minute,
    /// The last 50 to 60 minutes.
    Hour,
}

impl TopWindow {
    /// Both.
    pub const ALL: [TopWindow; 2] = [TopWindow::Minute, TopWindow::Hour];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            TopWindow::Minute => "minute",
            TopWindow::Hour => "hour",
        }
    }
}

/// What is asked of the lists.
#[derive(Clone, Debug)]
pub struct TopQuestion {
    /// What is listed.
    pub by: TopBy,
    /// What the list is ordered by.
    pub order: TopOrder,
    /// The span of time.
    pub window: TopWindow,
    /// The most rows.
    pub limit: usize,
    /// The sites that it is about, by name; `None`: all, and what belongs to none.
    pub sites: Option<Vec<String>>,
}

/// A list.
#[derive(Clone, Debug, Default)]
pub struct TopList {
    /// How long the window is.
    pub covered: Duration,
    /// What all weighs that is asked for, listed or not.
    pub total: u64,
    /// The rows, the heaviest first.
    pub rows: Vec<TopRow>,
}

/// A row of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopRow {
    /// The URL, the address, the site or the origin.
    pub name: String,
    /// The site of a URL, where it has one.
    pub site: Option<Arc<str>>,
    /// Why it was not stored; empty in other orders.
    pub why: &'static str,
    /// What it weighs.
    pub count: u64,
    /// How far that may be from the truth.
    pub error: u64,
}

/// A slice of time.
#[derive(Debug)]
struct Slice {
    begun: Reading,
    lists: Lists,
}

impl Slice {
    fn begin(reading: &Reading) -> Slice {
        Slice { begun: reading.clone(), lists: Lists::new() }
    }
}

/// All slices.
#[derive(Debug)]
pub(super) struct Windows {
    now: Slice,
    /// Those of the minute that have ended, the oldest first.
    short: VecDeque<Slice>,
    /// What has ended since the last slice of the hour.
    gathered: Slice,
    gathered_count: u32,
    /// Those of the hour, the oldest first.
    long: VecDeque<Slice>,
    /// Readings of the last seconds, the oldest first.
    recent: VecDeque<Reading>,
    hashed: RandomState,
}

impl Windows {
    pub(super) fn new(hashed: RandomState, reading: &Reading) -> Windows {
        Windows {
            now: Slice::begin(reading),
            short: VecDeque::new(),
            gathered: Slice::begin(reading),
            gathered_count: 0,
            long: VecDeque::new(),
            recent: VecDeque::from([reading.clone()]),
            hashed,
        }
    }

    pub(super) fn add(&mut self, sample: &Sample) {
        self.now.lists.add(sample, &self.hashed);
    }

    /// Takes the counters of a second, and begins new slices where it is time.
    pub(super) fn turn(&mut self, reading: Reading) {
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
        if reading.at >= self.now.begun.at + SHORT {
            self.end_slice(&reading);
        }
        self.recent.push_back(reading);
    }

    fn end_slice(&mut self, reading: &Reading) {
        let mut ended = std::mem::replace(&mut self.now, Slice::begin(reading));
        ended.lists.settle();
        self.gathered.lists.merge(&ended.lists);
        keep(&mut self.short, ended);
        self.gathered_count += 1;
        if self.gathered_count == SHORTS_IN_LONG {
            self.gathered_count = 0;
            let mut ended = std::mem::replace(&mut self.gathered, Slice::begin(reading));
            ended.lists.settle();
            keep(&mut self.long, ended);
        }
    }

    /// The slices of a window, the oldest first.
    fn slices(&self, window: TopWindow) -> Vec<&Slice> {
        let mut slices: Vec<&Slice> = match window {
            TopWindow::Minute => self.short.iter().collect(),
            TopWindow::Hour => self.long.iter().chain([&self.gathered]).collect(),
        };
        slices.push(&self.now);
        slices
    }

    /// What was counted in a window, up to a reading.
    pub(super) fn traffic(&self, window: TopWindow, now: &Reading) -> Traffic {
        now.since(&self.slices(window)[0].begun)
    }

    /// What was counted in the last seconds, up to a reading.
    pub(super) fn recent(&self, now: &Reading) -> Traffic {
        self.recent.front().map_or_else(Traffic::default, |first| now.since(first))
    }

    /// The answer to a question; `sites` are those of the question, `name` names a site.
    pub(super) fn list(
        &self,
        asked: &TopQuestion,
        sites: Option<&[SiteId]>,
        name: &dyn Fn(SiteId) -> Option<Arc<str>>,
    ) -> TopList {
        let slices = self.slices(asked.window);
        if asked.limit == 0 && sites.is_none() {
            // What all weighs takes no rows.
            let kind = Kind::of(asked.by, false);
            let totals = slices.iter().map(|slice| slice.lists.list(kind, asked.order).total());
            return TopList { covered: Duration::ZERO, total: totals.sum(), rows: Vec::new() };
        }
        let sum = |kind: Kind| {
            let mut sum = Sketch::new(kind.kept());
            slices.iter().for_each(|slice| sum.merge(slice.lists.list(kind, asked.order)));
            sum
        };
        let is_asked = |site: &SiteId| sites.is_none_or(|sites| sites.contains(site));
        let list = sum(Kind::of(asked.by, sites.is_some()));
        let mut rows: HashMap<(Name, &'static str), Row<Item>> = HashMap::new();
        for (key, row) in list.rows().filter(|(_, row)| is_asked(&row.item.site)) {
            let named = Name::of(key, &row.item);
            let known = rows.entry((named, row.item.why));
            known.and_modify(|sum| sum.add(row.low, row.high, row.variance)).or_insert_with(|| row.clone());
        }
        let mut rows: Vec<_> = rows.into_values().collect();
        let weight = |row: &Row<Item>| (std::cmp::Reverse(row.low), row.error());
        rows.sort_by_cached_key(|row| (weight(row), text(&row.item, name)));
        rows.truncate(asked.limit);
        let total = match sites {
            None => list.total(),
            Some(_) => sum(Kind::Site)
                .rows()
                .filter(|(_, row)| is_asked(&row.item.site))
                .map(|(_, row)| row.low)
                .sum(),
        };
        let rows = rows.iter().map(|row| TopRow {
            name: text(&row.item, name),
            site: match row.item.what {
                What::Url(_) => name(row.item.site),
                _ => None,
            },
            why: row.item.why,
            count: row.low,
            error: row.error(),
        });
        TopList { covered: Duration::ZERO, total, rows: rows.collect() }
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let slices = self.short.iter().chain(&self.long).chain([&self.now, &self.gathered]);
        slices.map(|slice| slice.lists.bytes()).sum()
    }
}

fn keep(slices: &mut VecDeque<Slice>, ended: Slice) {
    slices.push_back(ended);
    if slices.len() > ENDED_MAX {
        slices.pop_front();
    }
}

/// What makes rows of several sites one: a client and an origin are the same everywhere.
#[derive(PartialEq, Eq, Hash)]
enum Name {
    Client(Client),
    Origin(Arc<str>),
    Key(u64),
}

impl Name {
    fn of(key: u64, item: &Item) -> Name {
        match &item.what {
            What::Client(client) => Name::Client(*client),
            What::Origin(origin) => Name::Origin(origin.clone()),
            What::Url(_) | What::Site => Name::Key(key),
        }
    }
}

fn text(item: &Item, name: &dyn Fn(SiteId) -> Option<Arc<str>>) -> String {
    match &item.what {
        What::Url(url) => url.to_string(),
        What::Client(client) => client.to_string(),
        What::Site => name(item.site).map_or_else(|| "-".to_owned(), |name| name.to_string()),
        What::Origin(origin) => origin.to_string(),
    }
}
