//! What `resolve` must do, by example.

use crate::{
    Action, PageFor, RangeRules, ResolvedLimit, ResolvedRate,
    model::{Https, Protocol, SiteCertificate},
    sample::{expect, good},
    value::HostRule,
};
use http::{HeaderMap, StatusCode};
use std::time::Duration;
use weir_policy::{CacheRules, Lifetimes, QueryOrder, QueryRule};

const HEAD: &str = "
[upstream.app]
origins = [\"https://app.example:8443\"]
host = \"origin\"
[defaults]
ttl = \"1m\"
stale = { while_revalidate = \"1m\", if_error = \"1h\", if_unreachable = \"3h\" }
response_headers = { set = { X-A = \"defaults\", X-B = \"defaults\", X-C = \"defaults\" }, \
remove = [\"Server\"] }
error_pages = { \"*\" = \"<p>all\", \"502\" = \"defaults\" }
[[site]]
hosts = [\"a.example\"]
upstream = \"app\"
key = { query = { drop = [\"utm_*\"], sort = true }, cookies = [\"currency\"] }
response_headers = { set = { x-a = \"site\" } }
";

#[test]
fn the_nearest_layer_wins() {
    let loaded = good(&format!(
        "{HEAD}
[[site.route]]
prefix = \"/a\"
host = \"b.example\"
ttl = \"0s\"
revalidation_wait = \"5s\"
stale = {{ if_error = \"2h\" }}
key = {{ headers = [\"Accept\"] }}
response_headers = {{ remove = [\"X-B\"] }}
error_pages = {{ \"502\" = \"route\" }}
"
    ));
    let site = &loaded.resolved()[0];
    let (route, rest) = (&site.routes[0], &site.routes[1]);
    let plain = Lifetimes::plain;
    assert_eq!(
        (&route.cache.ttl, &rest.cache.ttl),
        (&plain(Duration::ZERO), &plain(Duration::from_secs(60)))
    );
    assert_eq!(route.cache.stale.while_revalidate, Some(Duration::from_secs(60)));
    assert_eq!(route.cache.stale.if_error, Some(Duration::from_secs(7200)));
    assert_eq!(route.cache.stale.if_unreachable, Some(Duration::from_secs(3 * 3600)));
    assert_eq!(
        (route.revalidation_wait, rest.revalidation_wait),
        (Duration::from_secs(5), Duration::from_secs(2))
    );
    assert_eq!(route.cache.key.query, QueryRule::Drop(vec!["utm_*".into()]));
    assert_eq!(route.cache.key.order, QueryOrder::Sorted);
    assert_eq!(route.cache.key.headers, ["accept"]);
    assert_eq!(route.cache.key.cookies, ["currency"]);
    let set: Vec<_> = route
        .response_edits
        .set
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    assert_eq!(set, [("x-c", "defaults"), ("x-a", "site")]);
    assert_eq!(route.response_edits.remove, ["x-b"]);
    assert_eq!(rest.response_edits.remove, ["server"]);
    let pages: Vec<_> =
        route.error_pages.iter().map(|(which, page)| (*which, page.content_type, &page.body[..])).collect();
    let text = "text/plain; charset=utf-8";
    assert_eq!(
        pages,
        [
            (PageFor::Every, "text/html; charset=utf-8", &b"<p>all"[..]),
            (PageFor::Status(StatusCode::BAD_GATEWAY), text, b"route")
        ]
    );
    let hosts = [route, rest].map(|route| match &route.action {
        Action::Forward { host, .. } => host.clone(),
        other => panic!("{other:?}"),
    });
    assert_eq!(hosts, [HostRule::Fixed("b.example".into()), HostRule::Origin]);
    assert_eq!(
        (route.place.to_string(), rest.place.to_string()),
        ("weir.toml:16".into(), "weir.toml:10".into())
    );
}

#[test]
fn without_a_word_all_is_default() {
    let loaded = good("[upstream.a]\norigins = [\"http://a\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"a\"");
    assert_eq!(loaded.resolved()[0].routes[0].cache, CacheRules::default());
    assert_eq!(loaded.config.limits, crate::model::Limits::default());
    assert_eq!(
        loaded.config.upstream["a"],
        crate::model::Upstream::of(vec![crate::model::OriginEntry::Url("http://a".parse().unwrap())])
    );
}

#[test]
fn answers_and_redirects() {
    let loaded = good(
        "[[site]]
hosts = [\"*\"]
[[site.route]]
path = \"/robots.txt\"
answer = { body = \"User-agent: *\" }
[[site.route]]
path = \"/gone\"
answer = { status = 410, headers = { X-Why = \"${TOKEN}\" } }
[[site.route]]
path = \"/json\"
answer = { body = \"{}\", headers = { content-type = \"application/json\" } }
[[site.route]]
redirect = { to = \"https://b.example{uri}\", status = 308 }
",
    );
    let routes = &loaded.resolved()[0].routes;
    let answer = |at: usize| match &routes[at].action {
        Action::Answer { status, headers, body, .. } => (status.as_u16(), headers.clone(), body.clone()),
        other => panic!("{other:?}"),
    };
    let field =
        |headers: &HeaderMap, name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let (status, headers, body) = answer(0);
    assert_eq!((status, &body[..]), (200, &b"User-agent: *"[..]));
    assert_eq!(field(&headers, "content-type").as_deref(), Some("text/plain; charset=utf-8"));
    let (status, headers, body) = answer(1);
    assert_eq!((status, body.len()), (410, 0));
    assert_eq!((headers.len(), field(&headers, "x-why").as_deref()), (1, Some("secret")));
    assert_eq!(field(&answer(2).1, "content-type").as_deref(), Some("application/json"));
    assert!(matches!(&routes[3].action, Action::Redirect { status, .. } if status.as_u16() == 308));
    assert!(matches!(routes[4].action, Action::NotFound));
}

#[test]
fn maintenance_may_be_off() {
    let text = |inner: &str| {
        format!(
            "[upstream.a]\norigins = [\"http://a\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"a\"\n\
             maintenance = {inner}"
        )
    };
    let of = |inner: &str| good(&text(inner)).resolved()[0].routes[0].maintenance.clone();
    assert_eq!(of("{}").unwrap().retry_after, Duration::from_secs(300));
    assert_eq!(of("{ page = \"closed\" }").unwrap().page.unwrap().body, "closed");
    assert!(of("{ on = false }").is_none());
}

#[test]
fn ranges_are_inherited_key_by_key() {
    let loaded = good(
        "[upstream.app]
origins = [\"http://127.0.0.1:1\"]
[defaults]
range = { chunk = \"2MiB\", parallel = 8 }
[[site]]
hosts = [\"a.example\"]
upstream = \"app\"
[[site.route]]
prefix = \"/a\"
range = { fill = \"whole\", parallel = 1 }",
    );
    let site = &loaded.resolved()[0];
    let rest = RangeRules { chunk_bytes: 2 << 20, parallel: 8, ..RangeRules::default() };
    assert_eq!(site.routes[1].range, rest);
    assert_eq!(site.routes[0].range, RangeRules { fills_whole: true, parallel: 1, ..rest });
}

#[test]
fn an_empty_table_of_conditions_undoes_the_inherited_one() {
    let loaded = good(
        "[upstream.app]
origins = [\"http://127.0.0.1:1\"]
[[site]]
hosts = [\"a.example\"]
upstream = \"app\"
bypass = { cookies = [\"session\"], headers = [\"X-A\"] }
[[site.route]]
prefix = \"/none\"
bypass = {}
[[site.route]]
prefix = \"/one\"
bypass = { cookies = [] }",
    );
    let counts = |at: usize| {
        let bypass = &loaded.resolved()[0].routes[at].cache.bypass;
        (bypass.cookies.len(), bypass.headers.len())
    };
    assert_eq!([counts(0), counts(1), counts(2)], [(0, 0), (0, 1), (1, 1)]);
}

#[test]
fn the_nearest_rate_is_the_whole_rate() {
    let loaded = good(
        "[upstream.a]
origins = [\"http://a\"]
[defaults]
rate = { limit = \"1MB/s\", burst = \"2MB\", query = \"rate\" }
[[site]]
hosts = [\"*\"]
upstream = \"a\"
key = { query = { drop = [\"utm_*\"] } }
[[site.route]]
prefix = \"/free\"
rate = {}
[[site.route]]
prefix = \"/film\"
rate = { media = 1.2 }
[[site.route]]
prefix = \"/kept\"
key = { query = { keep = [\"rate\"] } }
",
    );
    let [free, film, kept, rest] = &loaded.resolved()[0].routes[..] else { panic!() };
    let whole = ResolvedRate {
        limit: Some(ResolvedLimit::Fixed(1_000_000)),
        burst_bytes: 2_000_000,
        query: Some("rate".into()),
        query_max: None,
        media: None,
    };
    assert_eq!((&free.rate, &rest.rate, &kept.rate), (&None, &Some(whole.clone()), &Some(whole)));
    assert_eq!(film.rate.as_ref().map(|rate| (rate.limit.clone(), rate.media)), Some((None, Some(1.2))));
    // What asks for a rate tells no objects apart, unless the key names it.
    let dropped = |names: &[&str]| QueryRule::Drop(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(rest.cache.key.query, dropped(&["utm_*", "rate"]));
    assert_eq!(free.cache.key.query, dropped(&["utm_*"]));
    assert_eq!(kept.cache.key.query, QueryRule::Keep(vec!["rate".into()]));
}

#[test]
fn a_map_chooses_among_known_upstreams_and_is_in_the_key() {
    let text = |rules: &str, more: &str| {
        format!(
            "[upstream.pool-a]\norigins = [\"http://a\"]\n[upstream.pool-b]\norigins = [\"http://b\"]\n\
             host = \"b.example\"\n[[site]]\nhosts = [\"*\"]\nupstream = \"pool-{{map.pool}}\"\n{rules}\n\
             [map.pool]\nof = \"{{cookie.pool}}\"\nrules = [[\"x\", \"b\"]]\n{more}\n"
        )
    };
    let loaded = good(&text("key = { values = [\"{host}\"] }", "default = \"a\""));
    let route = &loaded.resolved()[0].routes[0];
    let Action::Choose { upstreams, .. } = &route.action else { panic!("{:?}", route.action) };
    let fixed = HostRule::Fixed("b.example".into());
    assert_eq!(*upstreams, [("pool-a".to_owned(), HostRule::Client), ("pool-b".to_owned(), fixed)]);
    let keyed: Vec<String> = route.cache.key.values.iter().map(ToString::to_string).collect();
    assert_eq!(keyed, ["{host}", "{map.pool}"]);
    let none = "the map `pool` has no `default`, and chooses an upstream";
    expect(&text("", ""), &[(8, none)]);
    let other = "the map `pool` says `c`, and there is no upstream `pool-c`";
    expect(&text("", "default = \"c\""), &[(8, other)]);
    expect(
        &text("", "default = \"a\"").replace("[map.pool]", "[map.poll]"),
        &[(8, "there is no map `pool`")],
    );
    let only = "`pool-{host}`: one map chooses here, and nothing else: `{map.NAME}`";
    expect(&text("", "default = \"a\"").replace("-{map.pool}", "-{host}"), &[(8, only)]);
}

#[test]
fn a_map_says_a_rate_or_none() {
    let text = |rate: &str, result: &str| {
        format!(
            "[upstream.a]\norigins = [\"http://a\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"a\"\n\
             rate = {rate}\n[map.speed]\nof = \"{{cookie.plan}}\"\nrules = [[\"free\", \"{result}\"]]\n"
        )
    };
    for rate in ["\"{map.speed}\"", "{ limit = \"{map.speed}\", burst = \"1MB\" }"] {
        let loaded = good(&text(rate, "500kB/s"));
        let limit = loaded.resolved()[0].routes[0].rate.as_ref().and_then(|rate| rate.limit.clone());
        assert!(matches!(limit, Some(ResolvedLimit::Chosen(_))), "{limit:?}");
        let fast = "the map `speed` says `fast`, which is no rate: `fast` has no number at its beginning";
        let found = crate::sample::sentences(&text(rate, "fast"));
        assert!(found.len() == 1 && found[0].1.starts_with(&fast[..48]), "{found:?}");
        let zero = crate::sample::sentences(&text(rate, "0B/s"));
        assert!(zero.len() == 1 && zero[0].1.contains("a rate of 0 would never end"), "{zero:?}");
    }
    let plain = good(&text("\"1MB/s\"", "1MB/s"));
    let limit = plain.resolved()[0].routes[0].rate.as_ref().and_then(|rate| rate.limit.clone());
    assert_eq!(limit, Some(ResolvedLimit::Fixed(1_000_000)));
}

#[test]
fn a_site_says_what_it_wants_of_tls() {
    let loaded = good(
        "[upstream.app]
origins = [\"http://127.0.0.1:1\"]
[defaults]
upstream = \"app\"
[[site]]
hosts = [\"a.example\"]
https = \"redirect\"
hsts = \"365d\"
certificate = \"self\"
[[site]]
hosts = [\"b.example\"]
hsts = { max_age = \"1d\", subdomains = true, preload = true }
[[site]]
hosts = [\"c.example\"]
",
    );
    let [a, b, c] = loaded.resolved() else { panic!("three sites") };
    assert_eq!(a.https, Some(Https::Redirect));
    assert_eq!(a.certificate, Some(SiteCertificate::SelfSigned));
    assert_eq!(a.hsts.as_ref().unwrap(), "max-age=31536000");
    assert_eq!(b.hsts.as_ref().unwrap(), "max-age=86400; includeSubDomains; preload");
    assert_eq!((c.https, &c.hsts, &c.client_certificate), (None, &None, &None));
}

#[test]
fn a_listener_has_protocols() {
    let loaded = good(
        "[upstream.app]
origins = [\"http://127.0.0.1:1\"]
[[site]]
hosts = [\"*\"]
upstream = \"app\"
certificate = \"self\"
[[listen]]
address = \"127.0.0.1:1\"
[[listen]]
address = \"127.0.0.1:2\"
tls = true
[[listen]]
address = \"127.0.0.1:3\"
protocols = [\"h2\"]
",
    );
    let protocols: Vec<_> = loaded.config.listen.iter().map(|listen| listen.protocols()).collect();
    let both: &[Protocol] = &[Protocol::H2, Protocol::Http1];
    assert_eq!(protocols, [&[Protocol::Http1], both, &[Protocol::H2]]);
}
