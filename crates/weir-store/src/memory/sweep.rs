//! Passes through memory, so that the ledger can drop marks that concern nothing there.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Memory, Sweep};
use crate::generation::{Generation, Retirement};
use crate::ledger::{Judged, Stamp};

/// How many generations one step looks at.
pub(super) const SWEEP_STEP: usize = 256;

/// What a step has found.
type SweptUp = SmallVec<[Arc<Generation>; 8]>;

impl Memory {
    /// Looks at some more generations. The dead are retired, soft marks and retentions are
    /// written into the heads that they concern, all others are stamped again. So at the end of a pass the
    /// older marks can be dropped. True while the pass is under way.
    pub(crate) fn sweep(&self) -> bool {
        let (mut dead, mut changed) = (SweptUp::new(), SweptUp::new());
        let mut change = self.change();
        if change.state.sweep.is_none() && self.ledger.newest() <= change.state.swept {
            return false;
        }
        let current = self.ledger.current();
        let sweep = *change.state.sweep.get_or_insert(Sweep { cursor: 0, until: current });
        let look = |generation: &Arc<Generation>| match self.judge(&generation.label) {
            Judged::Dead => dead.push(Arc::clone(generation)),
            Judged::Changed(_) => changed.push(Arc::clone(generation)),
            Judged::Alive => generation.label.raise_stamp(sweep.until),
        };
        let next = change.state.queues.visit(sweep.cursor, SWEEP_STEP, look);
        dead.iter().for_each(|generation| change.withdraw(generation, Retirement::Invalidated));
        if let Some(cursor) = next {
            change.state.sweep = Some(Sweep { cursor, ..sweep });
        }
        drop(change);
        for generation in &changed {
            self.absorb(generation);
        }
        if next.is_none() {
            self.end_sweep(sweep.until);
        }
        next.is_some()
    }

    /// Looks at all generations at rest. Those that live have the current stamp at least afterwards.
    pub(crate) fn sweep_all(&self) {
        // Begun here: without a mark no pass begins by itself, and the ledger makes dead all that is older.
        self.state.lock().sweep = Some(Sweep { cursor: 0, until: self.ledger.current() });
        while self.sweep() {}
    }

    fn end_sweep(&self, until: Stamp) {
        let mut state = self.state.lock();
        state.sweep = None;
        state.swept = state.swept.max(until);
        if self.lower.drops_marks() || !self.ledger.is_filling_up() {
            return;
        }
        let settled = self.ledger.settled(until);
        if settled > state.dropped {
            state.dropped = settled;
            self.lower.drop_marks(settled, &self.ledger);
        }
        // Dropping marks that concern a running transfer makes it dead: only under need.
        if self.ledger.is_crowded() {
            state.dropped = until;
            self.lower.drop_marks(until, &self.ledger);
        }
    }
}
