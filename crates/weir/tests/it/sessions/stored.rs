//! Cookies of origins that make a session, or have the name of Weir's own: by no way do they come into what
//! is stored for all, and Weir's name reaches no client but from Weir.

use std::sync::atomic::{AtomicUsize, Ordering};

use weir_testkit::{Client, Exchange, Gate, Origin, Response, Setup, Weir, until};

use super::kit::{OWN, keys};
use crate::server::{server, setup};

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n";
const BODY: &[u8] = &[b'x'; 4000];

/// An origin of which everything is a version that it confirms. A response makes a session where the query
/// has its kind: `200`, `304`, `head`, `part`, `103`, `101`. All of them set `theme` as well. A 304 with a
/// session makes what it confirms fresh, and the first response does where the query says `long`.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.otherwise(move |exchange: &mut Exchange<'_>| {
        exchange.body();
        let target = exchange.request.target.clone();
        let kind = target.split_once('?').map(|(_, query)| query).unwrap_or_default().to_owned();
        let lines = |of: &str| {
            let theme = "Set-Cookie: theme=dark\r\n";
            let session = "Set-Cookie: sid=1.a; Path=/\r\nSet-Cookie: place=x; Path=/\r\n";
            if kind.contains(of) { format!("{session}{theme}") } else { theme.to_owned() }
        };
        let control = match (kind.contains("long"), kind.contains("swr")) {
            (true, _) => "max-age=600",
            (_, true) => "max-age=0, stale-while-revalidate=3600",
            _ => "max-age=0",
        };
        let version = "ETag: \"v\"\r\nAccept-Ranges: bytes\r\n";
        let length = BODY.len();
        if exchange.request.header("upgrade").is_some() {
            exchange.send(format!("{SWITCH}{}\r\n", lines("101")));
            exchange.close();
        } else if exchange.request.header("if-none-match").is_some() {
            exchange.send(format!(
                "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=600\r\n{version}{}\r\n",
                lines("304")
            ));
        } else if exchange.request.method == "HEAD" {
            exchange.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n{version}{}\
                 Content-Length: {length}\r\n\r\n",
                lines("head")
            ));
        } else if let Some(range) = exchange.request.header("range") {
            let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
            let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap_or(length - 1));
            let last = last.min(length - 1);
            let of = if first > 0 { lines("part") } else { lines("none") };
            let head = format!(
                "HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=600\r\n{version}{of}\
                 Content-Range: bytes {first}-{last}/{length}\r\nContent-Length: {}\r\n\r\n",
                last + 1 - first
            );
            exchange.send([head.as_bytes(), &BODY[first..=last]].concat());
        } else {
            if kind.contains("103") {
                exchange.send(format!("HTTP/1.1 103 Early Hints\r\n{}\r\n", lines("103")));
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: {control}\r\n{version}{}Content-Length: {length}\r\n\r\n",
                lines("200")
            );
            exchange.send([head.as_bytes(), BODY].concat());
        }
    });
    origin
}

/// The three ways of affinity, in front of such an origin.
fn ways() -> Vec<(Setup, String)> {
    let of = |by: &dyn Fn(&Setup) -> String| {
        let folder = setup();
        let lines = by(&folder);
        (folder, lines)
    };
    vec![
        of(&|_| "affinity = { by = \"suffix\", cookie = \"sid\" }".to_owned()),
        of(&|_| "affinity = { by = \"hash\", of = \"cookie:sid\" }".to_owned()),
        of(&|folder| super::kit::affinity(&keys(folder, "0123456789abcdef0123456789abcdef\n"))),
    ]
}

fn start((folder, affinity): (Setup, String), origin: &Origin, site: &str) -> Weir {
    let entry = format!("{{ url = \"{}\", id = \"a\" }}", origin.url());
    server(&[]).origins(&entry).upstream(&affinity).site(site).start_in(folder)
}

/// The names of the cookies that a response sets.
fn cookies(response: &Response) -> Vec<String> {
    names(&response.head.all("set-cookie"))
}

fn names(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| line.split('=').next().unwrap().to_owned()).collect()
}

fn head(weir: &Weir, target: &str) -> Response {
    let mut client = weir.client();
    client.send(format!("HEAD {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    client.recv_head().unwrap()
}

/// Whether a response came out of the cache and is good for minutes.
fn is_fresh(response: &Response) -> bool {
    let status = response.cache_status();
    let left =
        status.split("ttl=").nth(1).and_then(|left| left.split([';', ',']).next()?.parse::<i64>().ok());
    response.is_hit() && left.is_some_and(|left| left > 60)
}

/// The cookie of the session of this way, which nobody gets out of the cache.
fn session(affinity: &str) -> &'static str {
    if affinity.contains("own") { OWN } else { "sid" }
}

#[test]
fn nothing_that_freshens_brings_a_session_for_all() {
    let origin = origin();
    for way in ways() {
        let (name, affinity) = (session(&way.1), way.1.clone());
        let weir = start(way, &origin, "set_cookie = \"store\"");
        let hit = |target: &str| {
            let hit = weir.get(target);
            let found = cookies(&hit);
            let of_session = found.iter().any(|found| found == name);
            assert!(hit.is_hit() && !of_session, "{target} {affinity}: {:?}", hit.head);
            assert!(found.contains(&"theme".to_owned()), "the others are stored: {target} {affinity}");
        };
        // With the client waiting.
        weir.get("/a?304");
        let asked = weir.get("/a?304");
        assert!(!cookies(&asked).contains(&name.to_owned()), "{:?}", asked.head);
        hit("/a?304");
        // In the background.
        weir.get("/b?304swr");
        until("it is fresh", || is_fresh(&weir.get("/b?304swr")));
        hit("/b?304swr");
        // By a HEAD, whose client gets what it is given.
        weir.get("/c?head");
        let asked = head(&weir, "/c?head");
        assert!(cookies(&asked).contains(&"sid".to_owned()), "{:?}", asked.head);
        hit("/c?head");
        // By a part of what is held in part.
        for range in ["bytes=0-999", "bytes=3000-3499"] {
            weir.get_with("/d?part", &[("Range", range)]);
        }
        weir.get("/d?part");
        hit("/d?part");
        // A response with a session is stored for nobody.
        for _ in 0..2 {
            assert!(!weir.get("/e?200long").is_hit());
        }
    }
}

#[test]
fn by_default_nothing_that_freshens_brings_a_cookie() {
    let origin = Origin::start();
    origin.otherwise(|exchange: &mut Exchange<'_>| {
        let is_head = exchange.request.method == "HEAD";
        if exchange.request.header("if-none-match").is_some() {
            let control = ("Cache-Control", "max-age=600");
            exchange.reply(304, &[control, ("ETag", "\"v\""), ("Set-Cookie", "sid=of-another")], "");
        } else if is_head {
            let lines = "Cache-Control: max-age=600\r\nETag: \"v\"\r\nSet-Cookie: sid=of-another\r\n";
            exchange.send(format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 3\r\n\r\n"));
        } else {
            let control = match exchange.request.path() {
                "/swr" => "max-age=0, stale-while-revalidate=3600",
                _ => "max-age=0",
            };
            exchange.reply(200, &[("Cache-Control", control), ("ETag", "\"v\"")], "all");
        }
    });
    for site in ["", "set_cookie = \"strip\""] {
        let weir = server(&[&origin]).site(site).start();
        for (target, is_by_head) in [("/now", false), ("/swr", false), ("/head", true)] {
            weir.get(target);
            if is_by_head {
                head(&weir, target);
            } else {
                assert_eq!(cookies(&weir.get(target)), [""; 0], "{target}");
            }
            until("it is fresh", || is_fresh(&weir.get(target)));
            assert_eq!(cookies(&weir.get(target)), [""; 0], "{target}");
        }
    }
}

#[test]
fn no_origin_sets_weirs_cookie() {
    let origin = origin();
    let folder = setup();
    let affinity = super::kit::affinity(&keys(&folder, "0123456789abcdef0123456789abcdef\n"));
    let weir = start((folder, affinity), &origin, "");
    let own = |response: &Response| {
        let lines = response.head.all("set-cookie");
        lines.iter().filter(|line| line.starts_with("place=")).map(|line| (*line).to_owned()).collect()
    };
    let first: Vec<String> = own(&weir.get("/first?200"));
    assert!(first.len() == 1 && first[0].len() > "place=".len() + 40, "Weir's alone: {first:?}");
    let kept = first[0].split(';').next().unwrap().to_owned();
    let send = |method: &str, target: &str, more: &str| -> Client {
        let mut client = weir.client();
        client.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nCookie: {kept}\r\nContent-Length: 0\r\n\
             {more}\r\n"
        ));
        client
    };
    // Passes.
    for method in ["POST", "PUT", "OPTIONS"] {
        let answer = send(method, "/x?200", "").recv().unwrap();
        assert_eq!(cookies(&answer), ["sid", "theme"], "{method}");
    }
    // A fill that is not stored, and one that is passed as its response to the last was not.
    for _ in 0..2 {
        assert_eq!(cookies(&weir.get_with("/y?200", &[("Cookie", &kept)])), ["sid", "theme"]);
    }
    let part = weir.get_with("/z?part", &[("Cookie", &kept), ("Range", "bytes=100-199")]);
    assert_eq!((part.status(), cookies(&part)), (206, vec!["sid".to_owned(), "theme".to_owned()]));
    assert_eq!(cookies(&head(&weir, "/x?head")), ["sid", "theme", OWN], "Weir's own comes last");
    let unchanged = send("POST", "/x?304", "If-None-Match: \"v\"\r\n").recv().unwrap();
    assert_eq!((unchanged.status(), cookies(&unchanged).contains(&OWN.to_owned())), (304, false));
    for method in ["POST", "GET"] {
        let early = send(method, "/early?103", "").recv().unwrap();
        assert_eq!(names(&early.interim[0].all("set-cookie")), ["sid", "theme"], "{method}");
    }
    let switched = send("GET", "/socket?101", "Connection: Upgrade\r\nUpgrade: echo\r\n").recv_head_only();
    let switched = switched.unwrap();
    assert_eq!(
        (switched.status, names(&switched.all("set-cookie"))),
        (101, vec!["sid".into(), "theme".into()])
    );
    let said = weir.stderr().matches("sets the session cookie of Weir").count();
    assert_eq!(said, 1, "{}", weir.stderr());
    // The session was kept through all of it.
    assert_eq!(weir.metric("weir_sessions_moved_total{upstream=\"main\"}"), Some(0.0));
    assert_eq!(weir.metric("weir_sessions_refused_total{upstream=\"main\"}"), Some(0.0));
}

#[test]
fn a_fill_begins_no_session_by_an_early_hint() {
    let origin = origin();
    let weir = start((setup(), "affinity = { by = \"suffix\", cookie = \"sid\" }".to_owned()), &origin, "");
    let mut client = weir.client();
    let filled = client.get("localhost", "/x?103", &[]);
    assert_eq!(names(&filled.interim[0].all("set-cookie")), ["place", "theme"]);
    client.send("POST /x?103 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    let passed = client.recv().unwrap();
    assert_eq!(names(&passed.interim[0].all("set-cookie")), ["sid", "place", "theme"]);
}

#[test]
fn who_waited_for_an_error_gets_no_cookie_of_another() {
    for site in ["", "set_cookie = \"strip\""] {
        let (origin, gate, count) = (Origin::start(), Gate::new(), AtomicUsize::new(0));
        let waits = gate.clone();
        origin.otherwise(move |exchange: &mut Exchange<'_>| {
            let number = count.fetch_add(1, Ordering::Relaxed);
            if number >= 2 {
                waits.pass();
            }
            let (sid, control) = (format!("sid={number}"), "no-cache=\"set-cookie\", private=\"x-user\"");
            let fields = [("Cache-Control", control), ("Set-Cookie", &*sid), ("X-User", &*sid)];
            exchange.reply(500, &fields, "");
        });
        let weir = server(&[&origin]).site(site).start();
        let of = |number: usize| format!("10.0.0.{number}");
        // What one client met may be its own fault: only a third one's is for all that wait.
        for number in 0..2 {
            let answer = weir.get_with("/x", &[("X-Forwarded-For", &of(number))]);
            assert_eq!((answer.status(), cookies(&answer).len()), (500, 1), "{site}");
        }
        let mut clients: Vec<Client> = (0..4).map(|_| weir.client()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            assert!(client.send_get("localhost", "/x", &[("X-Forwarded-For", &of(number + 2))]));
        }
        until("three wait for the first", || weir.metric("weir_requests_collapsed_total") == Some(3.0));
        gate.open();
        for client in &mut clients {
            let answer = client.recv().unwrap();
            let of_user = (cookies(&answer), answer.header("x-user"));
            assert_eq!((answer.status(), of_user), (500, (vec![], None)), "{site}");
        }
        assert_eq!(origin.count("/x"), 3, "all four got one response");
    }
}
