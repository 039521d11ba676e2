//! What is decided about a request, noted as it happens: for readers of the log that want all of it, and for
//! a client that may see it (`debug`). A request that neither wants notes nothing. It must not decide
//! anything.

use std::sync::Arc;

use http::HeaderMap;

use weir_fill::FillHead;
use weir_observe::trace::{Company, Found, HeadWord, KEY_BYTES_MAX, Moment, Others, Step, Trace, Verdict};
use weir_observe::{Outcome, SiteId, Storing, text};
use weir_store::Generation;

use crate::debug::Shown;
use crate::decide::Decision;
use crate::exchange::{Asked, Note, Told};
use crate::lookup::{self, Held};
use crate::notes::{extent, place};
use crate::response::Response;
use crate::shown;
use crate::transform::request::lost;

/// The most bytes of names of fields that a trace has, in bytes.
const LOST_BYTES_MAX: usize = 1024;

impl Told<'_> {
    /// Notes a step, where that is wanted.
    #[inline]
    pub(crate) fn step(&mut self, step: impl FnOnce() -> Step) {
        if let Some(notes) = &mut self.notes {
            notes.put(step());
        }
    }

    /// Notes nothing more where nobody may see what is decided about requests of this site.
    #[inline]
    pub(crate) fn note_for(&mut self, asked: &Asked<'_>, site: SiteId) {
        let is_for_readers = self.notes.as_ref().is_some_and(|notes| notes.shown == Shown::No);
        if is_for_readers && !asked.core.observer.wants_traces_of(site) {
            self.notes = None;
        }
    }

    /// Notes what a look-up found.
    #[inline]
    pub(crate) fn looked_up(&mut self, asked: &Asked<'_>, held: &Held) {
        if self.notes.is_some() {
            self.note_held(asked, held);
        }
    }

    #[cold]
    fn note_held(&mut self, asked: &Asked<'_>, held: &Held) {
        let Some(notes) = &mut self.notes else { return };
        notes.is_keyed = true;
        notes.put(match &held.generation {
            Some(generation) => Step::Found(found(generation, asked.now)),
            None if held.has_siblings => Step::NotFound(Others::Variants),
            None => Step::NotFound(Others::None),
        });
    }

    /// Notes what is done about the request.
    #[inline]
    pub(crate) fn decided(&mut self, decision: &Decision) {
        self.step(|| {
            let (verdict, why) = match decision {
                Decision::Serve(reuse) => (Verdict::Serve, reuse.cache_status.detail()),
                Decision::Complete(reuse, _) => (Verdict::Complete, reuse.cache_status.detail()),
                Decision::Revalidate(revalidation) => (Verdict::Revalidate, revalidation.why.word()),
                Decision::Fetch(reason) => (Verdict::Fetch, reason.word()),
                Decision::GatewayTimeout => (Verdict::GatewayTimeout, "only-if-cached"),
            };
            Step::Decided(verdict, why)
        });
    }

    /// Notes that the request leads a fill, which others may join or not.
    pub(crate) fn leads(&mut self, company: Company) {
        self.step(|| Step::Led(company));
    }

    /// Notes which fields of the client's its request to the origin does not have.
    #[inline]
    pub(crate) fn sends(&mut self, asked: &Asked<'_>, fields: &HeaderMap) {
        if self.notes.is_some() {
            self.note_lost(asked, fields);
        }
    }

    #[cold]
    fn note_lost(&mut self, asked: &Asked<'_>, fields: &HeaderMap) {
        let mut lost = lost(&asked.request.headers, fields).join(", ");
        if !lost.is_empty() {
            lost.truncate(lost.floor_char_boundary(LOST_BYTES_MAX));
            self.step(|| Step::Lost(lost.into()));
        }
    }

    /// Notes what the head of a fill means.
    pub(crate) fn answered_by(&mut self, head: &FillHead) {
        self.step(|| {
            Step::Answered(match head {
                FillHead::New(_) => HeadWord::New,
                FillHead::Unchanged(_) => HeadWord::Unchanged,
                FillHead::Part(_) => HeadWord::Part,
                FillHead::Declined(..) => HeadWord::Declined,
                FillHead::Shared(_) => HeadWord::Shared,
                FillHead::Failed(_) => HeadWord::Failed,
                FillHead::Withdrawn => HeadWord::Withdrawn,
            })
        });
    }

    /// Notes the stored response that the request is answered from.
    #[inline]
    pub(crate) fn answered_from(&mut self, generation: &Arc<Generation>) {
        if let Some(notes) = &mut self.notes {
            notes.generation = Some(generation.clone());
        }
    }
}

impl Note<'_> {
    /// Notes what becomes of the response, and writes the fields that show it.
    #[inline]
    pub(crate) fn ready(&mut self, response: &mut Response) {
        if self.told.notes.is_some() {
            self.note_ready(response);
        }
    }

    #[cold]
    fn note_ready(&mut self, response: &mut Response) {
        let storing = self.told.facts.storing;
        let status = response.head.status();
        let Some(notes) = &mut self.told.notes else { return };
        match storing {
            Storing::NotAsked => {}
            Storing::NotStored(word) => notes.put(Step::NotStored(word)),
            Storing::Stored { ttl_s, source } => {
                let volume = notes.generation.as_ref().and_then(|generation| generation.volume());
                notes.put(Step::Stored { ttl_s, source, volume });
            }
        }
        if let Some(status) = status {
            notes.put(Step::Ready(status.as_u16()));
        }
        if notes.shown == Shown::InFields {
            let fields = shown::fields(self);
            response.late.show(fields);
        }
    }

    /// All that is known of the request, as texts.
    #[cold]
    pub(crate) fn trace(&self) -> Box<Trace> {
        let Note { asked, told, .. } = self;
        let notes = told.notes.as_deref();
        let mut steps = told.tries(asked);
        for (at, step) in notes.into_iter().flat_map(|notes| &notes.steps) {
            let at_us = i64::try_from(at.saturating_duration_since(asked.now.mono).as_micros());
            steps.push(Moment { at_us: at_us.unwrap_or(i64::MAX), step: step.clone() });
        }
        steps.sort_by_key(|moment| moment.at_us);
        let is_keyed = notes.map_or_else(|| self.has_asked_cache(), |notes| notes.is_keyed);
        Box::new(Trace {
            key: is_keyed.then(|| self.key_text()).flatten().unwrap_or_default(),
            steps,
            is_noted: notes.is_some(),
            left_out: notes.map_or(0, |notes| notes.left_out),
        })
    }

    /// The beginning of the request's key, where its route has one.
    pub(crate) fn key_text(&self) -> Option<String> {
        let key = lookup::key(&self.asked, self.chosen.as_ref()?);
        Some(text(&key.full[..key.full.len().min(KEY_BYTES_MAX)]))
    }

    /// Whether the outcome of the request says that the cache was asked.
    fn has_asked_cache(&self) -> bool {
        let outcome = self.told.facts.outcome;
        let is_of_cache = outcome.is_from_cache() || outcome == Outcome::Miss;
        is_of_cache && self.told.route.is_some_and(|route| route.upstream.is_some())
    }
}

fn found(generation: &Generation, now: weir_policy::Now) -> Found {
    let head = generation.head();
    let freshness = weir_policy::freshness(&head.stored, now);
    Found {
        status: head.stored.status.as_u16(),
        age_s: freshness.age_s(),
        ttl_left_s: freshness.left_s(),
        source: head.stored.facts.lifetime_from(),
        extent: extent(generation),
        place: place(generation),
    }
}
