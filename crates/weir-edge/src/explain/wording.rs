//! What an explanation says of rules and reasons, beside the log's words. It must not decide anything.

use std::net::IpAddr;

use http::{HeaderMap, StatusCode, header};
use weir_config::value::TrustedProxy;
use weir_policy::{
    CacheRules, ClientDirectives, Consult, KeyRules, MapTrigger, MissReason, PairTrigger, PassReason,
    QueryRule, RequestView, RevalidateReason, StaleUse, Triggers, consult,
};
use weir_upstream::WhyNot;

use super::StoredVariant;
use crate::plan::Route;
use crate::route::Rewritten;
use crate::values::{OfRequest, Said};

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

impl Dropped {
    /// The words for it.
    pub(super) fn into_names(self) -> Vec<String> {
        match self {
            Dropped::Parameters(names) => names,
            Dropped::Order => vec!["the order of the parameters".into()],
        }
    }
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
    if matches!(rules.query, QueryRule::Unkeyed(_)) && view.path_and_query.contains('?') {
        names.push("the query".to_owned());
    }
    for name in view.headers.keys().filter(|name| **name != header::HOST && !rules.headers.contains(name)) {
        if *name == header::COOKIE && !rules.cookies.is_empty() {
            names.push(format!("cookie (all but {})", rules.cookies.join(", ")));
        } else if !selects(name.as_str()) {
            names.push(name.to_string());
        }
    }
    names
}

/// Names for people.
pub(super) fn names(names: &[&[u8]]) -> Vec<String> {
    names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// The tags that a response bears.
pub(super) fn tags(headers: &HeaderMap) -> Vec<String> {
    let all = weir_policy::tags::of(headers).take(TAGS_SHOWN_MAX);
    all.map(|tag| String::from_utf8_lossy(tag).into_owned()).collect()
}

/// A rewritten target with its rule: `/api/x → /x  (/api/** → /{1})`.
pub(super) fn rewritten(target: &str, rewritten: &Rewritten, route: &Route) -> String {
    format!("{target} → {}  ({})", rewritten.target, route.rule_text(rewritten))
}

/// The conditions in words; those that this request fulfils are marked.
pub(super) fn triggers(rules: &Triggers, known: &OfRequest<'_>) -> Vec<String> {
    let view = &known.view;
    let pair = |kind: &str, pair: &PairTrigger| match &pair.value {
        Some(value) => format!("{kind} {}={value}", pair.name),
        None => format!("{kind} {}", pair.name),
    };
    let cookies = rules.cookies.iter().map(|cookie| {
        (pair("cookie", cookie), Triggers { cookies: vec![cookie.clone()], ..Triggers::default() })
    });
    let query = rules.query.iter().map(|parameter| {
        (pair("parameter", parameter), Triggers { query: vec![parameter.clone()], ..Triggers::default() })
    });
    let methods = rules.methods.iter().map(|method| {
        (format!("method {method}"), Triggers { methods: vec![method.clone()], ..Triggers::default() })
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
    let maps = rules.maps.iter().map(|map| by_map(map, known));
    cookies
        .chain(query)
        .chain(headers)
        .chain(paths)
        .chain(methods)
        .map(|(text, alone)| if holds(alone, view) { format!("{text} (this one)") } else { text })
        .chain(maps)
        .collect()
}

/// A condition on a map, with what the map says of the request.
fn by_map(trigger: &MapTrigger, known: &OfRequest<'_>) -> String {
    let MapTrigger { name, result } = trigger;
    let text = result.as_ref().map_or_else(|| format!("map {name}"), |result| format!("map {name}={result}"));
    match known.said_by(name) {
        Said::Result(said) if trigger.fits(said.map(str::as_bytes)) => format!("{text} (this one)"),
        Said::Result(_) => text,
        Said::Unsure => format!("{text} (in doubt: what the map looks at is there more than once)"),
    }
}

/// The conditions on clients, of `bypass`, `refresh` and `no_store`; those that the client fulfils are
/// marked.
pub(super) fn clients(route: &Route, client: Option<IpAddr>) -> [Vec<String>; 3] {
    let Some(clients) = &route.clients else { return Default::default() };
    clients
        .said
        .each_ref()
        .map(|networks| networks.iter().map(|network| network_text(network, client)).collect())
}

fn network_text(network: &TrustedProxy, client: Option<IpAddr>) -> String {
    match (network, client) {
        (TrustedProxy::Net(within), Some(client)) if within.contains(&client.to_canonical()) => {
            format!("client {network} (this one)")
        }
        _ => format!("client {network}"),
    }
}

/// What the maps say that the route uses.
pub(super) fn maps(route: &Route, known: &OfRequest<'_>) -> Vec<String> {
    let said = |name: &str| {
        let by_client = known.is_mapped_by_client(name) && known.beside.client().is_none();
        match known.said_by(name) {
            _ if by_client => format!("{name} (by the client's address: `--client`)"),
            Said::Result(Some(result)) => format!("{name}={result}"),
            Said::Result(None) => format!("{name} says nothing"),
            Said::Unsure => format!("{name} (in doubt: what it looks at is there more than once)"),
        }
    };
    route.maps_named().into_iter().map(said).collect()
}

/// What the tables by status say of a status.
pub(super) fn by_status(rules: &CacheRules, status: StatusCode) -> Vec<String> {
    let tables = [
        ("ttl", rules.ttl.of(status)),
        ("ttl_override", rules.ttl_override.of(status)),
        ("if_status", rules.stale.if_status.of(status)),
    ];
    let times = tables.iter().filter_map(|(key, time)| Some(format!("{key} {} s", (*time)?.as_secs())));
    let ignored = rules.ignore.words(status);
    times.chain((!ignored.is_empty()).then(|| format!("ignores {}", ignored.join(", ")))).collect()
}

/// Whether the request fulfils a condition, by the policy's own judgement.
fn holds(bypass: Triggers, view: &RequestView<'_>) -> bool {
    let rules = CacheRules { bypass, ..CacheRules::default() };
    let is_asked = matches!(*view.method, http::Method::GET | http::Method::HEAD);
    let asks = RequestView { method: if is_asked { view.method } else { &http::Method::GET }, ..*view };
    matches!(consult(&asks, &rules), Consult::Pass(reason) if reason.word().starts_with("bypass-"))
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

/// The text for a client that gets no answer.
pub(super) const DENIED: &str = "403: `allow` or `deny` of the route refuses this client";

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
        PassReason::BypassQuery => "a query parameter that the route's bypass names",
        PassReason::BypassMethod => "a method that the route's bypass names",
        PassReason::BypassClient => "a client that the route's bypass names",
        PassReason::BypassMap => "a result of a map that the route's bypass names",
        PassReason::Session => "the request has a session, which its upstream answers past the cache",
        PassReason::RouteNoStore => "nothing held answers it, and the route's no_store names this request",
        PassReason::Uncacheable => "responses to this key were not storable a moment ago",
        PassReason::Signed => {
            "it may be signed, and a fill would change it: it goes as it came until an answer was public"
        }
        PassReason::Login => "its client logs in on its connection (NTLM, Negotiate)",
        PassReason::EarlyData => "the request may have been replayed (`Early-Data`)",
        PassReason::DotSegment => "the path has a dot segment, which origins may resolve",
        PassReason::HostInPath => {
            "the path begins with two slashes, which to some programs begin a host's name"
        }
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

/// What a directive says about sending it stale.
pub(super) fn of_bond(directive: &str) -> String {
    match directive {
        "s-maxage" => {
            "; its s-maxage lets it go out stale only where its origin or `stale` names a time".into()
        }
        "s-maxage-authorization" => "; it never goes out stale: because of its s-maxage it was stored for a \
                                     request with Authorization, or may have been"
            .into(),
        directive => format!("; its {directive} forbids that it goes out stale"),
    }
}

pub(super) fn of_miss(reason: MissReason) -> &'static str {
    match reason {
        MissReason::Uri => "nothing is held under the key",
        MissReason::Vary => "what is held is not for these fields",
        MissReason::Gone => "what was held is gone",
    }
}

/// Why an origin would not be picked.
pub(super) fn of_why_not(why: WhyNot) -> String {
    match why {
        WhyNot::Standing(standing) => standing.word().to_owned(),
        WhyNot::Backup => "a backup, and a primary takes requests".to_owned(),
        WhyNot::Other => "another one is tried".to_owned(),
        WhyNot::Full => "all its connections are in use".to_owned(),
        WhyNot::Pick(reason) => format!("another one is before it ({})", reason.word()),
    }
}
