//! Until when requests may store under the names of their configuration: one that has ended marks what lies
//! under its names, also what its last requests fetch after that. It must not know what the names are.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_store::{Asking, Ledger, Stamp};

/// How long a configuration is in force.
#[derive(Debug, Default)]
pub struct Tenure(AtomicU64);

impl Tenure {
    /// In force.
    pub const fn new() -> Tenure {
        Tenure(AtomicU64::new(0))
    }

    /// Ends it, before the marks are made.
    pub fn end(&self, at: Stamp) {
        self.0.store(at.number(), Ordering::SeqCst);
    }

    /// The number of a request to an origin: the current one, or that of the end.
    pub fn ask(&self, ledger: &Ledger) -> Asking {
        let asking = ledger.ask();
        // In this order: a number that is not older than the marks was taken after the end.
        match self.0.load(Ordering::SeqCst) {
            0 => asking,
            end => ledger.hold(Stamp::of(end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_store::{Mark, Scope};

    use super::*;

    #[test]
    fn what_is_asked_for_after_the_end_is_older_than_the_marks() {
        let (tenure, ledger) = (Tenure::new(), Ledger::default());
        let mark = || ledger.mark(&[Mark::hard(Scope::All)], weir_clock::now());
        assert_eq!(tenure.ask(&ledger).stamp(), ledger.current());
        tenure.end(ledger.current());
        let end = ledger.current();
        assert!(mark() > end && mark() > end);
        assert_eq!(tenure.ask(&ledger).stamp(), end);
    }
}
