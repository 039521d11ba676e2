//! What is selected and sent is a representation (RFC 9110 §3.2), whatever holds it: a generation, a file,
//! content by hand. Conditions, ranges, several parts, heads and pace are decided here, once for all of them
//! (RFC 9110 §13, §14). It must not select anything.

pub(crate) mod file;
pub(crate) mod generation;

use std::sync::Arc;

use http::header::{ACCEPT_RANGES, CONTENT_RANGE, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use weir_body::{Peers, PrintedFor, PrintedSlot};
use weir_front::{Head, Prepared, Trust};
use weir_policy::{Answer, Ask, ContentRange, Interval, Stored, is_in_304, tags};
use weir_store::Generation;

use crate::deliver::multipart::{Form, Multipart};
use crate::deliver::source::{Kept, Source};
use crate::exchange::{Asked, Chosen, Exchange, Told};
use crate::late::Late;
use crate::limit;
use crate::local;
use crate::response::{self, Response};

/// What was selected.
pub(crate) struct Representation<'r> {
    /// Status, fields and validators.
    pub(crate) stored: &'r Stored,
    /// The fields that this one response has in place of them, where it goes out whole.
    pub(crate) own_fields: Option<Box<HeaderMap>>,
    /// How many bytes it has; `None` where nobody knows yet.
    pub(crate) length: Option<u64>,
    /// Where its head is kept once it is printed, and for which requests; `None` where each has another one.
    pub(crate) printed: Option<(&'r PrintedSlot, PrintedFor)>,
    /// What differs from response to response.
    pub(crate) late: Late,
}

/// What holds a representation.
pub(crate) trait Holding {
    /// Its fields as the client gets them.
    fn present(&self, fields: HeaderMap, status: StatusCode) -> HeaderMap;

    /// Notes that something else goes out in its place.
    fn note_unmet(&self, told: &mut Told<'_>, word: &'static str);

    /// The generation whose rate the pace may follow.
    fn generation(&self) -> Option<&Arc<Generation>>;

    /// The bytes of an interval.
    fn kept(self, exchange: &mut Exchange<'_, '_>, interval: Interval) -> Kept;
}

/// What goes out of a representation.
enum Content {
    Whole,
    /// One part of it.
    Part(ContentRange),
    /// Several parts.
    Several(Form),
    /// The news that it has not changed.
    Nothing,
}

/// The requests that a head is printed for, as far as a request says it.
pub(crate) fn printed_for(asked: &Asked<'_>, chosen: &Chosen<'_>) -> PrintedFor {
    PrintedFor {
        route: chosen.route.print_id,
        // Invariant: a route has fewer rules.
        rule: chosen.rewritten().map(|rewritten| u32::try_from(rewritten.rule).unwrap_or(u32::MAX)),
        peers: match asked.request.peer.trust {
            Trust::Trusted => Peers::Trusted,
            Trust::Untrusted => Peers::Untrusted,
        },
        is_secure: asked.scheme == "https",
        is_instead: false,
    }
}

/// Answers a request with a representation, as its preconditions and its range ask for it.
pub(crate) fn answer(
    exchange: &mut Exchange<'_, '_>,
    ask: &Ask,
    what: Representation<'_>,
    holding: impl Holding,
) -> Response {
    let (asked, chosen) = (exchange.asked, exchange.chosen);
    let stored = what.stored;
    let (content, interval) = match weir_policy::answer(&asked.view(), ask, stored, what.length) {
        Answer::Full => (Content::Whole, Interval::new(0, what.length.unwrap_or(u64::MAX))),
        Answer::Partial(interval, range) => (Content::Part(range), interval),
        Answer::Parts(parts) => {
            let mut fields = holding.present(stored.headers.clone(), stored.status);
            let form = Form::new(parts, fields.remove(CONTENT_TYPE));
            let first = form.first();
            (Content::Several(form), first)
        }
        Answer::NotModified => (Content::Nothing, Interval::new(0, 0)),
        Answer::PreconditionFailed => {
            holding.note_unmet(exchange.told, local::PRECONDITION);
            return local::precondition_failed(asked, exchange.told);
        }
        Answer::Unsatisfiable(range) => {
            holding.note_unmet(exchange.told, local::RANGE);
            return local::unsatisfiable(asked, exchange.told, &range);
        }
    };
    let length = match &content {
        Content::Several(form) => Some(form.length()),
        Content::Whole => what.length,
        Content::Part(_) => Some(interval.length()),
        Content::Nothing => None,
    };
    let (head, late) = head(what, &content, &holding);
    let pace = limit::pace(asked, chosen, head.status().unwrap_or_default(), holding.generation());
    let source = || {
        let kept = holding.kept(exchange, interval);
        match content {
            Content::Several(form) => Source::Made(Box::new(Multipart::new(form, kept))),
            Content::Whole | Content::Part(_) | Content::Nothing => Source::Kept(kept),
        }
    };
    let method = &asked.request.method;
    response::paced(response::with_source(response::bare(head, late), method, length, source), pace)
}

fn head(what: Representation<'_>, content: &Content, holding: &impl Holding) -> (Head, Late) {
    let stored = what.stored;
    let present = || holding.present(stored.headers.clone(), stored.status);
    let head = match content {
        Content::Whole => return whole(what, holding),
        Content::Part(range) => partial(present(), (CONTENT_RANGE, range.to_string())),
        Content::Several(form) => partial(present(), (CONTENT_TYPE, form.content_type())),
        Content::Nothing => {
            let mut fields = HeaderMap::new();
            for (name, value) in present().iter().filter(|(name, _)| is_in_304(name)) {
                fields.append(name, value.clone());
            }
            Head::Made(StatusCode::NOT_MODIFIED, Box::new(fields))
        }
    };
    (head, what.late)
}

/// The head of a whole response, printed once for all that get the same.
fn whole(what: Representation<'_>, holding: &impl Holding) -> (Head, Late) {
    let Representation { stored, own_fields, printed, late, .. } = what;
    let status = stored.status;
    let present = |mut fields: HeaderMap| {
        if status == StatusCode::OK {
            // Weir answers ranges whatever the origin does (RFC 9110 §14.3).
            fields.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        }
        holding.present(fields, status)
    };
    let head = match (own_fields, printed) {
        (Some(fields), _) => Head::Made(status, Box::new(present(*fields))),
        (None, None) => Head::Made(status, Box::new(present(stored.headers.clone()))),
        (None, Some((slot, of))) => match slot.find(of) {
            Some(text) => Head::Prepared(Prepared::of_text(status, text)),
            None => {
                let prepared = Prepared::new(status, &present(stored.headers.clone()));
                let of = if tags::has_hidden(&stored.headers) { of } else { of.all_peers() };
                slot.keep(of, prepared.text());
                Head::Prepared(prepared)
            }
        },
    };
    (head, late)
}

/// The head of a part, with the field that says which it is.
fn partial(mut fields: HeaderMap, (name, text): (http::HeaderName, String)) -> Head {
    // These digests cover the whole, and would have to cover the content that is sent (RFC 9530 §2).
    fields.remove("content-digest");
    fields.remove("content-md5");
    // An origin may have sent it with the whole, where it has no meaning (RFC 9110 §14.4).
    fields.remove(CONTENT_RANGE);
    // Invariant: a boundary has only letters and digits, a range digits and marks.
    if let Ok(value) = HeaderValue::try_from(text) {
        fields.insert(name, value);
    }
    Head::Made(StatusCode::PARTIAL_CONTENT, Box::new(fields))
}
