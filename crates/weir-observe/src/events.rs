//! Events of what is stored, as JSON lines to a file, to a reader on a unix socket, and to listeners of the
//! API.
//!
//! While nobody listens, an event costs one relaxed load. Otherwise it goes into bounded queues: one of the
//! configured delivery (`teller`), one of the listeners (`hearers`). Events that do not fit are dropped,
//! counted, and reported once there is room. A thread formats and writes. No request waits for it, however
//! slow or dead the reader is.

mod event;
mod hearers;
mod line;
mod out;
mod teller;

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use parking_lot::Mutex;

pub use self::event::{Event, EventKind, PurgeTold};
use self::hearers::Heard;
use self::line::Names;
pub use self::line::States;
pub use self::out::{EventSettings, EventTarget};
use self::teller::Teller;
use super::history::{Act, Actor, Entry};
use super::listener::Listener;

/// How long a thread waits for an event before it looks at states.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Events that are written at a time.
const BATCH_EVENTS_MAX: usize = 1024;

/// The events of a process.
#[derive(Default)]
pub struct Events {
    shared: Arc<Shared>,
}

/// What the threads share with the callers.
#[derive(Default)]
struct Shared {
    /// The kinds that somebody wants, as the sum of their bits.
    wanted: AtomicU32,
    delivery: Mutex<Delivery>,
    /// Undelivered events.
    lost: AtomicU64,
    lost_all: AtomicU64,
    written: AtomicU64,
    reopen: AtomicU64,
    /// Grows when the delivery changes.
    generation: AtomicU64,
    states: OnceLock<States>,
    sites: Names,
    finished: Mutex<Option<Receiver<()>>>,
}

/// Who gets events.
#[derive(Default)]
struct Delivery {
    /// The configured file or socket.
    told: Option<Queue>,
    /// The listeners of the API.
    heard: Option<Heard>,
}

/// A way to a thread, with the kinds that it wants.
struct Queue {
    events: Sender<Event>,
    kinds: u32,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Events").field("wanted", &self.shared.wanted).finish_non_exhaustive()
    }
}

impl Events {
    /// Whether a reader wants events of a kind.
    pub fn wants(&self, kind: EventKind) -> bool {
        self.shared.wanted.load(Ordering::Relaxed) & kind as u32 != 0
    }

    /// Sends an event, which is made only if a reader wants it. Never waits.
    pub fn tell(&self, kind: EventKind, make: impl FnOnce() -> Event) {
        if !self.wants(kind) {
            return;
        }
        let event = make();
        let delivery = self.shared.delivery.lock();
        if let Some(heard) = delivery.heard.as_ref().filter(|heard| heard.queue.wants(kind))
            && heard.queue.events.try_send(event.clone()).is_err()
        {
            heard.lost.fetch_add(1, Ordering::Relaxed);
        }
        let told = delivery.told.as_ref().filter(|told| told.wants(kind));
        let full = told.is_some_and(|told| told.events.try_send(event).is_err());
        drop(delivery);
        if full {
            self.shared.lose(1);
        }
    }

    /// Tells of a purge or a retention that the history has an entry of.
    pub(super) fn tell_purge(&self, entry: &Entry) {
        let kind = match entry.act.as_str() {
            "purge" => EventKind::Purged,
            // One that has failed was refused for want of room, and so has no mark.
            "ttl" if entry.result == Act::Done => EventKind::Retained,
            _ => return,
        };
        // A purge that could not be written is in force until a restart.
        if entry.result == Act::Refused {
            return;
        }
        let why = if matches!(entry.actor, Actor::Client(_)) { "request" } else { "command" };
        self.tell(kind, || Event {
            kind,
            wall: weir_clock::now().wall,
            site: 0,
            key: Vec::new(),
            bytes: None,
            why,
            volume: None,
            purge: Some(Box::new(PurgeTold {
                scope: entry.scope.clone(),
                actor: entry.actor.to_string(),
                sites: entry.sites.clone(),
            })),
        });
    }

    /// Counts events that cannot be sent, since what they were about is no longer known.
    pub fn miss(&self, kind: EventKind, count: u64) {
        if !self.wants(kind) {
            return;
        }
        let delivery = self.shared.delivery.lock();
        if let Some(heard) = delivery.heard.as_ref().filter(|heard| heard.queue.wants(kind)) {
            heard.lost.fetch_add(count, Ordering::Relaxed);
        }
        let is_told = delivery.told.as_ref().is_some_and(|told| told.wants(kind));
        drop(delivery);
        if is_told {
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
        let told = settings.map(|settings| Teller::start(settings, &self.shared)).transpose()?;
        if settings.is_none() {
            self.shared.generation.fetch_add(1, Ordering::Relaxed);
        }
        let mut delivery = self.shared.delivery.lock();
        delivery.told = told;
        self.shared.wanted.store(delivery.kinds(), Ordering::Relaxed);
        Ok(())
    }

    /// Tells a listener of events of these kinds, the sum of their bits, until it wants no more.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn listen(&self, kinds: u32, listener: Box<dyn Listener>) -> io::Result<()> {
        let mut delivery = self.shared.delivery.lock();
        match &mut delivery.heard {
            Some(heard) => heard.join(kinds, listener),
            None => delivery.heard = Some(Heard::start(kinds, listener, &self.shared)?),
        }
        self.shared.wanted.store(delivery.kinds(), Ordering::Relaxed);
        Ok(())
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

impl Queue {
    fn wants(&self, kind: EventKind) -> bool {
        self.kinds & kind as u32 != 0
    }
}

impl Delivery {
    /// The kinds that somebody wants.
    fn kinds(&self) -> u32 {
        let told = self.told.as_ref().map_or(0, |queue| queue.kinds);
        let heard = self.heard.as_ref().map_or(0, |heard| heard.queue.kinds);
        told | heard
    }
}

impl Shared {
    fn lose(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
        self.lost_all.fetch_add(count, Ordering::Relaxed);
    }
}
