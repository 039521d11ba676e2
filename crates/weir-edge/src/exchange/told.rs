//! What is told of a request: what its log, its traces and its counters say once it has ended.

use std::cell::OnceCell;
use std::sync::Arc;

use weir_fill::asks::Cause;
use weir_fill::{Fill, OriginAnswer};
use weir_front::listen::Counted;
use weir_observe::trace::Moment;
use weir_observe::{AskedId, Facts, Outcome};
use weir_store::Stamp;
use weir_upstream::Picked;

use super::asked::Asked;
use crate::core::Core;
use crate::debug::Shown;
use crate::gates::Gate;
use crate::notes::Notes;
use crate::plan::{Route, Site};

/// What is told of a request.
pub(crate) struct Told<'c> {
    pub(crate) site: Option<&'c Arc<Site>>,
    pub(crate) route: Option<&'c Arc<Route>>,
    /// Where its walk ended.
    pub(crate) gate: Gate,
    pub(crate) facts: Facts,
    /// The origin that was asked.
    pub(crate) origin: Option<Arc<str>>,
    /// Why it was picked, where the request was passed.
    pub(crate) picked: Option<Picked>,
    /// How it answered.
    pub(crate) answered: Option<OriginAnswer>,
    /// The ledger's number when the request was passed on to the origin.
    pub(crate) passed: Option<Stamp>,
    /// What is decided, where that is wanted.
    pub(crate) notes: Option<Box<Notes>>,
    /// The response's age when it went out, in seconds.
    pub(super) age_s: Option<u64>,
    /// The slot of the client that a trusted proxy names; it counts while this lives.
    pub(super) counted: Option<Counted>,
    /// What the log of requests to origins says of this request.
    cause: OnceCell<Arc<Cause>>,
}

impl Told<'_> {
    pub(super) fn new(core: &Core, shown: Shown) -> Self {
        Told {
            site: None,
            route: None,
            gate: Gate::Itself,
            facts: Facts::default(),
            origin: None,
            picked: None,
            answered: None,
            passed: None,
            notes: Notes::begin(core, shown),
            age_s: None,
            counted: None,
            cause: OnceCell::new(),
        }
    }

    /// The site's name; empty where the request is for none.
    pub(crate) fn site_name(&self) -> &str {
        self.site.map_or("", |site| &*site.name)
    }

    /// The first words of a log line about the request.
    pub(crate) fn outcome(&mut self, outcome: Outcome, detail: &'static str) {
        self.facts.outcome = outcome;
        self.facts.detail = detail;
    }

    /// Notes which origin a fill asked, and how that answered.
    pub(crate) fn brought_by(&mut self, fill: &Fill) {
        self.origin = fill.origin().cloned();
        self.answered = fill.answered();
    }

    /// This request, as the cause of requests to origins, where these are noted.
    pub(crate) fn cause(&self, asked: &Asked<'_>) -> Option<&Arc<Cause>> {
        let observer = &asked.core.observer;
        (observer.wants_asked() || self.notes.is_some()).then(|| {
            self.cause.get_or_init(|| {
                let site = self.site.map_or_else(|| Arc::from(""), |site| site.name.clone());
                Cause::new(observer, asked.request_id(), asked.request.host.as_str(), site)
            })
        })
    }

    /// The requests to origins that the response came by, where they have a log.
    pub(super) fn asked_ids(&self, core: &Core) -> Vec<AskedId> {
        let cause = self.cause.get().filter(|_| core.observer.wants_asked());
        cause.map_or_else(Vec::new, |cause| cause.asked())
    }

    /// The attempts at origins that are noted.
    pub(crate) fn tries(&self, asked: &Asked<'_>) -> Vec<Moment> {
        self.cause.get().map_or_else(Vec::new, |cause| cause.tries(asked.now.mono))
    }
}
