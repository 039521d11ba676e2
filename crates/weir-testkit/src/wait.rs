//! Waiting for something to become true, with an end.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::socket::PATIENCE;

/// Waits until `holds` is true, asking every 5 ms.
///
/// # Panics
/// With `what` where it has not become true within the kit's patience.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A gate: those who pass wait until it is opened; it then stays open.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everybody through, now and later.
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    /// Waits until the gate is open, at most twice the kit's patience.
    pub fn pass(&self) {
        let guard = self.0.0.lock().unwrap();
        drop(self.0.1.wait_timeout_while(guard, 2 * PATIENCE, |open| !*open).unwrap());
    }
}
