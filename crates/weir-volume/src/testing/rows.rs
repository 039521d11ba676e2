//! Rows in memory that crash: the double on which everything above [`Rows`] is proven.
//!
//! It promises no more than the trait does. A crash keeps a prefix of what was applied, by chance, at least
//! as long as what the last sync answered for. Rows that are not wanted go as they would in a compaction: at
//! once, later or never, by chance, and what went so is gone after a crash as well.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::catalogue::{Change, Rows, RowsError, RowsUsage, Visit, Wanted};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
/// What an apply came to: keys, with values where they were put.
type Applied = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Rows in memory. Clones are the same rows.
#[derive(Clone)]
pub struct CrashRows(Arc<Mutex<State>>);

struct State {
    seen: Map,
    synced: Map,
    /// What was applied since the last sync.
    applied: Vec<Applied>,
    wanted: Option<Wanted>,
    random: u64,
    /// After so many more calls one fails.
    fails_in: Option<u64>,
    written_bytes: u64,
}

impl std::fmt::Debug for CrashRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CrashRows").field(&self.0.lock().seen.len()).finish()
    }
}

impl State {
    fn word(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    fn fail(&mut self, act: &'static str) -> Result<(), RowsError> {
        match &mut self.fails_in {
            Some(0) => {
                self.fails_in = None;
                Err(RowsError { act, why: "the double was told to fail".to_owned() })
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A compaction of some of the rows.
    fn tidy(&mut self) {
        let Some(wanted) = self.wanted.clone() else { return };
        let chance = self.word() % 4;
        let mut random = self.word();
        let mut is_kept = |key: &Vec<u8>, value: &mut Vec<u8>| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            chance == 0 || random >> 62 == 0 || wanted(key, value)
        };
        self.seen.retain(&mut is_kept);
        self.synced.retain(&mut is_kept);
    }
}

fn apply(map: &mut Map, applied: &Applied) {
    for (key, value) in applied {
        match value {
            Some(value) => drop(map.insert(key.clone(), value.clone())),
            None => drop(map.remove(key)),
        }
    }
}

impl CrashRows {
    /// No rows; `seed` is that of all chances.
    pub fn new(seed: u64) -> CrashRows {
        let (seen, synced) = (Map::new(), Map::new());
        CrashRows(Arc::new(Mutex::new(State {
            seen,
            synced,
            applied: Vec::new(),
            wanted: None,
            random: seed,
            fails_in: None,
            written_bytes: 0,
        })))
    }

    /// From now on rows that are not wanted may go, whenever something is applied.
    pub fn tidy_by(&self, wanted: Option<Wanted>) {
        self.0.lock().wanted = wanted;
    }

    /// The process ends and another opens the rows: a prefix of what was applied is left.
    pub fn crash(&self) {
        let mut state = self.0.lock();
        let count = state.word() as usize % (state.applied.len() + 1);
        let applied = std::mem::take(&mut state.applied);
        let mut left = std::mem::take(&mut state.synced);
        applied.iter().take(count).for_each(|applied| apply(&mut left, applied));
        // What was tidied away since is away.
        let seen = std::mem::take(&mut state.seen);
        if let Some(wanted) = state.wanted.take() {
            left.retain(|key, value| seen.contains_key(key) || wanted(key, value));
        }
        state.synced = left.clone();
        state.seen = left;
        state.fails_in = None;
    }

    /// The call after `count` more fails, once.
    pub fn fail_in(&self, count: u64) {
        self.0.lock().fails_in = Some(count);
    }

    /// All rows, in order.
    pub fn content(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.0.lock().seen.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

impl Rows for CrashRows {
    fn apply(&self, changes: &[Change<'_>]) -> Result<(), RowsError> {
        let mut state = self.0.lock();
        state.fail("write")?;
        let own = |change: &Change<'_>| match *change {
            Change::Put { key, value } => (key.to_vec(), Some(value.to_vec())),
            Change::Remove { key } => (key.to_vec(), None),
        };
        let applied: Applied = changes.iter().map(own).collect();
        let bytes = applied.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len));
        state.written_bytes += bytes.sum::<usize>() as u64;
        apply(&mut state.seen, &applied);
        state.applied.push(applied);
        state.tidy();
        Ok(())
    }

    fn scan(&self, from: &[u8], visit: &mut Visit<'_>) -> Result<(), RowsError> {
        let rows: Vec<(Vec<u8>, Vec<u8>)> = {
            let mut state = self.0.lock();
            state.fail("read")?;
            let rows = state.seen.range(from.to_vec()..);
            rows.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        for (key, value) in &rows {
            if visit(key, value) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), RowsError> {
        let mut state = self.0.lock();
        state.fail("sync")?;
        state.synced = state.seen.clone();
        state.applied.clear();
        Ok(())
    }

    fn usage(&self) -> RowsUsage {
        let state = self.0.lock();
        let bytes = state.seen.iter().map(|(key, value)| (key.len() + value.len()) as u64);
        RowsUsage { disk_bytes: bytes.sum(), memory_bytes: 0, written_bytes: state.written_bytes }
    }
}

#[cfg(test)]
mod tests;
