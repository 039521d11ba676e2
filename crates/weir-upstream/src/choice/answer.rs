//! Which origin a request would be sent to, for somebody else who sends it: what a distributor answers. It
//! must neither wait nor connect.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::choice::decided::Decided;
use crate::choice::decider::Denial;
use crate::error::OriginError;
use crate::request::OriginRequest;
use crate::upstream::Upstream;

impl Upstream {
    /// The address of the origin that such a request goes to; it counts as sent there. `None` where none
    /// takes a share, or the one that does has no address that another machine could use. What a decider has
    /// to wait for decides nothing.
    ///
    /// # Errors
    /// A decider refuses the request.
    pub fn answer(&self, request: &OriginRequest) -> Result<Option<SocketAddr>, Denial> {
        let roster = self.roster();
        let decided = match pin!(self.decided(&roster, request)).poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(Ok(decided)) => decided,
            Poll::Ready(Err(OriginError::Denied(denial))) => return Err(denial),
            Poll::Ready(Err(_)) | Poll::Pending => Decided::default(),
        };
        let roster = decided.guest.unwrap_or(roster);
        let so_far = (&[][..], decided.among.as_deref());
        let picked = self.choose(&roster, request, so_far, decided.picked);
        Ok(picked.and_then(|picked| roster.origin(picked.at).server.addresses()?.first_known()))
    }
}
