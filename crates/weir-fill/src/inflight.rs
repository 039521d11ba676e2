//! The fills in flight, and who leads the next one (elsewhere: *singleflight*). Each request for bytes that
//! are not held gets a [`Plan`]. It must not do I/O.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::time::Instant;

use http::HeaderMap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use weir_observe::trace::Company;
use weir_policy::{CacheKey, Interval, NotStored, Tags, matches};
use weir_share::Clients;
use weir_store::{Folded, Generation, Ledger};

use super::gap::list::Gaps;
use super::machine::{End, Event, State};
use super::recent::{RangeFetch, RecentOutcomes};
use super::refetch::strong;
use super::room::Forgotten;
use super::same::SameGeneration;
use super::tenure::Tenure;
use super::upstreams::Upstreams;
use super::url_fetches::{UrlFetch, UrlFetches};
use super::waiters::Bells;
use super::witness::Witness;
use super::{Fill, FillHead, OriginFailure, ReaderGuard};
use weir_clock as clock;

const SHARDS: usize = 64;
/// Fills of one key at a time. Requests for further variants go past the cache.
const FILLS_PER_KEY_MAX: usize = 32;
/// So many late fills of one key, in all and of one client, and its requests go past the cache.
const LATE_PER_KEY_MAX: usize = 3;
const LATE_PER_CLIENT_MAX: usize = 2;

type Shard = Mutex<HashMap<u128, SmallVec<[Arc<Fill>; 1]>, BuildHasherDefault<Folded>>>;

/// What to do about bytes that are not held.
pub enum Plan {
    /// A fill that will load them runs: read it.
    Join(ReaderGuard),
    /// Nobody loads them: lead a fill.
    Lead(Lead),
    /// This key's responses were not storable a moment ago.
    Pass(NotStored),
    /// Fetch separately: the running fill is too far away, or the key has too many variants or late fills.
    Separate,
    /// The origin failed to answer for this key a moment ago.
    Failed(OriginFailure),
}

/// The client and the core that a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'t> {
    /// The core that its request runs on.
    pub core: usize,
    /// Its client.
    pub client: Witness,
    /// How long its configuration is in force.
    pub tenure: &'t Tenure,
}

/// What is asked for and not held.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'r> {
    /// The key.
    pub key: &'r CacheKey,
    /// The bytes of the body; [`Wanted::WHOLE`] for all of them.
    pub interval: Interval,
    /// The request's fields, which select a variant.
    pub headers: &'r HeaderMap,
}

impl Wanted<'_> {
    /// All bytes of a body, however many it has.
    pub const WHOLE: Interval = Interval { start: 0, end: u64::MAX };
}

/// All fills under way in this process.
pub struct Inflight {
    shards: Box<[Shard]>,
    /// What recent fills of a key came to.
    pub recent: RecentOutcomes,
    /// Which upstreams are down, and how many fills run at each.
    pub upstreams: Arc<Upstreams>,
    /// The transfers of gaps under way.
    pub gaps: Gaps,
    /// The URLs being fetched, by fills that others may join and by those that they may not.
    urls: Arc<UrlFetches>,
    /// Generations that are being completed.
    pub(crate) completing: Mutex<HashSet<SameGeneration>>,
    /// The last look for what memory may drop of bodies under way.
    pub(super) forgotten: Mutex<Forgotten>,
    /// The bodies of each client that wait for room in memory.
    pub(super) claimants: Arc<Clients>,
    bells: Arc<Bells>,
}

impl Inflight {
    /// Nothing in flight.
    pub fn new(bells: Arc<Bells>) -> Inflight {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        let gaps = Gaps::new(bells.clone());
        Inflight {
            shards,
            recent: RecentOutcomes::new(),
            upstreams: Arc::default(),
            gaps,
            urls: Arc::default(),
            completing: Mutex::default(),
            forgotten: Mutex::default(),
            claimants: Arc::default(),
            bells,
        }
    }

    fn shard(&self, key: &CacheKey) -> &Shard {
        &self.shards[(key.digest >> 64) as usize % SHARDS]
    }

    /// Who loads what is wanted?
    pub fn plan(
        self: &Arc<Self>,
        asker: Asker<'_>,
        ledger: &Ledger,
        wanted: Wanted<'_>,
        now: Instant,
    ) -> Plan {
        let Wanted { key, interval, headers } = wanted;
        let mut shard = self.shard(key).lock();
        if let Some(fills) = shard.get(&key.digest) {
            let (mut late, mut late_of_client) = (0, 0);
            // The newest first: after a late fill another was led, and new requests join that one.
            for fill in fills.iter().rev() {
                if fill.key().full != key.full || !serves(fill, headers, ledger, now) {
                    continue;
                }
                if fill.is_late(now) {
                    late += 1;
                    late_of_client += usize::from(fill.client() == asker.client);
                    self.recent.note_late(key.digest, fill.client(), now);
                    continue;
                }
                if !reaches(fill, interval, now) && !has_parts(fill) {
                    return Plan::Separate;
                }
                if let Some(guard) = fill.join(asker.core) {
                    fill.hurry();
                    return Plan::Join(guard);
                }
            }
            let is_hung = late >= LATE_PER_KEY_MAX || late_of_client >= LATE_PER_CLIENT_MAX;
            if is_hung || fills.len() >= FILLS_PER_KEY_MAX {
                return Plan::Separate;
            }
        }
        if let Some(reason) = self.recent.declined(key.digest, now) {
            return Plan::Pass(reason);
        }
        if let Some(failure) = self.recent.failed(key.digest, now) {
            return Plan::Failed(failure);
        }
        if interval != Wanted::WHOLE && self.recent.range_fetch(key.digest, now) == Some(RangeFetch::Pass) {
            return Plan::Separate;
        }
        let fill = self.fill(asker, key, ledger, now);
        shard.entry(key.digest).or_default().push(fill.clone());
        let guard = fill.join(asker.core);
        Plan::Lead(Lead { inflight: self.clone(), guard, company: Company::Joinable })
    }

    /// Leads a fill that no other request may join: its response is not known to be public.
    pub fn lead_unshared(
        self: &Arc<Self>,
        asker: Asker<'_>,
        ledger: &Ledger,
        key: &CacheKey,
        now: Instant,
    ) -> Lead {
        let fill = self.fill(asker, key, ledger, now);
        Lead { inflight: self.clone(), guard: fill.join(asker.core), company: Company::Alone }
    }

    fn fill(&self, asker: Asker<'_>, key: &CacheKey, ledger: &Ledger, now: Instant) -> Arc<Fill> {
        let url_fetch = UrlFetch::begin(&self.urls, key.url_digest(), asker.tenure.ask(ledger));
        Fill::new(key.clone(), url_fetch, self.bells.clone(), (asker.client, now))
    }

    /// Whether anything of a URL is being fetched that may be stored, under whatever key; by the URL's
    /// digest. A fill that is planned after this call sends its request later.
    pub fn is_fetching(&self, url: u128) -> bool {
        self.urls.has(url)
    }

    /// The fill that loads the version of which `part` is stored.
    pub fn fill_of(&self, core: usize, part: &Generation) -> Option<(ReaderGuard, Arc<Generation>)> {
        let shard = self.shard(part.key()).lock();
        let fills = shard.get(&part.key().digest)?;
        fills.iter().find_map(|fill| match fill.head() {
            Some(FillHead::New(generation))
                if generation.is_same(part) || std::ptr::eq(&raw const **generation, part) =>
            {
                Some((fill.join(core)?, generation.clone()))
            }
            _ => None,
        })
    }

    /// Whether a fill loads the whole of this generation.
    pub fn is_filling(&self, core: usize, generation: &Arc<Generation>) -> bool {
        self.fill_of(core, generation).is_some_and(|(_, running)| Arc::ptr_eq(&running, generation))
    }

    /// Another transfer loads what comes from `at` on: a fill that would reach it later stops there, and its
    /// readers go on with that transfer.
    pub fn stop_fill(&self, core: usize, generation: &Arc<Generation>, at: u64) {
        let running = self.fill_of(core, generation);
        if let Some((guard, _)) = running.filter(|(_, running)| Arc::ptr_eq(running, generation)) {
            guard.fill().stop_at(at);
        }
    }

    /// Takes a fill out. Its readers keep it.
    pub fn done(&self, fill: &Arc<Fill>) {
        fill.end_url_fetch();
        let now = clock::mono();
        if fill.is_late(now) {
            self.recent.note_late(fill.key().digest, fill.client(), now);
        }
        let mut shard = self.shard(fill.key()).lock();
        if let Some(fills) = shard.get_mut(&fill.key().digest) {
            fills.retain(|other| !Arc::ptr_eq(other, fill));
            if fills.is_empty() {
                shard.remove(&fill.key().digest);
            }
        }
    }

    /// Fills under way.
    pub fn running(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().values().map(SmallVec::len).sum::<usize>()).sum()
    }
}

/// The lead of a fill that is planned and not begun. Dropped, it ends the fill, and the requests that joined
/// it meanwhile plan again.
pub struct Lead {
    inflight: Arc<Inflight>,
    guard: Option<ReaderGuard>,
    company: Company,
}

impl Lead {
    /// Whether others may join.
    pub fn company(&self) -> Company {
        self.company
    }

    /// The lead's own reader guard. The caller starts the fill's task.
    pub fn begin(mut self) -> Option<ReaderGuard> {
        self.guard.take()
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        let fill = guard.fill();
        let _ = fill.head.set(FillHead::Withdrawn);
        fill.apply(Event::Withdrawn);
        self.inflight.done(fill);
        fill.wake(guard.core());
    }
}

/// Whether a fill may answer a request with these fields: its head is not known yet, or its variant matches,
/// and nothing of it was purged since it was planned, nor its lifetime ended by an order.
fn serves(fill: &Fill, headers: &HeaderMap, ledger: &Ledger, now: Instant) -> bool {
    match fill.head() {
        None => !ledger.judge(fill.key(), &Tags::default(), fill.stamp()).overtakes(now),
        Some(FillHead::New(generation) | FillHead::Part(generation)) => {
            !generation.is_retired()
                && !is_overtaken(fill, generation, ledger, now)
                && matches(&generation.head().stored.variant, headers)
        }
        Some(_) => false,
    }
}

/// Whether a purge since a fill was planned concerns its response, or an order that has ended its lifetime,
/// so that requests that join must not have it.
pub fn is_overtaken(fill: &Fill, generation: &Generation, ledger: &Ledger, now: Instant) -> bool {
    ledger.judge(fill.key(), &generation.head().stored.tags, fill.stamp()).overtakes(now)
}

/// Whether the fill reaches the interval soon, or has it.
fn reaches(fill: &Fill, want: Interval, now: Instant) -> bool {
    match fill.machine().state() {
        State::Asking | State::Filling { .. } => fill.comes_soon(want.start, now),
        State::Ended(end) => end == End::Whole,
    }
}

/// Whether parts of the fill's response can be fetched separately, or that is not known yet.
fn has_parts(fill: &Fill) -> bool {
    match fill.head() {
        None | Some(FillHead::Part(_)) => true,
        Some(FillHead::New(generation)) => is_partable(generation),
        Some(_) => false,
    }
}

/// Whether what is missing of a generation can be fetched separately: its version and its length are known,
/// and it is kept.
pub fn is_partable(generation: &Generation) -> bool {
    !generation.is_retired()
        && generation.length().is_some()
        && strong(&generation.head().stored.headers).is_some()
}
