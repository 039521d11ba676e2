//! The counters of one worker: cells that only this worker writes and the control plane reads.
//!
//! Counting is a relaxed load and a relaxed store, without a locked instruction. The whole is aligned so that
//! two workers never write to one cache line. If two threads ever write the same cells, counts are lost;
//! nothing worse happens.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use super::counts::{Cells, Count, SiteCount, bump};
use super::latency::LatencyCells;
use super::reasons;
use super::record::{Completion, Facts, Outcome, Storing};
use super::site::SiteId;

/// Sites with counters of their own; those beyond are counted in the sums only.
pub(super) const SITES_MAX: usize = SITE_CHUNK * SITE_CHUNKS;
const SITE_CHUNK: usize = 64;
const SITE_CHUNKS: usize = 256;
/// Words with counters of their own in each table; those beyond are counted as `other`.
const WORDS_MAX: usize = 192;

/// The cells of one site.
#[derive(Debug, Default)]
pub(super) struct SiteCells {
    pub(super) requests: [AtomicU64; Outcome::ALL.len()],
    pub(super) counts: Cells<{ SiteCount::ALL.len() }>,
}

/// How often each static word was seen.
#[derive(Debug, Default)]
pub(super) struct Words(Mutex<Vec<(&'static str, u64)>>);

impl Words {
    fn add(&self, word: &'static str) {
        debug_assert!(cfg!(test) || reasons::is_known(word), "`{word}` has no row in reasons.rs");
        let mut words = self.0.lock();
        if let Some((_, count)) = words.iter_mut().find(|(known, _)| *known == word) {
            *count += 1;
        } else if words.len() < WORDS_MAX {
            words.push((word, 1));
        } else if let Some((_, count)) = words.iter_mut().find(|(known, _)| *known == "other") {
            *count += 1;
        } else {
            words.push(("other", 1));
        }
    }

    pub(super) fn each(&self, mut visit: impl FnMut(&'static str, u64)) {
        for (word, count) in self.0.lock().iter() {
            visit(word, *count);
        }
    }
}

/// The counters of one worker. Only that worker's thread may call the methods that count.
#[derive(Debug)]
#[repr(align(128))]
pub struct Counters {
    pub(super) requests: [AtomicU64; Outcome::ALL.len()],
    pub(super) statuses: [AtomicU64; 6],
    pub(super) counts: Cells<{ Count::ALL.len() }>,
    pub(super) first_byte: [LatencyCells; Outcome::ALL.len()],
    pub(super) total: [LatencyCells; Outcome::ALL.len()],
    pub(super) not_stored: Words,
    pub(super) details: Words,
    pub(super) errors: Words,
    sites: [OnceLock<Box<[SiteCells]>>; SITE_CHUNKS],
    /// What belongs to no site.
    pub(super) nowhere: SiteCells,
}

impl Counters {
    pub(super) fn new() -> Self {
        Counters {
            requests: Default::default(),
            statuses: Default::default(),
            counts: Cells::default(),
            first_byte: std::array::from_fn(|_| LatencyCells::new()),
            total: std::array::from_fn(|_| LatencyCells::new()),
            not_stored: Words::default(),
            details: Words::default(),
            errors: Words::default(),
            sites: [const { OnceLock::new() }; SITE_CHUNKS],
            nowhere: SiteCells::default(),
        }
    }

    /// Counts one of a row.
    pub fn count(&self, count: Count) {
        self.add(count, 1);
    }

    /// Counts several of a row.
    pub fn add(&self, count: Count, by: u64) {
        self.counts.add(count as usize, by);
    }

    /// Counts one of a row of a site.
    pub fn count_site(&self, site: SiteId, count: SiteCount) {
        self.add_site(site, count, 1);
    }

    /// Counts several of a row of a site.
    pub fn add_site(&self, site: SiteId, count: SiteCount, by: u64) {
        self.site(site).counts.add(count as usize, by);
    }

    /// Counts a finished request.
    pub(super) fn finished(&self, facts: &Facts) {
        let outcome = facts.outcome as usize;
        bump(&self.requests[outcome], 1);
        bump(&self.statuses[usize::from(facts.status / 100).min(5)], 1);
        self.add(Count::ClientBodyBytes, facts.body_bytes);
        if facts.outcome.is_from_cache() {
            self.add(Count::CachedBodyBytes, facts.body_bytes);
        }
        if let Some(first_byte) = facts.first_byte {
            self.first_byte[outcome].add(first_byte);
        }
        self.total[outcome].add(facts.total);
        match facts.completion {
            Completion::Whole => {}
            Completion::Cut => {
                self.count(Count::Cut);
                if facts.detail == reasons::SEND_STALL {
                    self.count_site(facts.site, SiteCount::SendStallCuts);
                }
            }
            Completion::ClientGone => self.count(Count::ClientGone),
        }
        match facts.storing {
            Storing::NotAsked => {}
            Storing::Stored { .. } => self.count(Count::Stored),
            Storing::NotStored(word) => self.not_stored.add(word),
        }
        if !facts.detail.is_empty() && facts.outcome != Outcome::Hit {
            self.details.add(facts.detail);
        }
        let site = self.site(facts.site);
        bump(&site.requests[outcome], 1);
        site.counts.add(SiteCount::ClientBodyBytes as usize, facts.body_bytes);
    }

    fn site(&self, id: SiteId) -> &SiteCells {
        let Some(chunk) = self.sites.get(id.index() / SITE_CHUNK) else { return &self.nowhere };
        let cells = chunk.get_or_init(|| (0..SITE_CHUNK).map(|_| SiteCells::default()).collect());
        &cells[id.index() % SITE_CHUNK]
    }

    /// A request for this site was written to an origin.
    pub fn origin_sent(&self, site: SiteId) {
        self.count_site(site, SiteCount::OriginRequests);
    }

    /// Bytes for this site were read from an origin.
    pub fn origin_read(&self, site: SiteId, bytes: u64) {
        self.add_site(site, SiteCount::OriginBytes, bytes);
    }

    /// Bytes were written to a client of this site.
    pub fn client_bytes(&self, site: SiteId, bytes: u64) {
        self.add_site(site, SiteCount::ClientBytes, bytes);
    }

    /// The cells of a site, if this worker has them.
    pub(super) fn seen_site(&self, id: SiteId) -> Option<&SiteCells> {
        self.sites.get(id.index() / SITE_CHUNK)?.get()?.get(id.index() % SITE_CHUNK)
    }

    /// A client's connection was accepted.
    pub fn connection_accepted(&self) {
        self.count(Count::ConnectionsAccepted);
    }

    /// An accepted connection has ended.
    pub fn connection_closed(&self) {
        self.count(Count::ConnectionsClosed);
    }

    /// A client's connection was turned away: a limit, or a bad PROXY header.
    pub fn connection_refused(&self) {
        self.count(Count::ConnectionsRefused);
    }

    /// A client's idle connection was closed to make room for another.
    pub fn connection_displaced(&self) {
        self.count(Count::ConnectionsDisplaced);
    }

    /// A request's head has been read.
    pub fn request_begun(&self) {
        self.count(Count::RequestsBegun);
    }

    /// A request has ended.
    pub fn request_ended(&self) {
        self.count(Count::RequestsEnded);
    }

    /// An upgraded connection became a tunnel.
    pub fn tunnel_opened(&self) {
        self.count(Count::TunnelsOpened);
    }

    /// A tunnel has ended.
    pub fn tunnel_closed(&self) {
        self.count(Count::TunnelsClosed);
    }

    /// A request was sent to an origin.
    pub fn origin_asked(&self) {
        self.count(Count::ForwardedRequests);
    }

    /// Body bytes arrived from an origin.
    pub fn origin_bytes(&self, bytes: u64) {
        self.add(Count::OriginBodyBytes, bytes);
    }

    /// A fill has begun.
    pub fn fill_begun(&self) {
        self.count(Count::Fills);
    }

    /// A fill has ended whole.
    pub fn fill_ended(&self) {
        self.count(Count::FillsEnded);
    }

    /// A fill has ended incomplete.
    pub fn fill_failed(&self) {
        self.count(Count::FillsFailed);
    }

    /// A request joined the fill of another.
    pub fn collapsed(&self) {
        self.count(Count::Collapsed);
    }

    /// A request to an origin was tried again.
    pub fn retried(&self) {
        self.count(Count::ForwardedRetries);
    }

    /// Something went wrong between Weir and an origin, or inside Weir; the word names it.
    pub fn error(&self, word: &'static str) {
        self.errors.add(word);
    }

    /// A walk or a fill panicked.
    pub fn panicked(&self) {
        self.count(Count::Panics);
    }
}
