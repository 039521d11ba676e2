//! The names under which keys may have what a URL or a prefix means: the URL of each key's first line, or how
//! it begins. One way for purges, retentions and listings. It must not search what is held.

use http::{HeaderMap, Method};
use weir_config::value::Takes;
use weir_policy::{Beginning, CacheKey, RequestView};
use weir_store::{PREFIX_BYTES_MAX, Scope};

use super::Place;
use crate::plan::Site;
use crate::route::{KeyPath, Purger, Rights, Route, Unknown, Whose};
use crate::values::{OfRequest, Unasked};

/// A URL in keys, or how it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) site: u64,
    pub(crate) text: Beginning,
    /// Whether what was not named has it too.
    pub(crate) is_wider: bool,
}

impl Name {
    fn of(site: &Site, text: Beginning, is_wider: bool) -> Name {
        // A longer one is cut.
        let is_cut = matches!(&text, Beginning::Open(begin) if begin.len() > PREFIX_BYTES_MAX);
        Name { site: site.mark, text, is_wider: is_wider || is_cut }
    }

    /// The mark's scope.
    pub(crate) fn scope(&self) -> Scope {
        match &self.text {
            Beginning::Whole(url) => {
                let digest = CacheKey::new(url.clone().into()).digest;
                Scope::Url { site: self.site, digest }
            }
            Beginning::Open(begin) => Scope::prefix(self.site, begin),
        }
    }

    /// Its text.
    pub(crate) fn text(&self) -> &str {
        match &self.text {
            Beginning::Whole(text) | Beginning::Open(text) => text,
        }
    }

    /// Whether it is a whole URL.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.text, Beginning::Whole(_))
    }

    /// Whether a URL of a key is one of these.
    pub(crate) fn has(&self, url: &[u8]) -> bool {
        match &self.text {
            Beginning::Whole(whole) => url == whole.as_bytes(),
            Beginning::Open(begin) => url.starts_with(begin.as_bytes()),
        }
    }
}

impl Place<'_> {
    /// The URL as a client asks for it and as `weir list` shows it, and as each route for GET or HEAD has it
    /// in its keys.
    pub(super) fn names(&self) -> Vec<Name> {
        self.collected(Beginning::Whole, |view| {
            // Each of our ports may lead to another route.
            let routes = self.site.storing(view, Unknown::Port);
            let all = routes.into_iter().flat_map(|route| route.all_chosen());
            all.flat_map(|route| route.targets(&self.known(route, *view), Whose::All)).collect()
        })
    }

    /// The same of all URLs that begin with this one.
    pub(super) fn names_below(&self) -> Vec<Name> {
        self.collected(Beginning::Open, |view| {
            let mut all: Vec<KeyPath> = Vec::new();
            let mut of_route = |route: &Route, takes| {
                let below = |route: &Route| route.targets_below(&self.known(route, *view), takes);
                route.all_chosen().for_each(|route| all.extend(below(route)));
            };
            if self.path_and_query.contains('?') {
                let routes = self.site.storing(view, Unknown::Port);
                routes.into_iter().for_each(|route| of_route(route, Takes::All));
                return all;
            }
            let mut takes_all = Takes::All;
            for route in self.site.routes().iter().filter(|route| !route.never_stores) {
                let takes = route.takes_below(view, &self.path_and_query);
                if takes == Takes::None {
                    continue;
                }
                of_route(route, if takes_all == Takes::All { takes } else { Takes::Some });
                if takes == Takes::All {
                    break;
                }
                takes_all = Takes::Some;
            }
            all
        })
    }

    /// The place's own text, and what `of` says for a GET and for a HEAD.
    fn collected(
        &self,
        own: fn(String) -> Beginning,
        of: impl Fn(&RequestView<'_>) -> Vec<KeyPath>,
    ) -> Vec<Name> {
        let headers = HeaderMap::new();
        let begin = format!("{}://{}", self.scheme.as_str(), self.host.as_str());
        let mut all = vec![Name::of(self.site, own(format!("{begin}{}", self.path_and_query)), false)];
        for method in [Method::GET, Method::HEAD] {
            for KeyPath { text, is_wider } in of(&self.view(&method, &headers)) {
                let text = match text {
                    Beginning::Whole(text) => Beginning::Whole(format!("{begin}{text}")),
                    Beginning::Open(text) => Beginning::Open(format!("{begin}{text}")),
                };
                let name = Name::of(self.site, text, is_wider);
                if !all.contains(&name) {
                    all.push(name);
                }
            }
        }
        all
    }

    /// The least that a client may purge of what is stored under the URL: by a GET or a HEAD, by whichever
    /// port of ours. Several routes may store under one key.
    pub(super) fn rights(&self, purger: &Purger<'_>) -> Rights {
        let headers = HeaderMap::new();
        let of_routes = |method: &Method| {
            let view = self.view(method, &headers);
            let mut routes = self.site.storing(&view, Unknown::Port);
            if routes.is_empty() {
                // A key of another URL may have this text.
                routes = self.site.candidates(&view, Unknown::Port);
            }
            routes.iter().map(|route| route.purgers.rights(purger)).min()
        };
        [Method::GET, Method::HEAD].iter().filter_map(of_routes).min().unwrap_or(Rights::Nothing)
    }

    fn view<'a>(&'a self, method: &'a Method, headers: &'a HeaderMap) -> RequestView<'a> {
        RequestView {
            method,
            scheme: self.scheme.as_str(),
            host: self.host.as_str(),
            path_and_query: &self.path_and_query,
            headers,
            has_body: false,
            is_trusted: false,
        }
    }

    fn known<'a>(&'a self, route: &'a Route, view: RequestView<'a>) -> OfRequest<'a> {
        OfRequest { view, site: &self.site.name, route: route.words(), beside: &Unasked }
    }
}
