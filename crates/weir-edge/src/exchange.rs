//! One request and its response, in three values that the rooms of the walk hand on: what is asked
//! ([`Asked`]), what was chosen for it ([`Chosen`]), and what is told of it ([`Told`]). It must not decide
//! anything.

mod asked;
mod chosen;
mod circumstances;
mod finish;
mod told;

use std::sync::Arc;

use weir_front::listen::TooMany;
use weir_front::{Client, Request, Trust};
use weir_observe::{Completion, Outcome};

pub(crate) use self::asked::Asked;
pub(crate) use self::chosen::Chosen;
pub(crate) use self::told::Told;
use crate::core::{Core, HeldPlan};
use crate::debug::Shown;
use crate::plan::Route;
use crate::response::{self, Response};
use crate::values::{OfResponse, Rendered};
use crate::warming::Warming;

/// Why a request ended whose client had half-closed its connection, or left. The two cannot be told apart.
const HALF_CLOSE: &str = "half-close";

/// A request from its start until its response has been sent. It is never moved, so a hit copies none of it.
pub(crate) struct Note<'c> {
    pub(crate) asked: Asked<'c>,
    /// None where no route was found whose answer is elsewhere.
    pub(crate) chosen: Option<Chosen<'c>>,
    pub(crate) told: Told<'c>,
}

/// A request on its way to a response: its three values, and its client.
pub(crate) struct Exchange<'c, 'k> {
    pub(crate) asked: &'k Asked<'c>,
    pub(crate) chosen: &'k Chosen<'c>,
    pub(crate) told: &'k mut Told<'c>,
    pub(crate) client: &'k mut dyn Client,
}

impl<'c> Note<'c> {
    /// Begins an exchange. The request no longer has hop-by-hop fields.
    pub(crate) fn begin(
        core: &'c Core,
        running: &'c HeldPlan,
        request: &'c Request,
        shown: Shown,
    ) -> Note<'c> {
        core.observer.counters().request_begun();
        Note { asked: Asked::new(core, running, request, None), chosen: None, told: Told::new(core, shown) }
    }

    /// Begins an exchange without a client. It is counted nowhere, and not to be finished.
    pub(crate) fn warming(
        core: &'c Core,
        running: &'c HeldPlan,
        (request, shown): (&'c Request, Shown),
        warming: &'c Warming,
    ) -> Note<'c> {
        let asked = Asked::new(core, running, request, Some(warming));
        Note { asked, chosen: None, told: Told::new(core, shown) }
    }

    /// Renders what the route sets in responses to values with placeholders.
    #[inline]
    pub(crate) fn render(&mut self, response: &mut Response) {
        self.ready(response);
        self.told.age_s = response.late.age_s();
        let Some(route) = self.told.route else { return };
        if !route.response_values().is_empty() {
            self.render_of(route, response);
        }
        if route.hides_cache_status() {
            response.late.hide_cache_status();
        }
    }

    fn render_of(&self, route: &Arc<Route>, response: &mut Response) {
        let Some(status) = response.head.status().filter(|_| response.late.is_presented()) else { return };
        let Note { asked, told, .. } = self;
        let known = OfResponse {
            request: asked.known(told.site_name(), route),
            status,
            facts: &told.facts,
            age_s: response.late.age_s(),
            origin: told.origin.as_deref(),
            answered: told.answered,
        };
        response.late.set(Rendered::of(route.response_values(), &known));
    }
}

impl Exchange<'_, '_> {
    /// Counts a request that waits for an origin, for the client that a trusted proxy names. Other clients
    /// are counted by their connections.
    ///
    /// # Errors
    /// That client has as many requests under way as it may.
    pub(crate) fn count(&mut self) -> Result<(), TooMany> {
        let peer = self.asked.peer();
        if peer.trust == Trust::Untrusted || self.told.counted.is_some() {
            return Ok(());
        }
        let Some(sharer) = self.asked.sharer() else { return Ok(()) };
        let counted = self.asked.core.shared.clients.count(sharer, peer.limits.per_client_max);
        self.told.counted = Some(counted.ok_or(TooMany)?);
        Ok(())
    }

    /// The client left before there was a response, or stayed half-closed for as long as it may (RFC 9112
    /// §9.6).
    pub(crate) fn left(&mut self) -> Response {
        let facts = &mut self.told.facts;
        facts.completion = Completion::ClientGone;
        facts.detail = if self.client.has_ended() { HALF_CLOSE } else { "client-gone" };
        if facts.outcome == Outcome::Refused {
            facts.outcome = Outcome::Miss;
        }
        response::none()
    }
}
