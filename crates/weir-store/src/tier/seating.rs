//! What a volume is told when it is attached.

use std::sync::Arc;

use crate::ledger::Stamp;
use crate::volume::Volume;

/// What a volume is told when it is attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seating {
    /// What people call it: the path of its folder.
    pub name: Arc<str>,
    /// Its share of the keys, beside the others' weights.
    pub weight: u64,
    /// What was asked for before this number of the ledger is asked about before it is used: the volume was
    /// away.
    pub suspect_before: Stamp,
    /// What was asked for before this number is gone: marks were dropped while the volume was away.
    pub dead_before: Stamp,
    /// It is not known here: what this ledger made dead before it came concerns others, and all that it holds
    /// is asked about.
    pub is_unknown: bool,
    /// What it takes of the memory beside its index, for its catalogue: set aside of what there is for
    /// responses. In bytes.
    pub memory_bytes: u64,
}

impl Seating {
    /// Of a volume that was never away.
    pub fn of(name: &str, weight: u64) -> Seating {
        Seating {
            name: name.into(),
            weight,
            suspect_before: Stamp::of(0),
            dead_before: Stamp::of(0),
            is_unknown: false,
            memory_bytes: 0,
        }
    }

    /// Says in an unknown volume that marks from before it came do not concern it. Where that cannot be
    /// written, they do.
    pub(crate) fn settle(&self, volume: &Volume) {
        if self.is_unknown {
            let _ = volume.set_swept(self.suspect_before.number());
        }
    }
}
