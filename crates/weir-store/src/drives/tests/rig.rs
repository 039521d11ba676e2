//! A machine whose drives are pulled, stuck and put back, and a supervisor on a clock that stands still.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use weir_disk::testing::CrashDisk;
use weir_disk::{DiskFile, Identity, Room};

use crate::drives::supervisor::Supervisor;
use crate::drives::{Begin, Change, DriveReport, Machine, RegisterChange, Settings, Unopened, Wanted};
use crate::samples::now;
use crate::tier::VolumeTier;
use crate::volume::{Clock, Disk};
use crate::{Ledger, MARKS_MAX, Register, Store, VolumeState};

const MEMORY_BYTES: u64 = 4 << 20;
pub(super) const SIZE_BYTES: u64 = 8 << 20;
/// So many looks are made until something is there, with a moment after each for the threads.
const LOOKS_MAX: u32 = 4000;
const MOMENT: Duration = Duration::from_millis(2);

/// A drive of the machine.
#[derive(Debug)]
struct Slot {
    disk: CrashDisk,
    is_mounted: bool,
    is_locked: bool,
    is_read_only: bool,
}

#[derive(Debug, Default)]
struct Said {
    slots: BTreeMap<String, Slot>,
    changes: Vec<(String, Change)>,
    register: Vec<&'static str>,
}

/// The machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Rig(Arc<Mutex<Said>>);

/// A volume's folder, locked by who has it.
#[derive(Debug)]
struct Folder {
    rig: Rig,
    name: String,
    disk: CrashDisk,
    /// It was read-only when it was taken.
    is_sealed: bool,
    is_released: AtomicBool,
}

impl Folder {
    /// The disk, to write to.
    fn writable(&self) -> io::Result<&CrashDisk> {
        if self.is_sealed { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(&self.disk) }
    }
}

impl Rig {
    pub(super) fn put(&self, name: &str, disk: &CrashDisk) {
        let slot = Slot { disk: disk.clone(), is_mounted: true, is_locked: false, is_read_only: false };
        self.0.lock().slots.insert(name.to_owned(), slot);
    }

    pub(super) fn disk(&self, name: &str) -> CrashDisk {
        self.0.lock().slots[name].disk.clone()
    }

    /// Mounts a drive, or takes its mount away.
    pub(super) fn mount(&self, name: &str, is_mounted: bool) {
        self.0.lock().slots.get_mut(name).unwrap().is_mounted = is_mounted;
    }

    /// Turns a drive read-only, or lets it be written.
    pub(super) fn protect(&self, name: &str, is_read_only: bool) {
        self.0.lock().slots.get_mut(name).unwrap().is_read_only = is_read_only;
    }

    /// Another process has the folder, or has let it go.
    pub(super) fn lock(&self, name: &str, is_locked: bool) {
        self.0.lock().slots.get_mut(name).unwrap().is_locked = is_locked;
    }

    /// What was told of volumes since this was last asked.
    pub(super) fn changes(&self) -> Vec<(String, Change)> {
        std::mem::take(&mut self.0.lock().changes)
    }

    pub(super) fn said_of_register(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().register)
    }

    fn with<T>(&self, path: &Path, act: impl FnOnce(&mut Slot) -> T) -> io::Result<T> {
        let name = path.display().to_string();
        self.0.lock().slots.get_mut(&name).map(act).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Machine for Rig {
    fn folder(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        let taken = self.with(path, |slot| {
            assert!(slot.is_mounted, "a volume is made in the folder beneath a mount");
            (std::mem::replace(&mut slot.is_locked, true), slot.disk.clone(), slot.is_read_only)
        });
        let (was_locked, disk, is_sealed) = taken?;
        if was_locked {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let (rig, name) = (self.clone(), path.display().to_string());
        Ok(Arc::new(Folder { rig, name, disk, is_sealed, is_released: AtomicBool::new(false) }))
    }

    fn is_mount(&self, path: &Path) -> io::Result<bool> {
        self.with(path, |slot| slot.is_mounted)
    }

    fn is_made(&self, path: &Path) -> bool {
        self.with(path, |slot| slot.is_mounted && slot.disk.look(|| !slot.disk.paths().is_empty()))
            .unwrap_or_default()
    }

    fn volume_changed(&self, name: &str, change: &Change) {
        self.0.lock().changes.push((name.to_owned(), change.clone()));
    }

    fn register_changed(&self, change: &RegisterChange) {
        let word = match change {
            RegisterChange::Unread(_) => "unread",
            RegisterChange::Unwritten(_) => "unwritten",
            RegisterChange::Written => "written",
        };
        self.0.lock().register.push(word);
    }
}

impl Disk for Folder {
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.writable()?.create(path)
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path)
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        self.writable()?.unlink(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.writable()?.rename(from, to)
    }

    fn make_folder(&self, folder: &str) -> io::Result<()> {
        self.disk.make_folder(folder)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.disk.list(folder)
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        self.disk.sync_folder(folder)
    }

    fn identity(&self, path: &str) -> io::Result<Option<Identity>> {
        self.disk.identity(path)
    }

    fn room(&self) -> io::Result<Room> {
        self.disk.room()
    }

    fn release(&self) {
        if !self.is_released.swap(true, Ordering::SeqCst) {
            self.rig.lock(&self.name, false);
        }
    }

    fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    fn is_writable(&self) -> bool {
        !self.rig.0.lock().slots[&self.name].is_read_only
    }

    fn is_there(&self) -> bool {
        // Waits where the disk is held, as a drive that is stuck.
        let _ = self.disk.identity("");
        self.rig.0.lock().slots[&self.name].is_mounted
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.release();
    }
}

/// A supervisor that is looked after by the test.
pub(super) struct World {
    pub(super) rig: Rig,
    pub(super) store: Store,
    /// The disk of the state folder.
    pub(super) power: CrashDisk,
    pub(super) supervisor: Arc<Supervisor>,
    clock_ms: Arc<AtomicU64>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("reports", &self.supervisor.reports()).finish_non_exhaustive()
    }
}

impl World {
    pub(super) fn new(rig: &Rig, power: &CrashDisk, begin: Begin) -> World {
        let (register, _) = Register::open(Arc::new(power.clone())).unwrap();
        let ledger = Ledger::open(MARKS_MAX, Arc::new(power.clone()), register.ledger_number(), now());
        let store = Store::with_ledger(crate::Settings::of(MEMORY_BYTES), ledger.unwrap());
        let clock_ms = Arc::new(AtomicU64::new(1));
        let read = Arc::clone(&clock_ms);
        let settings = Settings {
            memory_bytes: MEMORY_BYTES,
            clock: Clock::new(move || Duration::from_millis(read.load(Ordering::SeqCst))),
            now,
            machine: Arc::new(rig.clone()),
        };
        let supervisor = Supervisor::new(store.clone(), register, settings, begin);
        World { rig: rig.clone(), store, power: power.clone(), supervisor, clock_ms }
    }

    /// Starts over these volumes.
    pub(super) fn start(rig: &Rig, power: &CrashDisk, volumes: &[Wanted]) -> Result<World, Unopened> {
        let world = World::new(rig, power, Begin::Now);
        world.supervisor.configure(volumes);
        world.supervisor.await_start()?;
        Ok(world)
    }

    /// Time passes.
    pub(super) fn advance(&self, pause: Duration) {
        self.clock_ms.fetch_add(pause.as_millis() as u64, Ordering::SeqCst);
    }

    /// Time passes, and a look is made.
    pub(super) fn pass(&self, pause: Duration) {
        self.advance(pause);
        self.supervisor.look_after(Duration::ZERO);
    }

    /// Whether no volume's thread is late, which a machine that is busy would make it.
    fn is_at_rest(&self) -> bool {
        let is_late = |tier: &Arc<VolumeTier>| {
            !tier.volume().stuck_for().is_zero() || tier.volume().usage().queued_bytes > 0
        };
        !self.supervisor.tiers_for_tests().iter().any(is_late)
    }

    /// Looks until something is so; time passes by `step`, a second at most, from look to look.
    #[track_caller]
    pub(super) fn pass_until(&self, what: &str, step: Duration, is_so: impl Fn(&World) -> bool) {
        for _ in 0..LOOKS_MAX {
            self.pass(if self.is_at_rest() { step } else { Duration::ZERO });
            if is_so(self) {
                return;
            }
            std::thread::sleep(MOMENT);
        }
        panic!("it never was so: {what}; {:?}", self.supervisor.reports());
    }

    /// The same, while the clock stands still.
    #[track_caller]
    pub(super) fn until(&self, what: &str, is_so: impl Fn(&World) -> bool) {
        self.pass_until(what, Duration::ZERO, is_so);
    }

    pub(super) fn find(&self, name: &str) -> Option<DriveReport> {
        self.supervisor.reports().into_iter().find(|report| report.name == name)
    }

    #[track_caller]
    pub(super) fn report(&self, name: &str) -> DriveReport {
        self.find(name).unwrap_or_else(|| panic!("nothing is told of {name}"))
    }

    #[track_caller]
    pub(super) fn state(&self, name: &str) -> VolumeState {
        self.report(name).state
    }

    pub(super) fn objects(&self, name: &str) -> u64 {
        self.report(name).held.map_or(0, |held| held.usage.objects)
    }

    /// Ends in order.
    pub(super) fn end(self) {
        self.supervisor.close(Duration::from_secs(10));
        self.supervisor.release(Duration::ZERO);
    }
}

pub(super) fn wanted(name: &str) -> Wanted {
    Wanted {
        path: name.into(),
        size_bytes: Some(SIZE_BYTES),
        weight: None,
        write_budget_bytes: None,
        read_timeout: Duration::from_secs(2),
        is_drained: false,
    }
}
