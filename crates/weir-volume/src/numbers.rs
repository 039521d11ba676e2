//! The numbers by which a volume and the house know each other.

/// Up to which number a ledger is durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Durable {
    /// Which ledger; 0 for none.
    pub ledger: u128,
    /// The number.
    pub number: u64,
}

/// The numbers of a ledger that a volume bears.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bears {
    /// No stamp is larger, nor the number up to which it was swept, nor the next one.
    pub largest: u64,
    /// How far the ledger that it was used with was durable when it was last written to.
    pub reached: Durable,
}

/// How far a volume has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached {
    /// The last epoch that is durable; 0 where that is not known, since the index was made again.
    pub epoch: u64,
    /// Where the durable log ends.
    pub end: u64,
}

impl Reached {
    /// Whether it lacks something of what it had.
    pub fn is_behind(self, before: Reached) -> bool {
        if self.epoch > 0 { self.epoch < before.epoch } else { self.end < before.end }
    }
}

/// By which opening a volume is used: a number that nobody guesses, in the volume and in the register. Of two
/// copies that are used in turn each lacks the other's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Opening {
    /// What the volume said.
    pub found: u64,
    /// What it says from now on.
    pub own: u64,
}

impl Opening {
    /// Whether the volume says it, so that no register that was written before matches it.
    pub fn is_new(self) -> bool {
        self.own != self.found && self.own != 0
    }
}
