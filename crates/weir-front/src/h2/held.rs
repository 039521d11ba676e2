//! What a connection holds in memory for its client: streams under way with their heads, answers that have
//! not left, content that nobody has read, frames that gather. Each connection has a little of it; what is
//! more is charged in pieces before it is held. It must not know who pays.

use std::any::Any;
use std::cell::{Cell, RefCell};

use crate::limits::CHARGE_BYTES;

/// What a connection holds without a charge: two streams with usual heads.
const FREE_BYTES: usize = 20 << 10;

/// Pieces that are charged, each given back when dropped.
type Charges = Vec<Box<dyn Any>>;

/// The memory of one connection.
#[derive(Debug)]
pub(super) struct Held {
    bytes: Cell<usize>,
    /// What it may hold: what is free, and what is charged.
    allowed: Cell<usize>,
    charges: RefCell<Charges>,
}

impl Default for Held {
    fn default() -> Held {
        Held { bytes: Cell::new(0), allowed: Cell::new(FREE_BYTES), charges: RefCell::default() }
    }
}

impl Held {
    /// Holds so much more. False where it would have to be charged and `charge` has no more; `beside` is held
    /// already, for a moment.
    pub(super) fn take(&self, bytes: usize, beside: usize, charge: Charge<'_>) -> bool {
        let all = self.bytes.get() + bytes;
        if all + beside > self.allowed.get() && !self.extend(all + beside, charge) {
            return false;
        }
        self.bytes.set(all);
        true
    }

    /// Holds so much more, whether that is charged or not: the one stream that each connection may have.
    pub(super) fn take_first(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Charges as many pieces as `all` needs.
    #[cold]
    fn extend(&self, all: usize, charge: Charge<'_>) -> bool {
        while all > self.allowed.get() {
            let Some(piece) = charge() else { return false };
            self.charges.borrow_mut().push(piece);
            self.allowed.set(self.allowed.get() + CHARGE_BYTES);
        }
        true
    }

    /// Holds so much less. What was charged stays so for what comes next.
    pub(super) fn give_back(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() - bytes);
    }

    /// Whether more is charged than is held.
    pub(super) fn has_spare(&self) -> bool {
        self.allowed.get() > FREE_BYTES && self.bytes.get() + CHARGE_BYTES <= self.allowed.get()
    }

    /// Gives back what is charged and not held.
    pub(super) fn give_up_spare(&self) {
        let needed = self.bytes.get().saturating_sub(FREE_BYTES).div_ceil(CHARGE_BYTES);
        let mut charges = self.charges.borrow_mut();
        charges.truncate(needed);
        self.allowed.set(FREE_BYTES + charges.len() * CHARGE_BYTES);
    }
}

/// Charges one piece.
pub(super) type Charge<'c> = &'c dyn Fn() -> Option<Box<dyn Any>>;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What is held beyond the free part and the first stream is charged at any time, and what is given
        /// back is not charged for long.
        #[test]
        fn what_is_held_is_charged(steps: Vec<(bool, u16)>, most in 0_usize..8) {
            let (held, taken) = (Held::default(), std::rc::Rc::new(()));
            let charge = || {
                let is_left = std::rc::Rc::strong_count(&taken) <= most;
                is_left.then(|| Box::new(taken.clone()) as Box<dyn Any>)
            };
            let mut all = Vec::new();
            for (takes, bytes) in steps {
                if takes {
                    if held.take(bytes.into(), 0, &charge) {
                        all.push(usize::from(bytes));
                    }
                } else if let Some(bytes) = all.pop() {
                    held.give_back(bytes);
                }
                let sum: usize = all.iter().sum();
                let charged = (std::rc::Rc::strong_count(&taken) - 1) * CHARGE_BYTES;
                prop_assert!(sum <= FREE_BYTES + charged && charged <= most * CHARGE_BYTES);
                if bytes % 5 == 0 {
                    held.give_up_spare();
                    let charged = (std::rc::Rc::strong_count(&taken) - 1) * CHARGE_BYTES;
                    prop_assert!(charged < sum.saturating_sub(FREE_BYTES) + CHARGE_BYTES);
                    prop_assert!(!held.has_spare());
                }
            }
        }
    }

    #[test]
    fn what_is_held_for_a_moment_is_counted_once() {
        let held = Held::default();
        assert!(held.take(FREE_BYTES / 2, FREE_BYTES / 2, &|| None));
        assert!(!held.take(FREE_BYTES / 2, 1, &|| None));
        assert!(held.take(FREE_BYTES / 2, 0, &|| None));
        held.take_first(100_000);
        assert!(!held.take(1, 0, &|| None) && held.take(1, 0, &|| Some(Box::new(()))));
    }
}
