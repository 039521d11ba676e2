//! Answers that need no origin: fixed ones, redirects, maintenance. Made once where they can be. Pure.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use weir_config::Action;
use weir_policy::value::{Part, Style, Value, What};

use super::{Answered, Page};
use crate::transform::response::{Place, of_client};
use crate::values::{self, OfRequest};

/// An answer that is ready, or is made for each request.
#[derive(Debug)]
pub(super) enum LocalAnswer {
    Fixed(Box<Answered>),
    /// With fields whose values have placeholders.
    Valued(Box<Answered>, Vec<(HeaderName, Value)>),
    Redirect {
        status: StatusCode,
        to: Value,
    },
}

impl LocalAnswer {
    /// The answer to a request.
    pub fn render<'a>(&self, known: impl FnOnce() -> OfRequest<'a>) -> Answered {
        match self {
            LocalAnswer::Fixed(answered) => (**answered).clone(),
            LocalAnswer::Valued(answered, set) => {
                let mut answered = (**answered).clone();
                values::set(set, &known(), &mut answered.headers);
                answered
            }
            LocalAnswer::Redirect { status, to } => redirect(*status, target(to, &known())),
        }
    }
}

/// The answer of an action; none for one that goes to an upstream.
pub(super) fn of_action(action: &Action, not_found: Option<&Page>) -> Option<LocalAnswer> {
    Some(match action {
        Action::Forward { .. } | Action::Choose { .. } | Action::Files => return None,
        Action::Answer { status, headers, values, body } => {
            let (headers, body) = (headers.clone(), body.clone());
            let answered = Box::new(Answered { status: *status, headers, body, word: "static" });
            match values.is_empty() {
                true => LocalAnswer::Fixed(answered),
                false => LocalAnswer::Valued(answered, values.clone()),
            }
        }
        Action::Redirect { status, to } => LocalAnswer::Redirect { status: *status, to: to.clone() },
        Action::NotFound => {
            let text = b"404 Not Found: no route of this site takes this request\n";
            LocalAnswer::Fixed(Box::new(paged(StatusCode::NOT_FOUND, not_found.cloned(), text, "no-route")))
        }
    })
}

/// The answer of a route that is closed for maintenance (RFC 9110 §15.6.4).
pub(super) fn closed(retry_after: Duration, page: Option<Page>) -> LocalAnswer {
    let text = b"503 Service Unavailable: closed for maintenance\n";
    let mut answered = paged(StatusCode::SERVICE_UNAVAILABLE, page, text, "maintenance");
    answered.headers.insert(RETRY_AFTER, HeaderValue::from(retry_after.as_secs().max(1)));
    LocalAnswer::Fixed(Box::new(answered))
}

fn paged(status: StatusCode, page: Option<Page>, text: &'static [u8], word: &'static str) -> Answered {
    let page = page.unwrap_or(Page {
        content_type: HeaderValue::from_static("text/plain; charset=utf-8"),
        body: Bytes::from_static(text),
    });
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, page.content_type);
    Answered { status, headers, body: page.body, word }
}

fn redirect(status: StatusCode, target: Vec<u8>) -> Answered {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // Invariant: a rendered URL consists of visible ASCII.
    if let Ok(location) = HeaderValue::try_from(target) {
        headers.insert(LOCATION, location);
    }
    let body = format!("{} {}\n", status.as_str(), status.canonical_reason().unwrap_or("Redirect"));
    Answered { status, headers, body: body.into(), word: "redirect" }
}

/// The target of a redirect, without a `?` or `&` at its end that no query follows. One that begins with
/// `//`, because the client's path does, is made absolute. Browsers would else take what follows for a host
/// of the client's choice.
fn target(to: &Value, known: &OfRequest<'_>) -> Vec<u8> {
    let mut out = to.render(known, Style::Url);
    let ends_in_query = matches!(to.parts().last(), Some(Part::Of(last)) if last.what == What::Query);
    let has_query = known.view.path_and_query.split_once('?').is_some_and(|(_, query)| !query.is_empty());
    if ends_in_query && !has_query {
        while out.ends_with(b"?") || out.ends_with(b"&") {
            out.pop();
        }
    }
    let is_meant = matches!(to.parts().first(), Some(Part::Text(text)) if text.starts_with("//"));
    match is_meant {
        true => out,
        false => of_client(out, Place { scheme: known.view.scheme, authority: known.view.host }),
    }
}
