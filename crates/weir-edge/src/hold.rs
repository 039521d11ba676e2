//! Request bodies that are held before a connection to an origin is taken, so that a client that sends slowly holds none. All that
//! are held at a time have a room of a bounded size; where it is full a body streams at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::BytesMut;
use tokio::sync::mpsc;
use weir_upstream::{OutBody, OutPart};

use weir_front::{ContentError, Length, Part};

use crate::exchange::Exchange;
use crate::upload::Upload;

/// Parts of a request body under way to an origin: the rest waits in the client's socket.
const PARTS_MAX: usize = 4;

/// Bytes that held bodies may take, of all clients together.
#[derive(Debug)]
pub(crate) struct HoldRoom {
    used: AtomicU64,
    bytes_max: u64,
}

/// A part of the room, given back when dropped.
#[derive(Debug)]
pub(crate) struct HoldPlace {
    room: Arc<HoldRoom>,
    bytes: u64,
}

impl HoldRoom {
    pub(crate) fn new(bytes_max: u64) -> Arc<HoldRoom> {
        Arc::new(HoldRoom { used: AtomicU64::new(0), bytes_max })
    }

    fn take(self: &Arc<Self>, bytes: u64) -> Option<HoldPlace> {
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

/// What a request's body is for the origin.
pub(crate) struct Held {
    pub(crate) upload: Upload,
    pub(crate) body: OutBody,
    /// For as long as the origin takes it.
    pub(crate) _place: Option<HoldPlace>,
}

/// Waits for the whole of a small body; of a larger one for what may be held, and the rest comes as it comes.
///
/// # Errors
/// The body cannot be read on.
pub(crate) async fn hold(
    exchange: &mut Exchange<'_, '_>,
    room: &Arc<HoldRoom>,
) -> Result<Held, ContentError> {
    if !exchange.request.has_content() {
        return Ok(Held { upload: Upload::none(), body: OutBody::Empty, _place: None });
    }
    let length = match exchange.request.content {
        Length::Known(length) => Some(length),
        Length::None | Length::Unknown => None,
    };
    let wanted = length.unwrap_or(u64::MAX).min(exchange.peer().limits.body_hold_bytes as u64);
    let place = room.take(wanted).filter(|_| wanted > 0);
    let hold_bytes = if place.is_some() { wanted as usize } else { 0 };
    let is_small = place.is_some() && length == Some(wanted);
    let mut held = BytesMut::new();
    while is_small || held.len() < hold_bytes {
        match exchange.client.content().await? {
            Part::Data(bytes) => held.extend_from_slice(&bytes),
            Part::End => {
                let body = OutBody::Whole(held.freeze());
                return Ok(Held { upload: Upload::none(), body, _place: place });
            }
        }
    }
    let (sender, parts) = mpsc::channel(PARTS_MAX);
    if !held.is_empty() {
        // Invariant: the channel is empty, and has room for this.
        let _ = sender.try_send(OutPart::Data(held.freeze()));
    }
    Ok(Held { upload: Upload::into(sender), body: OutBody::Stream { parts, length }, _place: place })
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
