//! The idle connections of a worker, the longest idle first. A list whose links lie in one array, so that a
//! connection comes and goes with each request without a search or an allocation.

use std::time::Instant;

/// A connection's position among the links, whether it is in the list or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(usize);

#[derive(Clone, Copy, Debug)]
struct Link {
    before: usize,
    after: usize,
    connection: u64,
    since: Option<Instant>,
}

/// The list. The first link belongs to no connection: it stands before the longest idle and behind the last.
#[derive(Debug)]
pub(crate) struct Idle {
    links: Vec<Link>,
    free: Vec<usize>,
}

impl Default for Idle {
    fn default() -> Idle {
        Idle { links: vec![Link { before: 0, after: 0, connection: 0, since: None }], free: Vec::new() }
    }
}

impl Idle {
    /// A slot for a connection, which is not idle yet.
    pub(crate) fn slot(&mut self, connection: u64) -> Slot {
        let at = self.free.pop().unwrap_or(self.links.len());
        let link = Link { before: at, after: at, connection, since: None };
        match self.links.get_mut(at) {
            Some(old) => *old = link,
            None => self.links.push(link),
        }
        Slot(at)
    }

    /// Adds a connection that has become idle.
    pub(crate) fn push(&mut self, slot: Slot, since: Instant) {
        self.remove(slot);
        self.links[slot.0].since = Some(since);
        let last = self.links[0].before;
        self.links[slot.0].before = last;
        self.links[slot.0].after = 0;
        self.links[last].after = slot.0;
        self.links[0].before = slot.0;
    }

    /// Removes a connection that is not idle any more.
    pub(crate) fn remove(&mut self, slot: Slot) {
        let Link { before, after, .. } = self.links[slot.0];
        self.links[before].after = after;
        self.links[after].before = before;
        self.links[slot.0].before = slot.0;
        self.links[slot.0].after = slot.0;
    }

    /// Frees the slot of a connection that has ended.
    pub(crate) fn leave(&mut self, slot: Slot) {
        self.remove(slot);
        self.free.push(slot.0);
    }

    /// Gives back the memory of a list whose slots are all free.
    pub(crate) fn shrink(&mut self) {
        if self.free.len() + 1 == self.links.len() {
            *self = Idle::default();
        }
    }

    /// The connection that has been idle for the longest, and since when.
    pub(crate) fn longest(&self) -> Option<(u64, Instant)> {
        let first = self.links[self.links[0].after];
        Some((first.connection, first.since?))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, VecDeque};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_connection_may_leave_the_queue(moves in proptest::collection::vec((0u64..8, 0u8..3), 0..200)) {
            let (mut idle, mut slots) = (Idle::default(), HashMap::new());
            let mut model: VecDeque<u64> = VecDeque::new();
            for (connection, what) in moves {
                let slot = *slots.entry(connection).or_insert_with(|| idle.slot(connection));
                model.retain(|other| *other != connection);
                match what {
                    0 => {
                        idle.push(slot, weir_clock::mono());
                        model.push_back(connection);
                    }
                    1 => idle.remove(slot),
                    _ => {
                        idle.leave(slot);
                        slots.remove(&connection);
                        idle.shrink();
                    }
                }
                prop_assert_eq!(idle.longest().map(|(longest, _)| longest), model.front().copied());
            }
            prop_assert!(idle.links.len() <= 9);
        }
    }
}
