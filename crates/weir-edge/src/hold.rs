//! Buffers for request bodies. A body is held here before a connection to an origin is taken, so that a slow
//! client occupies no connection. The bytes of all held bodies are bounded; where the room is full, a body
//! streams at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes of all held bodies together.
#[derive(Debug)]
pub(crate) struct HoldRoom {
    used: AtomicU64,
    bytes_max: u64,
}

/// A reserved share of the room, given back when dropped.
#[derive(Debug)]
pub(crate) struct HoldPlace {
    room: Arc<HoldRoom>,
    bytes: u64,
}

impl HoldRoom {
    pub(crate) fn new(bytes_max: u64) -> Arc<HoldRoom> {
        Arc::new(HoldRoom { used: AtomicU64::new(0), bytes_max })
    }

    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> Option<HoldPlace> {
        let room = |used: u64| Some(used + bytes).filter(|used| *used <= self.bytes_max);
        self.used.try_update(Ordering::AcqRel, Ordering::Acquire, room).ok()?;
        Some(HoldPlace { room: Arc::clone(self), bytes })
    }
}

impl Drop for HoldPlace {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_has_a_ceiling() {
        let room = HoldRoom::new(100);
        let places: Vec<_> = (0..3).map(|_| room.take(40)).collect();
        assert_eq!(places.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
        assert!(room.take(20).is_some() && room.take(21).is_none());
        drop(places);
        assert!(room.take(100).is_some() && room.take(u64::MAX / 2).is_none());
    }
}
