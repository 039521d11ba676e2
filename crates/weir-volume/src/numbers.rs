//! The numbers by which Weir knows a volume again, and a volume the ledger.

/// Up to which number a ledger is durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Durable {
    /// The ledger's identity; 0 for none.
    pub ledger: u128,
    /// The last number that is durable.
    pub number: u64,
}

/// The numbers of a ledger that are stored on a volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bears {
    /// A number that is not below any stamp on the volume, the number up to which it was swept, and
    /// `reached`.
    pub largest: u64,
    /// How far its ledger was durable when the volume was last written to.
    pub reached: Durable,
}

/// How far a volume's log has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached {
    /// The last durable epoch; 0 if it is not known, because the index was made again.
    pub epoch: u64,
    /// Where the durable log ends.
    pub end: u64,
}

impl Reached {
    /// Whether it lacks something that it had `before`.
    pub fn is_behind(self, before: Reached) -> bool {
        if self.epoch > 0 { self.epoch < before.epoch } else { self.end < before.end }
    }
}

/// The opening by which a volume is used: a random number in the volume and in the register. Of two copies
/// that are used in turn, each lacks the other's number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Opening {
    /// The number that the volume had.
    pub found: u64,
    /// The number that it has from now on.
    pub own: u64,
}

impl Opening {
    /// Whether the volume has the new number, so that an older register does not match it.
    pub fn is_new(self) -> bool {
        self.own != self.found && self.own != 0
    }
}
