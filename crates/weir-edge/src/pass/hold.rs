//! Holding a request's body before a connection to an origin is taken, so that a slow client occupies no
//! connection.

use std::sync::Arc;

use bytes::BytesMut;
use tokio::sync::mpsc;
use weir_front::{ContentError, HeldContent, Length, Part};
use weir_share::{Room, Taken};
use weir_upstream::{OutBody, OutPart};

use crate::exchange::Exchange;
use crate::upload::Upload;

/// Pieces of a request body that wait for the origin. The rest waits with the client.
const PARTS_MAX: usize = 4;

/// How a request's body is sent to the origin.
pub(crate) struct Held {
    pub(crate) upload: Upload,
    pub(crate) body: OutBody,
    /// Kept for as long as the origin reads the body.
    pub(crate) _place: Option<(HeldContent, Taken)>,
}

/// Waits for the whole of a small body. Of a larger one it waits for as much as may be held; the rest is
/// streamed.
///
/// # Errors
/// The body cannot be read further.
pub(crate) async fn hold(exchange: &mut Exchange<'_, '_>, room: &Arc<Room>) -> Result<Held, ContentError> {
    let asked = exchange.asked;
    if !asked.request.has_content() {
        return Ok(Held { upload: Upload::none(), body: OutBody::Empty, _place: None });
    }
    let length = match asked.request.content {
        Length::Known(length) => Some(length),
        Length::None | Length::Unknown => None,
    };
    let wanted = length.unwrap_or(u64::MAX).min(asked.peer().limits.body_hold_bytes as u64);
    // One connection, with many streams, holds no more than a few requests would.
    let share = asked.request.peer.hold(wanted as usize).filter(|_| wanted > 0);
    let place = share.and_then(|share| Some((share, room.take(asked.sharer(), wanted)?)));
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
        // Invariant: the channel is empty and has room for this.
        let _ = sender.try_send(OutPart::Data(held.freeze()));
    }
    Ok(Held { upload: Upload::into(sender), body: OutBody::Stream { parts, length }, _place: place })
}
