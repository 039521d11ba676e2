//! Serving a generation, held or being filled: each way to it proves that this request may have it. What of
//! it goes out is decided where that is for all representations.

use std::sync::Arc;

use weir_clock as clock;
use weir_fill::ReaderGuard;
use weir_fill::refetch::Refetch;
use weir_policy::{Freshness, Reusable};
use weir_store::Generation;

use crate::exchange::Exchange;
use crate::job::Job;
use crate::late::Late;
use crate::lookup;
use crate::represent::generation::{Lies, OfGeneration};
use crate::represent::{self, Representation};
use crate::response::Response;

/// Serves a stored generation. `reusable` proves that the policy allows it.
pub(crate) fn held(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    reusable: Reusable,
) -> Response {
    generation_to(exchange, job, generation, reusable.freshness(), Lies::Held)
}

/// Serves a generation that this request reads from its fill. The reader guard proves that it may.
pub(crate) fn filled(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    (guard, refetch): (ReaderGuard, Arc<Refetch>),
) -> Response {
    let freshness = weir_policy::freshness(&generation.head().stored, clock::now());
    generation_to(exchange, job, generation, freshness, Lies::Filling(guard, refetch))
}

/// Serves a generation of which a part has just come or is arriving. The reader guard of the fill that began
/// it proves that this request may have it.
pub(crate) fn in_part(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    guard: ReaderGuard,
) -> Response {
    job.had_age = guard.fill().had_age();
    // Readers of a part continue without its fill.
    drop(guard);
    let freshness = weir_policy::freshness(&generation.head().stored, clock::now());
    generation_to(exchange, job, generation, freshness, Lies::Held)
}

/// Answers a HEAD by the head of a generation whose fill is running. The reader guard of the fill proves that
/// this request may have it.
pub(crate) fn head_alone(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    guard: &ReaderGuard,
) -> Response {
    job.had_age = guard.fill().had_age();
    let freshness = weir_policy::freshness(&generation.head().stored, clock::now());
    generation_to(exchange, job, generation, freshness, Lies::Held)
}

/// Serves a generation that the origin has just confirmed for this request. The reader guard of that fill
/// proves it.
pub(crate) fn confirmed(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    _guard: &ReaderGuard,
) -> Response {
    let freshness = weir_policy::freshness(&generation.head().stored, clock::now());
    job.cache_status = job.cache_status.unchanged(freshness.left_s());
    generation_to(exchange, job, generation, freshness, Lies::Held)
}

fn generation_to(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    freshness: Freshness,
    lies: Lies,
) -> Response {
    let (asked, chosen) = (exchange.asked, exchange.chosen);
    job.cache_status.note(&mut exchange.told.facts);
    exchange.told.answered_from(&generation);
    let head = generation.head();
    let has_age = job.cache_status.is_from_store()
        || job.had_age
        || matches!(&lies, Lies::Filling(guard, _) if guard.fill().had_age());
    let age_s = has_age.then(|| freshness.age_s());
    // The lifetime for browsers depends on the age of each response.
    let is_the_same_for_all = chosen.route.rules.browser_ttl.is_none();
    let what = Representation {
        stored: &head.stored,
        own_fields: job.own_fields.take(),
        length: generation.length(),
        printed: is_the_same_for_all.then(|| (&head.printed, represent::printed_for(asked, chosen))),
        late: Late::of_cache(job.cache_status, lookup::shown_key(asked, chosen)).aged(age_s),
    };
    let (refill, client) = (job.refill.take(), chosen.reader(asked, age_s.unwrap_or(0)));
    let holding = OfGeneration { generation, lies, refill, route: chosen.route, client };
    represent::answer(exchange, &job.ask, what, holding)
}
