//! Serving a generation: what is held or what a fill is bringing, as the request's preconditions and
//! range have it (RFC 9110 §13, §14), with the head printed once for all who get it whole.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_RANGE, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use weir_policy::{Answer, Ask, CacheKey, ContentRange, Freshness, Interval, Reusable, answer};
use weir_store::{Generation, Head, Printed};
use weir_wire::print;

use crate::conn::{After, print_persistence};
use crate::deliver::multipart::{Form, Multipart};
use crate::deliver::send::{Transfer, send_at};
use crate::deliver::source::{Held, Source};
use crate::exchange::Exchange;
use crate::fill::Seat;
use crate::fill::again::Again;
use crate::fill::tail::Tail;
use crate::limit;
use crate::local;
use crate::lookup;
use crate::parts;
use crate::plan::Route;
use crate::present::{self, Reader};
use crate::told::Told;
use weir_clock as clock;

/// What is sent of a body that is not sent whole.
enum Part {
    /// One part of it.
    One(ContentRange),
    /// Several.
    Several(Form),
}

/// Where a generation's bytes are.
pub(crate) enum From {
    /// It is at rest, whole or in part.
    Held,
    /// Its fill runs.
    Fill(Seat, Arc<Again>),
}

/// Serves what is held; `reusable` proves that the policy allowed it.
pub(crate) async fn held(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    generation: Arc<Generation>,
    reusable: Reusable,
    told: Told,
) -> After {
    generation_to(exchange, route, ask, generation, reusable.freshness(), From::Held, told).await
}

/// Serves a generation whose fill this request reads; its seat proves that it may.
pub(crate) async fn filled(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    generation: Arc<Generation>,
    (seat, again): (Seat, Arc<Again>),
    told: Told,
) -> After {
    let freshness = weir_policy::freshness(&generation.head().stored, clock::now());
    generation_to(exchange, route, ask, generation, freshness, From::Fill(seat, again), told).await
}

/// Serves a generation of which a part has just come, or is arriving; the seat at the fill that began it proves that this
/// request may have it.
pub(crate) async fn in_part(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    generation: Arc<Generation>,
    seat: Seat,
    told: Told,
) -> After {
    exchange.had_age = seat.fill().had_age();
    // Those who read it go on by themselves.
    drop(seat);
    let freshness = weir_policy::freshness(&generation.head().stored, clock::now());
    generation_to(exchange, route, ask, generation, freshness, From::Held, told).await
}

/// Serves a generation that the origin has just confirmed for this request; the seat at the fill that
/// asked proves it.
pub(crate) async fn confirmed(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    generation: Arc<Generation>,
    _seat: &Seat,
    told: Told,
) -> After {
    let freshness = weir_policy::freshness(&generation.head().stored, clock::now());
    let told = told.unchanged(freshness.left_s());
    generation_to(exchange, route, ask, generation, freshness, From::Held, told).await
}

async fn generation_to(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    generation: Arc<Generation>,
    freshness: Freshness,
    from: From,
    told: Told,
) -> After {
    told.note(&mut exchange.facts);
    let head = generation.head();
    let has_age = told.is_from_store()
        || exchange.had_age
        || matches!(&from, From::Fill(seat, _) if seat.fill().had_age());
    let age_s = has_age.then(|| freshness.age_s());
    let answer = answer(&exchange.view(), ask, &head.stored, generation.length());
    let (status, interval, part) = match answer {
        Answer::Full => (head.stored.status, Interval::new(0, generation.length().unwrap_or(u64::MAX)), None),
        Answer::Partial(interval, range) => (StatusCode::PARTIAL_CONTENT, interval, Some(Part::One(range))),
        Answer::Parts(parts) => {
            let reader = exchange.reader(age_s.unwrap_or(0));
            let mut fields = present::fields(&head.stored.headers, head.stored.status, route, reader);
            let form = Form::new(parts, fields.remove(CONTENT_TYPE));
            (StatusCode::PARTIAL_CONTENT, form.first(), Some(Part::Several(form)))
        }
        Answer::NotModified => (StatusCode::NOT_MODIFIED, Interval::new(0, 0), None),
        Answer::PreconditionFailed => {
            drop(head);
            return local::precondition_failed(exchange, told).await;
        }
        Answer::Unsatisfiable(range) => {
            drop(head);
            return local::unsatisfiable(exchange, &range, told).await;
        }
    };
    let length = match &part {
        Some(Part::Several(form)) => Some(form.length()),
        None if status == StatusCode::NOT_MODIFIED || interval.end == u64::MAX => None,
        _ => Some(interval.length()),
    };
    let transfer = exchange.transfer(status, length);
    let after = exchange.persistence(transfer);
    let own_fields = exchange.own_fields.take();
    let own_id = &exchange.worker.plane.own_id;
    let (scheme, host) = (exchange.scheme, exchange.head.host.as_str());
    let reader = Reader { scheme, host, own_id, age_s: age_s.unwrap_or(0) };
    let key = lookup::shown_key(exchange, route);
    let out = &mut exchange.conn.client.out;
    match status {
        _ if own_fields.is_some() && status == head.stored.status => {
            own(out, reader, route, status, own_fields.as_ref());
        }
        StatusCode::NOT_MODIFIED => not_modified(out, reader, route, &head),
        StatusCode::PARTIAL_CONTENT => partial(out, reader, route, &head, part.as_ref()),
        _ => whole(out, reader, route, &head),
    }
    finish(out, age_s, &told, key.as_ref(), transfer);
    print_persistence(out, after, exchange.head.version);
    print::end(out);
    drop(head);
    exchange.facts.status = status.as_u16();
    let pace = limit::pace(exchange, route, status, Some(&generation));
    let source = match transfer {
        Transfer::Nothing(_) => Source::Empty,
        _ => parted(source(exchange, route, generation, interval, from), part),
    };
    let sent = send_at(&mut exchange.conn.client, source, transfer, pace).await;
    exchange.sent(sent, transfer, after)
}

/// Where the bytes come from.
fn source(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    generation: Arc<Generation>,
    interval: Interval,
    from: From,
) -> Source {
    let refill = exchange.refill.take();
    match from {
        From::Held if generation.blocks().is_some() => Source::Held(Held::new(generation, interval, None)),
        From::Held => {
            let refill = refill.or_else(|| parts::refill(exchange, route, &generation));
            Source::Held(Held::new(generation, interval, refill))
        }
        From::Fill(seat, again) => {
            let store = exchange.worker.plane.store.clone();
            let refill = parts::refill(exchange, route, &generation);
            let tail = Tail::new(seat, generation.clone(), interval, again, store);
            Source::Held(Held::filling(generation, interval, tail, refill))
        }
    }
}

/// The bytes of `source`, which stands at the first of several parts, with what sets them apart.
fn parted(source: Source, part: Option<Part>) -> Source {
    match part {
        Some(Part::Several(form)) => Source::Parts(Box::new(Multipart::new(form, source))),
        _ => source,
    }
}

/// The status line and fields of a whole response, printed once for a plan.
fn whole(out: &mut Vec<u8>, reader: Reader<'_>, route: &Route, head: &Head) {
    // What browsers are told goes with the age of each response, so it is printed anew each time.
    let is_the_same_for_all = route.rules.browser_ttl.is_none();
    if is_the_same_for_all
        && let Some(printed) = &*head.printed.load()
        && printed.plan == route.print_id
    {
        return out.extend_from_slice(&printed.head);
    }
    let at = out.len();
    let fields = present::held(&head.stored.headers, head.stored.status, route, reader);
    print::status_line(out, head.stored.status);
    print::fields(out, &fields);
    if is_the_same_for_all {
        let bytes = Bytes::copy_from_slice(&out[at..]);
        head.printed.store(Some(Arc::new(Printed { plan: route.print_id, head: bytes })));
    }
}

/// The lead's own fields.
fn own(out: &mut Vec<u8>, reader: Reader<'_>, route: &Route, status: StatusCode, fields: Option<&HeaderMap>) {
    print::status_line(out, status);
    if let Some(fields) = fields {
        print::fields(out, &present::held(fields, status, route, reader));
    }
}

fn partial(out: &mut Vec<u8>, reader: Reader<'_>, route: &Route, head: &Head, part: Option<&Part>) {
    let mut fields = present::fields(&head.stored.headers, head.stored.status, route, reader);
    // They would be of the content that is sent (RFC 9530 §2), and are of the whole.
    fields.remove("content-digest");
    fields.remove("content-md5");
    // An origin may have said it of the whole, where it means nothing (RFC 9110 §14.4).
    fields.remove(CONTENT_RANGE);
    if let Some(Part::Several(_)) = part {
        fields.remove(CONTENT_TYPE);
    }
    print::status_line(out, StatusCode::PARTIAL_CONTENT);
    print::fields(out, &fields);
    match part {
        Some(Part::One(range)) => print::field(out, "content-range", range.to_string().as_bytes()),
        Some(Part::Several(form)) => print::field(out, "content-type", form.content_type().as_bytes()),
        None => {}
    }
}

fn not_modified(out: &mut Vec<u8>, reader: Reader<'_>, route: &Route, head: &Head) {
    let fields = present::fields(&head.stored.headers, head.stored.status, route, reader);
    print::status_line(out, StatusCode::NOT_MODIFIED);
    let mut kept = HeaderMap::new();
    for (name, value) in &fields {
        if weir_policy::is_in_304(name) {
            kept.append(name, value.clone());
        }
    }
    print::fields(out, &kept);
}

/// The fields that differ from response to response.
fn finish(out: &mut Vec<u8>, age_s: Option<u64>, told: &Told, key: Option<&CacheKey>, transfer: Transfer) {
    if let Some(age_s) = age_s {
        out.extend_from_slice(b"age: ");
        print::number(out, age_s);
        out.extend_from_slice(b"\r\n");
    }
    told.print(out, key);
    transfer.print(out);
}
