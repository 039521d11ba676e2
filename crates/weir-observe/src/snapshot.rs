//! The sum of all workers' counters at one moment, as plain values: what the metrics and the status page show.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::counters::{Counters, SiteCells, Words};
use super::latency::Latency;
use super::record::Outcome;
use super::site::SiteId;

/// The name of what no site can be named for.
const NOWHERE: &str = "-";

/// What a site has served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteSnapshot {
    /// The site's name.
    pub name: Arc<str>,
    /// Requests, in the order of [`Outcome::ALL`].
    pub requests: [u64; Outcome::ALL.len()],
    /// Body bytes sent to clients, of requests that have ended.
    pub body_bytes: u64,
    /// Bytes written to clients: heads, interim responses, framing and bodies, without TLS.
    pub client_bytes: u64,
    /// Requests written to origins, each retry and range counted.
    pub origin_requests: u64,
    /// Bytes read from origins: heads, framing and bodies, without TLS.
    pub origin_bytes: u64,
}

impl SiteSnapshot {
    fn add(&mut self, cells: &SiteCells) {
        add_all(&mut self.requests, &cells.requests);
        self.body_bytes += cells.body_bytes.load(Ordering::Relaxed);
        self.client_bytes += cells.client_bytes.load(Ordering::Relaxed);
        self.origin_requests += cells.origin_requests.load(Ordering::Relaxed);
        self.origin_bytes += cells.origin_bytes.load(Ordering::Relaxed);
    }
}

/// The sums of these workers for each site, and last of what no site can be named for.
pub(super) fn sites<'c>(
    workers: impl Iterator<Item = &'c Counters>,
    names: &[Arc<str>],
) -> Vec<SiteSnapshot> {
    let named = |name: &Arc<str>| SiteSnapshot { name: name.clone(), ..SiteSnapshot::default() };
    let mut sums: Vec<_> = names.iter().map(named).collect();
    let mut nowhere = SiteSnapshot { name: NOWHERE.into(), ..SiteSnapshot::default() };
    for from in workers {
        for (index, sum) in sums.iter_mut().enumerate() {
            if let Some(cells) = from.seen_site(SiteId::new(index)) {
                sum.add(cells);
            }
        }
        nowhere.add(&from.nowhere);
    }
    sums.push(nowhere);
    sums
}

/// What Weir has counted since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Finished requests, in the order of [`Outcome::ALL`].
    pub requests: [u64; Outcome::ALL.len()],
    /// Finished requests by the first digit of the status on the wire; the first entry are those without one.
    pub statuses: [u64; 6],
    /// Requests whose head was read.
    pub requests_begun: u64,
    /// Requests among them that have not ended.
    pub requests_running: u64,
    /// Body bytes sent to clients.
    pub client_bytes: u64,
    /// Body bytes among them that came from the cache.
    pub cached_bytes: u64,
    /// Responses that were cut.
    pub cut: u64,
    /// Responses whose client left before the end.
    pub client_gone: u64,
    /// Time to the first byte, in the order of [`Outcome::ALL`].
    pub first_byte: [Latency; Outcome::ALL.len()],
    /// Time to the last byte, in the order of [`Outcome::ALL`].
    pub total: [Latency; Outcome::ALL.len()],
    /// Responses that were stored.
    pub stored: u64,
    /// Responses that were not stored, by reason.
    pub not_stored: BTreeMap<&'static str, u64>,
    /// Requests that were no hit, by their reason.
    pub details: BTreeMap<&'static str, u64>,
    /// Errors by word.
    pub errors: BTreeMap<&'static str, u64>,
    /// Accepted connections.
    pub connections_accepted: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Connections turned away.
    pub connections_refused: u64,
    /// Idle connections closed for others.
    pub connections_displaced: u64,
    /// Tunnels opened.
    pub tunnels_opened: u64,
    /// Tunnels open now.
    pub tunnels_open: u64,
    /// Requests sent to origins.
    pub origin_requests: u64,
    /// Body bytes received from origins.
    pub origin_bytes: u64,
    /// Fills begun.
    pub fills_begun: u64,
    /// Fills running now.
    pub fills_running: u64,
    /// Fills that ended without being whole.
    pub fills_failed: u64,
    /// Requests that joined another's fill.
    pub collapsed: u64,
    /// Requests to origins that were tried again.
    pub retries: u64,
    /// Walks and fills that panicked.
    pub panics: u64,
    /// Log records dropped because the queue was full or the log could not be written.
    pub log_lost: u64,
    /// Events told.
    pub events: u64,
    /// Events that were lost.
    pub events_lost: u64,
    /// What each site has served, in the order in which the sites were first seen, and last, as `-`, what no site can be named
    /// for.
    pub sites: Vec<SiteSnapshot>,
}

impl Snapshot {
    /// Requests of one outcome.
    pub fn requests_of(&self, outcome: Outcome) -> u64 {
        self.requests[outcome as usize]
    }

    /// Adds one worker's counters. Differences (open, running) are made by `settle`.
    pub(super) fn merge(&mut self, from: &Counters) {
        add_all(&mut self.requests, &from.requests);
        add_all(&mut self.statuses, &from.statuses);
        for (sum, cells) in self.first_byte.iter_mut().zip(&from.first_byte) {
            sum.merge(cells);
        }
        for (sum, cells) in self.total.iter_mut().zip(&from.total) {
            sum.merge(cells);
        }
        for (sum, cell) in [
            (&mut self.requests_begun, &from.requests_begun),
            (&mut self.requests_running, &from.requests_ended),
            (&mut self.client_bytes, &from.client_bytes),
            (&mut self.cached_bytes, &from.cached_bytes),
            (&mut self.cut, &from.cut),
            (&mut self.client_gone, &from.client_gone),
            (&mut self.stored, &from.stored),
            (&mut self.connections_accepted, &from.connections_accepted),
            (&mut self.connections_open, &from.connections_closed),
            (&mut self.connections_refused, &from.connections_refused),
            (&mut self.connections_displaced, &from.connections_displaced),
            (&mut self.tunnels_opened, &from.tunnels_opened),
            (&mut self.tunnels_open, &from.tunnels_closed),
            (&mut self.origin_requests, &from.origin_requests),
            (&mut self.origin_bytes, &from.origin_bytes),
            (&mut self.fills_begun, &from.fills_begun),
            (&mut self.fills_running, &from.fills_ended),
            (&mut self.fills_failed, &from.fills_failed),
            (&mut self.collapsed, &from.collapsed),
            (&mut self.retries, &from.retries),
            (&mut self.panics, &from.panics),
            (&mut self.log_lost, &from.log_lost),
        ] {
            *sum += cell.load(Ordering::Relaxed);
        }
        add_words(&mut self.not_stored, &from.not_stored);
        add_words(&mut self.details, &from.details);
        add_words(&mut self.errors, &from.errors);
    }

    /// Turns the sums of ends into what is open now. A connection may end on another worker than it began on, so only
    /// the difference of the sums means something.
    pub(super) fn settle(&mut self) {
        self.connections_open = self.connections_accepted.saturating_sub(self.connections_open);
        self.tunnels_open = self.tunnels_opened.saturating_sub(self.tunnels_open);
        self.fills_running = self.fills_begun.saturating_sub(self.fills_running + self.fills_failed);
        self.requests_running = self.requests_begun.saturating_sub(self.requests_running);
    }
}

fn add_all(sums: &mut [u64], cells: &[AtomicU64]) {
    for (sum, cell) in sums.iter_mut().zip(cells) {
        *sum += cell.load(Ordering::Relaxed);
    }
}

fn add_words(sums: &mut BTreeMap<&'static str, u64>, words: &Words) {
    words.each(|word, count| *sums.entry(word).or_default() += count);
}
