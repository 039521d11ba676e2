//! Requests that wait until it is known which origins there are. It must not wait without an end.
//!
//! After a start a name whose every address is an origin is one origin until DNS has answered. Requests whose
//! sessions would lose their origins by that wait for the answer, or for a failure.
//!
//! The origins of an upstream that a reload adds take no share before their first checks. Requests wait for
//! the first success, or until one of each was made.

use std::pin::pin;
use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use crate::choice::pick::Whose;
use crate::choice::roster::{Awaits, Roster};
use crate::health::standing::Naming;
use crate::request::OriginRequest;
use crate::sessions::affinity::Session;
use crate::upstream::Upstream;

impl Upstream {
    /// The origins as they stand now. The request waits for what must be known first, no longer than for a
    /// connection.
    ///
    /// # Cancel safety
    /// Dropped, it has changed nothing.
    pub(crate) async fn known_roster(&self, request: &OriginRequest) -> Arc<Roster> {
        let roster = self.roster();
        if !self.is_to_wait(&roster, request) {
            return roster;
        }
        let deadline = Instant::now() + self.timeouts.queue;
        loop {
            let mut woken = pin!(self.signal.woken());
            // A change from here on is seen.
            woken.as_mut().enable();
            let roster = self.roster();
            if !self.is_to_wait(&roster, request) || timeout_at(deadline, woken).await.is_err() {
                return roster;
            }
        }
    }

    /// Whether it is better to wait.
    fn is_to_wait(&self, roster: &Roster, request: &OriginRequest) -> bool {
        match roster.awaits {
            Awaits::Nothing => false,
            Awaits::Checks => true,
            Awaits::Addresses => self.may_be_elsewhere(roster, request),
        }
    }

    /// Whether an address that is not known yet may be that of the request's session.
    fn may_be_elsewhere(&self, roster: &Roster, request: &OriginRequest) -> bool {
        let is_session = self.affinity.is_some() && request.picking.whose == Whose::Client;
        if !is_session {
            return false;
        }
        let is_sought = |at: usize| roster.origin(at).naming() == Naming::Sought;
        match &request.session {
            Some(Session::At(id)) => roster.homes().at(*id).is_none(),
            Some(Session::Hashed(_)) => true,
            None => !(0..roster.members.len()).any(|at| roster.takes_sessions[at] && !is_sought(at)),
        }
    }
}
