//! The requests of one kind that are kept, and which of them goes when there are too many: one of the site
//! that has the most, in it of the client that has the most. Of these the oldest goes; of slow ones one that
//! is older than an hour, else the fastest.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use weir_share::{ByClient, Client};

use super::{EACH_MAX, PastKind};
use crate::record::{Description, Record};
use crate::site::SiteId;

/// How long a slow request is kept before faster ones.
const SLOW_FOR: Duration = Duration::from_secs(3600);
/// Bytes that are kept of a target, and of each other text.
const TARGET_BYTES_MAX: usize = 2048;
const TEXT_BYTES_MAX: usize = 512;
/// Requests to origins that are named.
const ASKED_MAX: usize = 8;

/// A request that is kept.
#[derive(Debug)]
pub(super) struct Entry {
    record: Arc<Record>,
    /// The client whose limits it shares.
    client: Option<Client>,
}

impl Entry {
    fn site(&self) -> SiteId {
        self.record.facts.site
    }
}

/// What is kept of a record: texts of strangers are cut.
pub(super) fn entry(record: &Record) -> Entry {
    let mut description = Description { line: None, ..record.description.clone() };
    cut(&mut description.target, TARGET_BYTES_MAX);
    description.asked.truncate(ASKED_MAX);
    let Description { host, request_id, referer, user_agent, tls, .. } = &mut description;
    let of_tls = tls.iter_mut().flat_map(|tls| [&mut tls.name, &mut tls.client]);
    for text in [host, request_id].into_iter().chain(referer).chain(user_agent).chain(of_tls) {
        cut(text, TEXT_BYTES_MAX);
    }
    let client = description.client.parse().ok().map(Client::of);
    Entry { record: Arc::new(Record { facts: record.facts, description }), client }
}

/// Cuts a text at a character, and says so.
fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push('…');
    }
    text.shrink_to_fit();
}

/// The requests of one kind, the newest last.
#[derive(Debug)]
pub(super) struct Shelf {
    kind: PastKind,
    entries: Vec<Entry>,
}

impl Shelf {
    pub(super) fn new(kind: PastKind) -> Shelf {
        Shelf { kind, entries: Vec::new() }
    }

    /// Puts a request on it. Where there are too many, one goes.
    pub(super) fn put(&mut self, entry: Entry) {
        self.entries.push(entry);
        if self.entries.len() > EACH_MAX {
            self.entries.remove(self.least());
        }
    }

    pub(super) fn records(&self) -> impl Iterator<Item = Arc<Record>> {
        self.entries.iter().map(|entry| entry.record.clone())
    }

    /// The one that goes next.
    fn least(&self) -> usize {
        let now = self.entries.last().map(|entry| entry.record.description.wall);
        let is_old = |entry: &Entry| {
            let age = now.and_then(|now| now.duration_since(entry.record.description.wall).ok());
            age.is_some_and(|age| age > SLOW_FOR)
        };
        if self.kind == PastKind::Slow
            && let Some(old) = self.entries.iter().position(is_old)
        {
            return old;
        }
        let all: Vec<usize> = (0..self.entries.len()).collect();
        let of_site = self.of_the_heaviest(&all, Entry::site);
        let of_client = self.of_the_heaviest_client(&of_site);
        let least = of_client.into_iter().min_by_key(|at| match self.kind {
            PastKind::Slow => (self.entries[*at].record.facts.first_byte, *at),
            _ => (None, *at),
        });
        least.unwrap_or_default()
    }

    /// Those whose owner has as many as any.
    fn of_the_heaviest<O: Hash + Eq>(&self, among: &[usize], owner: impl Fn(&Entry) -> O) -> Vec<usize> {
        let mut counts: HashMap<O, usize> = HashMap::new();
        for at in among {
            *counts.entry(owner(&self.entries[*at])).or_default() += 1;
        }
        let most = counts.values().copied().max().unwrap_or_default();
        let is_heaviest = |at: &&usize| counts.get(&owner(&self.entries[**at])) == Some(&most);
        among.iter().filter(is_heaviest).copied().collect()
    }

    /// Those whose client has as many of its site as any. What no client is known of is one client's.
    fn of_the_heaviest_client(&self, among: &[usize]) -> Vec<usize> {
        let mut counts: HashMap<_, (ByClient<u64>, u64)> = HashMap::new();
        for entry in among.iter().map(|at| &self.entries[*at]) {
            let (clients, unknown) = counts.entry(entry.site()).or_default();
            match entry.client {
                Some(client) => clients.change(client, |count| *count += 1),
                None => *unknown += 1,
            }
        }
        let used = |at: &usize| {
            let entry = &self.entries[*at];
            let of_site = counts.get(&entry.site());
            of_site.map_or(0, |(clients, unknown)| {
                entry.client.map_or(*unknown, |client| clients.used(client, |count| *count))
            })
        };
        let most = among.iter().map(used).max().unwrap_or_default();
        among.iter().filter(|at| used(at) == most).copied().collect()
    }
}
