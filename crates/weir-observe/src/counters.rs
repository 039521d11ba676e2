//! What one worker has counted: cells that this worker alone writes and the control plane reads.
//!
//! A cell is a relaxed load and a relaxed store, no locked instruction; the whole is aligned so that two workers never
//! write to one cache line. If two threads ever write the same cells, counts are lost; nothing worse happens.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::latency::LatencyCells;
use super::reasons;
use super::record::{Completion, Facts, Outcome, Storing};
use super::site::SiteId;

/// Sites counted one by one; those beyond are counted in the sums only.
pub(super) const SITES_MAX: usize = SITE_CHUNK * SITE_CHUNKS;
const SITE_CHUNK: usize = 64;
const SITE_CHUNKS: usize = 256;
/// Words counted one by one in each table; those beyond are counted as `other`.
const WORDS_MAX: usize = 192;

/// Adds to a cell that one thread alone writes.
pub(super) fn bump(cell: &AtomicU64, by: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

/// The cells of one site.
#[derive(Debug, Default)]
pub(super) struct SiteCells {
    pub(super) requests: [AtomicU64; Outcome::ALL.len()],
    pub(super) body_bytes: AtomicU64,
    pub(super) client_bytes: AtomicU64,
    pub(super) origin_requests: AtomicU64,
    pub(super) origin_bytes: AtomicU64,
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

/// The counters of one worker. Only that worker's thread may call what counts.
#[derive(Debug)]
#[repr(align(128))]
pub struct Counters {
    pub(super) requests: [AtomicU64; Outcome::ALL.len()],
    pub(super) statuses: [AtomicU64; 6],
    pub(super) client_bytes: AtomicU64,
    pub(super) cached_bytes: AtomicU64,
    pub(super) cut: AtomicU64,
    pub(super) client_gone: AtomicU64,
    pub(super) first_byte: [LatencyCells; Outcome::ALL.len()],
    pub(super) total: [LatencyCells; Outcome::ALL.len()],
    pub(super) stored: AtomicU64,
    pub(super) not_stored: Words,
    pub(super) details: Words,
    pub(super) errors: Words,
    pub(super) connections_accepted: AtomicU64,
    pub(super) connections_closed: AtomicU64,
    pub(super) connections_refused: AtomicU64,
    pub(super) connections_displaced: AtomicU64,
    pub(super) requests_begun: AtomicU64,
    pub(super) requests_ended: AtomicU64,
    pub(super) tunnels_opened: AtomicU64,
    pub(super) tunnels_closed: AtomicU64,
    pub(super) origin_requests: AtomicU64,
    pub(super) origin_bytes: AtomicU64,
    pub(super) fills_begun: AtomicU64,
    pub(super) fills_ended: AtomicU64,
    pub(super) fills_failed: AtomicU64,
    pub(super) collapsed: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) panics: AtomicU64,
    pub(super) log_lost: AtomicU64,
    sites: [OnceLock<Box<[SiteCells]>>; SITE_CHUNKS],
    /// What no site can be named for.
    pub(super) nowhere: SiteCells,
}

impl Counters {
    pub(super) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Counters {
            requests: Default::default(),
            statuses: Default::default(),
            client_bytes: zero(),
            cached_bytes: zero(),
            cut: zero(),
            client_gone: zero(),
            first_byte: std::array::from_fn(|_| LatencyCells::new()),
            total: std::array::from_fn(|_| LatencyCells::new()),
            stored: zero(),
            not_stored: Words::default(),
            details: Words::default(),
            errors: Words::default(),
            connections_accepted: zero(),
            connections_closed: zero(),
            connections_refused: zero(),
            connections_displaced: zero(),
            requests_begun: zero(),
            requests_ended: zero(),
            tunnels_opened: zero(),
            tunnels_closed: zero(),
            origin_requests: zero(),
            origin_bytes: zero(),
            fills_begun: zero(),
            fills_ended: zero(),
            fills_failed: zero(),
            collapsed: zero(),
            retries: zero(),
            panics: zero(),
            log_lost: zero(),
            sites: [const { OnceLock::new() }; SITE_CHUNKS],
            nowhere: SiteCells::default(),
        }
    }

    /// Counts a finished request.
    pub(super) fn finished(&self, facts: &Facts) {
        let outcome = facts.outcome as usize;
        bump(&self.requests[outcome], 1);
        bump(&self.statuses[usize::from(facts.status / 100).min(5)], 1);
        bump(&self.client_bytes, facts.body_bytes);
        if facts.outcome.is_from_cache() {
            bump(&self.cached_bytes, facts.body_bytes);
        }
        if let Some(first_byte) = facts.first_byte {
            self.first_byte[outcome].add(first_byte);
        }
        self.total[outcome].add(facts.total);
        match facts.completion {
            Completion::Whole => {}
            Completion::Cut => bump(&self.cut, 1),
            Completion::ClientGone => bump(&self.client_gone, 1),
        }
        match facts.storing {
            Storing::NotAsked => {}
            Storing::Stored { .. } => bump(&self.stored, 1),
            Storing::NotStored(word) => self.not_stored.add(word),
        }
        if !facts.detail.is_empty() && facts.outcome != Outcome::Hit {
            self.details.add(facts.detail);
        }
        let site = self.site(facts.site);
        bump(&site.requests[outcome], 1);
        bump(&site.body_bytes, facts.body_bytes);
    }

    fn site(&self, id: SiteId) -> &SiteCells {
        let Some(chunk) = self.sites.get(id.index() / SITE_CHUNK) else { return &self.nowhere };
        let cells = chunk.get_or_init(|| (0..SITE_CHUNK).map(|_| SiteCells::default()).collect());
        &cells[id.index() % SITE_CHUNK]
    }

    /// A request for this site was written to an origin.
    pub fn origin_sent(&self, site: SiteId) {
        bump(&self.site(site).origin_requests, 1);
    }

    /// Bytes for this site were read from an origin.
    pub fn origin_read(&self, site: SiteId, bytes: u64) {
        bump(&self.site(site).origin_bytes, bytes);
    }

    /// Bytes were written to a client of this site.
    pub fn client_bytes(&self, site: SiteId, bytes: u64) {
        bump(&self.site(site).client_bytes, bytes);
    }

    /// The cells of a site, if this worker has ever counted something near it.
    pub(super) fn seen_site(&self, id: SiteId) -> Option<&SiteCells> {
        self.sites.get(id.index() / SITE_CHUNK)?.get()?.get(id.index() % SITE_CHUNK)
    }

    /// A client's connection was accepted.
    pub fn connection_accepted(&self) {
        bump(&self.connections_accepted, 1);
    }

    /// An accepted connection has ended.
    pub fn connection_closed(&self) {
        bump(&self.connections_closed, 1);
    }

    /// A client's connection was turned away: a limit, or a bad PROXY header.
    pub fn connection_refused(&self) {
        bump(&self.connections_refused, 1);
    }

    /// A client's idle connection was closed so that another could have its place.
    pub fn connection_displaced(&self) {
        bump(&self.connections_displaced, 1);
    }

    /// A request's head has been read.
    pub fn request_begun(&self) {
        bump(&self.requests_begun, 1);
    }

    /// A request that was begun is done with.
    pub fn request_ended(&self) {
        bump(&self.requests_ended, 1);
    }

    /// An upgraded connection became a tunnel.
    pub fn tunnel_opened(&self) {
        bump(&self.tunnels_opened, 1);
    }

    /// A tunnel has ended.
    pub fn tunnel_closed(&self) {
        bump(&self.tunnels_closed, 1);
    }

    /// A request was sent to an origin.
    pub fn origin_asked(&self) {
        bump(&self.origin_requests, 1);
    }

    /// Body bytes arrived from an origin.
    pub fn origin_bytes(&self, bytes: u64) {
        bump(&self.origin_bytes, bytes);
    }

    /// A fill has begun.
    pub fn fill_begun(&self) {
        bump(&self.fills_begun, 1);
    }

    /// A fill has ended whole.
    pub fn fill_ended(&self) {
        bump(&self.fills_ended, 1);
    }

    /// A fill has ended without being whole.
    pub fn fill_failed(&self) {
        bump(&self.fills_failed, 1);
    }

    /// A request joined the fill of another.
    pub fn collapsed(&self) {
        bump(&self.collapsed, 1);
    }

    /// A request to an origin was tried again.
    pub fn retried(&self) {
        bump(&self.retries, 1);
    }

    /// Something went wrong between Weir and an origin, or inside Weir; the word names it.
    pub fn error(&self, word: &'static str) {
        self.errors.add(word);
    }

    /// A walk or a fill panicked.
    pub fn panicked(&self) {
        bump(&self.panics, 1);
    }
}
