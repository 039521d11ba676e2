//! The history: a JSON line for each change by operators and clients, and for each refused attempt, in the
//! file `audit` of the state folder.
//!
//! The thread `weir-history` writes, many entries at a time, with one sync. No purge waits for a disk that
//! fails: entries then wait, bounded, and the caller is told if it wants to be. Refused attempts are written
//! up to a number a minute, and counted beyond it, so that nobody can push the changes out. The file is
//! rotated.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::lines::{json, rfc3339};

/// The file in the state folder. Older ones have a number behind it, the newest 1.
pub const AUDIT: &str = "audit";
/// The longest file in bytes.
pub const AUDIT_BYTES_MAX: u64 = 8 << 20;
/// How many files there are at most.
pub const AUDIT_FILES_MAX: usize = 4;
/// Entries that may wait for the thread.
const QUEUE_MAX: usize = 4096;
/// Of these, refused attempts.
const QUEUE_REFUSED_MAX: usize = 1024;
/// Entries that are written at a time.
const BATCH_MAX: usize = 1024;
/// Bytes of lines that wait for a disk that fails.
const UNWRITTEN_BYTES_MAX: usize = 1 << 20;
/// How long the thread waits before it looks at the time, and before it tries a failed write again.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The minute in which refused attempts are counted.
const MINUTE: Duration = Duration::from_secs(60);
/// Refused attempts that are written in it.
const REFUSED_A_MINUTE: u64 = 100;
/// The longest scope, in bytes of JSON; of a longer one its length is written.
const SCOPE_BYTES_MAX: usize = 16 << 10;

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
    /// What: `purge`, `reload`, `token-add`, or the request line of a refused attempt.
    pub act: String,
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
    fn line(&self, wall: SystemTime) -> Vec<u8> {
        let (actor, address) = self.actor.texts();
        let mut map = Map::new();
        let mut put = |name: &str, value: Value| drop(map.insert(name.to_owned(), value));
        put("time", Value::from(rfc3339(wall)));
        put("actor", Value::from(actor));
        if let Some(address) = address {
            put("address", Value::from(address));
        }
        put("act", Value::from(self.act.as_str()));
        if !self.scope.is_null() {
            put("scope", short(&self.scope));
        }
        if !self.sites.is_empty() {
            put("sites", Value::from(self.sites.clone()));
        }
        put("result", Value::from(self.result.word()));
        if !self.why.is_empty() {
            put("why", Value::from(self.why.as_str()));
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
}

fn short(scope: &Value) -> Value {
    let length = scope.to_string().len();
    if length <= SCOPE_BYTES_MAX { scope.clone() } else { Value::from(format!("{length} bytes of JSON")) }
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
    failure: Mutex<Option<String>>,
    lost: AtomicU64,
    /// Another process rotates the file.
    is_left: AtomicBool,
}

enum Command {
    Write(Box<Entry>, SystemTime, Option<Written>),
    Finish(Sender<()>),
}

impl std::fmt::Debug for History {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("History").field("is_open", &self.queue.get().is_some()).finish_non_exhaustive()
    }
}

impl History {
    /// Starts the thread that writes to `audit` in the folder. Only the first call has an effect. A file that
    /// cannot be opened is tried again.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn open(&self, folder: &Path) -> io::Result<()> {
        let (sender, commands) = bounded(QUEUE_MAX);
        if self.queue.set(sender).is_err() {
            return Ok(());
        }
        let writer = Writer {
            commands,
            shared: self.shared.clone(),
            file: AuditFile { path: folder.join(AUDIT), open: None, is_torn: false },
            lines: Vec::new(),
            told: Vec::new(),
            refused: Refused { since: weir_clock::now().mono, written: 0, more: 0 },
        };
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

    fn send(&self, entry: Entry, written: Option<Written>) {
        if let Some(listener) = self.listener.get() {
            listener(&entry);
        }
        let answer = |written: Option<Written>, result| {
            if let Some(written) = written {
                written(result);
            }
        };
        let Some(queue) = self.queue.get() else { return answer(written, Ok(())) };
        let is_refused = entry.result == Act::Refused;
        let command = Command::Write(Box::new(entry), weir_clock::now().wall, written);
        // Refused attempts leave room for changes.
        let sent = if is_refused && queue.len() >= QUEUE_REFUSED_MAX {
            Err(TrySendError::Full(command))
        } else {
            queue.try_send(command)
        };
        if let Err(TrySendError::Full(command) | TrySendError::Disconnected(command)) = sent {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            if let Command::Write(_, _, written) = command {
                answer(written, Err("the history's queue is full".to_owned()));
            }
        }
    }

    /// How it fares.
    pub fn state(&self) -> HistoryState {
        let (failure, lost) = (self.shared.failure.lock().clone(), self.shared.lost.load(Ordering::Relaxed));
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

/// The thread.
struct Writer {
    commands: Receiver<Command>,
    shared: Arc<Shared>,
    file: AuditFile,
    /// Lines that are not written yet.
    lines: Vec<u8>,
    /// The callers that wait for them.
    told: Vec<Written>,
    refused: Refused,
}

/// The refused attempts of this minute.
struct Refused {
    since: std::time::Instant,
    written: u64,
    /// Those beyond the number that is written.
    more: u64,
}

impl Writer {
    fn run(mut self) {
        loop {
            let mut finished = Vec::new();
            let is_over = match self.commands.recv_timeout(LOOK_EVERY) {
                Ok(command) => {
                    self.take(command, &mut finished);
                    let more: Vec<Command> = self.commands.try_iter().take(BATCH_MAX - 1).collect();
                    more.into_iter().for_each(|command| self.take(command, &mut finished));
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            self.sum_refused();
            self.write();
            for done in finished {
                // A caller that no longer waits need not know.
                let _ = done.send(());
            }
            if is_over {
                return;
            }
        }
    }

    fn take(&mut self, command: Command, finished: &mut Vec<Sender<()>>) {
        let (entry, wall, written) = match command {
            Command::Write(entry, wall, written) => (entry, wall, written),
            Command::Finish(done) => return finished.push(done),
        };
        self.told.extend(written);
        if entry.result == Act::Refused {
            self.refused.written += 1;
            if self.refused.written > REFUSED_A_MINUTE {
                self.refused.more += 1;
                return;
            }
        }
        let line = entry.line(wall);
        self.put(&line);
    }

    fn put(&mut self, line: &[u8]) {
        if self.lines.len() + line.len() > UNWRITTEN_BYTES_MAX {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        } else {
            self.lines.extend_from_slice(line);
        }
    }

    /// At the end of a minute: a line for the refused attempts that have none.
    fn sum_refused(&mut self) {
        let now = weir_clock::now();
        if now.mono.saturating_duration_since(self.refused.since) < MINUTE {
            return;
        }
        let Refused { more, .. } =
            std::mem::replace(&mut self.refused, Refused { since: now.mono, written: 0, more: 0 });
        if more > 0 {
            let why = format!("{more} more refused attempts in a minute");
            let entry = Entry { act: "refused".to_owned(), result: Act::Refused, why, ..Entry::default() };
            let line = entry.line(now.wall);
            self.put(&line);
        }
    }

    fn write(&mut self) {
        if self.lines.is_empty() {
            self.told.drain(..).for_each(|told| told(Ok(())));
            return;
        }
        let may_rotate = !self.shared.is_left.load(Ordering::Relaxed);
        let (written_bytes, written) = self.file.append(&self.lines, may_rotate);
        self.lines.drain(..written_bytes);
        let mut failure = self.shared.failure.lock();
        match &written {
            Ok(()) => {
                if failure.take().is_some() {
                    tracing::info!("the history is written again");
                }
            }
            Err(error) => {
                if failure.is_none() {
                    tracing::error!(%error, "cannot write the history (`{AUDIT}` in the state folder); make \
                                             room there; entries wait, and those beyond 1 MiB are lost");
                }
                *failure = Some(error.to_string());
            }
        }
        drop(failure);
        let result = written.map_err(|error| error.to_string());
        self.told.drain(..).for_each(|told| told(result.clone()));
    }
}

/// The file and where it is.
struct AuditFile {
    path: PathBuf,
    open: Option<File>,
    /// The last write ended within a line.
    is_torn: bool,
}

impl AuditFile {
    /// Writes lines behind those that are there, durably. Returns how many bytes of whole lines are written.
    fn append(&mut self, lines: &[u8], may_rotate: bool) -> (usize, io::Result<()>) {
        let opened = self.opened(may_rotate);
        let file = match opened {
            Ok(file) => file,
            Err(error) => return (0, Err(error)),
        };
        let mut sent = 0;
        while sent < lines.len() {
            match file.write(&lines[sent..]) {
                Ok(bytes) if bytes > 0 => sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                failed => {
                    let whole = lines[..sent].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                    self.is_torn = sent > whole;
                    return (whole, Err(failed.err().unwrap_or(io::ErrorKind::WriteZero.into())));
                }
            }
        }
        let synced = file.sync_data();
        (sent, synced)
    }

    /// The file, where the next line begins.
    fn opened(&mut self, may_rotate: bool) -> io::Result<&mut File> {
        self.follow();
        if may_rotate && self.length().is_some_and(|length| length >= AUDIT_BYTES_MAX) {
            self.rotate()?;
        }
        let file = match &mut self.open {
            Some(file) => file,
            none => none.insert(OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?),
        };
        if std::mem::take(&mut self.is_torn) {
            file.write_all(b"\n").inspect_err(|_| self.is_torn = true)?;
        }
        Ok(file)
    }

    /// Closes a file that its path names no more.
    fn follow(&mut self) {
        let named = std::fs::metadata(&self.path).map(|named| (named.dev(), named.ino())).ok();
        let own = self.open.as_ref().and_then(|file| file.metadata().ok()).map(|own| (own.dev(), own.ino()));
        if own != named {
            self.open = None;
        }
    }

    fn length(&self) -> Option<u64> {
        self.open.as_ref()?.metadata().ok().map(|metadata| metadata.len())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let name = |number: usize| match number {
            0 => self.path.clone(),
            number => self.path.with_file_name(format!("{AUDIT}.{number}")),
        };
        for number in (0..AUDIT_FILES_MAX - 1).rev() {
            match std::fs::rename(name(number), name(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.open = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
