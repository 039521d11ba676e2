//! May the cache be used for this request at all? The first decision of the walk, taken from the request
//! alone.

use crate::control::RequestDirectives;
use crate::fields::is_respelled;
use crate::glob;
use crate::path::{has_dot_segment, may_name_host, read_path};
use crate::request::RequestView;
use crate::rules::{CacheRules, HeaderTrigger, PairTrigger, Triggers};
use crate::{cookies, query};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

/// What the cache may do for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consult {
    /// It may answer.
    Use(Ask),
    /// The request goes to the origin, and its response is not stored. [`storable()`](crate::storable()) has
    /// the exception for POST.
    Pass(PassReason),
}

/// A request that the cache may answer, with what later decisions need of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// GET or HEAD.
    pub kind: AskKind,
    /// The request's cache directives.
    pub directives: RequestDirectives,
    pub(crate) marks: AskMarks,
}

/// The methods that the cache answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskKind {
    /// GET.
    Get,
    /// HEAD.
    Head,
}

/// What else the request has, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AskMarks(u8);

impl AskMarks {
    pub(crate) const CONDITIONAL: u8 = 1;
    pub(crate) const RANGE: u8 = 2;
    pub(crate) const AUTHORIZATION: u8 = 4;
    pub(crate) const REFRESH: u8 = 8;
    pub(crate) const NO_STORE: u8 = 16;
}

impl Ask {
    fn has(&self, mark: u8) -> bool {
        self.marks.0 & mark != 0
    }

    /// Whether the client sent a precondition (RFC 9110 §13.1).
    pub fn is_conditional(&self) -> bool {
        self.has(AskMarks::CONDITIONAL)
    }

    /// Whether the client asks for a range.
    pub fn is_range(&self) -> bool {
        self.has(AskMarks::RANGE)
    }

    /// Whether the request is authenticated. Such a request must not join a fill that is not known to be
    /// public (RFC 9111 §3.5).
    pub fn is_authenticated(&self) -> bool {
        self.has(AskMarks::AUTHORIZATION)
    }

    /// What a GET or HEAD asks for that no cache is asked about; `None` for other methods.
    pub fn of_own(method: &Method, headers: &HeaderMap) -> Option<Ask> {
        let kind = match *method {
            Method::GET => AskKind::Get,
            Method::HEAD => AskKind::Head,
            _ => return None,
        };
        Some(Ask { kind, directives: RequestDirectives::default(), marks: scan(headers).0 })
    }

    /// A GET that says nothing else.
    pub(crate) fn plain() -> Ask {
        Ask { kind: AskKind::Get, directives: RequestDirectives::default(), marks: AskMarks::default() }
    }

    /// The same for a request that is to fetch again and replace the stored response.
    #[must_use]
    pub fn refreshing(self) -> Ask {
        Ask { marks: AskMarks(self.marks.0 | AskMarks::REFRESH), ..self }
    }

    /// The same for a request whose response is not to be stored.
    #[must_use]
    pub fn unstoring(self) -> Ask {
        Ask { marks: AskMarks(self.marks.0 | AskMarks::NO_STORE), ..self }
    }

    /// Whether the route wants the response to this request not to be stored.
    pub fn is_no_store(&self) -> bool {
        self.has(AskMarks::NO_STORE)
    }

    /// Whether the route wants this request to fetch again and replace the stored response.
    pub fn is_refresh(&self) -> bool {
        self.has(AskMarks::REFRESH)
    }
}

/// Why a request bypasses the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassReason {
    /// The method is neither GET nor HEAD.
    Method,
    /// A GET or HEAD with content, which is in no key.
    Body,
    /// The client said no-store.
    NoStore,
    /// It has a cookie for which the route bypasses the cache.
    BypassCookie,
    /// It has a field for which the route bypasses the cache.
    BypassHeader,
    /// The route bypasses the cache for this path.
    BypassPath,
    /// It has a query parameter for which the route bypasses the cache.
    BypassQuery,
    /// The route bypasses the cache for this method.
    BypassMethod,
    /// The route bypasses the cache for this client.
    BypassClient,
    /// The route bypasses the cache for what a map says of the request.
    BypassMap,
    /// It has a session, and its upstream answers those itself. The edge knows this.
    Session,
    /// Nothing held answers it, and the route stores no response to it.
    RouteNoStore,
    /// The path has a segment `.` or `..`, plain or encoded. An origin that resolves it answers for another
    /// path than the one by which the route was chosen.
    DotSegment,
    /// The path begins with two slashes, and so with a host to some programs.
    HostInPath,
    /// The request may have been replayed (RFC 8470): others must not get what it brings.
    EarlyData,
    /// Its client logs in on the connection, or has done so (RFC 4559). The edge knows this.
    Login,
    /// Its credentials may cover fields that a fill would change, and no answer for its key was public a
    /// moment ago. The edge remembers this.
    Signed,
    /// Responses for this key were found not to be storable a moment ago. The edge remembers this.
    Uncacheable,
}

impl PassReason {
    /// The word for logs and Cache-Status `detail`.
    pub fn word(self) -> &'static str {
        match self {
            PassReason::Method => "method",
            PassReason::Body => "body",
            PassReason::NoStore => "request-no-store",
            PassReason::BypassCookie => "bypass-cookie",
            PassReason::BypassHeader => "bypass-header",
            PassReason::BypassPath => "bypass-path",
            PassReason::BypassQuery => "bypass-query",
            PassReason::BypassMethod => "bypass-method",
            PassReason::BypassClient => "bypass-client",
            PassReason::BypassMap => "bypass-map",
            PassReason::Session => "session",
            PassReason::RouteNoStore => "route-no-store",
            PassReason::DotSegment => "dot-segment",
            PassReason::HostInPath => "host-in-path",
            PassReason::EarlyData => "early-data",
            PassReason::Login => "login",
            PassReason::Signed => "signed",
            PassReason::Uncacheable => "uncacheable",
        }
    }
}

/// Decides whether the cache may answer `request`.
pub fn consult(request: &RequestView<'_>, rules: &CacheRules) -> Consult {
    let kind = if *request.method == Method::GET {
        AskKind::Get
    } else if *request.method == Method::HEAD {
        AskKind::Head
    } else {
        return Consult::Pass(PassReason::Method);
    };
    if request.has_body {
        return Consult::Pass(PassReason::Body);
    }
    if let Some(reason) = bypass(request, &rules.bypass) {
        return Consult::Pass(reason);
    }
    if has_dot_segment(request.path()) {
        return Consult::Pass(PassReason::DotSegment);
    }
    if may_name_host(request.path()) {
        return Consult::Pass(PassReason::HostInPath);
    }
    let (mut marks, has_directives) = scan(request.headers);
    let directives =
        if has_directives { RequestDirectives::read(request, rules) } else { RequestDirectives::default() };
    if directives.no_store() {
        return Consult::Pass(PassReason::NoStore);
    }
    if bypass(request, &rules.refresh).is_some() {
        marks.0 |= AskMarks::REFRESH;
    }
    if bypass(request, &rules.no_store).is_some() {
        marks.0 |= AskMarks::NO_STORE;
    }
    Consult::Use(Ask { kind, directives, marks })
}

/// Reads all fields once instead of looking a dozen of them up. Returns the marks, and whether there are
/// directives.
fn scan(headers: &HeaderMap) -> (AskMarks, bool) {
    let mut marks = AskMarks::default();
    let mut has_directives = false;
    for name in headers.keys() {
        match mark_of(name) {
            Some(0) => has_directives = true,
            Some(mark) => marks.0 |= mark,
            None => {}
        }
    }
    (marks, has_directives)
}

/// The mark of a field; 0 for Cache-Control and Pragma.
fn mark_of(name: &HeaderName) -> Option<u8> {
    let text = name.as_str();
    match text.len() {
        5 if *name == header::RANGE => Some(AskMarks::RANGE),
        6 if *name == header::PRAGMA => Some(0),
        8 | 13 | 17 | 19 if text.starts_with("if-") && is_precondition(name) => Some(AskMarks::CONDITIONAL),
        13 if *name == header::CACHE_CONTROL => Some(0),
        13 if *name == header::AUTHORIZATION => Some(AskMarks::AUTHORIZATION),
        _ => None,
    }
}

/// If-Range is not one: without Range it means nothing.
fn is_precondition(name: &HeaderName) -> bool {
    [header::IF_MATCH, header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE, header::IF_UNMODIFIED_SINCE]
        .contains(name)
}

/// The first condition that holds for the request.
fn bypass(request: &RequestView<'_>, triggers: &Triggers) -> Option<PassReason> {
    if !triggers.paths.is_empty() {
        let path = read_path(request.path());
        if triggers.paths.iter().any(|pattern| glob::path_fits(pattern, &path)) {
            return Some(PassReason::BypassPath);
        }
    }
    let headers = request.headers;
    if !triggers.headers.is_empty()
        && headers.iter().any(|field| triggers.headers.iter().any(|trigger| trigger.fits(field)))
    {
        return Some(PassReason::BypassHeader);
    }
    if cookies::hold(headers, &triggers.cookies) {
        return Some(PassReason::BypassCookie);
    }
    if query::holds(request, &triggers.query) {
        return Some(PassReason::BypassQuery);
    }
    triggers.methods.contains(request.method).then_some(PassReason::BypassMethod)
}

impl PairTrigger {
    pub(crate) fn fits(&self, (name, value): (&[u8], &[u8])) -> bool {
        glob::fits(&self.name, name) && self.value.as_ref().is_none_or(|pattern| glob::fits(pattern, value))
    }
}

impl HeaderTrigger {
    /// Whether a field fits, as an origin may read it: behind CGI, without case, as a list.
    fn fits(&self, (name, value): (&HeaderName, &HeaderValue)) -> bool {
        let fits =
            |pattern: &str, text: &[u8]| glob::fits_as(pattern, text, |byte| byte.to_ascii_lowercase());
        let value_fits = |pattern: &String| {
            let value = value.as_bytes();
            fits(pattern, value)
                || value.split(|byte| *byte == b',').any(|member| fits(pattern, member.trim_ascii()))
        };
        (*name == self.name || is_respelled(name, &self.name)) && self.value.as_ref().is_none_or(value_fits)
    }
}

#[cfg(test)]
mod tests;
