//! The thread that writes the history.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::file::AuditFile;
use super::{AUDITS, Set, Shared, Written};

/// Entries that are taken before the next write.
const BATCH_MAX: usize = 1024;
/// Bytes of lines of a set that are written at a time, and that wait for a disk that fails.
pub(super) const LINES_BYTES_MAX: usize = 1 << 20;
/// How long the thread waits before it looks at the time, and before it tries a failed write again.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The same while neither is under way.
const LOOK_EVERY_IDLE: Duration = Duration::from_secs(20);

pub(super) enum Command {
    Write(Box<Waiting>),
    Finish(Sender<()>),
}

/// An entry that is not written yet.
pub(super) struct Waiting {
    pub(super) set: Set,
    pub(super) line: Vec<u8>,
    pub(super) written: Option<Written>,
}

/// The thread.
pub(super) struct Writer {
    commands: Receiver<Command>,
    shared: Arc<Shared>,
    /// By the places of [`AUDITS`].
    logs: [Log; AUDITS.len()],
}

/// A set of files and what waits for it.
struct Log {
    set: usize,
    file: AuditFile,
    /// Lines that are not written yet.
    lines: Vec<u8>,
    /// The callers that wait for them.
    told: Vec<Written>,
}

impl Writer {
    pub(super) fn new(folder: &Path, commands: Receiver<Command>, shared: Arc<Shared>) -> Writer {
        let log = |set: usize| {
            let file = AuditFile::at(folder.join(AUDITS[set]));
            Log { set, file, lines: Vec::new(), told: Vec::new() }
        };
        Writer { commands, shared, logs: std::array::from_fn(log) }
    }

    pub(super) fn run(mut self) {
        loop {
            let mut finished = Vec::new();
            let is_over = match self.commands.recv_timeout(self.pause()) {
                Ok(command) => {
                    self.take(command, &mut finished);
                    for _ in 1..BATCH_MAX {
                        let Ok(command) = self.commands.try_recv() else { break };
                        self.take(command, &mut finished);
                    }
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            self.sum_refused();
            self.logs.iter_mut().for_each(|log| log.write(&self.shared));
            for done in finished {
                // A caller that no longer waits need not know.
                let _ = done.send(());
            }
            if is_over {
                return;
            }
        }
    }

    /// How long it waits for a command. A minute of refused attempts ends without one, and a failed write is
    /// tried again without one.
    fn pause(&self) -> Duration {
        let is_idle = self.logs.iter().all(|log| log.lines.is_empty());
        if is_idle && self.shared.refusals.lock().is_empty() { LOOK_EVERY_IDLE } else { LOOK_EVERY }
    }

    fn take(&mut self, command: Command, finished: &mut Vec<Sender<()>>) {
        match command {
            Command::Write(waiting) => {
                self.shared.queued_bytes.fetch_sub(waiting.line.len(), Ordering::Relaxed);
                self.put(*waiting);
            }
            Command::Finish(done) => finished.push(done),
        }
    }

    fn put(&mut self, waiting: Waiting) {
        self.logs[waiting.set as usize].put(waiting, &self.shared);
    }

    /// At the end of a minute: a line for the refused attempts that have none.
    fn sum_refused(&mut self) {
        let now = weir_clock::now();
        let summed = self.shared.refusals.lock().ended(now.mono);
        for entry in summed {
            self.put(Waiting { set: entry.set(), line: entry.line(now.wall), written: None });
        }
    }
}

impl Log {
    /// Keeps a line for the next write, which comes at once where the lines are many.
    fn put(&mut self, waiting: Waiting, shared: &Shared) {
        let Waiting { line, written, .. } = waiting;
        if self.lines.len() + line.len() > LINES_BYTES_MAX {
            self.write(shared);
        }
        if self.lines.len() + line.len() <= LINES_BYTES_MAX {
            self.lines.extend_from_slice(&line);
            self.told.extend(written);
            return;
        }
        shared.lost.fetch_add(1, Ordering::Relaxed);
        if let Some(written) = written {
            written(Err("the history could not be written for too long: the entry is lost".to_owned()));
        }
    }

    fn write(&mut self, shared: &Shared) {
        if self.lines.is_empty() {
            return;
        }
        let may_rotate = !shared.is_left.load(Ordering::Relaxed);
        let (written_bytes, written) = self.file.append(&self.lines, may_rotate);
        self.lines.drain(..written_bytes);
        let (mut failures, name) = (shared.failures.lock(), AUDITS[self.set]);
        let failure = &mut failures[self.set];
        match &written {
            Ok(()) => {
                if failure.take().is_some() {
                    tracing::info!("the history (`{name}`) is written again");
                }
            }
            Err(error) => {
                if failure.is_none() {
                    tracing::error!(%error, "cannot write the history (`{name}` in the state folder); make \
                                             room there; entries wait, and those beyond 1 MiB are lost");
                }
                *failure = Some(error.to_string());
            }
        }
        drop(failures);
        let result = written.map_err(|error| error.to_string());
        self.told.drain(..).for_each(|told| told(result.clone()));
    }
}
