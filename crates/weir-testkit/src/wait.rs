//! Waits for a condition, for a bounded time.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::socket::PATIENCE;

/// Longer than Weir waits before it tries again what has failed several times in a row, a drive or an origin:
/// a minute. On a busy machine several failures in a row come of one that was meant.
const UNTIL_PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `holds` is true, asking every 5 ms.
///
/// # Panics
/// With `what` where it has not become true in two minutes.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < UNTIL_PATIENCE, "waited {UNTIL_PATIENCE:?} in vain for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A gate: [`Gate::pass`] waits until it is opened, and it stays open.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the gate, for good.
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    /// Waits until the gate is open, at most a while longer than a scenario waits for anything.
    pub fn pass(&self) {
        let guard = self.0.0.lock().unwrap();
        drop(self.0.1.wait_timeout_while(guard, UNTIL_PATIENCE + PATIENCE, |open| !*open).unwrap());
    }
}
