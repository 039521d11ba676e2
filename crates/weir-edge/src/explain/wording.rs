//! What an explanation says of rules and reasons, beside the log's words. It must not decide anything.

use http::{HeaderMap, header};
use weir_policy::{
    CacheRules, ClientDirectives, Consult, KeyRules, MissReason, PassReason, RequestView, RevalidateReason,
    StaleUse, Triggers, consult,
};

use super::StoredVariant;

/// Tags that are shown.
const TAGS_SHOWN_MAX: usize = 64;

/// The text for a response that came without a coding although the request accepts some.
pub(super) const UNCODED: &str = "text that the origin did not compress, though this request accepts \
     compression: nginx compresses nothing for a request with Via, unless gzip_proxied allows it \
     (upstream: `via = false` leaves it out)";

/// The text while an upstream is not asked for clients.
pub(super) const OUTAGE: &str = "the upstream gave no answer a moment ago, and is asked without a client";

/// What the key leaves out of a query.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Dropped {
    /// These parameters, as received.
    Parameters(Vec<String>),
    /// Nothing but their order.
    Order,
}

/// What of the target is missing in what is forwarded.
pub(super) fn dropped(target: &str, forwarded: &str) -> Dropped {
    let parameters = |text: &str| -> Vec<String> {
        let query = text.split_once('?').map(|(_, query)| query.to_owned());
        query.map_or_else(Vec::new, |query| query.split('&').map(ToOwned::to_owned).collect())
    };
    let mut kept = parameters(forwarded);
    let mut gone = parameters(target);
    gone.retain(|parameter| match kept.iter().position(|other| other == parameter) {
        Some(at) => {
            kept.swap_remove(at);
            false
        }
        None => true,
    });
    if gone.is_empty() && target != forwarded { Dropped::Order } else { Dropped::Parameters(gone) }
}

/// Fields of the request that neither the key nor a stored variant asks for.
pub(super) fn not_in_key(rules: &KeyRules, view: &RequestView<'_>, stored: &[StoredVariant]) -> Vec<String> {
    let selects = |name: &str| {
        stored.iter().flat_map(|variant| &variant.selecting).any(|(selecting, _)| selecting == name)
    };
    let mut names: Vec<String> = Vec::new();
    for name in view.headers.keys().filter(|name| **name != header::HOST && !rules.headers.contains(name)) {
        if *name == header::COOKIE && !rules.cookies.is_empty() {
            names.push(format!("cookie (all but {})", rules.cookies.join(", ")));
        } else if !selects(name.as_str()) {
            names.push(name.to_string());
        }
    }
    names
}

/// The tags that a response bears.
pub(super) fn tags(headers: &HeaderMap) -> Vec<String> {
    let all = weir_policy::tags::of(headers).take(TAGS_SHOWN_MAX);
    all.map(|tag| String::from_utf8_lossy(tag).into_owned()).collect()
}

/// The conditions in words; those that this request fulfils are marked.
pub(super) fn triggers(rules: &Triggers, view: &RequestView<'_>) -> Vec<String> {
    let cookies = rules.cookies.iter().map(|name| {
        let alone = Triggers { cookies: vec![name.clone()], ..Triggers::default() };
        (format!("cookie {name}"), alone)
    });
    let headers = rules.headers.iter().map(|trigger| {
        let text = match &trigger.value {
            Some(value) => format!("field {}: {value}", trigger.name),
            None => format!("field {}", trigger.name),
        };
        (text, Triggers { headers: vec![trigger.clone()], ..Triggers::default() })
    });
    let paths = rules.paths.iter().map(|path| {
        let alone = Triggers { paths: vec![path.clone()], ..Triggers::default() };
        (format!("path {path}"), alone)
    });
    cookies
        .chain(headers)
        .chain(paths)
        .map(|(text, alone)| if holds(alone, view) { format!("{text} (this one)") } else { text })
        .collect()
}

/// Whether the request fulfils a condition, by the policy's own judgement.
fn holds(bypass: Triggers, view: &RequestView<'_>) -> bool {
    let rules = CacheRules { bypass, ..CacheRules::default() };
    let get = RequestView { method: &http::Method::GET, ..*view };
    matches!(
        consult(&get, &rules),
        Consult::Pass(PassReason::BypassCookie | PassReason::BypassHeader | PassReason::BypassPath)
    )
}

/// What bypasses the cache on every route.
pub(super) fn everywhere(rules: &CacheRules) -> Vec<String> {
    let mut all = vec!["a method other than GET and HEAD (with a body these are refused)".to_owned()];
    match rules.client_directives {
        ClientDirectives::Honour => all.push("Cache-Control: no-store".to_owned()),
        ClientDirectives::Trusted => all.push("Cache-Control: no-store of a trusted proxy".to_owned()),
        ClientDirectives::Ignore => {}
    }
    all
}

/// The text for a request for another protocol.
pub(super) const UPGRADE: &str = "the client asks for another protocol";

/// The text for a `PURGE`.
pub(super) const PURGE: &str =
    "a request for a purge is answered here, where `purge` allows this client; else with 405";

/// The text where a part is held, but not all that the request wants.
pub(super) const PART: &str = "a part is held, and the origin is asked for what is missing of it";

pub(super) fn of_stale(how: StaleUse) -> &'static str {
    match how {
        StaleUse::WhileRevalidate => "it goes out stale and is refreshed without a client",
        StaleUse::MaxStale => "the client takes it stale (max-stale)",
    }
}

pub(super) fn of_pass(reason: PassReason) -> &'static str {
    match reason {
        PassReason::Method => "only GET and HEAD are answered from the cache",
        PassReason::Body => "the request has a body, which is in no key",
        PassReason::NoStore => "the client says no-store",
        PassReason::BypassCookie => "a cookie that the route's bypass names",
        PassReason::BypassHeader => "a field that the route's bypass names",
        PassReason::BypassPath => "a path that the route's bypass names",
        PassReason::Uncacheable => "responses to this key were not storable a moment ago",
        PassReason::EarlyData => "the request may have been replayed (`Early-Data`)",
        PassReason::DotSegment => "the path has a dot segment, which origins may resolve",
    }
}

pub(super) fn of_revalidation(reason: RevalidateReason) -> &'static str {
    match reason {
        RevalidateReason::Stale => "what is held is stale, and is validated before it goes out",
        RevalidateReason::Suspect => {
            "what is held comes from a suspect volume (`weir volumes`), and is validated before it goes out"
        }
        RevalidateReason::Purged => "what is held was purged softly, and is validated before it goes out",
        RevalidateReason::NoCache => "what is held says no-cache: it is validated each time",
        RevalidateReason::Request => "the client wants it validated: no-cache, max-age or min-fresh",
        RevalidateReason::Refresh => "the route's refresh names this request: it is fetched again",
    }
}

pub(super) fn of_miss(reason: MissReason) -> &'static str {
    match reason {
        MissReason::Uri => "nothing is held under the key",
        MissReason::Vary => "what is held is not for these fields",
        MissReason::Gone => "what was held is gone",
    }
}
