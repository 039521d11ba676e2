//! The thread `weir-events-live`: tells events to listeners of the API. It runs while there are some.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use super::line::{Line, Look};
use super::{BATCH_EVENTS_MAX, Event, LOOK_EVERY, Queue, Shared};
use crate::listener::{Listener, Told};

/// Events that may wait for the thread; those beyond are dropped and counted.
const QUEUE_EVENTS_MAX: usize = 16_384;

/// A way to the thread.
pub(super) struct Heard {
    pub(super) queue: Queue,
    pub(super) lost: Arc<AtomicU64>,
    joining: Sender<Hearer>,
}

/// A listener with the kinds that it wants.
struct Hearer {
    kinds: u32,
    listener: Box<dyn Listener>,
}

/// The thread.
struct Thread {
    events: Receiver<Event>,
    joining: Receiver<Hearer>,
    lost: Arc<AtomicU64>,
    shared: Arc<Shared>,
    hearers: Vec<Hearer>,
    look: Look,
}

impl Heard {
    /// Starts the thread with its first listener.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(kinds: u32, listener: Box<dyn Listener>, shared: &Arc<Shared>) -> io::Result<Heard> {
        let (sender, events) = bounded(QUEUE_EVENTS_MAX);
        let (joining, joins) = unbounded();
        let lost = Arc::<AtomicU64>::default();
        let hearers = vec![Hearer { kinds, listener }];
        let look = Look::default();
        let mut thread =
            Thread { events, joining: joins, lost: lost.clone(), shared: shared.clone(), hearers, look };
        thread::Builder::new().name("weir-events-live".to_owned()).spawn(move || thread.run())?;
        Ok(Heard { queue: Queue { events: sender, kinds }, lost, joining })
    }

    /// Adds a listener.
    pub(super) fn join(&mut self, kinds: u32, listener: Box<dyn Listener>) {
        self.queue.kinds |= kinds;
        // The thread ends only when it has taken this way back.
        let _ = self.joining.send(Hearer { kinds, listener });
    }
}

impl Thread {
    fn run(&mut self) {
        loop {
            let first = self.events.recv_timeout(LOOK_EVERY);
            // Who has joined before an event hears it.
            self.hearers.extend(self.joining.try_iter());
            match first {
                Ok(event) => {
                    self.tell(&Line::of(&event, &self.shared.sites));
                    let more: Vec<Event> = self.events.try_iter().take(BATCH_EVENTS_MAX).collect();
                    more.iter().for_each(|event| self.tell(&Line::of(event, &self.shared.sites)));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let kinds = self.kinds();
            let changed = self.look.changed(self.shared.states.get(), kinds);
            changed.iter().for_each(|line| self.tell(line));
            let lost = self.lost.swap(0, Ordering::Relaxed);
            if lost > 0 {
                self.tell(&Line::of_lost(lost));
            }
            let before = self.hearers.len();
            self.hearers.retain_mut(|hearer| hearer.listener.hear(None));
            if self.hearers.len() != before && self.is_over() {
                return;
            }
        }
    }

    fn tell(&mut self, line: &Line) {
        let sites: Vec<&str> = line.sites.iter().map(|site| &**site).collect();
        let told = Told { sites: &sites, json: line.json.trim_ascii_end() };
        // One that has left is removed at the next look.
        for hearer in self.hearers.iter_mut().filter(|hearer| hearer.kinds & line.kind != 0) {
            hearer.listener.hear(Some(told));
        }
    }

    fn kinds(&self) -> u32 {
        self.hearers.iter().fold(0, |kinds, hearer| kinds | hearer.kinds)
    }

    /// Says what is wanted from now on. Whether that is nothing.
    fn is_over(&mut self) -> bool {
        let shared = self.shared.clone();
        let mut delivery = shared.delivery.lock();
        self.hearers.extend(self.joining.try_iter());
        if self.hearers.is_empty() {
            delivery.heard = None;
        } else if let Some(heard) = &mut delivery.heard {
            heard.queue.kinds = self.kinds();
        }
        shared.wanted.store(delivery.kinds(), Ordering::Relaxed);
        self.hearers.is_empty()
    }
}
