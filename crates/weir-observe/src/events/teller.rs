//! The thread `weir-events`: takes events from a bounded queue, formats and writes them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use super::line::{Line, Look};
use super::out::{EventSettings, Out};
use super::{BATCH_EVENTS_MAX, Event, LOOK_EVERY, Queue, Shared};

/// How long it waits before it tries a failed write again.
const RETRY_EVERY: Duration = Duration::from_millis(250);

/// The thread.
pub(super) struct Teller {
    events: Receiver<Event>,
    shared: Arc<Shared>,
    out: Out,
    kinds: u32,
    /// Lines that are not written yet.
    lines: Vec<u8>,
    look: Look,
    reopened: u64,
    generation: u64,
}

impl Teller {
    /// Starts the thread. Returns its queue.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread cannot be started. Then nothing has changed.
    pub(super) fn start(settings: &EventSettings, shared: &Arc<Shared>) -> io::Result<Queue> {
        let (sender, events) = bounded(settings.buffer);
        let (done, finished) = bounded(1);
        let out = Out::new(settings.target.clone())?;
        let mut teller = Teller {
            events,
            shared: shared.clone(),
            out,
            kinds: settings.kinds,
            lines: Vec::new(),
            look: Look::default(),
            reopened: shared.reopen.load(Ordering::Relaxed),
            generation: shared.generation.fetch_add(1, Ordering::Relaxed) + 1,
        };
        thread::Builder::new().name("weir-events".to_owned()).spawn(move || {
            teller.run();
            // A caller that no longer waits need not know.
            let _ = done.send(());
        })?;
        *shared.finished.lock() = Some(finished);
        Ok(Queue { events: sender, kinds: settings.kinds })
    }

    fn run(&mut self) {
        let mut is_failing = false;
        loop {
            // While writes fail, new events wait in the queue.
            let mut is_over = false;
            if self.lines.is_empty() {
                match self.events.recv_timeout(LOOK_EVERY) {
                    Ok(event) => self.take(&event),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => is_over = true,
                }
                let changed = self.look.changed(self.shared.states.get(), self.kinds);
                changed.iter().for_each(|line| self.lines.extend_from_slice(&line.json));
                let lost = self.shared.lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    self.lines.extend_from_slice(&Line::of_lost(lost).json);
                }
            }
            self.reopen();
            let count = breaks(&self.lines);
            let written = if self.lines.is_empty() { Ok(()) } else { self.out.write(&mut self.lines) };
            let left = breaks(&self.lines);
            self.shared.written.fetch_add(count.saturating_sub(left), Ordering::Relaxed);
            match written {
                Ok(()) => is_failing = false,
                Err(error) => {
                    if !is_failing {
                        tracing::warn!(%error, "cannot write events; they queue, and those beyond the buffer \
                                                are dropped");
                    }
                    is_failing = true;
                    if self.shared.generation.load(Ordering::Relaxed) != self.generation {
                        self.shared.lose(left + self.events.len() as u64);
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

    fn take(&mut self, first: &Event) {
        self.lines.extend_from_slice(&Line::of(first, &self.shared.sites).json);
        for event in self.events.try_iter().take(BATCH_EVENTS_MAX) {
            self.lines.extend_from_slice(&Line::of(&event, &self.shared.sites).json);
        }
    }

    fn reopen(&mut self) {
        let wanted = self.shared.reopen.load(Ordering::Relaxed);
        if wanted != std::mem::replace(&mut self.reopened, wanted)
            && self.out.is_file()
            && let Err(error) = self.out.open()
        {
            tracing::error!(%error, "cannot reopen the file of events; the old one stays in use");
        }
    }
}

fn breaks(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}
