//! What the origin would be asked for, and which origin. No turn is taken and nothing is counted.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use weir_policy::{HeadRequests, conditional};
use weir_store::Generation;
use weir_upstream::affinity::Session;
use weir_upstream::{Picking, Upstream, Whose, host_point};

use super::question::Request;
use super::wording;
use crate::plan::Route;
use crate::transform::client::X_FORWARDED_FOR;
use crate::transform::request::{self, From, Own, X_REQUEST_ID};
use crate::values::OfRequest;
use weir_front::Trust;

/// What the origin would be asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Method and target.
    pub line: String,
    /// The fields, except those that are generated for each request.
    pub headers: Vec<(String, String)>,
    /// Names of the request's fields that it does not have.
    pub lost: Vec<String>,
    /// Which origin would get it; `None` where the upstream does not exist.
    pub choice: Option<OriginChoice>,
}

/// Which origin a request would get.
#[derive(Clone, Debug, Default)]
pub struct OriginChoice {
    /// Its name; `None` where none takes requests.
    pub origin: Option<Arc<str>>,
    /// The pick that decides, in the word of the configuration.
    pub pick: &'static str,
    /// Why, in the metrics' word.
    pub reason: &'static str,
    /// The scripts and distributors that are asked before: `calm (script)`. They are not asked for this.
    pub asked: Vec<String>,
    /// All origins, in the order of the configuration.
    pub origins: Vec<OriginConsidered>,
}

/// An origin, as the request would find it.
#[derive(Clone, Debug)]
pub struct OriginConsidered {
    /// Its name.
    pub name: Arc<str>,
    /// Its share of the requests while all stays as it is, of 1.
    pub share: f64,
    /// Requests under way.
    pub in_flight: u32,
    /// Why it would not be picked; `None` for the one that would.
    pub why_not: Option<String>,
}

/// What a request to the origin is for.
pub(super) enum Towards<'a> {
    /// It goes past the cache.
    Pass,
    /// A fill, which asks about what the request selects.
    Fill(Option<&'a Arc<Generation>>),
}

/// The way of a request to an origin.
pub(super) struct Way<'a> {
    pub(super) route: &'a Route,
    /// `None` where the route's upstream does not exist.
    pub(super) upstream: Option<Arc<Upstream>>,
    /// The client as picks know it: no trusted proxy.
    pub(super) client: Option<IpAddr>,
    /// Where the request's session is.
    pub(super) session: Option<Session>,
}

/// The request to the origin.
pub(super) fn asked(
    way: &Way<'_>,
    (known, target): (&OfRequest<'_>, &str),
    of: &Request,
    towards: Towards<'_>,
) -> Asked {
    let route = way.route;
    let from = From {
        address: of.client,
        client: of.client,
        trust: Trust::Untrusted,
        method: &of.method,
        protocol: "HTTP/1.1",
        scheme: of.scheme(),
        host: of.host.as_str(),
        request_id: "",
        own: &Own::new("weir"),
        certificate: None,
    };
    let mut headers: HeaderMap = match towards {
        Towards::Fill(_) => request::of_fill(&of.headers, &from, &route.rules.key.headers),
        _ => request::towards_origin(&of.headers, &from),
    };
    let mut method = of.method.as_str();
    let mut whose = Whose::Client;
    if let Towards::Fill(validated) = towards {
        whose = Whose::Nobody;
        let head = validated.map(|generation| generation.head());
        conditional(head.as_ref().map(|head| &head.stored), &mut headers);
        let is_passed = of.method == http::Method::HEAD && route.rules.head == HeadRequests::Pass;
        method = if is_passed { "HEAD" } else { "GET" };
    }
    if let Some(host) = route.host_to_origin() {
        headers.insert(http::header::HOST, host.clone());
    }
    route.edit_request(&mut headers);
    route.set_values(known, &mut headers);
    let picking = Picking {
        whose,
        client: way.client.filter(|_| whose == Whose::Client),
        host: (!of.host.as_str().is_empty()).then(|| host_point(of.host.as_str())),
        picks: route.picks.clone(),
        deciders: route.deciders.clone(),
        about: None,
    };
    let session = way.session.as_ref().filter(|_| whose == Whose::Client);
    let asked = weir_upstream::Asked { picking: &picking, target: target.as_bytes(), headers: &headers };
    let choice = way.upstream.as_ref().map(|upstream| choice(upstream, &asked, session));
    // What is another for each request or client stands there by its name.
    headers.insert(X_REQUEST_ID, HeaderValue::from_static("(made for each request)"));
    if of.client.is_none() {
        headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("(the client's address)"));
    }
    let lost = request::lost(&of.headers, &headers);
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    Asked { line: format!("{method} {target}"), headers, lost, choice }
}

/// Which origin would get it.
fn choice(upstream: &Upstream, asked: &weir_upstream::Asked<'_>, session: Option<&Session>) -> OriginChoice {
    let explained = upstream.explain(asked, session);
    let (pick, reason) =
        explained.picked.map_or(("", "no-origin"), |picked| (picked.pick.word(), picked.reason.word()));
    let picked = explained.picked.and_then(|picked| explained.origins.get(picked.at));
    OriginChoice {
        origin: picked.map(|origin| origin.name.clone()),
        pick,
        reason,
        asked: upstream.deciders_asked(asked.picking.deciders.as_ref()),
        origins: explained
            .origins
            .iter()
            .map(|origin| OriginConsidered {
                name: origin.name.clone(),
                share: origin.share,
                in_flight: origin.in_flight,
                why_not: origin.why_not.map(wording::of_why_not),
            })
            .collect(),
    }
}
