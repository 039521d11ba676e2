//! What a volume is told when it is attached.

use std::sync::Arc;

use crate::ledger::Stamp;
use crate::volume::Volume;

/// What a volume is told when it is attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seating {
    /// The path of its folder, which is its name for people.
    pub name: Arc<str>,
    /// Its weight beside the others': its share of the keys.
    pub weight: u64,
    /// What was asked for before this number of the ledger is revalidated before it is used: the volume was
    /// away.
    pub suspect_before: Stamp,
    /// What was asked for before this number is dead: marks were dropped while the volume was away.
    pub dead_before: Stamp,
    /// It is not known here. Marks from before its arrival concern other volumes, and all that it holds is
    /// suspect.
    pub is_unknown: bool,
    /// What its catalogue takes of the memory, in bytes. It is charged to the budget for responses.
    pub memory_bytes: u64,
}

impl Seating {
    /// For a volume that was never away.
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

    /// Tells an unknown volume that marks from before its arrival do not concern it. Where that cannot be
    /// written, they do.
    pub(crate) fn settle(&self, volume: &Volume) {
        if self.is_unknown {
            let _ = volume.set_swept(self.suspect_before.number());
        }
    }
}
