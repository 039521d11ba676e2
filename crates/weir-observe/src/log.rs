//! The logs: one line for each finished request, one for each request to an origin. A log has a thread and
//! bounded queues of its own, so that a slow one delays neither a request nor the other log.

mod readers;
mod sink;
mod thread;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Receiver, Sender, bounded};
use serde::Serialize;
use thiserror::Error;

use self::readers::{Mask, Reader, Readers};
use self::sink::Sink;
use self::thread::LogThread;
use super::asked::Asked;
use super::condition::Condition;
use super::full::Full;
use super::lines::{self, Colour};
use super::listener::{Listener, Told};
use super::record::{Facts, Record};
use super::site::SiteId;

pub use self::readers::{Detail, ReadBy, TooManyReaders, Wish};

/// Lines that may wait for a log's thread, for each worker; those beyond are dropped and counted.
const QUEUE_LINES_MAX: usize = 4096;

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a request of a client.
    Json,
    /// The combined format of Apache and nginx.
    Combined,
    /// The line that the record has, in a form of the configuration's.
    Own,
    /// Columns for a person.
    Terminal {
        /// The terminal's width.
        columns: usize,
        /// Whether to use colours.
        colour: Colour,
    },
    /// One JSON object a request to an origin: the upstream log.
    Upstream,
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

/// One log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// What it says, and how a line looks.
    pub format: LogFormat,
    /// Where it goes.
    pub target: LogTarget,
    /// A file that would pass so many bytes is renamed to `FILE.1`, in place of the one before, and begun
    /// again.
    pub bytes_max: Option<u64>,
}

/// A log could not be set up.
#[derive(Debug, Error)]
pub enum LogError {
    /// The file cannot be opened.
    #[error(
        "cannot open the {log} log {}: {source}; make its folder writable for the user that runs weir, or \
         name another file",
        path.display()
    )]
    Open {
        /// `access` or `upstream`.
        log: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start the thread of a log: {0}; raise the limit of threads for this user")]
    Thread(#[source] io::Error),
}

/// Logs that are open and not yet written to.
pub struct OpenLogs {
    pub(super) access: Vec<Sink<Record>>,
    pub(super) upstream: Vec<Sink<Asked>>,
}

impl OpenLogs {
    /// Opens all of them.
    ///
    /// # Errors
    /// When one cannot be opened.
    pub fn open(logs: &[LogSettings]) -> Result<OpenLogs, LogError> {
        let mut open = OpenLogs { access: Vec::new(), upstream: Vec::new() };
        for settings in logs {
            match settings.format {
                LogFormat::Upstream => open.upstream.push(Sink::of_asked(settings)?),
                _ => open.access.push(Sink::of_records(settings)?),
            }
        }
        Ok(open)
    }
}

/// What a log has lines of.
pub(super) trait Line: Serialize + Send + 'static {
    /// When it was made: lines of several workers are written in this order.
    fn at(&self) -> SystemTime;

    /// The name of the site that it is about.
    fn site(&self) -> &str;

    /// Whether it fits a condition.
    fn fits(&self, condition: &Condition) -> bool;

    /// Appends it as JSON in this detail, with a line feed.
    fn write(&self, detail: Detail, out: &mut Vec<u8>);
}

/// What hears lines on a log's thread.
pub(super) trait Hearer<L>: Send {
    /// Hears a line, which others get as JSON. Must not wait. False when it wants no more.
    fn hear(&mut self, line: &L, json: &mut Json<'_, L>) -> bool;

    /// Lines were lost that may have been for it.
    fn lose(&mut self, count: u64);

    /// Called now and then. False when it wants no more.
    fn look(&mut self) -> bool;
}

/// What keeps some lines, on a log's thread.
pub(super) trait Keeper<L>: fmt::Debug + Send {
    /// Keeps a line that a worker has chosen. Must not wait.
    fn keep(&mut self, line: &L);
}

/// A line as JSON, made once for all that want it in the same detail.
pub(super) struct Json<'l, L> {
    line: &'l L,
    made: &'l mut Made,
}

/// The lines that are made, by detail.
#[derive(Debug, Default)]
struct Made {
    line: Vec<u8>,
    full: Vec<u8>,
}

impl<L: Line> Json<'_, L> {
    pub(super) fn bytes(&mut self, detail: Detail) -> &[u8] {
        let made = match detail {
            Detail::Line => &mut self.made.line,
            Detail::Full => &mut self.made.full,
        };
        if made.is_empty() {
            self.line.write(detail, made);
        }
        made.trim_ascii_end()
    }
}

/// A listener to lines in the detail that it wants.
struct Plain(Box<dyn Listener>, Detail);

impl<L: Line> Hearer<L> for Plain {
    fn hear(&mut self, line: &L, json: &mut Json<'_, L>) -> bool {
        self.0.hear(Some(Told { sites: &[line.site()], json: json.bytes(self.1) }))
    }

    fn lose(&mut self, count: u64) {
        self.0.lose(count);
    }

    fn look(&mut self) -> bool {
        self.0.hear(None)
    }
}

impl Line for Record {
    fn at(&self) -> SystemTime {
        self.description.wall + self.facts.total
    }

    fn site(&self) -> &str {
        &self.description.site
    }

    fn fits(&self, condition: &Condition) -> bool {
        condition.fits(self)
    }

    fn write(&self, detail: Detail, out: &mut Vec<u8>) {
        match detail {
            Detail::Line => lines::json(self, out),
            Detail::Full => lines::json(&Full(self), out),
        }
    }
}

impl Line for Asked {
    fn at(&self) -> SystemTime {
        self.begun + self.total
    }

    fn site(&self) -> &str {
        &self.site
    }

    fn fits(&self, condition: &Condition) -> bool {
        condition.fits_asked(self)
    }

    /// All that is known of an attempt is in its line.
    fn write(&self, _: Detail, out: &mut Vec<u8>) {
        lines::json(self, out);
    }
}

/// What a log's thread is told between lines.
enum Command<L> {
    Reopen,
    Replace(Vec<Sink<L>>),
    Listen(Box<dyn Hearer<L>>, Arc<Reader>),
    Finish(Sender<()>),
}

/// There is a log.
const WRITTEN: u8 = 1;
/// There are listeners.
const HEARD: u8 = 2;
/// Some of them want lines in full.
const FULL: u8 = 4;

/// In the mask of a line that is kept.
const KEPT: Mask = 1 << 63;

/// What workers and a log's thread share.
#[derive(Debug)]
struct Shared {
    /// Who wants lines: [`WRITTEN`], [`HEARD`], [`FULL`].
    wanted: AtomicU8,
    /// Whether the thread sleeps and must be woken.
    asleep: AtomicBool,
    /// Lines that were dropped after they were queued.
    unwritten: AtomicU64,
    readers: Readers,
}

/// A line on its way to the log's thread.
struct Queued<L> {
    line: Box<L>,
    /// The readers that it is for.
    mask: Mask,
}

/// A log with its thread; with no place to write to while it is off.
#[derive(Debug)]
pub(super) struct Log<L> {
    queues: Vec<Sender<Queued<L>>>,
    commands: Sender<Command<L>>,
    shared: Arc<Shared>,
    thread: Thread,
}

impl<L: Line> Log<L> {
    /// Starts the thread of this name, which also gives the keeper what workers choose for it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(
        name: &str,
        workers: usize,
        sinks: Vec<Sink<L>>,
        keeper: Option<Box<dyn Keeper<L>>>,
    ) -> Result<Log<L>, LogError> {
        let (commands, told) = bounded(16);
        let shared = Arc::new(Shared {
            wanted: AtomicU8::new(if sinks.is_empty() { 0 } else { WRITTEN }),
            asleep: AtomicBool::new(false),
            unwritten: AtomicU64::new(0),
            readers: Readers::default(),
        });
        let (queues, ends) = (0..workers).map(|_| bounded(QUEUE_LINES_MAX)).unzip();
        let run = LogThread::new(ends, told, (sinks, keeper), shared.clone());
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || run.run());
        let thread = spawned.map_err(LogError::Thread)?.thread().clone();
        Ok(Log { queues, commands, shared, thread })
    }

    /// The queue of a worker.
    ///
    /// # Panics
    /// When there is no such worker.
    pub(super) fn queue(&self, worker: usize) -> LogQueue<L> {
        let queue = self.queues[worker].clone();
        LogQueue { worker, queue, shared: self.shared.clone(), thread: self.thread.clone() }
    }

    /// Lines that were queued and could not be written, and those that [`LogQueue::lose`] counted.
    pub(super) fn lost(&self) -> u64 {
        self.shared.unwritten.load(Ordering::Relaxed)
    }

    /// Opens the files again.
    pub(super) fn reopen(&self) {
        self.tell(Command::Reopen);
    }

    /// Goes on with other places. Lines under way may still go to the old ones.
    pub(super) fn replace(&self, sinks: Vec<Sink<L>>) {
        self.shared.want(WRITTEN, !sinks.is_empty());
        self.tell(Command::Replace(sinks));
    }

    /// Tells a listener of the lines that it wants from now on, until it wants no more. `number` knows sites
    /// by name.
    ///
    /// # Errors
    /// There are too many readers.
    pub(super) fn listen(
        &self,
        listener: Box<dyn Listener>,
        wish: Wish,
        number: &dyn Fn(&str) -> Option<SiteId>,
    ) -> Result<(), TooManyReaders> {
        let detail = wish.detail;
        self.listen_with(Box::new(Plain(listener, detail)), wish, number)
    }

    pub(super) fn listen_with(
        &self,
        hearer: Box<dyn Hearer<L>>,
        wish: Wish,
        number: &dyn Fn(&str) -> Option<SiteId>,
    ) -> Result<(), TooManyReaders> {
        let reader = self.shared.readers.join(wish, self.queues.len(), number)?;
        if !self.tell(Command::Listen(hearer, reader.clone())) {
            self.shared.readers.leave(&reader);
        }
        Ok(())
    }

    /// Writes what is queued and ends the thread. What it returns is told once that is done.
    pub(super) fn finish(&self) -> Receiver<()> {
        self.shared.wanted.store(0, Ordering::Relaxed);
        let (done, finished) = bounded(1);
        self.tell(Command::Finish(done));
        finished
    }

    /// Whether the thread takes the command.
    fn tell(&self, command: Command<L>) -> bool {
        // A full queue of commands means that the thread hangs in a write; it then could not reopen anything.
        let is_taken = self.commands.try_send(command).is_ok();
        if !is_taken {
            tracing::error!("a log does not take commands");
        }
        self.thread.unpark();
        is_taken
    }
}

impl Shared {
    fn want(&self, who: u8, is_wanted: bool) {
        if is_wanted {
            self.wanted.fetch_or(who, Ordering::Relaxed);
        } else {
            self.wanted.fetch_and(!who, Ordering::Relaxed);
        }
    }
}

/// A worker's way into a log.
#[derive(Clone, Debug)]
pub(super) struct LogQueue<L> {
    worker: usize,
    queue: Sender<Queued<L>>,
    shared: Arc<Shared>,
    thread: Thread,
}

impl<L> LogQueue<L> {
    /// Whether somebody wants lines.
    pub(super) fn is_wanted(&self) -> bool {
        self.shared.wanted.load(Ordering::Relaxed) != 0
    }

    /// Whether a reader wants lines in full.
    #[inline]
    pub(super) fn is_wanted_in_full(&self) -> bool {
        self.shared.wanted.load(Ordering::Relaxed) & FULL != 0
    }

    /// Whether a reader wants lines in full, of this site among others.
    pub(super) fn is_wanted_in_full_of(&self, site: SiteId) -> bool {
        self.is_wanted_in_full() && self.shared.readers.want_full_of(site)
    }

    /// The readers that a line is for, by the numbers of its request where it has some; `None` where nobody
    /// wants it.
    pub(super) fn wants(&self, facts: Option<&Facts>) -> Option<Mask> {
        let wanted = self.shared.wanted.load(Ordering::Relaxed);
        let mask = match facts {
            _ if wanted & HEARD == 0 => 0,
            Some(facts) => self.shared.readers.of(self.worker, facts),
            None => self.shared.readers.all(self.worker),
        };
        (wanted & WRITTEN != 0 || mask != 0).then_some(mask)
    }

    /// The mask of a line that is kept as well.
    pub(super) fn kept(mask: Option<Mask>) -> Mask {
        mask.unwrap_or_default() | KEPT
    }

    /// In which detail a line for these readers is made.
    pub(super) fn detail(&self, mask: Mask) -> Detail {
        if mask & KEPT != 0 || (self.is_wanted_in_full() && self.shared.readers.want_full(mask)) {
            Detail::Full
        } else {
            Detail::Line
        }
    }

    /// Hands in a line for these readers; false where there is no room for it. Never waits.
    pub(super) fn put(&self, line: Box<L>, mask: Mask) -> bool {
        let is_queued = self.queue.try_send(Queued { line, mask }).is_ok();
        if !is_queued && mask != 0 {
            self.shared.readers.lose(self.worker, mask);
        }
        if is_queued && self.shared.asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        is_queued
    }

    /// Counts a line that there was no room for.
    pub(super) fn lose(&self) {
        self.shared.unwritten.fetch_add(1, Ordering::Relaxed);
    }
}

/// How long a finishing log is waited for.
pub(super) fn wait(finished: &[Receiver<()>], patience: Duration) {
    let until = weir_clock::mono() + patience;
    for log in finished {
        let _ = log.recv_deadline(until);
    }
}
