//! Attacks on a cache over sockets: web cache deception, poisoned denials of service, cloaked parameters,
//! reflected fields, leaks between clients, floods of reloads and variants. A table has most of them;
//! scenarios have the rest.

mod said;
mod table;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_testkit::h2::Translator;
use weir_testkit::{Client, Gate, Origin, Resource, Response, Trouble, until};

use crate::server::{before, server};
use table::{Row, rows};

const PATIENCE: Duration = Duration::from_secs(10);

/// Sends one request as it is on a connection of its own, and reads the response.
fn send(to: SocketAddr, request: &str) -> Result<Response, Trouble> {
    let mut client = Client::connect(to).patience(PATIENCE);
    client.send(request);
    if request.starts_with("HEAD ") { client.recv_head() } else { client.recv() }
}

/// Whether a response has a word anywhere.
fn says(answer: &Response, word: &str) -> bool {
    let fields = answer.head.headers.iter().chain(&answer.trailers);
    let has = |text: &str| text.to_ascii_lowercase().contains(word);
    fields.into_iter().any(|(name, value)| has(name) || has(value)) || has(&answer.text())
}

/// Makes the attack of a row and checks what a clean client then sees, twice.
fn judge(to: SocketAddr, number: usize, row: &Row) -> Result<(), String> {
    let own = |request: &str| request.replace("{}", &format!("/{number}"));
    for evil in &row.evil {
        // What the attacker is told does not matter.
        let _ = send(to, &own(evil));
    }
    for time in ["first", "second"] {
        let clean = send(to, &own(&row.clean)).map_err(|why| format!("{time} answer: {why}"))?;
        let told = || format!("{time} answer: {:?} {:?}", clean.head, clean.text());
        if clean.status() != row.status || !clean.text().contains(row.text) {
            return Err(told());
        }
        if ["evil", "secret"].iter().any(|word| says(&clean, word)) {
            return Err(told());
        }
    }
    Ok(())
}

#[test]
fn no_attack_of_the_table_reaches_a_clean_client() {
    // Clients come from this machine, which would be trusted.
    attack(Over::Http1, "trusted_proxies = []", |_| true);
}

/// A trusted proxy passes on what its clients write.
#[test]
fn no_attack_of_the_table_passes_a_trusted_proxy() {
    // A trusted proxy names a request by this field, in the log of the origin as well.
    attack(Over::Http1, "", |row| !row.name.contains("X-Request-Id"));
}

#[test]
fn no_attack_of_the_table_reaches_a_clean_client_over_http_2() {
    // The crate `h2` drops a fragment: what is asked for, kept and served is the same URL without it.
    attack(Over::Http2, "trusted_proxies = []", |row| row.name != "deception by fragment");
}

/// How attackers and clean clients reach Weir.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Http1,
    Http2,
}

fn attack(over: Over, top: &str, wanted: fn(&Row) -> bool) {
    let rows = Arc::new(rows());
    let mut by_site: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, row) in rows.iter().enumerate().filter(|(_, row)| wanted(row)) {
        by_site.entry(row.site).or_default().push(number);
    }
    let mut wrong = Vec::new();
    for (site, numbers) in by_site {
        let origin = Origin::start();
        let scripts = rows.clone();
        origin.otherwise(move |exchange| {
            let first = exchange.request.target.split(['/', '?', '%', '#']).nth(1).unwrap_or_default();
            let number: Option<usize> = first.parse().ok();
            match number.and_then(|number| scripts.get(number)) {
                Some(row) => (row.origin)(exchange),
                None => {
                    exchange.reply(404, &[("Cache-Control", "no-store")], "no such row");
                }
            }
        });
        let listen = "[[listen]]\naddress = \"{tls}\"\nprotocols = [\"h2\"]";
        let weir = server(&[&origin]).top(top).site(site).more(listen).start();
        let translator = (over == Over::Http2).then(|| Translator::before(weir.tls()));
        let to = translator.as_ref().map_or(weir.addr(), Translator::addr);
        for number in numbers {
            let row = &rows[number];
            if let Err(why) = judge(to, number, row) {
                wrong.push(format!("{}: {why}", row.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} attacks:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn attacks_have_names_of_their_own() {
    let rows = rows();
    let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), rows.len());
}

/// An origin whose head waits for a gate and that refuses requests with `X-Odd`.
fn refusing(status: u16) -> (Origin, Gate) {
    let (origin, gate) = (Origin::start(), Gate::new());
    let inner = gate.clone();
    origin.on("/x", move |exchange| match exchange.request.header("x-odd") {
        Some(_) => {
            inner.pass();
            exchange.reply(status, &[], "evil");
        }
        None => {
            exchange.reply(200, &[("Cache-Control", "max-age=600")], "clean");
        }
    });
    (origin, gate)
}

#[test]
fn a_request_beside_an_odd_one_does_not_get_its_refusal() {
    for status in [400, 404, 413, 414, 431, 501, 505] {
        let (origin, gate) = refusing(status);
        let weir = before(&origin);
        let mut odd = weir.client();
        odd.send_get("localhost", "/x", &[("X-Odd", "1")]);
        origin.await_count("/x", 1);
        let mut clients: Vec<Client> = (0..4).map(|_| weir.client()).collect();
        for client in &mut clients {
            client.send_get("localhost", "/x", &[]);
        }
        until("all clients wait", || weir.metric("weir_requests_running") == Some(5.0));
        gate.open();
        assert_eq!(odd.recv().unwrap().status(), status);
        for client in &mut clients {
            let answer = client.recv().unwrap();
            assert_eq!(
                (answer.status(), answer.text().as_str()),
                (200, "clean"),
                "{status}: {:?}",
                answer.head
            );
        }
    }
}

#[test]
fn a_request_that_makes_the_origin_hang_up_is_forgotten_in_a_moment() {
    let origin = Origin::start();
    origin.on("/x", |exchange| match exchange.request.header("x-odd") {
        Some(_) => exchange.close(),
        None => {
            exchange.reply(200, &[("Cache-Control", "max-age=600")], "clean");
        }
    });
    let weir = server(&[&origin]).upstream("eject = { failures = 0 }").start();
    assert_eq!(weir.get_with("/x", &[("X-Odd", "1")]).status(), 502);
    until("the object is served", || weir.get("/x").text() == "clean");
    assert!(weir.get("/x").is_hit());
    assert_eq!(weir.get_with("/x", &[("X-Odd", "1")]).text(), "clean");
}

#[test]
fn a_request_beside_an_authenticated_one_fetches_by_itself() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let inner = gate.clone();
    origin.on("/x", move |exchange| {
        let own = exchange.request.header("authorization");
        inner.pass();
        let text = own.map_or("clean".to_owned(), |own| format!("secret of {own}"));
        exchange.reply(200, &[("Cache-Control", "max-age=600")], text);
    });
    let weir = before(&origin);
    let mut clients: Vec<(Client, Option<String>)> = Vec::new();
    for number in 0..9 {
        let mut client = weir.client();
        let own = (number % 3 == 0).then(|| format!("u{number}"));
        let headers: Vec<(&str, &str)> = own.iter().map(|own| ("Authorization", own.as_str())).collect();
        client.send_get("localhost", "/x", &headers);
        clients.push((client, own));
        until("the request is taken", || weir.metric("weir_requests_running") == Some(f64::from(number + 1)));
    }
    origin.await_count("/x", 4);
    gate.open();
    for (client, own) in &mut clients {
        let expected = own.as_ref().map_or("clean".to_owned(), |own| format!("secret of {own}"));
        assert_eq!(client.recv().unwrap().text(), expected);
    }
    assert_eq!(origin.count("/x"), 4);
    assert_eq!(weir.get("/x").text(), "clean");
}

#[test]
fn a_storm_of_reloads_is_a_handful_of_requests() {
    const CLIENTS: usize = 30;
    const RELOADS: usize = 10;
    let origin = Origin::start();
    let slow = Duration::from_millis(200);
    origin.put("/x", Resource::fresh("hello").etag("\"1\"").head_delay(slow));
    let weir = before(&origin);
    assert_eq!(weir.get("/x").text(), "hello");
    let addr = weir.addr();
    let begun = Instant::now();
    let reload = move |number: usize| {
        let fields: &[(&str, &str)] = match number % 3 {
            0 => &[("Cache-Control", "no-cache"), ("Pragma", "no-cache")],
            1 => &[("Cache-Control", "max-age=0")],
            _ => &[("Pragma", "no-cache")],
        };
        let mut client = Client::connect(addr);
        for _ in 0..RELOADS {
            assert_eq!(client.get("localhost", "/x", fields).text(), "hello");
        }
    };
    let clients: Vec<_> = (0..CLIENTS).map(|number| std::thread::spawn(move || reload(number))).collect();
    for client in clients {
        client.join().unwrap();
    }
    // One request is under way at a time, for as long as the origin takes. So many fit, however many clients
    // reload.
    let most = 2 + begun.elapsed().as_millis() / slow.as_millis();
    let asked = origin.count("/x");
    assert!(
        asked as u128 <= most,
        "{asked} of {} reloads reached the origin, at most {most} fit",
        CLIENTS * RELOADS
    );
}

#[test]
fn a_flood_of_variants_leaves_the_rest_as_it_was() {
    let variants: usize =
        std::env::var("WEIR_VARIANTS").ok().and_then(|count| count.parse().ok()).unwrap_or(100_000);
    const BATCH: usize = 200;
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let own = exchange.request.header("x-own").unwrap_or_default();
        exchange.reply(200, &[("Cache-Control", "max-age=3600"), ("Vary", "X-Own")], own);
    });
    origin.put("/other", Resource::fresh("other"));
    let memory = 16u64 << 20;
    let weir = server(&[&origin]).top("[cache]\nmemory = \"16MiB\"").start();
    assert_eq!(weir.get("/other").text(), "other");
    let hits = || {
        let mut client = weir.client();
        for _ in 0..1000 {
            let answer = client.get("localhost", "/other", &[]);
            assert!(answer.is_hit() && answer.text() == "other", "{:?}", answer.head);
        }
    };
    hits();
    let resting = weir.rss();
    let mut client = weir.client();
    for batch in 0..variants / BATCH {
        let of_batch = (0..BATCH).map(|number| format!("v{}", batch * BATCH + number));
        let requests: String = of_batch
            .clone()
            .map(|own| format!("GET /flood HTTP/1.1\r\nHost: localhost\r\nX-Own: {own}\r\n\r\n"))
            .collect();
        client.send(requests);
        for own in of_batch {
            assert_eq!(client.recv().unwrap().text(), own);
        }
    }
    hits();
    let objects = weir.metric("weir_cache_objects").unwrap();
    assert!((2.0..=33.0).contains(&objects), "{objects} objects");
    let used = weir.metric("weir_cache_memory_bytes").unwrap();
    assert!(used <= memory as f64, "{used} bytes of {memory}");
    let grown = weir.rss().saturating_sub(resting);
    assert!(grown < 3 * memory, "grew by {grown} bytes");
}

#[test]
fn keys_that_differ_in_one_byte_of_eight_thousand_are_two() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let last = exchange.request.target.as_bytes().last().copied().unwrap_or_default();
        exchange.reply(200, &[("Cache-Control", "max-age=600")], [last]);
    });
    let weir = before(&origin);
    let mut client = weir.client();
    let long = "x".repeat(8100);
    for round in 0..2 {
        for (number, middle) in
            ["", "/", "//", "?", "%2F", "%2f", "&", ";", "=", "+", "%20"].iter().enumerate()
        {
            for last in ["a", "b"] {
                let answer = client.get("localhost", &format!("/{long}{middle}{last}"), &[]);
                assert_eq!(
                    (answer.text().as_str(), answer.is_hit()),
                    (last, round == 1),
                    "{number} {middle:?}"
                );
            }
        }
    }
    assert_eq!(origin.total(), 22);
    let mut client = weir.client();
    client.send(format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(9000)));
    assert_eq!(client.recv().unwrap().status(), 414);
    assert_eq!(origin.total(), 22);
}

#[test]
fn responses_by_cookie_stay_apart_while_many_clients_ask_at_once() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let own = exchange.request.header("cookie").unwrap_or_default();
        let fields: [(&str, &str); 2] = match exchange.request.path() {
            "/private" => [("Cache-Control", "private, max-age=60"), ("X-A", "1")],
            "/vary" => [("Cache-Control", "max-age=60"), ("Vary", "Cookie")],
            "/cookie" => [("Cache-Control", "max-age=60"), ("Set-Cookie", own.as_str())],
            _ => [("Cache-Control", "no-cache"), ("X-A", "1")],
        };
        std::thread::sleep(Duration::from_millis(2));
        exchange.reply(200, &fields, &own);
    });
    let weir = before(&origin);
    let addr = weir.addr();
    let visit = move |number: usize| {
        let mut client = Client::connect(addr);
        let own = format!("session=s{number}");
        for round in 0..40 {
            let path = ["/private", "/vary", "/cookie", "/unmarked"][(number + round) % 4];
            let answer = client.get("localhost", path, &[("Cookie", &own)]);
            assert_eq!(answer.text(), own, "{path}: {:?}", answer.head);
            if path == "/cookie" {
                assert_eq!(answer.header("set-cookie"), Some(own.clone()));
            }
        }
    };
    let clients: Vec<_> = (0..16).map(|number| std::thread::spawn(move || visit(number))).collect();
    for client in clients {
        client.join().unwrap();
    }
}
