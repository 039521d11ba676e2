//! What an unsafe request has made invalid (RFC 9111 §4.4). Any client makes such marks, so that each is of
//! one URL of keys, and is made only where that may be held or is on its way: never a prefix or a site. Where
//! maps choose the path in the key, all that they choose is marked; where fields, cookies or addresses do,
//! what this request would get.

use http::Method;
use smallvec::SmallVec;
use weir_clock as clock;
use weir_policy::{Beginning, CacheKey, RequestView};
use weir_store::Scope;
use weir_upstream::OriginResponse;
use weir_wire::without_dots;

use crate::exchange::{Asked, Chosen};
use crate::plan::{Route, Site};
use crate::route::{Unknown, Whose};
use crate::values::OfRequest;

/// Marks what an unsafe request has made invalid, where any of it may be held or on its way. Requests to the
/// origin from here on are sent after this response, so the mark does not concern them.
pub(super) fn invalidate(asked: &Asked<'_>, chosen: &Chosen<'_>, response: &OriginResponse) {
    let view = asked.view();
    // What the origin says of its own paths, as clients ask for them.
    let mapped = chosen.rewritten().map(|rewritten| {
        let mut headers = response.headers.clone();
        chosen.route.location_back(&mut headers, view.scheme, view.host, Some(rewritten.rule));
        headers
    });
    let headers = mapped.as_ref().unwrap_or(&response.headers);
    let targets = weir_policy::invalidation(&view, response.status, headers);
    // What has been stored since a reload has the names of the plan that is in force now.
    let now = asked.core.shared.running.load();
    let is_over = now.plan.number != asked.running.plan.number;
    let later = now.plan.site(asked.request.host.name()).filter(|_| is_over);
    for target in targets {
        let target = without_dots(&target);
        let view = RequestView { method: &Method::GET, path_and_query: &target, has_body: false, ..view };
        let mut seen: SmallVec<[u128; 2]> = SmallVec::new();
        for site in std::iter::once(chosen.site).chain(later) {
            // Other routes may answer for that URL, with another key, by each of our ports.
            for route in site.storing(&view, Unknown::Port) {
                route.all_chosen().for_each(|route| invalidate_of(asked, (site, route, &view), &mut seen));
            }
        }
    }
}

/// The same of the keys of one route.
fn invalidate_of(
    asked: &Asked<'_>,
    (site, route, view): (&Site, &Route, &RequestView<'_>),
    seen: &mut SmallVec<[u128; 2]>,
) {
    let known = OfRequest { view: *view, ..asked.known(&site.name, route) };
    for target in route.targets(&known, Whose::Alike) {
        let Beginning::Whole(text) = target.text else { continue };
        let url = CacheKey::new(format!("{}://{}{text}", view.scheme, view.host).into());
        if !seen.contains(&url.digest) && may_exist(asked, (site, route), &url) {
            seen.push(url.digest);
            let scope = Scope::Url { site: site.mark, digest: url.digest };
            asked.core.shared.store.invalidate(scope, clock::now());
        }
    }
}

/// Whether something of a URL may be held or is on its way. Marks are made only for what exists. Else anybody
/// could make so many that they are merged into marks on everything.
fn may_exist(asked: &Asked<'_>, (site, route): (&Site, &Route), url: &CacheKey) -> bool {
    let (shared, key) = (&asked.core.shared, &route.rules.key);
    let may_hold = |key: &CacheKey| shared.store.may_hold(key.digest, &key.full, site.mark);
    key.has_parts_of_requests()
        || shared.inflight.is_fetching(url.digest)
        || may_hold(url)
        || key.origin_line().is_some_and(|line| may_hold(&CacheKey::new([&*url.full, &line].concat().into())))
}
