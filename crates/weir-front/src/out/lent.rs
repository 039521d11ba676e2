//! The client of a sink, for what goes up while the sink itself is waited for: both are asked in turns, and
//! what goes up keeps its place in between. It must not be asked from within the sink.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Context, Poll};

use http::{HeaderMap, StatusCode};
use weir_observe::SiteId;
use weir_sealed::Way;

use super::sink::Sink;
use crate::limits::ContentLimits;
use crate::message::{Client, ContentError, LocalFuture, Part};

/// A sink's client, borrowed for the length of a call.
pub(super) struct Lent<'w, 's, K>(pub(super) &'w RefCell<&'s mut K>);

impl<K: Sink> Client for Lent<'_, '_, K> {
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.borrow_mut().client().poll_gone(cx)
    }

    fn content(&mut self) -> LocalFuture<'_, Result<Part, ContentError>> {
        // A client keeps nothing of what it is asked in the future that answers: see `Client::content`.
        Box::pin(poll_fn(|cx| self.0.borrow_mut().client().content().as_mut().poll(cx)))
    }

    fn bound_content(&mut self, limits: ContentLimits) {
        self.0.borrow_mut().client().bound_content(limits);
    }

    fn interim(&mut self, status: StatusCode, headers: &HeaderMap) -> Result<(), ContentError> {
        self.0.borrow_mut().client().interim(status, headers)
    }

    fn has_ended(&self) -> bool {
        self.0.borrow_mut().client().has_ended()
    }

    fn moved(&mut self) {
        self.0.borrow_mut().client().moved();
    }

    fn way(&self) -> Way {
        self.0.borrow_mut().client().way()
    }

    fn count_for(&mut self, site: SiteId) {
        self.0.borrow_mut().client().count_for(site);
    }
}
