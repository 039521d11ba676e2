//! Writes the register's file on a thread, so that a drive that hangs holds up nobody for longer than
//! [`PATIENCE`], and nobody a second time.
//!
//! The thread lives while there is something to write, and writes the newest text alone. It knows no volume.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use weir_disk::Disk;

use super::NAME;
use crate::ledger::on_thread;

/// So long a caller waits for a write: a sync of a busy drive takes seconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// The texts that are to be written. Clones are the same desk.
#[derive(Debug, Clone)]
pub(super) struct Desk(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    disk: Arc<dyn Disk>,
    queue: Mutex<Queue>,
    /// Rung after each write.
    settled: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// The newest text, until a thread takes it.
    text: Option<String>,
    /// The number of the newest text.
    asked: u64,
    /// Texts up to this number were written, or failed.
    settled: u64,
    /// The newest that is in the file.
    written: u64,
    /// Why the last write failed.
    failure: Option<(io::ErrorKind, String)>,
    has_thread: bool,
    /// The write under way has taken longer than anybody waits.
    is_late: bool,
}

impl Desk {
    pub(super) fn new(disk: Arc<dyn Disk>) -> Desk {
        Desk(Arc::new(Inner { disk, queue: Mutex::default(), settled: Condvar::new() }))
    }

    /// Whether the file may say less than the newest text.
    pub(super) fn is_unwritten(&self) -> bool {
        let queue = self.0.queue.lock();
        queue.written < queue.asked
    }

    /// Has a text written, and returns its number. Does not wait.
    pub(super) fn ask(&self, text: String) -> u64 {
        let mut queue = self.0.queue.lock();
        queue.asked += 1;
        queue.text = Some(text);
        if !std::mem::replace(&mut queue.has_thread, true) {
            let inner = Arc::clone(&self.0);
            if let Err(error) = on_thread("weir-register", move || inner.write()) {
                queue.has_thread = false;
                let asked = queue.asked;
                queue.settle(asked, Err(error));
            }
        }
        queue.asked
    }

    /// Waits until the text with that number, or a newer one, is durable.
    ///
    /// # Errors
    /// It could not be written, or the drive does not answer. Then it may be written later.
    pub(super) fn wait(&self, number: u64) -> io::Result<()> {
        let mut queue = self.0.queue.lock();
        let is_open = |queue: &mut Queue| queue.settled < number;
        if is_open(&mut queue) && !queue.is_late {
            self.0.settled.wait_while_for(&mut queue, is_open, PATIENCE);
            queue.is_late |= queue.settled < number;
        }
        match &queue.failure {
            _ if queue.written >= number => Ok(()),
            Some((kind, why)) if queue.settled >= number => Err(io::Error::new(*kind, why.clone())),
            _ => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "the drive of the state folder does not answer"))
            }
        }
    }
}

impl Inner {
    /// The thread.
    fn write(&self) {
        let mut queue = self.queue.lock();
        while let Some(text) = queue.text.take() {
            let number = queue.asked;
            drop(queue);
            let written = self.disk.replace(NAME, text.as_bytes()).map(drop);
            queue = self.queue.lock();
            queue.settle(number, written);
            self.settled.notify_all();
        }
        queue.has_thread = false;
    }
}

impl Queue {
    /// Notes what came of the text with that number.
    fn settle(&mut self, number: u64, written: io::Result<()>) {
        (self.settled, self.is_late) = (number, false);
        match written {
            Ok(()) => (self.written, self.failure) = (number, None),
            Err(error) => self.failure = Some((error.kind(), error.to_string())),
        }
    }
}
