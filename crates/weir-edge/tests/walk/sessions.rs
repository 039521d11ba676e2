//! Sessions that keep their origin: where passed requests go, what clients and origins see of Weir's cookie,
//! and that nothing of a session is stored.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use weir_testkit::{Exchange, Origin, Response};

use crate::kit::{Server, Weir, server, setup};

/// An origin that says its name and the cookies that it got. The query has more fields of the response.
fn origin(name: &'static str) -> Origin {
    let origin = Origin::start();
    origin.otherwise(move |exchange: &mut Exchange<'_>| {
        exchange.body();
        let text = format!("{name} [{}]", exchange.request.header("cookie").unwrap_or_default());
        let target = exchange.request.target.clone();
        let query = target.split_once('?').map(|(_, query)| query).unwrap_or_default();
        let fields = query.split('&').filter_map(|field| field.split_once('='));
        let mut fields: Vec<(&str, &str)> = fields.filter(|(name, _)| *name != "status").collect();
        if target == "/self" {
            fields.extend([("Cache-Control", "public, max-age=60"), ("Content-Location", "/self")]);
            fields.push(("CDN-Cache-Control", "max-age=60"));
        }
        let status = if query.contains("status=503") { 503 } else { 200 };
        exchange.reply(status, &fields, text);
    });
    origin
}

fn with_own(server: Server, more: &str) -> Weir {
    let setup = setup();
    let keys = setup.file("keys", "0123456789abcdef0123456789abcdef\n");
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();
    let lines = format!("affinity = {{ by = \"own\", key_file = {keys:?}, cookie = \"o\"{more} }}");
    server.upstream(&lines).start_in(setup)
}

fn post(weir: &Weir, target: &str, cookie: &str) -> Response {
    let cookie = if cookie.is_empty() { String::new() } else { format!("Cookie: {cookie}\r\n") };
    weir.send(&format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n{cookie}Content-Length: 1\r\n\r\nx"))
}

fn get(weir: &Weir, target: &str, cookie: &str) -> Response {
    let fields: &[(&str, &str)] = &[("Cookie", cookie)];
    weir.get_with(target, if cookie.is_empty() { &[] } else { fields })
}

/// Weir's cookie in a response, as the client sends it back.
fn cookie(response: &Response) -> Option<String> {
    let set = response.head.all("set-cookie").into_iter().find(|line| line.starts_with("o="))?;
    Some(set.split(';').next().unwrap().to_owned())
}

fn name(response: &Response) -> String {
    response.text().split(' ').next().unwrap().to_owned()
}

#[test]
fn a_client_keeps_the_origin_that_answered_it() {
    let (a, b, c) = (origin("a"), origin("b"), origin("c"));
    let weir = with_own(server(&[&a, &b, &c]), "");
    let mut seen = BTreeSet::new();
    for _ in 0..6 {
        let first = post(&weir, "/", "");
        let session = cookie(&first).unwrap();
        seen.insert(name(&first));
        for round in 0..6 {
            let line = format!("x=1; {session}; y=2");
            let next = if round % 2 == 0 {
                post(&weir, "/", &line)
            } else {
                get(&weir, "/p?Cache-Control=no-store", &line)
            };
            assert_eq!(next.text(), format!("{} [x=1; y=2]", name(&first)), "no origin sees Weir's cookie");
            assert_eq!(cookie(&next), None, "it is set once");
        }
    }
    assert_eq!(seen.len(), 3, "clients without one are spread: {seen:?}");
}

#[test]
fn the_cache_is_asked_whatever_the_session() {
    let (a, b) = (origin("a"), origin("b"));
    let weir = with_own(server(&[&a, &b]).site("key = { cookies = [\"o\", \"lang\"] }"), "");
    let sessions: Vec<String> = (0..4).map(|_| cookie(&post(&weir, "/", "")).unwrap()).collect();
    let first = get(&weir, "/x?Cache-Control=max-age=60&Vary=Cookie", "");
    assert_eq!(cookie(&first), None, "a fill begins no session");
    for session in &sessions {
        let hit = get(&weir, "/x?Cache-Control=max-age=60&Vary=Cookie", session);
        assert!(hit.is_hit() && cookie(&hit).is_none(), "{:?}", hit.head);
        assert_eq!(hit.text(), first.text());
    }
    // A fill with a session has no trace of it either.
    let led = get(&weir, "/y?Cache-Control=max-age=60", &sessions[0]);
    assert!(led.text().ends_with("[]") && cookie(&led).is_none(), "{:?}", led.text());
    assert!(get(&weir, "/y?Cache-Control=max-age=60", "").is_hit());
}

#[test]
fn what_an_origin_without_the_session_said_to_a_fill_is_not_for_its_client() {
    let (a, b, c) = (origin("a"), origin("b"), origin("c"));
    let weir = with_own(server(&[&a, &b, &c]), "");
    let first = post(&weir, "/", "");
    let session = cookie(&first).unwrap();
    for number in 0..9 {
        // Each is a key of its own: the first request for it leads a fill.
        for kind in ["Cache-Control=private", "Set-Cookie=sid=1"] {
            let next = get(&weir, &format!("/{number}?{kind}"), &session);
            assert_eq!(name(&next), name(&first), "{number} {kind}");
        }
    }
    // Without a session the lead keeps what it got, and the session is there from now on.
    let led = get(&weir, "/new?Set-Cookie=sid=2", "");
    let session = cookie(&led).unwrap();
    assert_eq!(name(&post(&weir, "/", &session)), name(&led));
}

#[test]
fn a_response_with_weirs_cookie_is_private_and_never_stored() {
    let (a, b) = (origin("a"), origin("b"));
    let weir = with_own(server(&[&a, &b]), "");
    let first = post(&weir, "/self", "");
    let session = cookie(&first).unwrap();
    assert_eq!(first.head.all("cache-control"), ["public, max-age=60", "private"]);
    assert_eq!(first.head.all("cdn-cache-control"), ["no-store"]);
    let set = first.head.all("set-cookie")[0].to_owned();
    assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{set}");
    let asked = || a.total() + b.total();
    assert_eq!(asked(), 1);
    // Of a session that is there already a POST's response is stored for GETs, as without sessions.
    let next = post(&weir, "/self", &session);
    assert_eq!(next.head.all("cache-control"), ["public, max-age=60"]);
    let hit = weir.get("/self");
    assert!(hit.is_hit() && hit.head.all("set-cookie").is_empty(), "{:?}", hit.head);
    // What began a session is not there.
    let weir = with_own(server(&[&a, &b]), "");
    assert!(cookie(&post(&weir, "/self", "")).is_some());
    assert!(!weir.get("/self").is_hit());
    // Neither an error nor a 304 is a reason to stay.
    assert_eq!(cookie(&post(&weir, "/?status=503", "")), None);
}

#[test]
fn a_session_that_an_origin_begins_is_never_stored() {
    let (a, b) = (origin("a"), origin("b"));
    let origins = format!("{{ url = \"{}\", id = \"a\" }}, {{ url = \"{}\", id = \"b\" }}", a.url(), b.url());
    let by = "affinity = { by = \"suffix\", cookie = \"JSESSIONID\" }";
    let weir = server(&[]).origins(&origins).upstream(by).site("set_cookie = \"store\"").start();
    for kind in ["max-age=60", "max-age=60,no-cache=\"set-cookie\""] {
        let target = format!("/x?Cache-Control={kind}&Set-Cookie=JSESSIONID=1.a");
        for _ in 0..3 {
            assert!(!weir.get(&target).is_hit(), "{kind}");
        }
    }
    let other = "/y?Cache-Control=max-age=60&Set-Cookie=theme=dark";
    assert!(!weir.get(other).is_hit() && weir.get(other).is_hit());
}

#[test]
fn session_ids_name_their_origin() {
    let (a, b) = (origin("a"), origin("b"));
    let origins =
        format!("{{ url = \"{}\", id = \"n1\" }}, {{ url = \"{}\", id = \"n2\" }}", a.url(), b.url());
    let by = "affinity = { by = \"suffix\", cookie = \"JSESSIONID\" }";
    let weir = server(&[]).origins(&origins).upstream(by).start();
    for _ in 0..4 {
        for (node, expect) in [("n1", "a"), ("n2", "b")] {
            assert_eq!(name(&post(&weir, "/", &format!("JSESSIONID=0A.{node}"))), expect);
            let in_path = weir.get(&format!("/shop;jsessionid=0A.{node}?Cache-Control=max-age=60"));
            assert_eq!((name(&in_path).as_str(), in_path.fwd().as_deref()), (expect, Some("bypass")));
            assert!(in_path.header("cache-status").unwrap().contains("session"), "{:?}", in_path.head);
        }
    }
    let strangers: BTreeSet<String> = (0..4).map(|_| name(&post(&weir, "/", "JSESSIONID=0A.n3"))).collect();
    assert_eq!(strangers.len(), 2, "an origin that is not there holds no session");
}

#[test]
fn a_hash_leads_to_one_origin() {
    let (a, b, c) = (origin("a"), origin("b"), origin("c"));
    let by = "affinity = { by = \"hash\", of = \"cookie:sid\" }";
    let weir = server(&[&a, &b, &c]).upstream(by).start();
    let mut seen = BTreeSet::new();
    for number in 0..20 {
        let sid = format!("sid={number}");
        let first = name(&post(&weir, "/", &sid));
        assert!((0..3).all(|_| name(&post(&weir, "/", &sid)) == first));
        seen.insert(first);
    }
    assert_eq!(seen.len(), 3);
}

#[test]
fn requests_with_a_session_bypass_the_cache_where_that_is_wanted() {
    let (a, b) = (origin("a"), origin("b"));
    let weir = with_own(server(&[&a, &b]), ", bypass = true");
    let target = "/x?Cache-Control=max-age=60";
    let first = get(&weir, target, "");
    assert!(get(&weir, target, "").is_hit());
    let session = cookie(&post(&weir, "/", "")).unwrap();
    let passed = get(&weir, target, &session);
    assert_eq!(passed.fwd().as_deref(), Some("bypass"));
    assert!(passed.header("cache-status").unwrap().contains("detail=session"), "{:?}", passed.head);
    assert!(get(&weir, target, "o=forged").is_hit());
    assert_eq!(name(&get(&weir, target, "")), name(&first));
}

#[test]
fn forged_cookies_are_no_session() {
    let (a, b) = (origin("a"), origin("b"));
    let weir = with_own(server(&[&a, &b]), "");
    let good = cookie(&post(&weir, "/", "")).unwrap();
    let mut bad = good.clone();
    let last = bad.pop().unwrap();
    bad.push(if last == 'A' { 'Q' } else { 'A' });
    for forged in ["o=", "o=a", "o=http://10.0.0.1", bad.as_str()] {
        let answers: Vec<Response> = (0..4).map(|_| post(&weir, "/", forged)).collect();
        let names: BTreeSet<String> = answers.iter().map(name).collect();
        assert_eq!(names.len(), 2, "{forged}");
        assert!(answers.iter().all(|answer| answer.text().ends_with("[]") && cookie(answer).is_some()));
    }
}
