//! Which objects are being stored at the moment, and from which stamp on one may begin.
//!
//! A sweep asks for a barrier ([`Running::raise_floor`]): from then on nothing begins that was asked for
//! before it, so that what it has to judge becomes ever less. What was under way then is waited for, and
//! looked at again once it has ended.

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
    /// What was asked for before this number of the ledger does not begin.
    floor: u64,
    /// By number: the digest, and the stamp.
    running: BTreeMap<u64, (u128, u64)>,
    /// Objects that have ended, and were asked for before the floor.
    ended: Vec<Named>,
}

impl Running {
    /// Notes an object that begins; false where it may not.
    pub(crate) fn begin(&self, named: Named, stamp: u64) -> bool {
        let mut state = self.0.lock();
        if stamp < state.floor {
            return false;
        }
        state.running.insert(named.object, (named.digest, stamp));
        true
    }

    /// Notes an object that goes on: it is there already, whatever its stamp. False while it is being stored:
    /// whose end is said would not be known.
    pub(crate) fn resume(&self, named: Named, stamp: u64) -> bool {
        let mut state = self.0.lock();
        if state.running.contains_key(&named.object) {
            return false;
        }
        state.running.insert(named.object, (named.digest, stamp));
        true
    }

    /// Notes that an object has ended, once that was said to the writer.
    pub(crate) fn end(&self, object: u64) {
        let mut state = self.0.lock();
        if let Some((digest, stamp)) = state.running.remove(&object)
            && stamp < state.floor
        {
            state.ended.push(Named { digest, object });
        }
    }

    /// Nothing begins from here on that was asked for before `floor`.
    pub(crate) fn raise_floor(&self, floor: u64) {
        let mut state = self.0.lock();
        state.floor = state.floor.max(floor);
    }

    /// Objects under way that were asked for before the floor.
    pub(crate) fn older(&self) -> Vec<Named> {
        let state = self.0.lock();
        let older = state.running.iter().filter(|(_, (_, stamp))| *stamp < state.floor);
        older.map(|(object, (digest, _))| Named { digest: *digest, object: *object }).collect()
    }

    /// Objects that were asked for before the floor and have ended since this was asked last.
    pub(crate) fn take_ended(&self) -> Vec<Named> {
        std::mem::take(&mut self.0.lock().ended)
    }
}
