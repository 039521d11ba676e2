//! Events of what is stored, as JSON lines to a file or to a reader on a unix socket.
//!
//! While nobody listens, an event costs one relaxed load. Otherwise it goes into a bounded queue. Events that
//! do not fit are dropped, counted, and reported once there is room. The thread `weir-events` formats and
//! writes. No request waits for it, however slow or dead the reader is.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::history::{Act, Actor, Entry};
use super::lines::{json, rfc3339};

/// How long the thread waits for an event before it looks at states.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long it waits before it tries a failed write again.
const RETRY_EVERY: Duration = Duration::from_millis(250);
/// How long one write may take before it is tried again.
const WRITE_TIME_MAX: Duration = Duration::from_secs(1);
/// Events that are written at a time.
const BATCH_EVENTS_MAX: usize = 1024;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EventKind {
    /// A response was stored.
    Stored = 1,
    /// An origin confirmed that a stored response is unchanged.
    Revalidated = 2,
    /// A response was evicted from memory or from a volume.
    Evicted = 4,
    /// A response past its lifetime was removed.
    Expired = 8,
    /// A response was purged.
    Purged = 16,
    /// A volume changed its state.
    Volume = 32,
    /// An origin changed its state.
    Origin = 64,
    /// A certificate came into use, failed or nears its end.
    Certificate = 128,
}

impl EventKind {
    /// Its name in the JSON.
    pub fn word(self) -> &'static str {
        match self {
            EventKind::Stored => "stored",
            EventKind::Revalidated => "revalidated",
            EventKind::Evicted => "evicted",
            EventKind::Expired => "expired",
            EventKind::Purged => "purged",
            EventKind::Volume => "volume",
            EventKind::Origin => "origin",
            EventKind::Certificate => "certificate",
        }
    }
}

/// One event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its kind.
    pub kind: EventKind,
    /// Its time.
    pub wall: SystemTime,
    /// The site's mark; 0 without a site.
    pub site: u64,
    /// The key: the URL, and what else is in it, one line each; for other kinds the name of the subject.
    pub key: Vec<u8>,
    /// Bytes of the body, where known.
    pub bytes: Option<u64>,
    /// The reason.
    pub why: &'static str,
    /// The volume, for events of a volume.
    pub volume: Option<Arc<str>>,
    /// What was purged, and by whose order.
    pub purge: Option<Box<PurgeTold>>,
}

/// A purge that was ordered.
#[derive(Clone, Debug)]
pub struct PurgeTold {
    /// What it concerned, as JSON: as in the history.
    pub scope: Value,
    /// Who ordered it: as in the history.
    pub actor: String,
}

/// Where events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventTarget {
    /// A file, appended to, made with mode 0640 if missing, opened again by [`Events::reopen`].
    File(PathBuf),
    /// A unix socket on which a reader listens.
    Socket(PathBuf),
}

/// How events are delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSettings {
    /// Where they go.
    pub target: EventTarget,
    /// How many undelivered events may wait.
    pub buffer: usize,
    /// The kinds that are delivered, as the sum of their bits.
    pub kinds: u32,
}

/// Gives the state of volumes and origins: a kind, names with their values, and a state. Called four times a
/// second while somebody listens.
pub type States = Box<dyn Fn() -> Vec<(EventKind, Vec<(&'static str, String)>, String)> + Send + Sync>;

/// The events of a process.
#[derive(Default)]
pub struct Events {
    wanted: AtomicU32,
    queue: Mutex<Option<Sender<Event>>>,
    shared: Arc<Shared>,
}

/// What the thread shares with the callers.
#[derive(Default)]
struct Shared {
    /// Undelivered events.
    lost: AtomicU64,
    lost_all: AtomicU64,
    written: AtomicU64,
    reopen: AtomicU64,
    /// Grows when the delivery changes.
    generation: AtomicU64,
    states: OnceLock<States>,
    sites: Mutex<HashMap<u64, Arc<str>>>,
    finished: Mutex<Option<Receiver<()>>>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Events").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

impl Events {
    /// Whether a reader wants events of a kind.
    pub fn wants(&self, kind: EventKind) -> bool {
        self.wanted.load(Ordering::Relaxed) & kind as u32 != 0
    }

    /// Sends an event, which is made only if a reader wants it. Never waits.
    pub fn tell(&self, kind: EventKind, make: impl FnOnce() -> Event) {
        if !self.wants(kind) {
            return;
        }
        let event = make();
        let full = self.queue.lock().as_ref().is_some_and(|queue| queue.try_send(event).is_err());
        if full {
            self.shared.lose(1);
        }
    }

    /// Tells of a purge that the history has an entry of.
    pub(super) fn tell_purge(&self, entry: &Entry) {
        // One that could not be written is in force until a restart.
        if entry.act != "purge" || entry.result == Act::Refused {
            return;
        }
        let why = if matches!(entry.actor, Actor::Client(_)) { "request" } else { "command" };
        self.tell(EventKind::Purged, || Event {
            kind: EventKind::Purged,
            wall: weir_clock::now().wall,
            site: 0,
            key: Vec::new(),
            bytes: None,
            why,
            volume: None,
            purge: Some(Box::new(PurgeTold { scope: entry.scope.clone(), actor: entry.actor.to_string() })),
        });
    }

    /// Counts events that cannot be sent, since what they were about is no longer known.
    pub fn miss(&self, kind: EventKind, count: u64) {
        if self.wants(kind) {
            self.shared.lose(count);
        }
    }

    /// The name for a site's mark.
    pub fn name(&self, mark: u64, name: &Arc<str>) {
        self.shared.sites.lock().insert(mark, name.clone());
    }

    /// Sets the source of states. Only the first call has an effect.
    pub fn watch(&self, states: States) {
        let _ = self.shared.states.set(states);
    }

    /// Opens the file again, after a rotation.
    pub fn reopen(&self) {
        self.shared.reopen.fetch_add(1, Ordering::Relaxed);
    }

    /// Events written and events dropped, since the start.
    pub fn counts(&self) -> (u64, u64) {
        (self.shared.written.load(Ordering::Relaxed), self.shared.lost_all.load(Ordering::Relaxed))
    }

    /// Changes the delivery of events, or ends it. Events that wait still go to the old target, where
    /// possible.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread cannot be started. Then nothing has changed.
    pub fn set(&self, settings: Option<&EventSettings>) -> io::Result<()> {
        let queue = settings.map(|settings| self.start(settings)).transpose()?;
        if settings.is_none() {
            self.shared.generation.fetch_add(1, Ordering::Relaxed);
        }
        *self.queue.lock() = queue;
        self.wanted.store(settings.map_or(0, |settings| settings.kinds), Ordering::Relaxed);
        Ok(())
    }

    fn start(&self, settings: &EventSettings) -> io::Result<Sender<Event>> {
        let (sender, events) = bounded(settings.buffer);
        let (done, finished) = bounded(1);
        let mut out = Out { target: settings.target.clone(), sink: None, sent: 0 };
        if let EventTarget::File(_) = out.target {
            out.open()?;
        }
        let (shared, kinds) = (self.shared.clone(), settings.kinds);
        let mut teller =
            Teller { events, shared, out, kinds, lines: Vec::new(), stood: None, reopened: 0, generation: 0 };
        teller.generation = teller.shared.generation.fetch_add(1, Ordering::Relaxed) + 1;
        teller.reopened = teller.shared.reopen.load(Ordering::Relaxed);
        thread::Builder::new().name("weir-events".to_owned()).spawn(move || {
            teller.run();
            // A caller that no longer waits need not know.
            let _ = done.send(());
        })?;
        *self.shared.finished.lock() = Some(finished);
        Ok(sender)
    }

    /// Accepts no more events, and waits for at most `patience` until the queue is written.
    pub fn finish(&self, patience: Duration) {
        // Without a target nothing can fail.
        let _ = self.set(None);
        if let Some(finished) = self.shared.finished.lock().take() {
            let _ = finished.recv_timeout(patience);
        }
    }
}

impl Shared {
    fn lose(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
        self.lost_all.fetch_add(count, Ordering::Relaxed);
    }
}

/// Where lines are written.
struct Out {
    target: EventTarget,
    sink: Option<Sink>,
    /// Bytes of the pending lines that are written.
    sent: usize,
}

enum Sink {
    File(File),
    Socket(UnixStream),
}

impl Out {
    fn open(&mut self) -> io::Result<()> {
        self.sink = Some(match &self.target {
            EventTarget::File(path) => {
                Sink::File(OpenOptions::new().append(true).create(true).mode(0o640).open(path)?)
            }
            EventTarget::Socket(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_write_timeout(Some(WRITE_TIME_MAX))?;
                Sink::Socket(stream)
            }
        });
        Ok(())
    }

    /// Writes all lines, and removes those that are written whole. After a broken connection a half-written
    /// line is sent again whole; a file goes on where it was.
    fn write(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        if self.sink.is_none() {
            self.open()?;
        }
        while self.sent < lines.len() {
            let written = match &mut self.sink {
                Some(Sink::File(file)) => file.write(&lines[self.sent..]),
                Some(Sink::Socket(stream)) => stream.write(&lines[self.sent..]),
                None => Err(io::ErrorKind::NotConnected.into()),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let whole =
                        lines[..self.sent].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                    lines.drain(..whole);
                    self.sent -= whole;
                    let is_slow = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
                    if matches!(self.sink, Some(Sink::Socket(_))) && !is_slow {
                        (self.sink, self.sent) = (None, 0);
                    }
                    return Err(error);
                }
            }
        }
        lines.clear();
        self.sent = 0;
        Ok(())
    }
}

/// The thread.
struct Teller {
    events: Receiver<Event>,
    shared: Arc<Shared>,
    out: Out,
    kinds: u32,
    /// Lines that are not written yet.
    lines: Vec<u8>,
    /// The states at the last look.
    stood: Option<HashMap<String, String>>,
    reopened: u64,
    generation: u64,
}

impl Teller {
    fn run(&mut self) {
        let mut is_failing = false;
        loop {
            // While writes fail, new events wait in the queue.
            let mut is_over = false;
            if self.lines.is_empty() {
                match self.events.recv_timeout(LOOK_EVERY) {
                    Ok(event) => {
                        self.line(&event);
                        let more: Vec<Event> = self.events.try_iter().take(BATCH_EVENTS_MAX).collect();
                        more.iter().for_each(|event| self.line(event));
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => is_over = true,
                }
                self.look();
                self.tell_lost();
            }
            self.reopen();
            let count = self.lines.iter().filter(|byte| **byte == b'\n').count();
            let written = if self.lines.is_empty() { Ok(()) } else { self.out.write(&mut self.lines) };
            let left = self.lines.iter().filter(|byte| **byte == b'\n').count();
            self.shared.written.fetch_add(count.saturating_sub(left) as u64, Ordering::Relaxed);
            match written {
                Ok(()) => is_failing = false,
                Err(error) => {
                    if !is_failing {
                        tracing::warn!(%error, "cannot write events; they queue, and those beyond the buffer \
                                                are dropped");
                    }
                    is_failing = true;
                    if self.shared.generation.load(Ordering::Relaxed) != self.generation {
                        self.shared.lose((left + self.events.len()) as u64);
                        return;
                    }
                    thread::sleep(RETRY_EVERY);
                }
            }
            if is_over && self.lines.is_empty() {
                return;
            }
        }
    }

    fn reopen(&mut self) {
        let wanted = self.shared.reopen.load(Ordering::Relaxed);
        if wanted != std::mem::replace(&mut self.reopened, wanted)
            && matches!(self.out.target, EventTarget::File(_))
            && let Err(error) = self.out.open()
        {
            tracing::error!(%error, "cannot reopen the file of events; the old one stays in use");
        }
    }

    fn line(&mut self, event: &Event) {
        let mut map = begin(event.kind.word(), event.wall);
        if let Some(site) = self.shared.sites.lock().get(&event.site) {
            map.insert("site".to_owned(), Value::from(&**site));
        }
        match &event.purge {
            Some(purge) => {
                map.insert("scope".to_owned(), purge.scope.clone());
                map.insert("actor".to_owned(), Value::from(purge.actor.as_str()));
            }
            None => put_key(&event.key, &mut map),
        }
        if let Some(bytes) = event.bytes {
            map.insert("body_bytes".to_owned(), Value::from(bytes));
        }
        if let Some(volume) = &event.volume {
            map.insert("volume".to_owned(), Value::from(&**volume));
        }
        if !event.why.is_empty() {
            map.insert("reason".to_owned(), Value::from(event.why));
        }
        self.put(map);
    }

    fn put(&mut self, map: Map<String, Value>) {
        json(&map, &mut self.lines);
    }

    fn tell_lost(&mut self) {
        let lost = self.shared.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let mut map = begin("dropped", weir_clock::now().wall);
            map.insert("count".to_owned(), Value::from(lost));
            self.put(map);
        }
    }

    /// Sends an event for each state that has changed.
    fn look(&mut self) {
        let shared = self.shared.clone();
        let Some(states) = shared
            .states
            .get()
            .filter(|_| self.kinds & (EventKind::Volume as u32 | EventKind::Origin as u32) != 0)
        else {
            return;
        };
        let mut stands = HashMap::new();
        for (kind, names, state) in states() {
            let id = format!("{kind:?} {names:?}");
            let was = self.stood.as_ref().and_then(|stood| stood.get(&id));
            let has_changed = self.stood.is_some() && was != Some(&state) && self.kinds & kind as u32 != 0;
            if has_changed {
                let mut map = begin(kind.word(), weir_clock::now().wall);
                map.extend(names.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))));
                map.insert("state".to_owned(), Value::from(state.as_str()));
                if let Some(was) = was {
                    map.insert("was".to_owned(), Value::from(was.as_str()));
                }
                self.put(map);
            }
            stands.insert(id, state);
        }
        self.stood = Some(stands);
    }
}

/// The URL of a key, and what else is in it.
fn put_key(key: &[u8], map: &mut Map<String, Value>) {
    let text = String::from_utf8_lossy(key);
    let mut parts = text.lines();
    map.insert("key".to_owned(), Value::from(parts.next().unwrap_or_default()));
    let more: Vec<Value> = parts.map(Value::from).collect();
    if !more.is_empty() {
        map.insert("key_fields".to_owned(), Value::from(more));
    }
}

fn begin(word: &str, wall: SystemTime) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("time".to_owned(), Value::from(rfc3339(wall)));
    map.insert("event".to_owned(), Value::from(word));
    map
}
