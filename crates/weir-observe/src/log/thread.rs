//! A log's thread: takes lines from the workers' queues, formats them, writes them.
//!
//! It sleeps while no line comes, and gathers lines for 10 ms once one does, so that a worker wakes it at
//! most once a burst. A log that cannot be written drops lines and counts them; no request waits for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crossbeam_channel::Receiver;

use super::sink::Sink;
use super::{Command, HEARD, Line, Shared};
use crate::lines::json;
use crate::listener::{Listener, Told};

/// How long the thread gathers lines before it writes.
const GATHER: Duration = Duration::from_millis(10);
/// With this many lines it writes at once.
const BUSY_LINES: usize = 1024;
/// The longest that it sleeps without looking.
const SLEEP: Duration = Duration::from_secs(1);
/// Lines taken from the queues before they are written.
const BATCH_LINES_MAX: usize = 4096;

/// The thread's state.
pub(super) struct LogThread<L> {
    queues: Vec<Receiver<Box<L>>>,
    commands: Receiver<Command<L>>,
    sinks: Vec<Sink<L>>,
    listeners: Vec<Box<dyn Listener>>,
    /// A line for them.
    line: Vec<u8>,
    shared: Arc<Shared>,
}

impl<L: Line> LogThread<L> {
    pub(super) fn new(
        queues: Vec<Receiver<Box<L>>>,
        commands: Receiver<Command<L>>,
        sinks: Vec<Sink<L>>,
        shared: Arc<Shared>,
    ) -> LogThread<L> {
        LogThread { queues, commands, sinks, listeners: Vec::new(), line: Vec::new(), shared }
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
                Ok(Command::Listen(listener)) => {
                    self.listeners.push(listener);
                    self.shared.want(HEARD, true);
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
            thread::park_timeout(SLEEP);
        }
        self.shared.asleep.store(false, Ordering::SeqCst);
    }

    /// Takes the queued lines and writes them. Returns whether there were any.
    fn drain(&mut self, batch: &mut Vec<L>) -> bool {
        batch.clear();
        let share = (BATCH_LINES_MAX / self.queues.len().max(1)).max(1);
        for queue in &self.queues {
            batch.extend(queue.try_iter().take(share).map(|line| *line));
        }
        if batch.is_empty() {
            return false;
        }
        batch.sort_by_key(Line::at);
        for sink in &mut self.sinks {
            let lost = sink.write(batch);
            self.shared.unwritten.fetch_add(lost, Ordering::Relaxed);
        }
        if !self.listeners.is_empty() {
            batch.iter().for_each(|line| self.told(line));
        }
        true
    }

    /// Tells a line to the listeners.
    fn told(&mut self, line: &L) {
        self.line.clear();
        json(line, &mut self.line);
        let told = Told { sites: &[line.site()], json: self.line.trim_ascii_end() };
        // One that has left is removed at the next look.
        for listener in &mut self.listeners {
            listener.hear(Some(told));
        }
    }

    /// Removes listeners that have left.
    fn look(&mut self) {
        if self.listeners.is_empty() {
            return;
        }
        self.listeners.retain_mut(|listener| listener.hear(None));
        if self.listeners.is_empty() {
            self.shared.want(HEARD, false);
        }
    }
}
