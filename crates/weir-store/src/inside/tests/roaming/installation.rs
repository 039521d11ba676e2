//! What an installation owns: a state folder, and a process that opens what stands there as the program does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use weir_policy::Now;

use crate::register::{Arriving, Distrust, Register};
use crate::samples::now;
use crate::tier::{Seating, VolumeTier};
use crate::volume::Volume;
use crate::{Ledger, Settings, Store};
use weir_disk::testing::CrashDisk;

const MEMORY_BYTES: u64 = 1 << 20;
/// Records of the ledger's file, in bytes.
pub(super) const RECORD_BYTES: usize = 64;

/// A file of a state folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kept {
    Ledger,
    /// The ledger's number.
    End,
    Register,
}

impl Kept {
    fn name(self) -> &'static str {
        match self {
            Kept::Ledger => "ledger",
            Kept::End => "ledger.end",
            Kept::Register => "volumes",
        }
    }
}

/// What stands in a state folder.
pub(super) type State = BTreeMap<Kept, Vec<u8>>;

/// A process.
pub(super) struct Running {
    pub(super) store: Store,
    pub(super) register: Arc<Register>,
    pub(super) numbers: Arc<AtomicU64>,
}

pub(super) struct Installation {
    power: CrashDisk,
    marks_max: usize,
    /// How far its clock is from the true time, in seconds.
    pub(super) clock: i64,
    pub(super) running: Option<Running>,
    /// Its state as it was at some times.
    pub(super) copies: Vec<State>,
    /// The power of its drives is about to go.
    pub(super) is_failing: bool,
    /// Drives that it knows, and used with a ledger that is lost.
    pub(super) orphans: BTreeSet<usize>,
}

impl Installation {
    /// One that has not begun.
    pub(super) fn new(clock: i64, marks_max: usize) -> Installation {
        Installation {
            power: CrashDisk::new(1),
            marks_max,
            clock,
            running: None,
            copies: Vec::new(),
            is_failing: false,
            orphans: BTreeSet::new(),
        }
    }

    /// The power fails: what was not durable in the state folder is lost.
    pub(super) fn cut(&self, seed: u64) {
        self.power.cut(seed);
    }

    /// The ledger and the register of a new process, as the program opens them.
    pub(super) fn open(&self, now: Now) -> Result<Running, crate::ledger::OpenError> {
        let (register, _) = Register::open(Arc::new(self.power.process())).unwrap();
        let files = Arc::new(self.power.process());
        let ledger = Ledger::open(self.marks_max, files, register.ledger_number(), now)?;
        let numbers = Arc::new(AtomicU64::new(register.numbers()));
        let register = Arc::new(register);
        let store = Store::with_ledger(Settings::of(MEMORY_BYTES), ledger);
        store.set_register(Arc::clone(&register));
        Ok(Running { store, register, numbers })
    }

    pub(super) fn state(&self) -> State {
        let all = [Kept::Ledger, Kept::End, Kept::Register];
        all.into_iter().filter_map(|kept| Some((kept, self.power.content(kept.name())?))).collect()
    }

    pub(super) fn write(&self, kept: Kept, bytes: Option<&[u8]>) {
        self.power.put(kept.name(), bytes);
    }
}

impl Running {
    /// Takes a volume that was opened, as the program does.
    pub(super) fn take(&self, volume: Volume, path: &str) -> (Arc<VolumeTier>, Option<Distrust>) {
        let opening = volume.renew_opening(self.register.opening(volume.id()));
        let arriving = Arriving::of(&volume, path, opening, true);
        let arrival = self.register.arrive(arriving, self.store.ledger()).unwrap();
        if arrival.distrust == Some(Distrust::Ahead) {
            self.store.distrust(arrival.suspect_before);
        }
        let seating = Seating {
            suspect_before: arrival.suspect_before,
            dead_before: arrival.dead_before,
            is_unknown: arrival.distrust == Some(Distrust::Unknown),
            ..Seating::of(path, 1)
        };
        (self.store.attach_without_sweeper(volume, seating, now), arrival.distrust)
    }
}
