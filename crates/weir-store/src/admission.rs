//! What is admitted to the volumes: the decision, and what it remembers.
//!
//! A drive wears by what is written to it, and most of what is asked for is never asked for again. A sketch
//! ([`Sketch`]) counts the requests of each key, under the digest by which the volumes know it.
//! [`Admission::judge`] says, of values only, whether a body is written while it arrives. Other bodies stay
//! in memory. When one of them is asked for again it is written from there ([`Task`]), without another
//! request to the origin, by another thread.

mod file;
mod sketch;
mod task;

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crossbeam_channel::{Sender, TrySendError};

pub(crate) use self::sketch::{Extent, Sketch};
pub(crate) use self::task::Task;
use crate::budget::Charge;
use weir_disk::Disk;

/// How many requests `second` wants, and `auto` at least once a volume is full.
const FREQUENCY_SECOND: u32 = 2;
/// The most requests that `auto` wants.
const FREQUENCY_DEMANDED_MAX: u32 = 8;
/// Where so many twenty-fourths of a day's budget are used too early, `auto` admits nothing.
const AHEAD_MAX: u64 = 6;
/// The size of an object for which the sketch is made, in bytes.
const OBJECT_BYTES: u64 = 8 << 10;
/// The sketch takes at most this part of the memory.
const MEMORY_SHARE: u64 = 32;

/// What is admitted to the volumes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AdmissionMode {
    /// All that may be stored.
    #[default]
    Always,
    /// All while the volume has room and its budget is not used too early; then what is asked for often
    /// enough.
    Auto,
    /// What was asked for before.
    Second,
}

const MODES: [AdmissionMode; 3] = [AdmissionMode::Always, AdmissionMode::Auto, AdmissionMode::Second];

/// How a store decides, and where it remembers that.
#[derive(Debug, Clone, Default)]
pub struct AdmissionSettings {
    /// What is admitted.
    pub mode: AdmissionMode,
    /// The state folder, where the sketch and the budgets' use survive a restart; `None` where they do not.
    pub disk: Option<Arc<dyn Disk>>,
    /// The bytes of all volumes together, which give the size of the sketch.
    pub volumes_bytes: u64,
}

/// What was decided since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AdmissionUsage {
    /// Bodies that stayed in memory.
    pub refused: u64,
    /// The memory of the sketch, in bytes.
    pub memory_bytes: u64,
}

/// The room of a volume, and its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Nothing has to be evicted for the next body.
    pub(crate) is_left: bool,
    /// Twenty-fourths of the day's budget that are used too early.
    pub(crate) ahead: u64,
    /// Half of what may be written by now is written. The other half is for what was asked for before.
    pub(crate) is_half_spent: bool,
}

/// The decision and what it remembers, for all volumes.
#[derive(Debug)]
pub(crate) struct Admission {
    mode: AtomicU8,
    sketch: Sketch,
    /// The state folder, where there is one.
    disk: Option<Arc<dyn Disk>>,
    /// The charge for the sketch.
    charge: OnceLock<Charge>,
    /// Where the thread takes its tasks from, once it runs.
    tasks: OnceLock<Sender<Task>>,
    refused: AtomicU64,
    /// The sketch is being aged.
    is_aging: AtomicBool,
}

impl Admission {
    /// For a store with this much memory. The sketch is read from the folder, if it is there.
    pub(crate) fn new(settings: &AdmissionSettings, memory_bytes: u64) -> Admission {
        let bytes = settings.volumes_bytes.max(memory_bytes);
        let extent = Extent::of(bytes / OBJECT_BYTES, memory_bytes / MEMORY_SHARE);
        let known = settings.disk.as_ref().and_then(|disk| file::read(&**disk, extent));
        let admission = Admission::with(settings.mode, known.unwrap_or_else(|| Sketch::new(extent)));
        Admission { disk: settings.disk.clone(), ..admission }
    }

    pub(crate) fn with(mode: AdmissionMode, sketch: Sketch) -> Admission {
        Admission {
            mode: AtomicU8::new(mode as u8),
            sketch,
            disk: None,
            charge: OnceLock::new(),
            tasks: OnceLock::new(),
            refused: AtomicU64::new(0),
            is_aging: AtomicBool::new(false),
        }
    }

    /// The state folder, where there is one.
    pub(crate) fn disk(&self) -> Option<&dyn Disk> {
        self.disk.as_deref()
    }

    /// Writes the sketch to the state folder. What cannot be written is forgotten by a restart.
    pub(crate) fn write_sketch(&self) {
        if let Some(disk) = self.disk() {
            let _ = file::write(disk, &self.sketch);
        }
    }

    pub(crate) fn has_thread(&self) -> bool {
        self.tasks.get().is_some()
    }

    /// Sets where the thread takes its tasks from. Only the first call has an effect.
    pub(crate) fn set_tasks(&self, tasks: Sender<Task>) {
        let _ = self.tasks.set(tasks);
    }

    /// Gives the thread a task. Never waits.
    pub(crate) fn ask(&self, task: Task) {
        if let Some(tasks) = self.tasks.get() {
            match tasks.try_send(task) {
                Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
    }

    /// Lets the thread finish its tasks, write down what it remembers, and end. Blocks.
    pub(crate) fn stop(&self) {
        let (done, wait) = crossbeam_channel::bounded(1);
        if let Some(tasks) = self.tasks.get()
            && tasks.send(Task::Stop(done)).is_ok()
        {
            // An error means that it has ended already.
            let _ = wait.recv();
        }
    }

    /// Keeps the charge for the sketch.
    pub(crate) fn keep(&self, charge: Charge) {
        // A second one is given back.
        let _ = self.charge.set(charge);
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.sketch.extent().memory_bytes()
    }

    pub(crate) fn mode(&self) -> AdmissionMode {
        MODES[usize::from(self.mode.load(Ordering::Relaxed))]
    }

    pub(crate) fn set_mode(&self, mode: AdmissionMode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Notes a request.
    pub(crate) fn note(&self, digest: u128) {
        self.sketch.note(digest);
    }

    /// How often a key was asked for lately, as far as that was noted.
    pub(crate) fn frequency(&self, digest: u128) -> u32 {
        self.sketch.frequency(digest)
    }

    /// Whether a key that was asked for, and noted, is admitted.
    pub(crate) fn judge(&self, digest: u128, room: Room) -> bool {
        let frequency = || self.frequency(digest);
        match self.mode() {
            AdmissionMode::Always => true,
            AdmissionMode::Second => frequency() >= FREQUENCY_SECOND,
            AdmissionMode::Auto => {
                demanded(room).is_some_and(|demanded| demanded < 2 || frequency() >= demanded)
            }
        }
    }

    /// Counts a body that stays in memory.
    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Ages the sketch when it is time, unless another thread is at it.
    pub(crate) fn grow_old_if_due(&self) {
        if self.sketch.is_due() && !self.is_aging.swap(true, Ordering::Acquire) {
            self.sketch.grow_old();
            self.is_aging.store(false, Ordering::Release);
        }
    }

    pub(crate) fn usage(&self) -> AdmissionUsage {
        AdmissionUsage { refused: self.refused.load(Ordering::Relaxed), memory_bytes: self.memory_bytes() }
    }
}

/// How many requests a body needs to be admitted: one while there is room and at most half of the budget due
/// is spent, two afterwards, and more the more of the budget is used too early. `None` where nothing is
/// admitted.
fn demanded(room: Room) -> Option<u32> {
    let Room { is_left, ahead, is_half_spent } = room;
    if ahead > AHEAD_MAX {
        return None;
    }
    let of_room = if is_left && !is_half_spent { 1 } else { FREQUENCY_SECOND };
    let of_budget = if ahead == 0 { 1 } else { FREQUENCY_SECOND - 1 + ahead as u32 };
    Some(of_room.max(of_budget).min(FREQUENCY_DEMANDED_MAX))
}

#[cfg(test)]
mod tests;
