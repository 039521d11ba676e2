//! Retentions: until when what is held stays fresh.

use weir_policy::Now;

use super::Store;
use crate::ledger::{Acknowledge, Mark, Stamp, TooMany};

impl Store {
    /// Makes what the retentions concern fresh until their moment, longer or shorter than before, running
    /// transfers included. Returns the largest mark; it is in force then. The ledger's thread calls
    /// `acknowledge` once it is durable. Nothing is searched.
    ///
    /// # Errors
    /// [`TooMany`]: then no retention is in force.
    pub fn retain(&self, retentions: &[Mark], now: Now, acknowledge: Acknowledge) -> Result<Stamp, TooMany> {
        self.ledger().retain(retentions, now, acknowledge)
    }
}
