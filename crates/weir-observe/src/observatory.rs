//! Makes the workers' observers, and sums what they count.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_policy::value::LOG_BYTES_MAX;
use weir_share::Client;

use super::asked::Asked;
use super::counters::{Counters, SITES_MAX};
use super::counts::Count;
use super::events::Events;
use super::history::History;
use super::listener::Listener;
use super::log::{self, Detail, Log, LogError, LogQueue, LogSettings, OpenLogs, TooManyReaders, Wish};
use super::past::{Gate, Keeping, Past, PastList};
use super::popular::{Chooser, Popular, Seen, TopList, TopQuestion, TopWindow, Traffic};
use super::record::{Description, Facts, Record};
use super::site::SiteId;
use super::snapshot::{self, SiteSnapshot, Snapshot};

/// Everything that is observed in this process; one for its whole life.
#[derive(Debug)]
pub struct Observatory {
    workers: Vec<Arc<Counters>>,
    access: Log<Record>,
    upstream: Log<Asked>,
    sites: Mutex<Sites>,
    popular: Arc<Popular>,
    past: Arc<Past>,
    gates: Vec<Arc<Gate>>,
    /// Events of what is stored.
    pub events: Events,
    /// What operators and clients have changed, or tried to.
    pub history: History,
}

#[derive(Debug, Default)]
struct Sites {
    names: Arc<Vec<Arc<str>>>,
    ids: HashMap<Arc<str>, SiteId>,
}

impl Observatory {
    /// Opens the logs and starts their threads.
    ///
    /// # Errors
    /// When a log cannot be opened or a thread cannot be started.
    pub fn start(workers: usize, logs: &[LogSettings]) -> Result<Arc<Observatory>, LogError> {
        let open = OpenLogs::open(logs)?;
        let workers_counters: Vec<_> = (0..workers).map(|_| Arc::new(Counters::new())).collect();
        let popular = Popular::start(&workers_counters, weir_clock::mono()).map_err(LogError::Thread)?;
        let past = Arc::new(Past::new(weir_clock::now().wall));
        let keeping = Box::new(Keeping(past.clone()));
        let gate = || Arc::new(Gate::new(weir_clock::mono()));
        let observatory = Arc::new(Observatory {
            workers: workers_counters,
            popular,
            access: Log::start("weir-log", workers, open.access, Some(keeping))?,
            upstream: Log::start("weir-log-origin", workers, open.upstream, None)?,
            past,
            gates: (0..workers).map(|_| gate()).collect(),
            sites: Mutex::default(),
            events: Events::default(),
            history: History::default(),
        });
        let events = Arc::downgrade(&observatory);
        observatory.history.watch(move |entry| {
            if let Some(observatory) = events.upgrade() {
                observatory.events.tell_purge(entry);
            }
        });
        Ok(observatory)
    }

    /// The observer of a worker.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn observer(&self, worker: usize) -> Observer {
        Observer {
            counters: self.workers[worker].clone(),
            access: self.access.queue(worker),
            upstream: self.upstream.queue(worker),
            chooser: self.popular.chooser(worker),
            gate: self.gates[worker].clone(),
        }
    }

    /// The number under which a site is counted; the same for the same name. `SiteId::NONE` beyond 16,384
    /// names.
    pub fn site(&self, name: &str) -> SiteId {
        let mut sites = self.sites.lock();
        if let Some(id) = sites.ids.get(name) {
            return *id;
        }
        if sites.names.len() == SITES_MAX {
            return SiteId::NONE;
        }
        let (id, name) = (SiteId::new(sites.names.len()), Arc::<str>::from(name));
        self.events.name(weir_policy::site_hash(&name), &name);
        Arc::make_mut(&mut sites.names).push(name.clone());
        sites.ids.insert(name, id);
        id
    }

    /// The sum of all workers' counters now.
    pub fn snapshot(&self) -> Snapshot {
        let mut sum = Snapshot { sites: self.sites(), ..Snapshot::default() };
        for counters in &self.workers {
            sum.merge(counters);
        }
        sum.counts[Count::LogDropped] += self.access.lost();
        sum.counts[Count::UpstreamLogDropped] += self.upstream.lost();
        let (written, dropped) = self.events.counts();
        (sum.counts[Count::Events], sum.counts[Count::EventsDropped]) = (written, dropped);
        sum
    }

    /// What each site has used until now; last, as `-`, what belongs to no site.
    pub fn sites(&self) -> Vec<SiteSnapshot> {
        let names = self.sites.lock().names.clone();
        snapshot::sites(self.workers.iter().map(|counters| &**counters), &names)
    }

    /// What is asked for most.
    pub fn top(&self, asked: &TopQuestion) -> TopList {
        let known = self.sites.lock();
        let ids = asked.sites.as_ref().map(|sites| {
            let ids = sites.iter().filter_map(|site| known.ids.get(site.as_str()).copied());
            ids.collect::<Vec<_>>()
        });
        let names = known.names.clone();
        drop(known);
        let name = |site: SiteId| names.get(site.index()).cloned();
        self.popular.list(asked, ids.as_deref(), &name, weir_clock::mono())
    }

    /// What was counted in a window, and in the last seconds.
    pub fn traffic(&self, window: TopWindow) -> (Traffic, Traffic) {
        self.popular.traffic(window, weir_clock::mono())
    }

    /// Requests that should be in the lists of what is asked for most and are not: there was no room.
    pub fn top_lost(&self) -> u64 {
        self.popular.lost()
    }

    /// Opens the log files again, after a rotation.
    pub fn reopen(&self) {
        self.events.reopen();
        self.access.reopen();
        self.upstream.reopen();
    }

    /// Replaces the logs. Lines under way may still go to the old ones.
    pub fn set_logs(&self, logs: OpenLogs) {
        self.access.replace(logs.access);
        self.upstream.replace(logs.upstream);
    }

    /// Tells a listener of the records of finished requests that it wants from now on, also without an access
    /// log.
    ///
    /// # Errors
    /// There are too many listeners.
    pub fn hear_requests(&self, listener: Box<dyn Listener>, wish: Wish) -> Result<(), TooManyReaders> {
        self.access.listen(listener, wish, &|name| self.known_site(name))
    }

    /// Tells a listener of the requests to origins that it wants from now on, also without an upstream log.
    ///
    /// # Errors
    /// There are too many listeners.
    pub fn hear_asked(&self, listener: Box<dyn Listener>, wish: Wish) -> Result<(), TooManyReaders> {
        self.upstream.listen(listener, wish, &|name| self.known_site(name))
    }

    /// The requests of the past that fit: the last that failed, were cut, whose client left, or that were
    /// slow.
    pub fn past(&self, wish: &Wish) -> PastList {
        self.past.list(wish)
    }

    /// The number of a site that there is.
    fn known_site(&self, name: &str) -> Option<SiteId> {
        self.sites.lock().ids.get(name).copied()
    }

    /// Writes what is queued and ends the logs' threads; waits for them for at most `patience`.
    pub fn finish(&self, patience: Duration) {
        log::wait(&[self.access.finish(), self.upstream.finish()], patience);
    }
}

/// A worker's handle. Counts are exact as long as one thread at a time uses the observers of a worker.
#[derive(Clone, Debug)]
pub struct Observer {
    counters: Arc<Counters>,
    access: LogQueue<Record>,
    upstream: LogQueue<Asked>,
    chooser: Arc<Chooser>,
    gate: Arc<Gate>,
}

impl Observer {
    /// The worker's counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The worker's counters, to keep.
    pub fn counters_shared(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Whether any log wants records.
    pub fn wants_records(&self) -> bool {
        self.access.is_wanted()
    }

    /// Whether a reader wants all that is decided about requests.
    #[inline]
    pub fn wants_traces(&self) -> bool {
        self.access.is_wanted_in_full()
    }

    /// Whether a reader wants all that is decided about requests of a site.
    pub fn wants_traces_of(&self, site: SiteId) -> bool {
        self.access.is_wanted_in_full_of(site)
    }

    /// Whether there is a log of requests to origins.
    pub fn wants_asked(&self) -> bool {
        self.upstream.is_wanted()
    }

    /// Counts a finished request, and hands it to the log if somebody wants it there, or if it is one to
    /// keep. `describe` is called only then, with the detail that is wanted, and `client` only for a request
    /// that may be kept: the client whose limits it shares. Never waits.
    #[inline]
    pub fn record(
        &self,
        facts: &Facts,
        client: impl FnOnce() -> Option<Client>,
        describe: impl FnOnce(Detail) -> Description,
    ) {
        self.counters.finished(facts);
        let mut mask = self.access.wants(Some(facts));
        if self.gate.takes(facts, client) {
            mask = Some(LogQueue::<Record>::kept(mask));
        }
        if let Some(mask) = mask {
            let description = describe(self.access.detail(mask));
            if !self.access.put(Box::new(Record { facts: *facts, description }), mask) {
                self.counters.count(Count::LogDropped);
            }
        }
    }

    /// Looks at a finished request for the lists of what is asked for most. `see` is called only for a few.
    /// Never waits.
    #[inline]
    pub fn seen(&self, facts: &Facts, ended: Instant, see: impl FnOnce() -> Seen) {
        self.chooser.finished(facts, ended, see);
    }

    /// Hands a request to an origin to its log. From any thread. Never waits.
    pub fn asked(&self, asked: Asked) {
        if let Some(mask) = self.upstream.wants(None)
            && !self.upstream.put(Box::new(asked), mask)
        {
            self.upstream.lose();
        }
    }
}

/// Received bytes as a text for a [`Description`]: replaces what is not UTF-8, and cuts off what passes 2
/// KiB.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(LOG_BYTES_MAX)]).into_owned()
}
