//! Which objects are being stored at the moment, and from which stamp on one may begin.
//!
//! A sweep sets a floor ([`Running::raise_floor`]). From then on no object begins that was requested before
//! the floor, so that the sweep has ever less to judge. It waits for the older objects that are under way,
//! and looks at them again once they have ended.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// An object and the digest of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// The digest of its key.
    pub digest: u128,
    /// Its number.
    pub object: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// An object that was requested before this number of the ledger does not begin.
    floor: u64,
    /// The digest and the stamp of each object, by number.
    running: BTreeMap<u64, (u128, u64)>,
    /// Objects that were requested before the floor and have ended.
    ended: Vec<Named>,
}

impl Running {
    /// Notes that an object begins. False if it may not.
    pub(crate) fn begin(&self, named: Named, stamp: u64) -> bool {
        let mut state = self.0.lock();
        if stamp < state.floor {
            return false;
        }
        state.running.insert(named.object, (named.digest, stamp));
        true
    }

    /// Notes that an object goes on, whatever its stamp, since it is on the volume already. False while
    /// another put of it is open: their ends could not be told apart.
    pub(crate) fn resume(&self, named: Named, stamp: u64) -> bool {
        let mut state = self.0.lock();
        if state.running.contains_key(&named.object) {
            return false;
        }
        state.running.insert(named.object, (named.digest, stamp));
        true
    }

    /// Notes that an object has ended, after the writer was told.
    pub(crate) fn end(&self, object: u64) {
        let mut state = self.0.lock();
        if let Some((digest, stamp)) = state.running.remove(&object)
            && stamp < state.floor
        {
            state.ended.push(Named { digest, object });
        }
    }

    /// From here on refuses objects that were requested before `floor`.
    pub(crate) fn raise_floor(&self, floor: u64) {
        let mut state = self.0.lock();
        state.floor = state.floor.max(floor);
    }

    /// Objects under way that were requested before the floor.
    pub(crate) fn older(&self) -> Vec<Named> {
        let state = self.0.lock();
        let older = state.running.iter().filter(|(_, (_, stamp))| *stamp < state.floor);
        older.map(|(object, (digest, _))| Named { digest: *digest, object: *object }).collect()
    }

    /// Objects that were requested before the floor and have ended since the last call.
    pub(crate) fn take_ended(&self) -> Vec<Named> {
        std::mem::take(&mut self.0.lock().ended)
    }
}
