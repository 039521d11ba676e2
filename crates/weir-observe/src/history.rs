//! The history: a JSON line for each change by operators and clients, and for each refused attempt, in the
//! files `audit…` of the state folder.
//!
//! Five sets of files, so that the entries of one actor do not push out those of another ([`AUDITS`]): what
//! only an admin of all can do; what purgers can do; what an admin of some sites can; refused attempts of
//! tokens and users; those of strangers. The thread `weir-history` writes, many entries at a time, with one
//! sync. No purge waits for a disk that fails: entries then wait, bounded, and the caller is told if it wants
//! to be. Refused attempts are written up to a number a minute for each actor, and counted beyond it. The
//! files are rotated. Rooms: `file` one set, `writer` the thread, `refusals` how many are written,
//! `shortened` what an entry may hold.

mod file;
mod refusals;
mod shortened;
mod writer;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Sender, TrySendError, bounded, unbounded};
use parking_lot::Mutex;
use serde_json::{Map, Value};

pub use self::file::{AUDIT_BYTES_MAX, AUDIT_FILES_MAX};
use self::refusals::Refusals;
use self::writer::{Command, Waiting, Writer};
use super::lines::{json, rfc3339_exact};

/// The sets of files in the state folder, each by the name of its newest file. Older ones have a number
/// behind it, the newest 1.
pub const AUDITS: [&str; 5] = ["audit", AUDIT_PURGES, AUDIT_SITES, "audit-refused", "audit-strangers"];
/// The set of what the right to purge suffices for.
pub const AUDIT_PURGES: &str = "audit-purges";
/// The set of what an admin of some sites may do as well.
pub const AUDIT_SITES: &str = "audit-sites";
/// How long an act waits for its entry. A disk that hangs holds up nothing for longer.
pub const RECORD_PATIENCE: Duration = Duration::from_secs(2);
/// How long an act waits until its mark is durable. It is in force at once.
pub const MARK_PATIENCE: Duration = Duration::from_secs(10);
/// What is said of a mark that has become durable by then neither way.
pub const SILENT_DRIVE: &str = "the drive of the state folder does not answer";
/// Entries that may wait for the thread.
const QUEUE_MAX: usize = 16 << 10;
/// Bytes of lines that may wait for the thread.
const QUEUE_BYTES_MAX: usize = 16 << 20;
/// The acts that an admin of some sites may do, for these.
const ACTS_OF_SITES: [&str; 3] = ["ttl", "content-put", "content-reset"];
/// The acts that the right to purge suffices for. All others take an admin.
const ACTS_OF_PURGERS: [&str; 2] = ["purge", "job-cancel"];

/// Who has done something, or tried to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Actor {
    /// A user of this machine, by the control socket.
    User(String),
    /// A token, by its name, and from where it came.
    Token(String, String),
    /// A client on a data listener, by its address.
    Client(String),
    /// The sender of a signal.
    Signal,
    /// What the configuration wants at the start, or again and again.
    Configuration,
    /// Nobody known, by the address.
    #[default]
    Nobody,
    /// Nobody known, at this address.
    Stranger(String),
}

impl Actor {
    /// The kind with the name, `token:cms`, and the address where it is another thing.
    fn texts(&self) -> (String, Option<&str>) {
        match self {
            Actor::User(name) => (format!("user:{name}"), None),
            Actor::Token(name, from) => (format!("token:{name}"), Some(from)),
            Actor::Client(address) => (format!("client:{address}"), None),
            Actor::Signal => ("signal".to_owned(), None),
            Actor::Configuration => ("configuration".to_owned(), None),
            Actor::Nobody => ("unknown".to_owned(), None),
            Actor::Stranger(address) => ("unknown".to_owned(), Some(address)),
        }
    }
}

impl std::fmt::Display for Actor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.texts().0)
    }
}

/// How an act ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Act {
    /// As wanted.
    #[default]
    Done,
    /// It was not allowed, or made no sense; nothing has changed.
    Refused,
    /// It was allowed and did not succeed.
    Failed,
}

impl Act {
    /// Its name in the JSON.
    pub fn word(self) -> &'static str {
        match self {
            Act::Done => "done",
            Act::Refused => "refused",
            Act::Failed => "failed",
        }
    }
}

/// An entry of the history.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// Who.
    pub actor: Actor,
    /// What: `purge`, `reload`, `token-add`, or the request line of a refused attempt at something else.
    pub act: String,
    /// Method, path and query of a refused attempt; empty otherwise.
    pub request: String,
    /// What it concerned, as JSON; `null` where that is all.
    pub scope: Value,
    /// The sites that it concerned; empty: the whole Weir, or none.
    pub sites: Vec<String>,
    /// How it ended.
    pub result: Act,
    /// Why it was refused or failed, or what else there is to say; empty where there is nothing.
    pub why: String,
    /// The number of its mark in the ledger, for a purge.
    pub mark: Option<u64>,
    /// The id of the request.
    pub request_id: String,
}

impl Entry {
    /// Its line, of which no part is longer than a bound.
    fn line(&self, wall: SystemTime) -> Vec<u8> {
        let (actor, address) = self.actor.texts();
        let mut map = Map::new();
        let mut put = |name: &str, value: Value| drop(map.insert(name.to_owned(), value));
        put("time", Value::from(rfc3339_exact(wall)));
        put("actor", Value::from(actor));
        if let Some(address) = address {
            put("address", Value::from(address));
        }
        put("act", shortened::text(&self.act));
        if !self.request.is_empty() {
            put("request", shortened::text(&self.request));
        }
        if !self.scope.is_null() {
            put("scope", self.scope.clone());
        }
        if !self.sites.is_empty() {
            put("sites", shortened::sites(&self.sites));
        }
        put("result", Value::from(self.result.word()));
        if !self.why.is_empty() {
            put("why", shortened::text(&self.why));
        }
        if let Some(mark) = self.mark {
            // As everywhere in JSON: readers that treat numbers as floating-point would round it.
            put("mark", Value::from(mark.to_string()));
        }
        if !self.request_id.is_empty() {
            put("request_id", Value::from(self.request_id.as_str()));
        }
        let mut line = Vec::new();
        json(&map, &mut line);
        line
    }

    fn set(&self) -> Set {
        match (&self.actor, self.result) {
            (Actor::Client(_) | Actor::Nobody | Actor::Stranger(_), Act::Refused) => Set::Strangers,
            (_, Act::Refused) => Set::Refused,
            _ if ACTS_OF_PURGERS.contains(&&*self.act) => Set::Purges,
            _ if ACTS_OF_SITES.contains(&&*self.act) => Set::Sites,
            _ => Set::Changes,
        }
    }
}

/// A set of files: a place in [`AUDITS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    Changes,
    Purges,
    Sites,
    Refused,
    Strangers,
}

impl Set {
    /// How many of as many parts as there are sets it may fill of the queue: each leaves room for those
    /// before it.
    fn parts(self) -> usize {
        AUDITS.len() - self as usize
    }
}

/// Called once an entry is durable, or with why it is not.
pub type Written = Box<dyn FnOnce(Result<(), String>) + Send>;

/// How the history fares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryState {
    /// Why the last write failed; `None` where it succeeded.
    pub failure: Option<String>,
    /// Entries that were lost because the disk failed for too long or the queue was full.
    pub lost: u64,
}

/// The history of a process. Until it is opened, it keeps nothing.
#[derive(Default)]
pub struct History {
    queue: OnceLock<Sender<Command>>,
    shared: Arc<Shared>,
    listener: OnceLock<Listener>,
}

/// Is told of each entry when it is recorded.
type Listener = Box<dyn Fn(&Entry) + Send + Sync>;

#[derive(Default)]
struct Shared {
    /// Why the last write to each set failed.
    failures: Mutex<[Option<String>; AUDITS.len()]>,
    lost: AtomicU64,
    /// Bytes of lines that wait for the thread.
    queued_bytes: AtomicUsize,
    refusals: Mutex<Refusals>,
    /// Another process rotates the file.
    is_left: AtomicBool,
}

impl std::fmt::Debug for History {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("History").field("is_open", &self.queue.get().is_some()).finish_non_exhaustive()
    }
}

impl History {
    /// Starts the thread that writes to the folder. Only the first call has an effect. A file that
    /// cannot be opened is tried again.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn open(&self, folder: &Path) -> io::Result<()> {
        // Of those that send, each looks at `QUEUE_MAX` first: a queue of that length would be made whole.
        let (sender, commands) = unbounded();
        if self.queue.set(sender).is_err() {
            return Ok(());
        }
        let writer = Writer::new(folder, commands, self.shared.clone());
        thread::Builder::new().name("weir-history".to_owned()).spawn(move || writer.run()).map(drop)
    }

    /// Sets what is told of each entry. Only the first call has an effect.
    pub(super) fn watch(&self, listener: impl Fn(&Entry) + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
    }

    /// Records an entry. Never waits; an entry that finds no room is counted as lost.
    pub fn record(&self, entry: Entry) {
        self.send(entry, None);
    }

    /// Records an entry, and calls `written` from another thread once it is durable, or with why it is not.
    /// Where there is no history or no room, it is called at once.
    pub fn record_then(&self, entry: Entry, written: Written) {
        self.send(entry, Some(written));
    }

    fn send(&self, mut entry: Entry, written: Option<Written>) {
        entry.scope = shortened::scope(entry.scope);
        if let Some(listener) = self.listener.get() {
            listener(&entry);
        }
        let answer = |written: Option<Written>, result| {
            if let Some(written) = written {
                written(result);
            }
        };
        let Some(queue) = self.queue.get() else { return answer(written, Ok(())) };
        let now = weir_clock::now();
        if entry.result == Act::Refused && !self.shared.refusals.lock().admits(&entry.actor, now.mono) {
            return answer(written, Err("too many refused attempts in a minute: it is counted".to_owned()));
        }
        let (set, line) = (entry.set(), entry.line(now.wall));
        let bytes = line.len();
        let queued_bytes = self.shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let command = Command::Write(Box::new(Waiting { set, line, written }));
        let is_full = |used: usize, max: usize| used >= max * set.parts() / AUDITS.len();
        let sent = if is_full(queue.len(), QUEUE_MAX) || is_full(queued_bytes, QUEUE_BYTES_MAX) {
            Err(TrySendError::Full(command))
        } else {
            queue.try_send(command)
        };
        if let Err(TrySendError::Full(command) | TrySendError::Disconnected(command)) = sent {
            self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            if let Command::Write(waiting) = command {
                answer(waiting.written, Err("the history's queue is full".to_owned()));
            }
        }
    }

    /// How it fares.
    pub fn state(&self) -> HistoryState {
        let failure = self.shared.failures.lock().iter().flatten().next().cloned();
        let lost = self.shared.lost.load(Ordering::Relaxed);
        HistoryState { failure, lost }
    }

    /// Leaves the rotation of the file to another process. Both write to it.
    pub fn leave(&self) {
        self.shared.is_left.store(true, Ordering::Relaxed);
    }

    /// Waits for at most `patience` until what was recorded before is written.
    pub fn finish(&self, patience: Duration) {
        let (done, wait) = bounded(1);
        let sent = self.queue.get().map(|queue| queue.send_timeout(Command::Finish(done), patience));
        if sent.is_some_and(|sent| sent.is_ok()) {
            let _ = wait.recv_timeout(patience);
        }
    }
}

#[cfg(test)]
mod tests;
