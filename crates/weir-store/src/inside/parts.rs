//! The bodies that arrive in parts and lie on a volume alone in the end. Memory holds of each what the volume
//! has yet to write, and some of what it has written.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::generation::Generation;

/// Those that are under way.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    all: Mutex<Vec<Weak<Generation>>>,
}

impl Parts {
    /// One more has begun.
    pub(crate) fn add(&self, generation: &Arc<Generation>) {
        let mut all = self.all.lock();
        if all.len().is_power_of_two() {
            all.retain(|part| part.upgrade().is_some_and(|part| is_under_way(&part)));
        }
        all.push(Arc::downgrade(generation));
    }

    /// As [`Store::forget_written`](crate::Store::forget_written).
    pub(crate) fn forget_written(&self) {
        let all: Vec<Arc<Generation>> = self.all.lock().iter().filter_map(Weak::upgrade).collect();
        for part in all.iter().filter(|part| is_under_way(part)) {
            if let Some(tier) = part.home() {
                tier.attach(part);
            }
            part.forget_on_disk();
        }
    }
}

fn is_under_way(part: &Generation) -> bool {
    part.home().is_some_and(|tier| tier.is_being_written(part))
}
