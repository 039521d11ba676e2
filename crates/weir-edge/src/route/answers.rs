//! Answers that need no origin: fixed ones, redirects, maintenance. Made once where they can be. Pure.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use weir_config::Action;
use weir_config::value::{Part, Template};

use super::{Answered, Page};

/// An answer that is ready, or is made for each request.
#[derive(Debug)]
pub(super) enum LocalAnswer {
    Fixed(Box<Answered>),
    Redirect { status: StatusCode, to: Template },
}

impl LocalAnswer {
    /// The answer to a request with this scheme, authority, path and query.
    pub fn render(&self, scheme: &str, host: &str, path_and_query: &str) -> Answered {
        match self {
            LocalAnswer::Fixed(answered) => (**answered).clone(),
            LocalAnswer::Redirect { status, to } => {
                redirect(*status, &target(to, scheme, host, path_and_query))
            }
        }
    }
}

/// The answer of an action; none for one that goes to an upstream.
pub(super) fn of_action(action: &Action, not_found: Option<&Page>) -> Option<LocalAnswer> {
    Some(match action {
        Action::Forward { .. } => return None,
        Action::Answer { status, headers, body } => LocalAnswer::Fixed(Box::new(Answered {
            status: *status,
            headers: headers.clone(),
            body: body.clone(),
            word: "static",
        })),
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

fn redirect(status: StatusCode, target: &str) -> Answered {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // Invariant: templates and the parts of a parsed request consist of visible ASCII.
    if let Ok(location) = HeaderValue::try_from(target) {
        headers.insert(LOCATION, location);
    }
    let body = format!("{} {}\n", status.as_str(), status.canonical_reason().unwrap_or("Redirect"));
    Answered { status, headers, body: body.into(), word: "redirect" }
}

/// Fills in a template. A target that begins with `//`, because the client's path does, is made absolute.
/// Browsers would else take what follows for a host of the client's choice.
fn target(to: &Template, scheme: &str, host: &str, path_and_query: &str) -> String {
    let (path, query) = match path_and_query.split_once('?') {
        Some((path, query)) => (path, query),
        None => (path_and_query, ""),
    };
    let mut out = String::with_capacity(64 + path_and_query.len());
    for part in &to.0 {
        out.push_str(match part {
            Part::Text(text) => text,
            Part::Scheme => scheme,
            Part::Host => host,
            Part::Path => path,
            Part::Query => query,
            Part::Uri => path_and_query,
        });
    }
    let is_meant = matches!(to.0.first(), Some(Part::Text(text)) if text.starts_with("//"));
    let is_another_host = out.starts_with("//") || out.starts_with("/\\");
    match is_another_host && !is_meant {
        true => format!("{scheme}://{host}{out}"),
        false => out,
    }
}
