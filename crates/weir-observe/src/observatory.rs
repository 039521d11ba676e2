//! Makes the workers' observers, and sums what they count.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use parking_lot::Mutex;

use super::counters::{Counters, SITES_MAX};
use super::counts::Count;
use super::events::Events;
use super::history::History;
use super::log::{Command, LogError, LogSettings, LogThread, OpenLogs, Shared};
use super::record::{Description, Facts, Record};
use super::site::SiteId;
use super::snapshot::{self, SiteSnapshot, Snapshot};

/// Records that may wait for the log's thread, for each worker; those beyond are dropped and counted.
const QUEUE_RECORDS_MAX: usize = 4096;
/// The longest text of a record in bytes; longer texts are cut off.
const TEXT_BYTES_MAX: usize = 2048;

/// Everything that is observed in this process; one for its whole life.
#[derive(Debug)]
pub struct Observatory {
    workers: Vec<(Arc<Counters>, Sender<Box<Record>>)>,
    shared: Arc<Shared>,
    thread: Thread,
    commands: Sender<Command>,
    sites: Mutex<Sites>,
    /// Events of what is stored.
    pub events: Events,
    /// What operators and clients have changed, or tried to.
    pub history: History,
}

#[derive(Debug, Default)]
struct Sites {
    names: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, SiteId>,
}

impl Observatory {
    /// Opens the logs and starts their thread.
    ///
    /// # Errors
    /// When a log cannot be opened or the thread cannot be started.
    pub fn start(workers: usize, logs: &[LogSettings]) -> Result<Arc<Observatory>, LogError> {
        let OpenLogs(sinks) = OpenLogs::open(logs)?;
        let (commands, told) = bounded(16);
        let shared = Arc::new(Shared {
            wanted: AtomicBool::new(!sinks.is_empty()),
            asleep: AtomicBool::new(false),
            unwritten: AtomicU64::new(0),
        });
        let mut queues: Vec<Receiver<Box<Record>>> = Vec::with_capacity(workers);
        let workers = (0..workers)
            .map(|_| {
                let (sender, receiver) = bounded(QUEUE_RECORDS_MAX);
                queues.push(receiver);
                (Arc::new(Counters::new()), sender)
            })
            .collect();
        let run = LogThread { queues, commands: told, sinks, shared: shared.clone() };
        let spawned = thread::Builder::new().name("weir-log".to_owned()).spawn(move || run.run());
        let thread = spawned.map_err(LogError::Thread)?.thread().clone();
        Ok(Arc::new(Observatory {
            workers,
            shared,
            thread,
            commands,
            sites: Mutex::default(),
            events: Events::default(),
            history: History::default(),
        }))
    }

    /// The observer of a worker.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn observer(&self, worker: usize) -> Observer {
        let (counters, queue) = &self.workers[worker];
        Observer {
            counters: counters.clone(),
            queue: queue.clone(),
            shared: self.shared.clone(),
            thread: self.thread.clone(),
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
        sites.names.push(name.clone());
        sites.ids.insert(name, id);
        id
    }

    /// The sum of all workers' counters now.
    pub fn snapshot(&self) -> Snapshot {
        let mut sum = Snapshot { sites: self.sites(), ..Snapshot::default() };
        for (counters, _) in &self.workers {
            sum.merge(counters);
        }
        sum.counts[Count::LogDropped] += self.shared.unwritten.load(Ordering::Relaxed);
        let (written, dropped) = self.events.counts();
        (sum.counts[Count::Events], sum.counts[Count::EventsDropped]) = (written, dropped);
        sum
    }

    /// What each site has used until now; last, as `-`, what belongs to no site.
    pub fn sites(&self) -> Vec<SiteSnapshot> {
        let names = self.sites.lock().names.clone();
        snapshot::sites(self.workers.iter().map(|(counters, _)| &**counters), &names)
    }

    /// Opens the log files again, after a rotation.
    pub fn reopen(&self) {
        self.events.reopen();
        self.tell(Command::Reopen);
    }

    /// Replaces the logs. Records under way may still go to the old ones.
    pub fn set_logs(&self, logs: OpenLogs) {
        self.shared.wanted.store(!logs.0.is_empty(), Ordering::Relaxed);
        self.tell(Command::Replace(logs.0));
    }

    /// Writes what is queued and ends the log's thread; waits for it for at most `patience`.
    pub fn finish(&self, patience: Duration) {
        self.shared.wanted.store(false, Ordering::Relaxed);
        let (done, finished) = bounded(1);
        self.tell(Command::Finish(done));
        let _ = finished.recv_timeout(patience);
    }

    fn tell(&self, command: Command) {
        // A full queue of commands means that the thread hangs in a write; it then could not reopen anything.
        if self.commands.try_send(command).is_err() {
            tracing::error!("the access log does not take commands");
        }
        self.thread.unpark();
    }
}

/// A worker's handle. Counts are exact as long as one thread at a time uses the observers of a worker.
#[derive(Clone, Debug)]
pub struct Observer {
    counters: Arc<Counters>,
    queue: Sender<Box<Record>>,
    shared: Arc<Shared>,
    thread: Thread,
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
        self.shared.wanted.load(Ordering::Relaxed)
    }

    /// Counts a finished request, and hands it to a log if there is one. `describe` is called only then.
    /// Never waits.
    pub fn record(&self, facts: &Facts, describe: impl FnOnce() -> Description) {
        self.counters.finished(facts);
        if !self.wants_records() {
            return;
        }
        let record = Box::new(Record { facts: *facts, description: describe() });
        match self.queue.try_send(record) {
            Ok(()) if self.shared.asleep.load(Ordering::SeqCst) => self.thread.unpark(),
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.counters.count(Count::LogDropped)
            }
        }
    }
}

/// Received bytes as a text for a [`Description`]: replaces what is not UTF-8, and cuts off what passes 2
/// KiB.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_BYTES_MAX)]).into_owned()
}
