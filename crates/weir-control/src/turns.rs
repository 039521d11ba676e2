//! Turns of what blocks a thread: no client of the admin listener keeps the control socket waiting, no token
//! the others, and what may wait for a drive nothing that does not.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::answer::Refusal;
use crate::call::Door;

/// What a turn is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// What is in memory: it waits for no drive.
    Shown,
    /// What may wait for a drive.
    Done,
}

/// Operations of each kind that block a thread at a time, by the admin listener and by the control socket.
const LISTENER_MAX: [usize; 2] = [4, 6];
const SOCKET_MAX: [usize; 2] = [2, 4];
/// Those of one token and kind, or of all clients without one.
const ONE_MAX: usize = 2;
/// The threads.
pub(crate) const THREADS: usize = LISTENER_MAX[0] + LISTENER_MAX[1] + SOCKET_MAX[0] + SOCKET_MAX[1];
/// How long an operation waits for its turn.
const TURN_TIME_MAX: Duration = Duration::from_secs(10);

/// The turns of this process.
#[derive(Debug)]
pub(crate) struct Turns {
    listener: [Arc<Semaphore>; 2],
    socket: [Arc<Semaphore>; 2],
    of: Mutex<HashMap<(Kind, String), Arc<Semaphore>>>,
}

/// A turn, given back when dropped. The default is none: for what a turn was waited for before.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    _held: Vec<OwnedSemaphorePermit>,
}

impl Default for Turns {
    fn default() -> Turns {
        let of = |count| Arc::new(Semaphore::new(count));
        Turns { listener: LISTENER_MAX.map(of), socket: SOCKET_MAX.map(of), of: Mutex::default() }
    }
}

impl Turns {
    /// Waits for a turn of a client: by its identity, the empty one without a token.
    ///
    /// # Errors
    /// 503 where none has come for a while.
    ///
    /// # Cancel safety
    /// Who no longer waits has no turn.
    pub(crate) async fn take(&self, door: Door, kind: Kind, identity: &str) -> Result<Turn, Refusal> {
        let taking = async {
            let mut held = Vec::new();
            for semaphore in self.needed(door, kind, identity) {
                // Invariant: the semaphores are never closed.
                held.extend(semaphore.acquire_owned().await);
            }
            Turn { _held: held }
        };
        tokio::time::timeout(TURN_TIME_MAX, taking).await.map_err(|_| {
            let message = "too many operations are under way, or wait for a drive that does not answer";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message).help("try again")
        })
    }

    fn needed(&self, door: Door, kind: Kind, identity: &str) -> Vec<Arc<Semaphore>> {
        let place = kind as usize;
        if door == Door::Socket {
            return vec![self.socket[place].clone()];
        }
        let mut of = self.of.lock();
        of.retain(|_, own| Arc::strong_count(own) > 1 || own.available_permits() < ONE_MAX);
        let own = of.entry((kind, identity.to_owned())).or_insert_with(|| Arc::new(Semaphore::new(ONE_MAX)));
        vec![own.clone(), self.listener[place].clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn has_turn(turns: &Turns, door: Door, kind: Kind, identity: &str) -> Option<Turn> {
        turns.take(door, kind, identity).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn one_token_leaves_turns_to_others_and_all_of_them_to_the_socket() {
        let turns = Turns::default();
        let mut held: Vec<Turn> = Vec::new();
        for token in ["a", "b", "c"] {
            for _ in 0..ONE_MAX {
                held.push(has_turn(&turns, Door::Listener, Kind::Done, token).await.unwrap());
            }
            assert!(has_turn(&turns, Door::Listener, Kind::Done, token).await.is_none());
        }
        assert!(has_turn(&turns, Door::Listener, Kind::Done, "d").await.is_none());
        assert!(has_turn(&turns, Door::Socket, Kind::Done, "root").await.is_some());
        held.pop();
        assert!(has_turn(&turns, Door::Listener, Kind::Done, "d").await.is_some());
        held.clear();
        drop(has_turn(&turns, Door::Listener, Kind::Done, "a").await);
        assert_eq!(turns.of.lock().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_a_drive_leaves_turns_to_what_does_not() {
        let turns = Turns::default();
        let mut held: Vec<Turn> = Vec::new();
        for (door, count) in [(Door::Listener, LISTENER_MAX[1]), (Door::Socket, SOCKET_MAX[1])] {
            for number in 0..count {
                held.extend(has_turn(&turns, door, Kind::Done, &number.to_string()).await);
            }
            assert!(has_turn(&turns, door, Kind::Done, "next").await.is_none());
            assert!(has_turn(&turns, door, Kind::Shown, "0").await.is_some());
        }
        assert_eq!(held.len(), LISTENER_MAX[1] + SOCKET_MAX[1]);
    }
}
