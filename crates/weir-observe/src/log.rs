//! The access log's thread: takes records from the workers' queues, formats them, writes them.
//!
//! It sleeps while no record comes, and gathers records for 10 ms once one does, so that a worker wakes it at
//! most once a burst. A log that cannot be written drops lines and counts them; no request waits for it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use jiff::tz::TimeZone;
use thiserror::Error;

use super::lines::{self, Colour, TerminalLines};
use super::record::Record;

/// How long the thread gathers records before it writes.
const GATHER: Duration = Duration::from_millis(10);
/// With this many records it writes at once.
const BUSY_RECORDS: usize = 1024;
/// The longest that it sleeps without looking.
const SLEEP: Duration = Duration::from_secs(1);
/// Records taken from the queues before they are written.
const BATCH_RECORDS_MAX: usize = 4096;

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// The combined format of Apache and nginx.
    Combined,
    /// Columns for a person.
    Terminal {
        /// The terminal's width.
        columns: usize,
        /// Whether to use colours.
        colour: Colour,
    },
}

/// Where a log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file, appended to, made with mode 0640 if missing, opened again by `Observatory::reopen`.
    File(PathBuf),
}

/// One access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// How a line looks.
    pub format: LogFormat,
    /// Where it goes.
    pub target: LogTarget,
}

/// A log could not be set up.
#[derive(Debug, Error)]
pub enum LogError {
    /// The file cannot be opened.
    #[error(
        "cannot open the access log {}: {source}; make its folder writable for the user that runs weir, or \
         name another file",
        path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start the thread of the access log: {0}; raise the limit of threads for this user")]
    Thread(#[source] io::Error),
}

/// What the log thread is told between records.
pub(super) enum Command {
    Reopen,
    Replace(Vec<Sink>),
    Finish(Sender<()>),
}

/// What workers and the log thread share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Whether there is a log.
    pub(super) wanted: AtomicBool,
    /// Whether the thread sleeps and must be woken.
    pub(super) asleep: AtomicBool,
    /// Lines that were dropped.
    pub(super) unwritten: AtomicU64,
}

enum Writing {
    Json,
    Combined(TimeZone),
    Terminal(TerminalLines),
}

enum Out {
    Stdout,
    Stderr,
    File(PathBuf, File),
}

/// One open log.
pub(super) struct Sink {
    writing: Writing,
    out: Out,
    lines: Vec<u8>,
    failing: bool,
}

/// Logs that are open and not yet written to.
pub struct OpenLogs(pub(super) Vec<Sink>);

impl OpenLogs {
    /// Opens all of them.
    ///
    /// # Errors
    /// When one cannot be opened.
    pub fn open(logs: &[LogSettings]) -> Result<OpenLogs, LogError> {
        Ok(OpenLogs(logs.iter().map(Sink::open).collect::<Result<_, _>>()?))
    }
}

impl Sink {
    fn open(settings: &LogSettings) -> Result<Sink, LogError> {
        let writing = match settings.format {
            LogFormat::Json => Writing::Json,
            LogFormat::Combined => Writing::Combined(TimeZone::system()),
            LogFormat::Terminal { columns, colour } => {
                Writing::Terminal(TerminalLines::new(columns, colour, TimeZone::system()))
            }
        };
        let out = match &settings.target {
            LogTarget::Stdout => Out::Stdout,
            LogTarget::Stderr => Out::Stderr,
            LogTarget::File(path) => {
                let file = open(path).map_err(|source| LogError::Open { path: path.clone(), source })?;
                Out::File(path.clone(), file)
            }
        };
        Ok(Sink { writing, out, lines: Vec::new(), failing: false })
    }

    fn reopen(&mut self) {
        if let Out::File(path, file) = &mut self.out {
            match open(path) {
                Ok(again) => *file = again,
                Err(error) => {
                    tracing::error!(path = %path.display(), %error, "cannot reopen the access log; the old \
                                                                     file stays in use");
                }
            }
        }
    }

    /// Writes the batch; returns how many lines were dropped.
    fn write(&mut self, batch: &[Record]) -> u64 {
        self.lines.clear();
        for record in batch {
            match &mut self.writing {
                Writing::Json => lines::json(record, &mut self.lines),
                Writing::Combined(zone) => lines::combined(record, zone, &mut self.lines),
                Writing::Terminal(terminal) => terminal.line(record, &mut self.lines),
            }
        }
        let written = match &mut self.out {
            Out::Stdout => write_all(&mut io::stdout().lock(), &self.lines),
            Out::Stderr => write_all(&mut io::stderr().lock(), &self.lines),
            Out::File(_, file) => write_all(file, &self.lines),
        };
        match written {
            Ok(()) => {
                self.failing = false;
                0
            }
            Err(error) => {
                if !self.failing {
                    tracing::error!(%error, "cannot write the access log; lines are being lost");
                }
                self.failing = true;
                batch.len() as u64
            }
        }
    }
}

fn write_all(out: &mut dyn Write, lines: &[u8]) -> io::Result<()> {
    out.write_all(lines)?;
    out.flush()
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

/// The thread's state.
pub(super) struct LogThread {
    pub(super) queues: Vec<Receiver<Box<Record>>>,
    pub(super) commands: Receiver<Command>,
    pub(super) sinks: Vec<Sink>,
    pub(super) shared: Arc<Shared>,
}

impl LogThread {
    /// Runs until it is told to finish, or until nobody can tell it any more.
    pub(super) fn run(mut self) {
        let mut batch = Vec::new();
        loop {
            let wrote = self.drain(&mut batch);
            let busy = batch.len() >= BUSY_RECORDS;
            match self.commands.try_recv() {
                Ok(Command::Reopen) => self.sinks.iter_mut().for_each(Sink::reopen),
                Ok(Command::Replace(sinks)) => self.sinks = sinks,
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

    /// Sleeps until a record or a command comes.
    fn sleep(&self) {
        self.shared.asleep.store(true, Ordering::SeqCst);
        if self.queues.iter().all(Receiver::is_empty) && self.commands.is_empty() {
            thread::park_timeout(SLEEP);
        }
        self.shared.asleep.store(false, Ordering::SeqCst);
    }

    /// Takes the queued records and writes them. Returns whether there were any.
    fn drain(&mut self, batch: &mut Vec<Record>) -> bool {
        batch.clear();
        let share = (BATCH_RECORDS_MAX / self.queues.len().max(1)).max(1);
        for queue in &self.queues {
            batch.extend(queue.try_iter().take(share).map(|record| *record));
        }
        if batch.is_empty() {
            return false;
        }
        batch.sort_by_key(|record| record.description.wall + record.facts.total);
        for sink in &mut self.sinks {
            let lost = sink.write(batch);
            self.shared.unwritten.fetch_add(lost, Ordering::Relaxed);
        }
        true
    }
}
