//! May the cache be used for this request at all? The first decision of the walk, taken from the request
//! alone.

use crate::control::RequestDirectives;
use crate::glob;
use crate::request::RequestView;
use crate::rules::{CacheRules, Triggers};
use http::{HeaderMap, HeaderName, Method, header};

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

    /// The same for a request that is to fetch again and replace the stored response.
    #[must_use]
    pub fn refreshing(self) -> Ask {
        Ask { marks: AskMarks(self.marks.0 | AskMarks::REFRESH), ..self }
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
    /// The path has a segment `.` or `..`, plain or encoded. An origin that resolves it answers for another
    /// path than the one by which the route was chosen.
    DotSegment,
    /// The request may have been replayed (RFC 8470): others must not get what it brings.
    EarlyData,
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
            PassReason::DotSegment => "dot-segment",
            PassReason::EarlyData => "early-data",
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
    let (mut marks, has_directives) = scan(request.headers);
    let directives =
        if has_directives { RequestDirectives::read(request, rules) } else { RequestDirectives::default() };
    if directives.no_store() {
        return Consult::Pass(PassReason::NoStore);
    }
    if bypass(request, &rules.refresh).is_some() {
        marks.0 |= AskMarks::REFRESH;
    }
    Consult::Use(Ask { kind, directives, marks })
}

/// Whether a path has a segment `.` or `..`, with its dots and slashes plain or encoded (RFC 3986 §3.3,
/// §6.2.2.3). Some origins take `\\` for `/`, and some let parameters follow the dots.
fn has_dot_segment(path: &str) -> bool {
    let path = path.as_bytes();
    // Most paths have neither dots nor escapes. For them this loop is the whole cost.
    let mut before = b' ';
    let is_plain = path.iter().all(|byte| {
        let is_plain = *byte != b'%' && !(*byte == b'.' && matches!(before, b'/' | b'\\'));
        before = *byte;
        is_plain
    });
    if is_plain {
        return false;
    }
    let mut dots = None;
    let mut at = 0;
    while at < path.len() {
        let (byte, length) = decoded(&path[at..]);
        dots = match (byte, dots) {
            (b'/' | b'\\', Some(1 | 2)) => return true,
            (b'/' | b'\\', _) => Some(0),
            (b'.', Some(count)) => Some(count + 1),
            (b';', Some(1 | 2)) => return true,
            _ => None,
        };
        at += length;
    }
    matches!(dots, Some(1 | 2))
}

/// The first byte of a path, decoded if it is encoded, and how many bytes it takes.
fn decoded(path: &[u8]) -> (u8, usize) {
    let digit = |at: usize| path.get(at).and_then(|digit| char::from(*digit).to_digit(16));
    match (path[0], digit(1), digit(2)) {
        (b'%', Some(high), Some(low)) => (u8::try_from(high * 16 + low).unwrap_or(b'%'), 3),
        (byte, ..) => (byte, 1),
    }
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
        let path = request.path();
        if triggers.paths.iter().any(|pattern| glob::path_fits(pattern, path)) {
            return Some(PassReason::BypassPath);
        }
    }
    let headers = request.headers;
    let holds = |trigger: &crate::rules::HeaderTrigger| match &trigger.value {
        None => headers.contains_key(&trigger.name),
        Some(pattern) => {
            headers.get_all(&trigger.name).iter().any(|value| glob::fits(pattern, value.as_bytes()))
        }
    };
    if triggers.headers.iter().any(holds) {
        return Some(PassReason::BypassHeader);
    }
    let named = |name: &[u8]| triggers.cookies.iter().any(|pattern| glob::fits(pattern, name));
    if !triggers.cookies.is_empty() && cookies(headers).any(|(name, _)| named(name)) {
        return Some(PassReason::BypassCookie);
    }
    None
}

/// The cookies of a request, name and value.
pub(crate) fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = headers.get_all(header::COOKIE).iter();
    lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';')).filter_map(|pair| {
        let pair = pair.trim_ascii();
        if pair.is_empty() {
            return None;
        }
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        Some((pair[..at].trim_ascii_end(), pair.get(at + 1..).unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests;
