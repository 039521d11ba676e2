//! Turns of what blocks a thread: no client of the admin listener keeps the control socket waiting, and no
//! token the others.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::call::Door;

/// Operations of the admin listener that block a thread at a time.
const LISTENER_MAX: usize = 6;
/// Those of one token, or of all clients without one.
const ONE_MAX: usize = 2;
/// The threads: some are left to the control socket.
pub(crate) const THREADS: usize = LISTENER_MAX + 4;

/// The turns of this process.
#[derive(Debug)]
pub(crate) struct Turns {
    listener: Arc<Semaphore>,
    of: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A turn, given back when dropped.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    _held: Option<[OwnedSemaphorePermit; 2]>,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { listener: Arc::new(Semaphore::new(LISTENER_MAX)), of: Mutex::default() }
    }
}

impl Turns {
    /// Waits for a turn of a client: by its identity, the empty one without a token.
    ///
    /// # Cancel safety
    /// Who no longer waits has no turn.
    pub(crate) async fn take(&self, door: Door, identity: &str) -> Turn {
        if door == Door::Socket {
            return Turn::default();
        }
        let own = {
            let mut of = self.of.lock();
            of.retain(|_, own| Arc::strong_count(own) > 1 || own.available_permits() < ONE_MAX);
            of.entry(identity.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(ONE_MAX))).clone()
        };
        // The semaphores are never closed.
        let Ok(first) = own.acquire_owned().await else { return Turn::default() };
        let Ok(second) = self.listener.clone().acquire_owned().await else { return Turn::default() };
        Turn { _held: Some([first, second]) }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn has_turn(turns: &Turns, door: Door, identity: &str) -> Option<Turn> {
        let mut taking = pin!(turns.take(door, identity));
        match taking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(turn) => Some(turn),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn one_token_leaves_turns_to_others_and_all_of_them_to_the_socket() {
        let turns = Turns::default();
        let mut held: Vec<Turn> = Vec::new();
        for token in ["a", "b", "c"] {
            held.extend((0..ONE_MAX).map(|_| has_turn(&turns, Door::Listener, token).unwrap()));
            assert!(has_turn(&turns, Door::Listener, token).is_none());
        }
        assert!(has_turn(&turns, Door::Listener, "d").is_none());
        assert!(has_turn(&turns, Door::Socket, "root").is_some());
        held.pop();
        assert!(has_turn(&turns, Door::Listener, "d").is_some());
        held.clear();
        drop(has_turn(&turns, Door::Listener, "a"));
        assert_eq!(turns.of.lock().len(), 1);
    }
}
