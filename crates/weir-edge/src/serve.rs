//! Serving a generation, held or being filled, as the request's preconditions and range ask for it (RFC 9110
//! §13, §14). The head is printed once for all clients that get it whole.

use std::sync::Arc;

use http::header::{CONTENT_RANGE, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use weir_clock as clock;
use weir_front::{Head, Prepared, Trust};
use weir_policy::{Answer, ContentRange, Freshness, Interval, Reusable, answer, tags};
use weir_store::{Generation, Head as HeldHead, Printed};

use crate::deliver::multipart::{Form, Multipart};
use crate::deliver::source::{Kept, Source, Whole};
use crate::exchange::{Asked, Exchange};
use crate::job::Job;
use crate::late::Late;
use crate::limit;
use crate::local;
use crate::lookup;
use crate::parts;
use crate::plan::Route;
use crate::present::{self, Reader};
use crate::response::{self, Response};
use weir_fill::ReaderGuard;
use weir_fill::reader::{self, Filled};
use weir_fill::refetch::Refetch;

/// What the kernel does not take at once from a client that reads slowly: 1 MiB.
const SLOW_BYTES_MIN: u64 = 1 << 20;

/// What is sent of a body that is not sent whole.
enum Part {
    /// One part.
    One(ContentRange),
    /// Several parts.
    Several(Form),
}

/// Where a generation's bytes are.
pub(crate) enum From {
    /// It is complete, or a part that grows no more by itself.
    Held,
    /// Its fill is running.
    Fill(ReaderGuard, Arc<Refetch>),
}

/// Serves a stored generation. `reusable` proves that the policy allows it.
pub(crate) fn held(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    reusable: Reusable,
) -> Response {
    generation_to(exchange, job, generation, reusable.freshness(), From::Held)
}

/// Serves a generation that this request reads from its fill. The reader guard proves that it may.
pub(crate) fn filled(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    (guard, refetch): (ReaderGuard, Arc<Refetch>),
) -> Response {
    let freshness = weir_policy::freshness(&generation.head().stored, clock::now());
    generation_to(exchange, job, generation, freshness, From::Fill(guard, refetch))
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
    generation_to(exchange, job, generation, freshness, From::Held)
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
    generation_to(exchange, job, generation, freshness, From::Held)
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
    generation_to(exchange, job, generation, freshness, From::Held)
}

fn generation_to(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    freshness: Freshness,
    from: From,
) -> Response {
    let (asked, chosen) = (exchange.asked, exchange.chosen);
    let cache_status = job.cache_status;
    cache_status.note(&mut exchange.told.facts);
    exchange.told.answered_from(&generation);
    let head = generation.head();
    let has_age = job.cache_status.is_from_store()
        || job.had_age
        || matches!(&from, From::Fill(guard, _) if guard.fill().had_age());
    let age_s = has_age.then(|| freshness.age_s());
    let answer = answer(&asked.view(), &job.ask, &head.stored, generation.length());
    let (status, interval, part) = match answer {
        Answer::Full => (head.stored.status, Interval::new(0, generation.length().unwrap_or(u64::MAX)), None),
        Answer::Partial(interval, range) => (StatusCode::PARTIAL_CONTENT, interval, Some(Part::One(range))),
        Answer::Parts(parts) => {
            let reader = chosen.reader(asked, age_s.unwrap_or(0));
            let mut fields = present::stored(&head.stored.headers, head.stored.status, chosen.route, reader);
            let form = Form::new(parts, fields.remove(CONTENT_TYPE));
            (StatusCode::PARTIAL_CONTENT, form.first(), Some(Part::Several(form)))
        }
        Answer::NotModified => (StatusCode::NOT_MODIFIED, Interval::new(0, 0), None),
        Answer::PreconditionFailed => {
            drop(head);
            return local::precondition_failed(asked, exchange.told, job.cache_status);
        }
        Answer::Unsatisfiable(range) => {
            drop(head);
            return local::unsatisfiable(asked, exchange.told, &range, job.cache_status);
        }
    };
    let length = match &part {
        Some(Part::Several(form)) => Some(form.length()),
        None if status == StatusCode::NOT_MODIFIED || interval.end == u64::MAX => None,
        _ => Some(interval.length()),
    };
    let own_fields = job.own_fields.take();
    let reader = chosen.reader(asked, age_s.unwrap_or(0));
    let head = match status {
        _ if own_fields.is_some() && status == head.stored.status => {
            own(reader, chosen.route, status, own_fields.map(|fields| *fields))
        }
        StatusCode::NOT_MODIFIED => not_modified(reader, chosen.route, &head),
        StatusCode::PARTIAL_CONTENT => partial(reader, chosen.route, &head, part.as_ref()),
        _ => whole(reader, chosen.route, &head),
    };
    let late = Late::of_cache(job.cache_status, lookup::shown_key(asked, chosen)).aged(age_s);
    let pace = limit::pace(asked, chosen, status, Some(&generation));
    let method = &asked.request.method;
    let source = || parted(kept(exchange, job, generation, interval, from), part);
    response::paced(response::with_source(response::bare(head, late), method, length, source), pace)
}

/// The bytes.
fn kept(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    interval: Interval,
    from: From,
) -> Kept {
    let asked = exchange.asked;
    let refill = job.refill.take();
    match from {
        From::Held if generation.is_whole_in_memory() => {
            asked.core.shared.store.note_sent(&generation, interval.length(), || exchange.client.way());
            let refill = match is_read_slowly(&generation, interval) {
                true => refill.or_else(|| parts::refill(exchange, &generation)),
                false => None,
            };
            Kept::Whole(Whole::new(generation, interval, refill))
        }
        From::Held => {
            let refill = refill.or_else(|| parts::refill(exchange, &generation));
            Kept::Reader(Box::new(reader::Reader::new(generation, interval, refill)))
        }
        From::Fill(guard, refetch) => {
            let store = asked.core.shared.store.clone();
            let refill = parts::refill(exchange, &generation);
            let filled = Filled::new(guard, generation, refetch, store);
            Kept::Reader(Box::new(reader::Reader::filling(filled, interval, refill)))
        }
    }
}

/// Whether a client may read so long that it lets go of the blocks and reads on from the volume. Where the
/// volume fails it, it asks the origin for the rest.
fn is_read_slowly(generation: &Generation, interval: Interval) -> bool {
    interval.length() >= SLOW_BYTES_MIN && generation.is_stored_on_disk()
}

/// The bytes of `kept`, which is positioned at the first of several parts, with their delimiters and heads.
fn parted(kept: Kept, part: Option<Part>) -> Source {
    match part {
        Some(Part::Several(form)) => Source::Made(Box::new(Multipart::new(form, kept))),
        _ => Source::Kept(kept),
    }
}

/// The head of a whole response, encoded once for a plan.
fn whole(reader: Reader<'_>, route: &Route, head: &HeldHead) -> Head {
    let status = head.stored.status;
    // The lifetime for browsers depends on the age of each response, so the head is encoded each time.
    let is_the_same_for_all = route.rules.browser_ttl.is_none();
    if !is_the_same_for_all {
        return Head::Made(status, Box::new(present::held(&head.stored.headers, status, route, reader)));
    }
    // Requests by several rules may share what is stored.
    let by_rule = route.print_id | reader.rule.map_or(0, |rule| (rule as u64 + 1) << RULE_BITS);
    let by_trust = by_rule | bit(reader.trust);
    if let Some(printed) = &*head.printed()
        && (printed.plan == by_rule || printed.plan == by_trust)
    {
        return Head::Prepared(Prepared::of_text(status, printed.head.clone()));
    }
    let prepared = Prepared::new(status, &present::held(&head.stored.headers, status, route, reader));
    head.keep_printed(|| {
        let plan = if tags::has_hidden(&head.stored.headers) { by_trust } else { by_rule };
        Printed { plan, head: prepared.text().clone() }
    });
    Head::Prepared(prepared)
}

/// Where the number of a rewrite's rule stands in the id of a printed head: above those of plan and route.
const RULE_BITS: u32 = 52;

/// What tells a head for trusted peers from one for others, where they differ: no plan has so many routes.
fn bit(trust: Trust) -> u64 {
    match trust {
        Trust::Trusted => 1 << 63,
        Trust::Untrusted => 1 << 62,
    }
}

/// The fields that belong to the lead alone.
fn own(reader: Reader<'_>, route: &Route, status: StatusCode, fields: Option<HeaderMap>) -> Head {
    let fields = fields.map(|fields| present::held(&fields, status, route, reader));
    Head::Made(status, Box::new(fields.unwrap_or_default()))
}

fn partial(reader: Reader<'_>, route: &Route, head: &HeldHead, part: Option<&Part>) -> Head {
    let mut fields = present::stored(&head.stored.headers, head.stored.status, route, reader);
    // These digests cover the whole, and would have to cover the content that is sent (RFC 9530 §2).
    fields.remove("content-digest");
    fields.remove("content-md5");
    // An origin may have sent it with the whole, where it has no meaning (RFC 9110 §14.4).
    fields.remove(CONTENT_RANGE);
    let own = match part {
        Some(Part::One(range)) => Some((CONTENT_RANGE, range.to_string())),
        Some(Part::Several(form)) => Some((CONTENT_TYPE, form.content_type())),
        None => None,
    };
    if let Some((name, text)) = own
        && let Ok(value) = HeaderValue::try_from(text)
    {
        fields.insert(name, value);
    }
    Head::Made(StatusCode::PARTIAL_CONTENT, Box::new(fields))
}

fn not_modified(reader: Reader<'_>, route: &Route, head: &HeldHead) -> Head {
    let fields = present::stored(&head.stored.headers, head.stored.status, route, reader);
    let mut parked = HeaderMap::new();
    for (name, value) in &fields {
        if weir_policy::is_in_304(name) {
            parked.append(name, value.clone());
        }
    }
    Head::Made(StatusCode::NOT_MODIFIED, Box::new(parked))
}
