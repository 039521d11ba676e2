//! Whether checks begin when they are due. Pure.
//!
//! States: in time; behind, from the moment that one has waited for [`LATE`] until none waits at all.

use std::time::Duration;

/// The time after which one that is due counts as late.
const LATE: Duration = Duration::from_secs(1);

/// Jobs that are due and cannot begin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Late {
    /// How many.
    pub(crate) waiting: usize,
    /// For how long the first of them has waited.
    pub(crate) time: Duration,
}

/// Whether jobs begin in time.
#[derive(Debug, Default)]
pub(crate) struct Tempo {
    is_behind: bool,
}

/// A change that is worth a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TempoChange {
    /// So many wait, some for too long.
    Behind(usize),
    /// None waits any more.
    Kept,
}

impl Tempo {
    /// What those that wait now change.
    pub(crate) fn look(&mut self, late: Late) -> Option<TempoChange> {
        let is_behind = late.waiting > 0 && (self.is_behind || late.time >= LATE);
        match (std::mem::replace(&mut self.is_behind, is_behind), is_behind) {
            (false, true) => Some(TempoChange::Behind(late.waiting)),
            (true, false) => Some(TempoChange::Kept),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_that_fall_behind_are_told_once() {
        let mut tempo = Tempo::default();
        let looks = [(0, 0), (9, 999), (9, 1000), (300, 5000), (1, 1), (0, 0), (0, 0), (2, 1500)];
        let told: Vec<_> = looks
            .into_iter()
            .filter_map(|(waiting, ms)| tempo.look(Late { waiting, time: Duration::from_millis(ms) }))
            .collect();
        assert_eq!(told, [TempoChange::Behind(9), TempoChange::Kept, TempoChange::Behind(2)]);
    }
}
