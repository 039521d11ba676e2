//! One request on a slot, whatever version of HTTP its connection speaks. A version is a kind of `Carrier`
//! and of [`crate::Incoming`], and a folder beside `h1`.

use std::sync::Arc;
use std::time::Duration;

use crate::error::ExchangeError;
use crate::exchange::{Failed, Terms};
use crate::h1::answered::answered;
use crate::incoming::Response;
use crate::message::OutBody;
use crate::pool::carrier::Carrier;
use crate::pool::slot::{Grant, Lease, Slot};
use crate::server::Server;
use crate::tally::{Link, Tally, Trace};

impl Grant {
    /// The slot that was granted: of an idle connection, or of one that is made within `limit`.
    ///
    /// # Errors
    /// There is no connection.
    ///
    /// # Cancel safety
    /// Dropped, it closes what was under way, and passes its permit on.
    pub async fn slot(
        self,
        server: &Server,
        limit: Duration,
        trace: &mut Option<Box<dyn Trace>>,
    ) -> Result<Slot, ExchangeError> {
        match self {
            Grant::Idle(slot) => {
                server.pool().count_reuse();
                if let Some(trace) = trace {
                    trace.connected(slot.carrier.peer(), Link::Reused);
                }
                Ok(slot)
            }
            Grant::Fresh(permit) => {
                let carrier = server.carrier(limit, trace).await?;
                Ok(server.pool().slot(carrier, permit))
            }
        }
    }
}

impl Slot {
    /// Sends a request and waits for the head of the response; with the time that it took from the last byte
    /// sent. 1xx responses go where the terms say. The request is charged to the tally, and the trace follows
    /// it. After a 101 the response is a tunnel, which takes a place among the streams.
    ///
    /// # Errors
    /// What failed, with what of the body is left for another attempt.
    ///
    /// # Cancel safety
    /// Dropped, it closes its connection. The origin may have acted on the request.
    pub async fn exchange(
        self,
        body: OutBody,
        terms: &Terms<'_>,
        told: (Option<Arc<dyn Tally>>, Option<Box<dyn Trace>>),
    ) -> Result<(Response, Duration), Failed> {
        let Slot { carrier, own, permit } = self;
        match carrier {
            Carrier::H1(connection) => answered(Lease { connection, own, permit }, body, terms, told).await,
            #[cfg(test)]
            Carrier::Scripted(place) => Ok((place.response(permit, &terms.request), Duration::ZERO)),
        }
    }
}
