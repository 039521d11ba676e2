//! At which gate a request ends, by table.

use http::{HeaderMap, Method};
use weir_policy::{CacheRules, Consult, MissReason, RequestView, consult};

use super::*;

/// What a request's connection and warming say.
#[derive(Clone, Copy, Default)]
struct Said {
    gives_way: bool,
    is_early: bool,
    has_logged_in: bool,
}

impl Comer for Said {
    fn gives_way(&self) -> bool {
        self.gives_way
    }

    fn is_early(&self) -> bool {
        self.is_early
    }

    fn has_logged_in(&self) -> bool {
        self.has_logged_in
    }
}

fn ask() -> Ask {
    let view = RequestView {
        method: &Method::GET,
        scheme: "http",
        host: "a",
        path_and_query: "/",
        headers: &HeaderMap::new(),
        has_body: false,
        is_trusted: false,
    };
    match consult(&view, &CacheRules::default()) {
        Consult::Use(ask) => ask,
        Consult::Pass(reason) => panic!("{reason:?}"),
    }
}

#[test]
fn a_request_ends_at_the_first_gate_that_does_not_let_it_through() {
    let (miss, timeout) = (Decision::Fetch(MissReason::Uri), Decision::GatewayTimeout);
    let all = Said { gives_way: true, is_early: true, has_logged_in: true };
    let early = Said { gives_way: false, ..all };
    let known = Said { is_early: false, ..early };
    for (said, ask, decision, expect) in [
        (all, ask().unstoring(), timeout, After::Warming),
        (early, ask().unstoring(), timeout, After::EarlyData),
        (known, ask().unstoring(), timeout, After::OnlyIfCached),
        (known, ask().unstoring(), miss, After::Login),
        (Said::default(), ask().unstoring(), miss, After::NoStore),
        (Said::default(), ask(), miss, After::Origin),
    ] {
        assert_eq!(After::of(&said, &ask, &decision), expect);
    }
}

#[test]
fn every_gate_has_its_place_and_a_name_of_its_own() {
    let (before, after) = (BEFORE.map(Gate::Before), AFTER.map(Gate::After));
    let all: Vec<Gate> = [Gate::Itself].into_iter().chain(before).chain([Gate::Cache]).chain(after).collect();
    assert_eq!(all, GATES.map(|(gate, ..)| gate));
    let mut names = GATES.map(|(gate, ..)| gate.name());
    names.sort_unstable();
    assert!(names.windows(2).all(|two| two[0] != two[1]));
}
