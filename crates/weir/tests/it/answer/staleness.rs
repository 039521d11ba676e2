//! Stale responses that cost no reader anything: what is sent while the origin is slow, and while it is down.

use std::time::{Duration, Instant};

use weir_testkit::{Client, Gate, Origin, Resource, Weir, until};

use crate::server::server;

/// Fresh for a second, then stale.
fn brief(body: &str, tag: &str) -> Resource {
    Resource::new(body).header("Cache-Control", "max-age=1").etag(tag)
}

/// A Weir that has stored `old` under these paths, stale by now.
fn holding(origin: &Origin, paths: &[&str], site: &str, upstream: &str) -> Weir {
    let weir = server(&[origin]).upstream(upstream).site(site).start();
    for path in paths {
        origin.put(path, brief("old", "\"1\""));
        assert_eq!(weir.get(path).text(), "old");
    }
    std::thread::sleep(Duration::from_millis(2100));
    weir
}

fn ask(weir: &Weir, target: &str) -> Client {
    let mut client = weir.client();
    client.send_get("localhost", target, &[]);
    client
}

#[test]
fn a_slow_revalidation_sends_the_stale_response_and_goes_on() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let site = "stale = { if_error = \"1h\" }\nrevalidation_wait = \"300ms\"";
    let weir = holding(&origin, &["/x"], site, "");
    origin.put("/x", Resource::fresh("new").etag("\"2\"").head_gate(&gate));
    for _ in 0..3 {
        let answer = weir.get("/x");
        assert_eq!(answer.text(), "old");
        assert!(answer.is_hit() && answer.cache_status().contains("revalidation-wait"), "{:?}", answer.head);
    }
    assert_eq!(origin.count("/x"), 2, "the others join the revalidation that is under way");
    gate.open();
    until("the revalidation's body is stored", || weir.get("/x").text() == "new");
    assert!(weir.get("/x").is_hit());
    assert_eq!(origin.count("/x"), 2);
}

#[test]
fn a_slow_revalidation_is_waited_for_if_nothing_stale_may_be_sent() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let weir = holding(&origin, &["/x"], "revalidation_wait = \"100ms\"", "");
    origin.put("/x", Resource::fresh("new").etag("\"2\"").head_gate(&gate));
    let mut client = ask(&weir, "/x");
    origin.await_count("/x", 2);
    std::thread::sleep(Duration::from_millis(500));
    gate.open();
    assert_eq!(client.recv().unwrap().text(), "new");
    assert_eq!(origin.count("/x"), 2);
}

#[test]
fn an_origin_that_gave_no_answer_is_not_waited_for_again() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let site = "stale = { if_error = \"1h\" }\nrevalidation_wait = \"20s\"";
    let weir = holding(&origin, &["/x", "/y"], site, "first_byte = \"1s\"\nretry = { times = 0 }");
    for path in ["/x", "/y", "/z"] {
        origin.put(path, Resource::fresh("new").etag("\"2\"").head_gate(&gate));
    }
    // A failure of one client's requests may be that client's own fault.
    for client in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        assert_eq!(weir.get_with("/x", &[("X-Forwarded-For", client)]).text(), "old");
    }
    let (begun, asks) = (Instant::now(), 40);
    for number in 0..asks {
        let answer = weir.get(if number % 2 == 0 { "/y" } else { "/x" });
        assert_eq!(answer.text(), "old");
        assert!(answer.cache_status().contains("stale-if-error"), "{:?}", answer.head);
    }
    assert!(begun.elapsed() < Duration::from_secs(asks / 2), "each would wait a second");
    assert!(origin.total() < 12, "{} requests", origin.total());
    // What is not stored is fetched as usual.
    assert_eq!(weir.get("/z").status(), 504);
    gate.open();
    until("a try in the background finds the origin up again", || weir.get("/x").text() == "new");
    until("and then the rest is asked for", || weir.get("/y").text() == "new");
}

#[test]
fn waiting_requests_for_a_no_cache_response_validate_it_each() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let resource = Resource::new("hello").header("Cache-Control", "no-cache").etag("\"1\"");
    origin.put("/x", resource.clone());
    let weir = server(&[&origin]).start();
    assert_eq!(weir.get("/x").text(), "hello");
    origin.put("/x", resource.head_gate(&gate));
    let mut clients: Vec<Client> = (0..8).map(|_| ask(&weir, "/x")).collect();
    until("all wait", || weir.metric("weir_requests_running").is_some_and(|now| now >= 8.0));
    gate.open();
    for client in &mut clients {
        assert_eq!(client.recv().unwrap().text(), "hello");
    }
    let asked = origin.requests("/x");
    assert_eq!(asked.len(), 9);
    let tags: Vec<_> = asked[1..].iter().map(|asked| asked.header("if-none-match")).collect();
    assert!(tags.iter().all(|tag| tag.as_deref() == Some("\"1\"")), "{tags:?}");
}
