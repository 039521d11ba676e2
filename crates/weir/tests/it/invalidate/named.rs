//! Orders about URLs whose keys have other paths and queries than clients ask for, on HTTP/1 and HTTP/2, with
//! and without a volume: what is named is fetched again, and its neighbours stay.

use serde_json::Value;
use weir_testkit::{Gate, H2Client, Origin, Response, Weir};

use crate::server::{listed, setup};

const VOLUME: &str = "[cache]\nadmission = \"always\"\nmemory = \"64MiB\"\n\
                      [[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"128MiB\"\n";

const MAPS: &str = r#"
[map.lang]
of = "{header.X-Lang}"
rules = [["de", "de"], ["fr", "fr"]]
default = "en"

[map.place]
of = "{client.address}"
rules = [["127.0.0.0/8", "here"]]
default = "there"
"#;

/// A rule for `/docs/**`, with the path that it makes in the key.
fn docs(to: &str) -> String {
    format!(
        "[[site.route]]\nprefix = \"/docs/\"\nkey = {{ path = \"rewritten\" }}\n\
         rewrite = [{{ from = \"/docs/**\", to = \"{to}\" }}]\n"
    )
}

fn config(origin: &Origin, volume: &str, sites: &str) -> String {
    format!(
        "trusted_proxies = []\n{volume}[admin]\nlisten = \"{{admin}}\"\n\
         [[listen]]\naddress = \"{{listen}}\"\n\
         protocols = [\"h2\", \"http/1.1\"]\n{MAPS}\n[upstream.main]\norigins = [\"{}\"]\n{sites}",
        origin.url()
    )
}

fn site(hosts: &str, more: &str) -> String {
    format!(
        "[[site]]\nhosts = [{hosts}]\nupstream = \"main\"\npurge = {{ allow = [\"127.0.0.0/8\"] }}\n{more}\n"
    )
}

/// Each answer is fresh for a day.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let target = exchange.request.target.clone();
        exchange.reply(200, &[("Cache-Control", "max-age=86400")], target);
    });
    origin
}

/// How a client speaks.
#[derive(Clone, Copy, Debug)]
enum Speaks {
    Http1,
    Http2,
}

fn ask(weir: &Weir, speaks: Speaks, method: &str, target: &str, fields: &[(&str, &str)]) -> Response {
    match speaks {
        Speaks::Http1 => {
            let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let mut client = weir.client();
            client.send(format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"));
            client.recv().unwrap()
        }
        Speaks::Http2 => {
            let lower: Vec<_> = fields.iter().map(|(name, value)| (name.to_lowercase(), *value)).collect();
            let lower: Vec<_> = lower.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            let mut client = H2Client::connect(weir.addr());
            let stream = client.ask(method, "a.test", target, &lower);
            client.recv(stream).unwrap()
        }
    }
}

/// A request: its target, and fields.
type Asked<'a> = (&'a str, &'a [(&'a str, &'a str)]);

/// Whether these are hits, after they have all been asked for once.
fn hits(weir: &Weir, speaks: Speaks, all: &[Asked<'_>]) -> Vec<bool> {
    all.iter().map(|(target, fields)| ask(weir, speaks, "GET", target, fields).is_hit()).collect()
}

/// In each way: does `act` with all of these held, and says which of them are hits afterwards.
fn check(sites: &str, all: &[Asked<'_>], expect: &[bool], act: impl Fn(&Weir, Speaks)) {
    for volume in ["", VOLUME] {
        for speaks in [Speaks::Http1, Speaks::Http2] {
            let origin = origin();
            let weir = setup().run_config(&config(&origin, volume, sites));
            hits(&weir, speaks, all);
            assert!(hits(&weir, speaks, all).iter().all(|is_hit| *is_hit), "{volume} {speaks:?}");
            act(&weir, speaks);
            assert_eq!(hits(&weir, speaks, all), expect, "{volume} {speaks:?} {sites}");
        }
    }
}

fn run(weir: &Weir, args: &[&str]) -> String {
    let output = weir.command(args);
    assert_eq!(output.code, Some(0), "{args:?} {output:?}");
    output.stdout
}

const DE: &[(&str, &str)] = &[("X-Lang", "de")];
const FR: &[(&str, &str)] = &[("X-Lang", "fr")];

const OF_MAPS: [Asked<'static>; 5] =
    [("/docs/a", &[]), ("/docs/a", DE), ("/docs/a", FR), ("/docs/ab", DE), ("/x", &[])];
const A_GOES: [bool; 5] = [false, false, false, true, true];

#[test]
fn a_url_goes_in_all_that_maps_choose() {
    for to in ["/{map.lang}/docs/{1}", "/{map.place}/{map.lang}/{1}", "/doc?p={1}&l={map.lang}"] {
        let sites = site("\"a.test\"", &docs(to));
        check(&sites, &OF_MAPS, &A_GOES, |weir, _| {
            let said = run(weir, &["purge", "http://a.test/docs/a"]);
            assert!(!said.contains("more than was named"), "{said}");
        });
        check(&sites, &OF_MAPS, &A_GOES, |weir, speaks| {
            let said = ask(weir, speaks, "PURGE", "/docs/a", &[]);
            assert!(said.header("cache-purge-result").unwrap().starts_with("exact"), "{:?}", said.head);
        });
        check(&sites, &OF_MAPS, &A_GOES, |weir, speaks| {
            assert_eq!(ask(weir, speaks, "POST", "/docs/a", &[("Content-Length", "0")]).status(), 200);
        });
        check(&sites, &OF_MAPS, &A_GOES, |weir, _| drop(run(weir, &["ttl", "http://a.test/docs/a", "0s"])));
    }
}

/// A target, where its keys begin, and the field that chooses in them.
const BY_FIELDS: [(&str, &str, &str, [&str; 2]); 2] = [
    ("/t/{header.X-Tenant | default 'none'}/{1}", "http://a.test/t/", "X-Tenant", ["t1", "t2"]),
    ("/s/{cookie.shop | default 'none'}/{1}", "http://a.test/s/", "Cookie", ["shop=s1", "shop=s2"]),
];

#[test]
fn where_fields_choose_more_goes_and_it_is_said() {
    for (to, begin, field, [one, other]) in BY_FIELDS {
        let sites = site("\"a.test\"", &docs(to));
        let (one, other) = ([(field, one)], [(field, other)]);
        let all: [Asked<'_>; 4] = [("/docs/a", &[]), ("/docs/a", &one), ("/docs/a", &other), ("/x", &[])];
        let all_go = [false, false, false, true];
        check(&sites, &all, &all_go, |weir, _| {
            let said = run(weir, &["purge", "http://a.test/docs/a"]);
            assert!(said.contains("more than was named") && said.contains(begin), "{said}");
            assert!(run(weir, &["history", "--json"]).contains("could not be told apart"));
        });
        check(&sites, &all, &all_go, |weir, speaks| {
            let said = ask(weir, speaks, "PURGE", "/docs/a", &[]);
            assert!(said.header("cache-purge-result").unwrap().starts_with("wildcard"), "{:?}", said.head);
            assert_eq!(weir.metric("weir_purges_widened_total"), Some(1.0));
        });
        // Longer or shorter lifetimes are for what is named alone.
        check(&sites, &all, &[true; 4], |weir, _| {
            let refused = weir.command(&["ttl", "http://a.test/docs/a", "0s"]);
            assert!(refused.code != Some(0) && refused.stderr.contains("name a tag"), "{refused:?}");
        });
        // A POST takes what it would get itself, and nobody else's.
        check(&sites, &all, &[true, false, true, true], |weir, speaks| {
            let fields = [("Content-Length", "0"), one[0]];
            assert_eq!(ask(weir, speaks, "POST", "/docs/a", &fields).status(), 200);
        });
    }
}

#[test]
fn a_prefix_takes_what_its_paths_became() {
    let all: [Asked<'_>; 5] =
        [("/docs/a/1", &[]), ("/docs/a/1", DE), ("/docs/a/2?x", FR), ("/docs/b", DE), ("/x", &[])];
    let sites = site("\"a.test\"", &docs("/{map.lang}/docs/{1}"));
    check(&sites, &all, &[false, false, false, true, true], |weir, _| {
        let (found, _) = listed(&run(weir, &["list", "--prefix", "http://a.test/docs/a/", "--json"]));
        assert_eq!(found.len(), 3, "{found:?}");
        run(weir, &["purge", "--prefix", "a.test/docs/a/"]);
    });
    check(&sites, &all, &[false, false, false, true, true], |weir, speaks| {
        let field = [("X-Purge-Method", "regex")];
        let said = ask(weir, speaks, "PURGE", "/docs/a/.*", &field);
        assert!(said.header("cache-purge-result").unwrap().starts_with("wildcard"), "{:?}", said.head);
    });
    check(&sites, &all, &[false, false, false, true, true], |weir, _| {
        run(weir, &["ttl", "--prefix", "a.test/docs/a/", "0s"]);
    });
}

#[test]
fn a_prefix_with_a_query_takes_what_has_it_in_keys() {
    let all: [Asked<'_>; 4] =
        [("/list?page=2&cat=7", &[]), ("/list?page=2&utm_a=1", &[]), ("/list2?page=2", &[]), ("/x", &[])];
    // Where the first two are one object, the first brings it back before the second is asked for.
    for (query, is_one) in
        [("sort = true", false), ("drop = [\"utm_*\"]", false), ("keep = [\"page\"], sort = true", true)]
    {
        let sites = site("\"a.test\"", &format!("key = {{ query = {{ {query} }} }}"));
        let expect = [false, is_one, true, true];
        check(&sites, &all, &expect, |weir, _| {
            let (found, _) = listed(&run(weir, &["list", "--prefix", "a.test/list?page=2", "--json"]));
            assert!(!found.is_empty() && found.iter().all(is_list), "{found:?}");
            run(weir, &["purge", "--prefix", "a.test/list?page=2"]);
        });
        check(&sites, &all, &expect, |weir, speaks| {
            let said = ask(weir, speaks, "BAN", "/", &[("X-Url", r"^/list\?page=2.*")]);
            assert!(said.header("cache-purge-result").unwrap().starts_with("wildcard"), "{:?}", said.head);
        });
        let is_exact = query.starts_with("drop");
        check(&sites, &all, &if is_exact { expect } else { [true; 4] }, |weir, _| {
            let said = weir.command(&["ttl", "--prefix", "a.test/list?page=2", "0s"]);
            assert_eq!(said.code == Some(0), is_exact, "{said:?}");
        });
    }
}

fn is_list(object: &Value) -> bool {
    object["url"].as_str().is_some_and(|url| url.contains("/list?") || url.ends_with("/list"))
}

/// Purges between two reloads, and then the file goes back.
#[test]
fn rolling_the_file_back_undoes_no_purge() {
    let plain = site("\"a.test\", \"b.test\"", "");
    let sorted = site("\"a.test\", \"b.test\"", "key = { query = { sort = true } }");
    let mapped = site("\"a.test\", \"b.test\"", &docs("/{map.lang}/docs/{1}"));
    for (before, between, purge, target) in [
        (&sorted, &plain, ["purge", "http://a.test/list?b=2&a=1"].as_slice(), "/list?b=2&a=1"),
        (&plain, &site("\"b.test\", \"a.test\"", ""), &["purge", "--site", "a.test"], "/x"),
        (&plain, &(site("\"b.test\"", "") + &site("\"a.test\"", "")), &["purge", "--site", "a.test"], "/x"),
        (&mapped, &plain, &["purge", "http://a.test/docs/a"], "/docs/a"),
        (&mapped, &plain, &["purge", "--prefix", "http://a.test/docs/"], "/docs/a"),
    ] {
        for volume in ["", VOLUME] {
            let origin = origin();
            let weir = setup().run_config(&config(&origin, volume, before));
            ask(&weir, Speaks::Http1, "GET", target, &[]);
            assert!(ask(&weir, Speaks::Http2, "GET", target, &[]).is_hit());
            for (text, act) in [(between, Some(purge)), (before, None)] {
                weir.rewrite_config(&config(&origin, volume, text));
                run(&weir, &["reload"]);
                act.into_iter().for_each(|args| drop(run(&weir, args)));
            }
            let now = ask(&weir, Speaks::Http2, "GET", target, &[]);
            assert!(!now.is_hit(), "{volume} {before} {between} {purge:?}: {:?}", now.head);
        }
    }
}

/// What it has made invalid lies under the names of now, when the origin answers.
#[test]
fn a_post_that_outlasts_a_reload_takes_what_came_since() {
    let (origin, gate) = (origin(), Gate::new());
    let held = gate.clone();
    origin.on("/docs/a", move |exchange| {
        if exchange.request.method == "POST" {
            held.pass();
        }
        exchange.reply(200, &[("Cache-Control", "max-age=86400")], "");
    });
    let plain = site("\"a.test\"", "");
    let weir = setup().run_config(&config(&origin, "", &plain));
    let mut client = weir.client();
    client.send("POST /docs/a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n");
    origin.await_count("/docs/a", 1);
    weir.rewrite_config(&config(&origin, "", &site("\"a.test\"", &docs("/{map.lang}/docs/{1}"))));
    run(&weir, &["reload"]);
    ask(&weir, Speaks::Http1, "GET", "/docs/a", DE);
    assert!(ask(&weir, Speaks::Http1, "GET", "/docs/a", DE).is_hit());
    gate.open();
    assert_eq!(client.recv().unwrap().status(), 200);
    assert!(!ask(&weir, Speaks::Http1, "GET", "/docs/a", DE).is_hit());
}

#[test]
fn a_host_more_loses_nothing() {
    let origin = origin();
    let weir = setup().run_config(&config(&origin, VOLUME, &site("\"a.test\"", "")));
    ask(&weir, Speaks::Http1, "GET", "/x", &[]);
    for hosts in ["\"a.test\", \"b.test\"", "\"a.test\""] {
        weir.rewrite_config(&config(&origin, VOLUME, &site(hosts, "")));
        run(&weir, &["reload"]);
        assert!(ask(&weir, Speaks::Http1, "GET", "/x", &[]).is_hit(), "{hosts}");
    }
}
