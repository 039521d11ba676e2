//! Waits for a condition, for a bounded time.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::socket::PATIENCE;

/// Waits until `holds` is true, asking every 5 ms.
///
/// # Panics
/// Names `what` if it is not true within the kit's patience.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain for: {what}");
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

    /// Waits until the gate is open, at most for twice the kit's patience.
    pub fn pass(&self) {
        let guard = self.0.0.lock().unwrap();
        drop(self.0.1.wait_timeout_while(guard, 2 * PATIENCE, |open| !*open).unwrap());
    }
}
