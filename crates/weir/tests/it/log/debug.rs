//! `Weir-Debug: 1` from a client that may see how a response came about.

use std::time::Duration;

use weir_testkit::{H2Client, Origin, Resource, Response, until};

use crate::server::{server, setup};

const ALLOWED: &str = "[debug]\nallow = [\"127.0.0.1\", \"192.0.2.0/24\"]\n";
const ASKED: (&str, &str) = ("Weir-Debug", "1");

fn origin() -> Origin {
    let origin = Origin::start();
    let tagged = Resource::fresh("hello").etag("\"1\"").header("Surrogate-Key", "one two");
    // What an origin says in these names is not believed, and it sees no such field.
    origin.put("/x", tagged.header("Weir-Debug-Key", "forged").header("Vary", "Weir-Debug"));
    origin.put("/private", Resource::new("x").header("Cache-Control", "private"));
    origin
}

/// The fields of a response that show how it came about.
fn shown(response: &Response) -> [Option<String>; 5] {
    ["outcome", "key", "lifetime", "held", "tags"].map(|name| response.header(&format!("weir-debug-{name}")))
}

fn is_silent(response: &Response) -> bool {
    shown(response) == [const { None }; 5]
}

#[test]
fn the_fields_of_a_response_show_how_it_came_about() {
    let origin = origin();
    let weir = server(&[&origin]).more(ALLOWED).start();
    let miss = weir.get_with("/x", &[ASKED]);
    let [outcome, key, lifetime, held, tags] = shown(&miss).map(Option::unwrap);
    assert!(outcome.starts_with("miss; reason=\"uri-miss\"; stored="), "{outcome}");
    assert!(outcome.contains(&format!("; origin=\"{}\"", origin.url())), "{outcome}");
    assert_eq!((key.as_str(), tags.as_str()), ("\"http://localhost/x\"", "\"one\", \"two\""));
    assert!(lifetime.ends_with("; age=0; source=max-age"), "{lifetime}");
    assert!(held.ends_with("; place=memory"), "{held}");
    // No cache on the way shows them to others.
    for name in ["cache-control", "cdn-cache-control"] {
        let no_store = |response: &Response| response.head.all(name).contains(&"no-store");
        assert!(no_store(&miss) && no_store(&weir.get_with("/x", &[ASKED])) && !no_store(&weir.get("/x")));
    }
    until("it is whole", || {
        let hit = weir.get_with("/x", &[ASKED]);
        assert!(hit.is_hit() && shown(&hit)[0].as_deref().is_some_and(|outcome| outcome.starts_with("hit")));
        shown(&hit)[3].as_deref() == Some("whole; place=memory")
    });
    // Nothing of it is stored, and it selects no variant.
    assert!(weir.get("/x").is_hit() && is_silent(&weir.get("/x")));
    assert!(is_silent(&weir.get_with("/x", &[("Weir-Debug", "0")])));
    let passed = weir.get_with("/private", &[ASKED]);
    let [outcome, _, lifetime, held, tags] = shown(&passed);
    assert!(outcome.is_some_and(|outcome| outcome.starts_with("pass; reason=\"private\"")));
    assert_eq!([lifetime, held, tags], [const { None }; 3]);
    let unchanged = weir.get_with("/x", &[ASKED, ("If-None-Match", "\"1\"")]);
    assert!(unchanged.status() == 304 && shown(&unchanged)[1].is_some());
    let odd = weir.get_with("/%22%5c", &[ASKED]);
    assert!(shown(&odd)[1].as_deref() == Some("\"http://localhost/%22%5c\""), "{:?}", shown(&odd));
    assert!(origin.seen().iter().all(|seen| seen.request.header("weir-debug").is_none()));
    // Of a long URL its beginning is shown.
    let long = weir.get_with(&format!("/{}", "x".repeat(3000)), &[ASKED]);
    let key = shown(&long)[1].clone().unwrap();
    assert!(key.starts_with("\"http://localhost/xxx") && key.ends_with("x\", cut"), "{key}");
    assert_eq!(weir.command(&["ttl", "--tag", "one", "1h"]).code, Some(0));
    let ordered = shown(&weir.get_with("/x", &[ASKED]))[2].clone().unwrap();
    assert!(ordered.ends_with("; source=retention"), "{ordered}");
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn other_clients_get_none_and_no_origin_gets_the_field() {
    let origin = origin();
    let weir = server(&[&origin]).more("[debug]\nallow = [\"192.0.2.0/24\"]\n").start();
    for (client, is_shown) in [("192.0.2.7", true), ("198.51.100.7", false)] {
        let response = weir.get_with("/x", &[ASKED, ("X-Forwarded-For", client)]);
        assert_eq!(!is_silent(&response), is_shown, "{client}");
    }
    // A proxy that names no client, and the machine itself.
    assert!(is_silent(&weir.get_with("/x", &[ASKED, ("Via", "1.1 proxy")])));
    assert!(is_silent(&weir.get_with("/x", &[ASKED])));
    let silent = server(&[&origin]).start();
    assert!(is_silent(&silent.get_with("/x", &[ASKED])));
    assert!(is_silent(&silent.get_with("/private", &[ASKED])));
    assert!(origin.seen().iter().all(|seen| seen.request.header("weir-debug").is_none()));
}

#[test]
fn it_is_the_same_over_http2_and_from_a_volume() {
    let origin = origin();
    let text = format!(
        "{ALLOWED}[admin]\nlisten = \"{{admin}}\"\n\
         [cache]\nadmission = \"always\"\n\
         [[cache.volume]]\npath = \"{{folder}}/volume\"\nsize = \"256MiB\"\n\
         [[listen]]\naddress = \"{{listen}}\"\nprotocols = [\"h2\", \"http/1.1\"]\n\
         [upstream.main]\norigins = [\"{}\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n",
        origin.url()
    );
    let mut weir = setup().run_config(&text);
    let get = |weir: &weir_testkit::Weir| {
        let mut client = H2Client::connect(weir.addr()).patience(Duration::from_secs(20));
        client.get("a.test", "/x", &[("weir-debug", "1")])
    };
    let miss = get(&weir);
    assert_eq!(miss.header("weir-debug-key").as_deref(), Some("\"http://a.test/x\""));
    until("it is written", || weir.metric("weir_volume_objects").is_some_and(|count| count >= 1.0));
    weir.restart();
    let hit = get(&weir);
    let held = hit.header("weir-debug-held").unwrap_or_default();
    assert!(hit.is_hit() && held.starts_with("whole; place="), "{held}");
    assert!(origin.seen().iter().all(|seen| seen.request.header("weir-debug").is_none()));
}
