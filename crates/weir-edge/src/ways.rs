//! Where a request leads by every way in which its origin may read it: a path with dot segments has several,
//! and a field may override the method. No reading of a request goes round a route that refuses it. It must
//! not answer a request.

use std::sync::Arc;

use http::Method;
use smallvec::SmallVec;
use weir_policy::{RequestView, read_path, readings};

use crate::route::Route;
use crate::transform::overrides::{Overridden, overridden};
use crate::values::Circumstances;

/// Methods that somebody has defined (RFC 9110 §9, RFC 5789, RFC 4918 and its family, RFC 3253, RFC 5323),
/// QUERY, and those by which caches are asked for a purge.
const KNOWN: [&str; 37] = [
    "ACL",
    "BAN",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "CONNECT",
    "COPY",
    "DELETE",
    "GET",
    "HEAD",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "OPTIONS",
    "ORDERPATCH",
    "PATCH",
    "POST",
    "PROPFIND",
    "PROPPATCH",
    "PURGE",
    "PUT",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "TRACE",
    "UNBIND",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
];

/// Where a request leads.
pub(crate) enum Led<'r> {
    /// To this route: of several the one that is strictest.
    To(&'r Arc<Route>),
    /// No route takes it.
    Nowhere,
    /// Nobody can say.
    Torn(Torn),
}

/// Why nobody can say where a request leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Torn {
    /// Its method is a known one but for the case of its letters, in which some programs read it.
    Method,
    /// Fields override its method in two ways, or by what is no method.
    Override,
    /// Its path leads to different routes by what `;` and `\` mean, or has too many readings.
    Path,
}

/// The route of a request: the first that takes it. Where origins may read it in other ways, the route of
/// each is asked, and the strictest decides.
pub(crate) fn lead<'r>(
    routes: &'r [Arc<Route>],
    view: &RequestView<'_>,
    port: Option<u16>,
    beside: &dyn Circumstances,
) -> Led<'r> {
    if is_miscased(routes, view.method) {
        return Led::Torn(Torn::Method);
    }
    let read = read_path(view.path());
    let first = routes.iter().find(|route| route.takes(view, &read, port));
    let Some(first) = first else { return Led::Nowhere };
    let mut methods: SmallVec<[Method; 2]> = SmallVec::new();
    match overridden(view.method, view.headers) {
        Overridden::No => {}
        Overridden::By(method) => methods.push(method),
        Overridden::Unclear => return Led::Torn(Torn::Override),
    }
    if routes.len() == 1 {
        return Led::To(first);
    }
    let found = match readings(view.path()) {
        Ok(None) if methods.is_empty() => return Led::To(first),
        Ok(found) => found,
        Err(_) => return Led::Torn(Torn::Path),
    };
    methods.push(view.method.clone());
    let has_marked_dots = found.as_ref().is_some_and(|found| found.has_marked_dots);
    let paths = found.iter().flat_map(|found| &found.paths).map(String::as_str).chain([&*read]);
    let mut strictest = first;
    for path in paths {
        for method in &methods {
            let asked = RequestView { method, ..*view };
            let Some(route) = routes.iter().find(|route| route.takes(&asked, path, port)) else {
                continue;
            };
            // What another method leads to is no matter of the path.
            if has_marked_dots && method == view.method && !Arc::ptr_eq(route, first) {
                return Led::Torn(Torn::Path);
            }
            if strictness(route, beside) > strictness(strictest, beside) {
                strictest = route;
            }
        }
    }
    Led::To(strictest)
}

/// Whether a method is one that is known, or that a route names, but for the case of its letters.
fn is_miscased(routes: &[Arc<Route>], method: &Method) -> bool {
    let text = method.as_str();
    let is_plain = |text: &str| matches!(text, "GET" | "HEAD" | "POST");
    if is_plain(text) || KNOWN.contains(&text) {
        return false;
    }
    let mut named = routes.iter().flat_map(|route| route.methods());
    if named.clone().any(|named| named == method) {
        return false;
    }
    KNOWN.iter().any(|known| known.eq_ignore_ascii_case(text))
        || named.any(|named| named.as_str().eq_ignore_ascii_case(text))
}

/// How much a route keeps of a request from its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strictness {
    /// It goes to an upstream, or to files.
    Goes,
    /// Weir answers it itself.
    Answered,
    /// This client gets no answer.
    Refused,
}

fn strictness(route: &Route, beside: &dyn Circumstances) -> Strictness {
    if route.access.as_ref().is_some_and(|access| beside.is_refused_by(access)) {
        Strictness::Refused
    } else if route.answers_itself() {
        Strictness::Answered
    } else {
        Strictness::Goes
    }
}
