//! Where a request leads: to a site and a route of the plan, or to an answer that needs neither. The walk and
//! `weir explain` ask the same. It must not answer.

use std::sync::Arc;

use http::header::CACHE_CONTROL;
use http::{HeaderValue, Method, StatusCode};
use weir_front::Client;
use weir_policy::RequestView;
use weir_policy::purge::is_purge;
use weir_wire::Host;

use crate::exchange::Note;
use crate::local::{self, Reply};
use crate::plan::{Plan, Route, Site};
use crate::secured::{self, Unsecured};
use crate::shared::Shared;
use crate::transform::request::{ends_here, is_loop};
use crate::values::{Circumstances, OfRequest};
use crate::ways::{Led, lead};

/// Where a request goes.
pub(crate) enum Routed<'r> {
    /// Weir answers it itself.
    Local(Box<Reply>),
    /// To a route of a site with an upstream, or with files.
    To(&'r Arc<Site>, &'r Arc<Route>),
    /// It asks for a purge; the route is that of its URL.
    Purge(Option<&'r Arc<Route>>),
}

impl Routed<'_> {
    fn is_local(&self) -> bool {
        matches!(self, Routed::Local(_))
    }
}

/// A request with its place in the configuration.
pub(crate) struct Placed<'r> {
    pub(crate) site: Option<&'r Arc<Site>>,
    pub(crate) route: Option<&'r Arc<Route>>,
    pub(crate) to: Routed<'r>,
}

/// Finds the route of a request, or the answer that needs none, and notes both.
pub(crate) fn route<'r>(note: &mut Note<'r>, client: &mut dyn Client) -> Routed<'r> {
    let (asked, told) = (&note.asked, &mut note.told);
    let (request, plan) = (asked.request, &asked.running.plan);
    let Placed { site, route, mut to } =
        placed(&asked.core.shared, plan, &request.host, &asked.view(), asked);
    if let Some(site) = site {
        if !to.is_local()
            && let Some(unfit) = secured::unfit(&request.peer, site, request.host.name())
        {
            to = to_local(Reply::error(unfit.status, unfit.word, unfit.text));
        }
        told.site = Some(site);
        told.facts.site = site.id;
        told.note_for(asked, site.id);
        client.count_for(site.id);
    }
    let access = route.and_then(|route| route.access.as_ref()).filter(|_| !matches!(to, Routed::Purge(_)));
    if access.is_some_and(|access| !access.admits(asked.client())) {
        let mut reply = Reply::error(StatusCode::FORBIDDEN, "denied", "this client may not ask for this");
        reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        to = to_local(reply);
    }
    told.route = route;
    to
}

/// Where a request goes; the walk and `explain` call it.
pub(crate) fn placed<'r>(
    shared: &Shared,
    plan: &'r Plan,
    host: &Host,
    view: &RequestView<'_>,
    beside: &dyn Circumstances,
) -> Placed<'r> {
    let path = view.path();
    let local = |reply| Placed { site: None, route: None, to: to_local(reply) };
    if plan.is_health(path) {
        return local(local::health(shared));
    }
    if let Some(content) = shared.proofs.find(host.name(), path) {
        return local(Reply::line(StatusCode::OK, "acme", content));
    }
    if is_loop(view.headers, &shared.own.id) {
        let text = "this request has been here before";
        let reply = Reply::error(StatusCode::LOOP_DETECTED, "loop", text);
        return local(reply.proxy_status("proxy_loop_detected"));
    }
    if ends_here(view.method, view.headers) {
        return local(local::options());
    }
    let (found, port) = (plan.site(host.name()), beside.listener_port());
    if let Some(purge) = purged_by(found, view, port) {
        return Placed { site: found, route: purge, to: Routed::Purge(purge) };
    }
    let Some(site) = found else {
        let text = "no site has this host";
        return local(Reply::error(StatusCode::MISDIRECTED_REQUEST, "unknown-host", text));
    };
    if let Some(unsecured) = secured::unsecured(plan, site, host.name(), view) {
        let reply = match unsecured {
            Unsecured::Redirect(target) => local::to_https(target),
            Unsecured::Refuse => Reply::error(StatusCode::FORBIDDEN, "needs-https", "this site needs TLS"),
        };
        return Placed { site: Some(site), ..local(reply) };
    }
    let route = match lead(site.routes(), view, port, beside) {
        Led::To(route) => route,
        Led::Nowhere => {
            let text = "no route of this site takes this path";
            let reply = Reply::error(StatusCode::NOT_FOUND, "no-route", text);
            return Placed { site: Some(site), ..local(reply) };
        }
        Led::Torn(why) => return Placed { site: Some(site), ..local(local::torn(why)) },
    };
    if let Some(unfit) = route.limits.as_ref().and_then(|limits| limits.refuse(view)) {
        let reply = Reply::error(unfit.status, unfit.word, unfit.word);
        return Placed { site: Some(site), route: Some(route), ..local(reply) };
    }
    let known = || OfRequest { view: *view, site: &site.name, route: route.words(), beside };
    let to = match route.answer(known) {
        Some(answered) => Routed::Local(Box::new(local::of_route(answered))),
        None => Routed::To(site, route),
    };
    Placed { site: Some(site), route: Some(route), to }
}

/// The route of the URL in a request that asks for a purge, where a site has its host. None where the request
/// does not, or a route's own `method` names its method.
fn purged_by<'r>(
    site: Option<&'r Arc<Site>>,
    view: &RequestView<'_>,
    port: Option<u16>,
) -> Option<Option<&'r Arc<Route>>> {
    if !is_purge(view.method) {
        return None;
    }
    let path = view.path();
    let of = |method| site.and_then(|site| site.route(&RequestView { method, ..*view }, path, port));
    if of(view.method).is_some_and(|route| route.names(view.method)) {
        return None;
    }
    Some(of(&Method::GET))
}

fn to_local(reply: Reply) -> Routed<'static> {
    Routed::Local(Box::new(reply))
}
