//! The thread that moves large bodies into files from which the kernel sends: see `generation::sealed_file`.
//!
//! A body is moved after it was sent a few times in a way that the kernel could have taken. While it moves,
//! memory holds it twice, charged like everything else. Where anything is lacking the body stays where it is:
//! it is copied to its clients, as before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};

use super::Inside;
use crate::generation::{FILE_BYTES_MAX, FILE_BYTES_MIN, Files, Generation, NoFile, SealedFile, Way};

/// The most files: each is a mapping of the process, of which Linux gives 65,530 unless it is told otherwise.
const FILES_MAX: u64 = 8192;
/// The most bodies that may wait. One more has to earn its file again.
const WAITING_MAX: usize = 64;
/// The longest body that is moved: this part of the memory, since it is there twice for a moment.
const MEMORY_PART: u64 = 8;
/// Where the kernel has no files, memory or mappings to spare, the thread lets others have them.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(10);
/// The thread's nice value: workers go first.
const NICENESS: i32 = 10;

/// Which bodies are to be moved, and how many are in files.
#[derive(Debug)]
pub(crate) struct Sealer {
    /// None where the system has no thread to spare.
    wanted: OnceLock<Option<Sender<Weak<Generation>>>>,
    files: Arc<Files>,
    bytes_max: u64,
    /// The kernel does not give such files.
    is_off: AtomicBool,
}

impl Sealer {
    pub(crate) fn new(memory_bytes: u64) -> Sealer {
        Sealer {
            wanted: OnceLock::new(),
            files: Files::new(FILES_MAX),
            bytes_max: FILE_BYTES_MAX.min(memory_bytes / MEMORY_PART),
            is_off: AtomicBool::new(false),
        }
    }

    /// Files, and the bytes of the bodies in them.
    pub(crate) fn held(&self) -> (u64, u64) {
        self.files.held()
    }
}

impl Inside {
    /// Counts a response of `sent_bytes`, and has its body moved where it has earned that.
    pub(crate) fn note_sent(
        self: &Arc<Inside>,
        generation: &Arc<Generation>,
        sent_bytes: u64,
        way: impl FnOnce() -> Way,
    ) {
        let sealer = &self.sealer;
        if sent_bytes < FILE_BYTES_MIN || sealer.is_off.load(Ordering::Relaxed) {
            return;
        }
        let many = generation.body.many().filter(|many| many.length() <= sealer.bytes_max);
        if !many.is_some_and(|many| many.note(way())) {
            return;
        }
        let wanted = sealer.wanted.get_or_init(|| start(self).ok());
        if let Some(wanted) = wanted {
            // Where too many wait it has to earn it again.
            let _ = wanted.try_send(Arc::downgrade(generation));
        }
    }

    /// Moves a body of several blocks to a file. It stays where it is where memory or files have none for it,
    /// or where it has just left the store.
    ///
    /// # Errors
    /// The kernel has none for it.
    pub(crate) fn move_to_file(&self, generation: &Generation) -> Result<(), NoFile> {
        let Some(many) = generation.body.many().filter(|many| many.file().is_none()) else { return Ok(()) };
        let Some(blocks) = many.blocks().filter(|_| !generation.is_retired()) else { return Ok(()) };
        let Some(place) = self.sealer.files.place(many.length()) else { return Ok(()) };
        // First of all: others leave memory for the charge, and must not do so in vain.
        let draft = SealedFile::draft()?;
        let Some(charge) = self.memory.charge(SealedFile::charge_bytes(many.length())) else { return Ok(()) };
        many.move_to(SealedFile::write(draft, &blocks, charge, place)?);
        Ok(())
    }
}

/// Starts the thread. It ends with the store.
fn start(inside: &Arc<Inside>) -> std::io::Result<Sender<Weak<Generation>>> {
    let (sender, wanted) = crossbeam_channel::bounded(WAITING_MAX);
    let weak = Arc::downgrade(inside);
    std::thread::Builder::new().name("weir-sealer".to_owned()).spawn(move || run(&weak, &wanted))?;
    Ok(sender)
}

fn run(inside: &Weak<Inside>, wanted: &Receiver<Weak<Generation>>) {
    // If the kernel refuses, it competes with the workers.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    for generation in wanted {
        let Some(inside) = inside.upgrade() else { return };
        let Some(generation) = generation.upgrade() else { continue };
        match inside.move_to_file(&generation) {
            Ok(()) => {}
            Err(error) if error.is_final() => inside.sealer.is_off.store(true, Ordering::Relaxed),
            Err(_) => {
                drop((generation, inside));
                std::thread::sleep(PAUSE_AFTER_FAILURE);
            }
        }
    }
}

#[cfg(test)]
mod tests;
