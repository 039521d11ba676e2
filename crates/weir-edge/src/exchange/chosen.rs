//! What was chosen for a request: its site and route, and what these make of it. Each is found once, and does
//! not change.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use http::HeaderMap;
use weir_policy::RequestView;
use weir_upstream::affinity::Reading;
use weir_wire::Target;

use super::asked::Asked;
use crate::plan::{Route, Site};
use crate::present::Reader;
use crate::route::{DotSegment, Rewritten};
use crate::values::OfRequest;

/// The site and the route of a request, and what these make of it.
pub(crate) struct Chosen<'c> {
    pub(crate) site: &'c Arc<Site>,
    pub(crate) route: &'c Arc<Route>,
    /// What the request says of its session.
    pub(crate) reading: OnceCell<Reading>,
    /// What the origin is asked for in place of the client's path and query.
    rewritten: OnceCell<Rewritten>,
    /// The request's fields as origins get them, where the route sets some of them to values.
    selecting: OnceCell<Box<HeaderMap>>,
}

impl<'c> Chosen<'c> {
    /// A site and one of its routes.
    pub(crate) fn new(site: &'c Arc<Site>, route: &'c Arc<Route>) -> Chosen<'c> {
        Chosen {
            site,
            route,
            reading: OnceCell::new(),
            rewritten: OnceCell::new(),
            selecting: OnceCell::new(),
        }
    }

    /// The same, with the upstream that a map of the route chooses for this request.
    pub(crate) fn by_maps(asked: &Asked<'_>, site: &'c Arc<Site>, route: &'c Arc<Route>) -> Chosen<'c> {
        Chosen::new(site, route.chosen(|| asked.known(&site.name, route)))
    }

    /// What placeholders stand for in this request, with the query as it was received.
    pub(crate) fn known<'a>(&'a self, asked: &'a Asked<'_>) -> OfRequest<'a> {
        asked.known(&self.site.name, self.route)
    }

    /// Finds what the origin is asked for in place of the client's path, where the route rewrites it.
    ///
    /// # Errors
    /// A rule fits, and the path has a dot segment, or would have one.
    pub(crate) fn rewrite(&self, asked: &Asked<'_>) -> Result<(), DotSegment> {
        if self.route.has_rewrites()
            && matches!(asked.request.target, Target::Path(_))
            && let Some(rewritten) = self.route.rewritten(&self.known(asked))?
        {
            self.rewritten.get_or_init(|| rewritten);
        }
        Ok(())
    }

    /// What the origin is asked for in place of the client's path and query; `None` where it is those.
    pub(crate) fn rewritten(&self) -> Option<&Rewritten> {
        self.rewritten.get()
    }

    /// Path and query for the origin: what the key leaves of them, or what the route makes of that.
    pub(crate) fn target<'a>(&'a self, asked: &'a Asked<'_>) -> Cow<'a, str> {
        let instead = asked.warming.and_then(|warming| warming.instead.as_ref());
        match (instead, self.rewritten()) {
            (Some((_, target)), _) => Cow::Borrowed(target),
            (None, Some(rewritten)) => Cow::Borrowed(&rewritten.target),
            (None, None) => forwarded(self.route, asked.path_and_query()),
        }
    }

    /// The request's fields as `Vary` selects by them: what the route sets to values replaces what the
    /// client has sent, since origins see that.
    pub(crate) fn selecting<'a>(&'a self, asked: &'a Asked<'_>) -> &'a HeaderMap {
        if self.route.request_values().is_empty() {
            return &asked.request.headers;
        }
        self.selecting.get_or_init(|| {
            let mut headers = asked.request.headers.clone();
            self.set_values(asked, &mut headers);
            Box::new(headers)
        })
    }

    /// Sets the fields whose values have placeholders. The query in them is the one that the origin gets:
    /// what the key leaves out must not reach what others are given.
    pub(crate) fn set_values(&self, asked: &Asked<'_>, headers: &mut HeaderMap) {
        if !self.route.request_values().is_empty() {
            let target = forwarded(self.route, asked.path_and_query());
            let view = RequestView { path_and_query: &target, ..asked.view() };
            self.route.set_values(&OfRequest { view, ..self.known(asked) }, headers);
        }
    }

    /// The client that the response's fields are written for, and the response's age when it goes out.
    pub(crate) fn reader<'a>(&self, asked: &'a Asked<'_>, age_s: u64) -> Reader<'a> {
        let own = &asked.core.shared.own;
        let trust = asked.request.peer.trust;
        let rule = self.rewritten().map(|rewritten| rewritten.rule);
        Reader { scheme: asked.scheme, host: asked.request.host.as_str(), own, age_s, trust, rule }
    }
}

/// The part of the target that a route keeps in the key. The origin is asked for the same.
fn forwarded<'a>(route: &Route, path_and_query: &'a str) -> Cow<'a, str> {
    weir_policy::forwarded(&route.rules.key, path_and_query)
}
