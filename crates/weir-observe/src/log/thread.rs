//! A log's thread: takes lines from the workers' queues, formats them, writes them.
//!
//! It sleeps while no line comes, and gathers lines for 10 ms once one does, so that a worker wakes it at
//! most once a burst. A log that cannot be written drops lines and counts them; no request waits for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crossbeam_channel::Receiver;

use super::readers::{Detail, Reader, Rounds};
use super::sink::Sink;
use super::{Command, FULL, HEARD, Hearer, Json, KEPT, Keeper, Line, Made, Queued, Shared};

/// How long the thread gathers lines before it writes.
const GATHER: Duration = Duration::from_millis(10);
/// With this many lines it writes at once.
const BUSY_LINES: usize = 1024;
/// The longest that it sleeps without looking, while nobody listens and while somebody does.
const SLEEP: Duration = Duration::from_secs(10);
const SLEEP_HEARD: Duration = Duration::from_millis(100);
/// Lines taken from the queues before they are written.
const BATCH_LINES_MAX: usize = 4096;

/// The thread's state.
pub(super) struct LogThread<L> {
    queues: Vec<Receiver<Queued<L>>>,
    commands: Receiver<Command<L>>,
    sinks: Vec<Sink<L>>,
    heard: Vec<Heard<L>>,
    rounds: Rounds,
    /// A line for them.
    made: Made,
    keeper: Option<Box<dyn Keeper<L>>>,
    shared: Arc<Shared>,
}

/// One that hears lines, and what it wants.
struct Heard<L> {
    hearer: Box<dyn Hearer<L>>,
    reader: Arc<Reader>,
}

impl<L: Line> LogThread<L> {
    pub(super) fn new(
        queues: Vec<Receiver<Queued<L>>>,
        commands: Receiver<Command<L>>,
        (sinks, keeper): (Vec<Sink<L>>, Option<Box<dyn Keeper<L>>>),
        shared: Arc<Shared>,
    ) -> LogThread<L> {
        let rounds = Rounds::new(weir_clock::mono());
        LogThread {
            queues,
            commands,
            sinks,
            heard: Vec::new(),
            rounds,
            made: Made::default(),
            keeper,
            shared,
        }
    }

    /// Runs until it is told to finish, or until nobody can tell it any more.
    pub(super) fn run(mut self) {
        let mut batch = Vec::new();
        loop {
            let wrote = self.drain(&mut batch);
            let busy = batch.len() >= BUSY_LINES;
            self.look();
            match self.commands.try_recv() {
                Ok(Command::Reopen) => self.sinks.iter_mut().for_each(Sink::reopen),
                Ok(Command::Replace(sinks)) => self.sinks = sinks,
                Ok(Command::Listen(hearer, reader)) => {
                    self.heard.push(Heard { hearer, reader });
                    self.want();
                }
                Ok(Command::Finish(done)) => {
                    while self.drain(&mut batch) {}
                    let _ = done.send(());
                    return;
                }
                Err(crossbeam_channel::TryRecvError::Disconnected) => {
                    while self.drain(&mut batch) {}
                    return;
                }
                Err(crossbeam_channel::TryRecvError::Empty) if busy => {}
                Err(crossbeam_channel::TryRecvError::Empty) if wrote => thread::park_timeout(GATHER),
                Err(crossbeam_channel::TryRecvError::Empty) => self.sleep(),
            }
        }
    }

    /// Sleeps until a line or a command comes.
    fn sleep(&self) {
        self.shared.asleep.store(true, Ordering::SeqCst);
        if self.queues.iter().all(Receiver::is_empty) && self.commands.is_empty() {
            thread::park_timeout(if self.heard.is_empty() { SLEEP } else { SLEEP_HEARD });
        }
        self.shared.asleep.store(false, Ordering::SeqCst);
    }

    /// Takes the queued lines and writes them. Returns whether there were any.
    fn drain(&mut self, batch: &mut Vec<Queued<L>>) -> bool {
        batch.clear();
        let share = (BATCH_LINES_MAX / self.queues.len().max(1)).max(1);
        for queue in &self.queues {
            batch.extend(queue.try_iter().take(share));
        }
        if batch.is_empty() {
            return false;
        }
        batch.sort_by_key(|queued| queued.line.at());
        for sink in &mut self.sinks {
            let lost = sink.write(batch);
            self.shared.unwritten.fetch_add(lost, Ordering::Relaxed);
        }
        if !self.heard.is_empty() {
            batch.iter().for_each(|queued| self.told(queued));
        }
        if let Some(keeper) = &mut self.keeper {
            let kept = batch.iter().filter(|queued| queued.mask & KEPT != 0);
            kept.for_each(|queued| keeper.keep(&queued.line));
        }
        true
    }

    /// Tells a line to those whose condition it fits.
    fn told(&mut self, queued: &Queued<L>) {
        let line = &*queued.line;
        self.made.line.clear();
        self.made.full.clear();
        let mut json = Json { line, made: &mut self.made };
        for Heard { hearer, reader } in self.heard.iter_mut().filter(|heard| heard.reader.is_in(queued.mask))
        {
            if reader.condition().is_none_or(|condition| line.fits(condition)) {
                // One that has left is removed at the next look.
                hearer.hear(line, &mut json);
            }
        }
    }

    /// Makes room for readers, tells them what they lost, and removes those that have left.
    fn look(&mut self) {
        if self.heard.is_empty() {
            return;
        }
        self.rounds.look(weir_clock::mono(), self.heard.iter().map(|heard| &heard.reader));
        let (shared, before) = (&self.shared, self.heard.len());
        self.heard.retain_mut(|heard| {
            let lost = heard.reader.lost();
            if lost > 0 {
                heard.hearer.lose(lost);
            }
            let stays = heard.hearer.look();
            if !stays {
                shared.readers.leave(&heard.reader);
            }
            stays
        });
        if self.heard.len() < before {
            self.want();
        }
    }

    /// Says what workers make lines for.
    fn want(&self) {
        self.shared.want(HEARD, !self.heard.is_empty());
        let is_full = |heard: &Heard<L>| heard.reader.detail() == Detail::Full;
        self.shared.want(FULL, self.heard.iter().any(is_full));
    }
}
