//! What `plan` must do, by example.

use std::path::Path;

use http::{HeaderMap, Method};

use super::*;

pub(crate) fn load(text: &str) -> Loaded {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("weir-plan-{}-{number}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let loaded = weir_config::load(&path);
    std::fs::remove_file(&path).unwrap();
    loaded.unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn compile(loaded: &Loaded) -> Plan {
    Plan::compile(loaded, &|_| SiteId::NONE)
}

#[test]
fn hosts_lead_to_sites() {
    let site = |hosts: &str| format!("[[site]]\nhosts = [{hosts}]\nupstream = \"a\"\n");
    let text = [
        "[upstream.a]\norigins = [\"http://127.0.0.1:1\"]\n".to_owned(),
        site("\"a.example\", \"[::1]\""),
        site("\"*.example\""),
        site("\"*.b.example\""),
        site("\"c.b.example\""),
    ];
    let with_default = compile(&load(&format!("{}{}", text.concat(), site("\"*\""))));
    let without = compile(&load(&text.concat()));
    for (host, expected) in [
        ("a.example", Some("a.example")),
        ("[::1]", Some("a.example")),
        ("x.example", Some("*.example")),
        ("x.y.example", Some("*.example")),
        ("x.a.example", Some("*.example")),
        ("x.b.example", Some("*.b.example")),
        ("x.y.b.example", Some("*.b.example")),
        ("b.example", Some("*.example")),
        ("c.b.example", Some("c.b.example")),
        ("x.c.b.example", Some("*.b.example")),
        ("example", None),
        (".example", None),
        ("xexample", None),
        ("a.example.org", None),
        ("", None),
    ] {
        assert_eq!(without.site(host).map(|site| &*site.name), expected, "{host}");
        assert_eq!(with_default.site(host).map(|site| &*site.name), expected.or(Some("*")), "{host}");
    }
    assert_ne!(with_default.number, without.number);
}

fn view<'a>(
    (method, scheme, host, path_and_query): (&'a Method, &'a str, &'a str, &'a str),
    headers: &'a HeaderMap,
) -> RequestView<'a> {
    RequestView { method, scheme, host, path_and_query, headers, has_body: false, is_trusted: false }
}

/// The name of the route that takes a request on a listener with this port.
fn route_of(site: &Site, asked: (&Method, &str, &str, &str), port: Option<u16>) -> String {
    let headers = HeaderMap::new();
    let view = view(asked, &headers);
    site.route(&view, view.path(), port).unwrap().name.to_string()
}

#[test]
fn routes_are_told_apart_by_host_and_port() {
    let loaded = load(
        "[[listen]]\naddress = \"127.0.0.1:8080\"\n[[listen]]\naddress = \"127.0.0.1:8443\"\n\
         [[listen]]\naddress = \"127.0.0.1:8444\"\n\
         [upstream.a]\norigins = [\"http://127.0.0.1:1\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"a\"\n\
         [[site.route]]\nhosts = [\"m.Shop.test\", \"*.m.shop.test\"]\nport = [8443, 8444]\n\
         [[site.route]]\nhosts = [\"~^SHOP[0-9]+[.]test$\"]\nprefix = \"/a\"\n\
         [[site.route]]\nport = 8443\nprefix = \"/a\"\n\
         [[site.route]]\nhosts = [\"[::1]\", \"a*.test\"]\n",
    );
    let plan = compile(&loaded);
    let site = plan.site("any").unwrap();
    let (mobile, numbered) =
        ("host m.shop.test *.m.shop.test, port 8443 8444", "prefix /a, host ~^SHOP[0-9]+[.]test$");
    let starred = "host [::1] a*.test";
    for (host, path, port, expected) in [
        ("m.shop.test", "/", Some(8443), mobile),
        ("m.shop.test:8444", "/", Some(8444), mobile),
        ("x.y.m.shop.test", "/", Some(8444), mobile),
        // The port is the listener's, not the one that the client names.
        ("m.shop.test:8443", "/", Some(8080), "otherwise"),
        ("m.shop.test", "/", None, "otherwise"),
        ("xm.shop.test", "/", Some(8443), "otherwise"),
        ("shop12.test", "/a/b", Some(8443), numbered),
        ("shop12.test:80", "/a/b", None, numbered),
        ("shop12.test", "/b", None, "otherwise"),
        ("xshop12.test", "/a", None, "otherwise"),
        ("xshop12.test", "/a", Some(8443), "prefix /a, port 8443"),
        ("[::1]", "/", None, starred),
        ("[::1]:8080", "/", None, starred),
        ("a.b.test", "/", None, starred),
        ("b.test", "/", None, "otherwise"),
    ] {
        let found = route_of(site, (&Method::GET, "http", host, path), port);
        assert_eq!(found, expected, "{host} {path} {port:?}");
    }
    let candidates = |host: &str, path: &str, unknown: Unknown| {
        let headers = HeaderMap::new();
        let view = view((&Method::GET, "http", host, path), &headers);
        let found = site.candidates(&view, unknown);
        found.into_iter().map(|route| route.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(candidates("m.shop.test", "/a", Unknown::Port), [mobile, "prefix /a, port 8443", "otherwise"]);
    assert_eq!(candidates("shop1.test", "/a", Unknown::Port), [numbered]);
    assert_eq!(candidates("a.test", "/b", Unknown::Port), [starred]);
    assert_eq!(candidates("", "/b", Unknown::HostAndPort), [mobile, starred, "otherwise"]);
}

#[test]
fn the_first_route_that_fits_is_taken() {
    let loaded = load(
        "[upstream.a]\norigins = [\"http://127.0.0.1:1\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"a\"\n
[[site.route]]\npath = \"/img/*.png\"\n[[site.route]]\nprefix = \"/img/\"\nmethod = [\"GET\", \"HEAD\"]\n
[[site.route]]\nregex = \"^/p/[0-9]+$\"\nscheme = \"https\"\n[[site.route]]\npath = \"/exact\"\n",
    );
    let plan = compile(&loaded);
    let site = plan.site("any").unwrap();
    for (method, scheme, path, expected) in [
        (Method::GET, "http", "/img/a.png", "path /img/*.png"),
        (Method::POST, "http", "/img/a.png", "path /img/*.png"),
        (Method::GET, "http", "/img/a/b.png", "prefix /img/, method GET HEAD"),
        (Method::HEAD, "http", "/img/a.jpg", "prefix /img/, method GET HEAD"),
        (Method::POST, "http", "/img/a.jpg", "otherwise"),
        (Method::GET, "https", "/p/12", "regex ^/p/[0-9]+$, scheme https"),
        (Method::GET, "http", "/p/12", "otherwise"),
        (Method::GET, "https", "/p/12a", "otherwise"),
        (Method::GET, "http", "/exact", "path /exact"),
        (Method::GET, "http", "/exact/", "otherwise"),
        (Method::OPTIONS, "http", "*", "otherwise"),
    ] {
        let found = route_of(site, (&method, scheme, "any", path), None);
        assert_eq!(found, expected, "{method} {scheme} {path}");
    }
    let ids: std::collections::HashSet<u64> = site.routes().iter().map(|route| route.print_id).collect();
    assert_eq!(ids.len(), 5);
    let refetch = compile(&loaded);
    assert!(refetch.sites()[0].routes().iter().all(|route| !ids.contains(&route.print_id)));
}

#[test]
fn the_rest_of_the_configuration_is_carried_over() {
    let plan = compile(&load(
        "trusted_proxies = [\"10.0.0.0/8\"]\n[cache]\nmemory = \"1MiB\"\n[health]\npath = \"/up\"\n
[[listen]]\naddress = \"127.0.0.1:1\"\nproxy_protocol = \"v2\"\n[[listen]]\naddress = \"unix:/a?mode=0600\"\n
[limits]\nline = \"1KiB\"\nhead = \"2KiB\"\nfields = 3\nbody = \"4B\"
head_time = \"5s\"\nidle = \"6s\"\nbody_rate = \"7B\"
send_stall = \"8s\"\nhalf_close = \"11s\"\nconnections = 12
connections_per_client = 13\ntunnel_idle = \"9s\"\ndrain = \"10s\"\n
[upstream.b]\norigins = [\"unix:/run/b.sock\"]\n
[upstream.a]
origins = [{ url = \"https://a.example\", weight = 3 }, { url = \"http://[::1]:81\", backup = true }]
tls = { verify = false, sni = \"b.example\" }\nconnect = \"1s\"
first_byte = \"2s\"\nbetween_bytes = \"3s\"\npool_idle = \"4s\"
connections = 5\nqueue = 6\nqueue_wait = \"7s\"
retry = { on = [\"503\", \"closed\"], times = 2, budget = \"30%\", hedge = \"p95\" }
dns_refresh = \"8s\"\nhead = \"9KiB\"\nfields = 10
[upstream.a.eject]
failures = 11\nwithin = \"12s\"\ntime = \"13s\"
time_max = \"14s\"\nstatus = \"500-599,404\"\nat_most = \"30%\"
[[site]]\nhosts = [\"*\"]\nupstream = \"a\"\n",
    ));
    let seconds = Duration::from_secs;
    assert!(plan.is_health("/up") && !plan.is_health("/up/") && !plan.is_health("/"));
    assert_eq!(plan.memory_bytes(), 1 << 20);
    assert_eq!(plan.drain(), seconds(10));
    let unix = Address::Unix { path: "/a".into(), mode: 0o600 };
    assert_eq!(
        plan.listeners(),
        [
            (
                "127.0.0.1:1".parse().unwrap(),
                ListenerMode { greeting: Some(Form::V2), port: Some(1), ..ListenerMode::PLAIN }
            ),
            (unix, ListenerMode::PLAIN),
        ]
    );
    let limits = plan.limits();
    let head = &limits.head;
    assert_eq!(
        (head.line_bytes_max, head.head_bytes_max, head.fields_max, limits.body_bytes_max),
        (1024, 2048, 3, 4)
    );
    assert_eq!(
        (limits.head_time_max, limits.idle_time_max, limits.body_rate_min),
        (seconds(5), seconds(6), 7)
    );
    assert_eq!((limits.send_stall_max, limits.tunnel_idle_max), (seconds(8), seconds(9)));
    assert_eq!(limits.half_close_max, seconds(11));
    assert_eq!((limits.connections_max, limits.per_client_max), (12, 13));
    let upstreams = plan.upstreams();
    let [a, b] = upstreams.as_slice() else { panic!("{upstreams:?}") };
    assert_eq!((a.name.as_str(), b.name.as_str()), ("a", "b"));
    assert_eq!(a.origins.iter().map(|origin| origin.weight).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(a.origins[1].role, weir_upstream::Role::Backup);
    assert_eq!(a.origins[1].address.to_string(), "http://[::1]:81");
    assert_eq!(b.origins[0].address.to_string(), "unix:/run/b.sock");
    assert!(matches!(a.tls.verify, weir_upstream::Verify::Nothing));
    assert_eq!(a.tls.server_name.as_deref(), Some("b.example"));
    let times = &a.timeouts;
    assert_eq!((times.connect, times.first_byte, times.between_bytes), (seconds(1), seconds(2), seconds(3)));
    assert_eq!((times.pool_idle, times.queue, times.tunnel_idle), (seconds(4), seconds(7), seconds(9)));
    let bounds = &a.bounds;
    assert_eq!(
        (bounds.connections_max, bounds.queue_max, bounds.head_bytes_max, bounds.fields_max),
        (5, 6, 9216, 10)
    );
    let on = vec![weir_upstream::RetryOn::Unavailable, weir_upstream::RetryOn::Closed];
    assert_eq!(
        a.retries,
        weir_upstream::Retries { on, times: 2, budget_percent: 30, hedge_per_mille: Some(950) }
    );
    assert_eq!((a.ejection.failures, a.ejection.window), (11, seconds(12)));
    assert_eq!(
        (a.ejection.statuses.as_slice(), a.ejection.at_most_percent),
        (&[500..=599, 404..=404][..], 30)
    );
    assert_eq!(
        (a.ejection.backoff, a.ejection.backoff_max, a.resolve_every),
        (seconds(13), seconds(14), seconds(8))
    );
}

#[test]
fn the_defaults_of_all_rooms_agree() {
    let plan = compile(&load(
        "[upstream.a]\norigins = [\"http://127.0.0.1:1\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"a\"\n",
    ));
    let own = weir_upstream::UpstreamSettings::single("a", "http://127.0.0.1:1".parse().unwrap());
    assert_eq!(format!("{:?}", plan.upstreams()[0]), format!("{own:?}"));
    // The number of clients depends on the machine.
    let ClientLimits { connections_max, per_client_max, .. } = plan.limits();
    let limits = ClientLimits { connections_max, per_client_max, ..ClientLimits::default() };
    assert_eq!(format!("{:?}", plan.limits()), format!("{limits:?}"));
    let mode = ListenerMode { port: Some(8080), ..ListenerMode::PLAIN };
    assert_eq!(plan.listeners(), [("127.0.0.1:8080".parse().unwrap(), mode)]);
    assert!(!plan.is_health("/"));
}

#[test]
fn a_thousand_sites_of_ten_routes() {
    let mut text = String::from("[upstream.a]\norigins = [\"http://127.0.0.1:1\"]\n");
    for site in 0..1000 {
        text.push_str(&format!(
            "[[site]]\nhosts = [\"s{site}.example\", \"*.s{site}.example\"]\n\
             upstream = \"u{site}\"\nttl = \"1m\"\n"
        ));
        for route in 0..5 {
            text.push_str(&format!("[[site.route]]\npath = \"/a{route}/**/*.png\"\nttl = \"{route}s\"\n"));
            text.push_str(&format!(
                "[[site.route]]\nregex = \"^/s{site}/r{route}/[0-9]+$\"\nmethod = \"GET\"\n"
            ));
        }
    }
    for site in 0..1000 {
        text.push_str(&format!("[upstream.u{site}]\norigins = [\"http://127.0.0.1:1\"]\n"));
    }
    let started = weir_clock::mono();
    let loaded = load(&text);
    let loaded_at = weir_clock::mono();
    let plan = compile(&loaded);
    let compiled_at = weir_clock::mono();
    println!("load {:?}, compile {:?}", loaded_at - started, compiled_at - loaded_at);
    assert_eq!(plan.sites().len(), 1000);
    let site = plan.site("www.s999.example").unwrap();
    assert_eq!(site.routes().len(), 11);
    let headers = HeaderMap::new();
    let view = view((&Method::GET, "http", "a", "/s999/r4/17"), &headers);
    let route = site.route(&view, view.path(), None).unwrap();
    assert!(route.place.ends_with(&format!(":{}", 2 + 999 * 34 + 32)), "{}", route.place);
    let rounds = 100_000u32;
    let begun = weir_clock::mono();
    let mut found = 0;
    for _ in 0..rounds {
        found += usize::from(plan.site(std::hint::black_box("s500.example")).is_some());
    }
    println!("lookup {:?}", (weir_clock::mono() - begun) / rounds);
    assert_eq!(found, rounds as usize);
    assert!(Path::new(&loaded.files()[0]).is_absolute());
}
