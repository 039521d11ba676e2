//! Who may use the API of the real binary, and what is left of each attempt: an entry in the history, and
//! nothing else.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_testkit::{Address, Authority, Client, Origin, Resource, Response, TlsClient, Weir, until};

use crate::server::server;

const SITES: &str = "[[site]]\nhosts = [\"a.test\", \"www.a.test\"]\nupstream = \"main\"\n\
                     [[site]]\nhosts = [\"b.test\"]\nupstream = \"main\"\n";

pub(super) fn origin() -> Origin {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello"));
    origin
}

fn of_two_sites(origin: &Origin) -> Weir {
    server(&[origin]).more(SITES).start()
}

/// What is asked: method, path and content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a>(pub(super) &'a str, pub(super) &'a str, pub(super) &'a str);

/// The lines of a request, without its last empty one.
fn head(ask: Ask<'_>, fields: &str) -> String {
    let Ask(method, path, content) = ask;
    let length = content.len();
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}")
}

pub(super) const JSON: &str = "Content-Type: application/json\r\n";

/// The answer to a request of a client.
pub(super) fn answer(to: impl Into<Address>, ask: Ask<'_>, fields: &str) -> Response {
    let mut client = Client::connect(to);
    client.send(format!("{}\r\n{}", head(ask, fields), ask.2));
    client.recv().unwrap_or_else(|why| panic!("{ask:?}: {why:?}"))
}

/// Status and word of the answer to a request with a token.
fn with(weir: &Weir, token: &str, ask: Ask<'_>) -> (u16, String) {
    told(&answer(weir.admin(), ask, &format!("{JSON}Authorization: Bearer {token}\r\n")))
}

fn told(answer: &Response) -> (u16, String) {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    (answer.status(), body["error"].as_str().unwrap_or_default().to_owned())
}

pub(super) fn history(weir: &Weir, args: &[&str]) -> Vec<Value> {
    let shown = weir.command(&[&["history", "--json", "--limit", "10000"], args].concat());
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    shown["entries"].as_array().unwrap().clone()
}

/// Each operation of the API: what is sent, which role it needs, and whether a token of `a.test` may use it.
/// What is sent changes as little as it can.
const ROWS: &[(Ask<'static>, &str, bool)] = &[
    (Ask("GET", "/v1/openapi.json", ""), "any", true),
    (Ask("GET", "/v1/status", ""), "view", false),
    (Ask("GET", "/v1/certificates", ""), "view", false),
    (Ask("GET", "/v1/volumes", ""), "view", false),
    (Ask("GET", "/v1/origins", ""), "view", false),
    (Ask("POST", "/v1/origins", r#"{"upstream":"none","origin":"http://x","act":"ready"}"#), "admin", false),
    (Ask("GET", "/v1/origins/metrics", ""), "view", false),
    (Ask("POST", "/v1/origins/metrics", r#"{"origin":"http://none","values":{"cpu":0.5}}"#), "push", false),
    (Ask("PUT", "/v1/origins/metrics", r#"{"origin":"http://none","values":{"cpu":0.5}}"#), "push", false),
    (Ask("GET", "/v1/objects", ""), "view", true),
    (Ask("GET", "/v1/sites", ""), "view", true),
    (Ask("GET", "/v1/content", ""), "view", true),
    (Ask("PUT", "/v1/content?url=a.test/laid", "x"), "admin", true),
    (Ask("DELETE", "/v1/content?url=a.test/none", ""), "admin", true),
    (Ask("POST", "/cache/add/laid?site=a.test", "x"), "admin", true),
    (Ask("POST", "/cache/reset/none?site=a.test", ""), "admin", true),
    (Ask("GET", "/cache/stats", ""), "view", true),
    (Ask("POST", "/v1/explain", r#"{"method":"GET","url":"http://a.test/x"}"#), "view", true),
    (Ask("GET", "/v1/history", ""), "view", true),
    (Ask("POST", "/v1/purge", r#"{"scope":{"url":"http://a.test/none"}}"#), "purge", true),
    (Ask("POST", "/v1/purge/dry-run", r#"{"scope":{"url":"http://a.test/none"}}"#), "purge", true),
    (Ask("POST", "/v1/ttl", r#"{"scope":{"url":"http://a.test/none"},"lifetime_s":9}"#), "admin", true),
    (Ask("GET", "/v1/ttl", ""), "view", true),
    (Ask("POST", "/v1/reload", ""), "admin", false),
    (Ask("POST", "/v1/upgrade", r#"{"program":"/bin/false"}"#), "admin", false),
    (Ask("POST", "/v1/verify", ""), "admin", false),
    (Ask("POST", "/v1/warm", r#"{"urls":["http://a.test/none"]}"#), "admin", true),
    (Ask("POST", "/v1/warm/none", r#"{"at":0,"urls":[]}"#), "admin", true),
    (Ask("GET", "/v1/jobs", ""), "any", true),
    (Ask("GET", "/v1/jobs/none", ""), "any", true),
    (Ask("DELETE", "/v1/jobs/none", ""), "any", true),
    (Ask("GET", "/v1/events?kind=none", ""), "view", true),
    (Ask("GET", "/v1/log?kind=none", ""), "view", true),
    (Ask("GET", "/v1/log/past?kind=none", ""), "view", true),
    (Ask("GET", "/v1/top", ""), "view", true),
    (Ask("GET", "/v1/tokens", ""), "admin", false),
    (Ask("POST", "/v1/tokens", r#"{"name":"a b","role":"view"}"#), "admin", false),
    (Ask("DELETE", "/v1/tokens/none", ""), "admin", false),
];

/// Words of refusals that depend on the caller.
const BY_CALLER: [&str; 4] = ["no-token", "role", "whole", "other-site"];

#[test]
fn every_operation_takes_the_role_that_it_needs_and_no_other() {
    let origin = origin();
    let weir = of_two_sites(&origin);
    let socket = Address::Unix(weir.state().join("control.sock"));
    let document = answer(socket.clone(), Ask("GET", "/v1/openapi.json", ""), "");
    let document: Value = serde_json::from_slice(&document.body).unwrap();
    let mut callers = vec![("none", String::new(), false)];
    for role in ["view", "purge", "push", "admin"] {
        callers.push((role, weir.token(role, &[]), false));
        callers.push((role, weir.token(role, &["www.a.test"]), true));
    }
    let operations = document["paths"].as_object().unwrap().iter();
    let operations =
        operations.flat_map(|(path, all)| all.as_object().unwrap().keys().map(move |of| (path, of)));
    let mut seen = 0;
    for (path, method) in operations {
        let form = path.split('{').next().unwrap();
        let is_it = |row: &&(Ask<'_>, &str, bool)| {
            row.0.0.eq_ignore_ascii_case(method)
                && (row.0.1.split('?').next() == Some(path)
                    || (path.contains('{') && row.0.1.starts_with(form)))
        };
        let row = ROWS.iter().find(is_it);
        let (ask, needed, is_for_sites) =
            *row.unwrap_or_else(|| panic!("{method} {path} has no row in ROWS"));
        seen += 1;
        for (role, token, is_limited) in &callers {
            let (status, word) = match role {
                &"none" => told(&answer(weir.admin(), ask, JSON)),
                _ => with(&weir, token, ask),
            };
            let expect = match (*role, *is_limited) {
                ("none", _) => "no-token",
                (role, _) if role != "admin" && role != needed && needed != "any" => "role",
                (_, true) if !is_for_sites => "whole",
                _ => "",
            };
            let by_caller = if BY_CALLER.contains(&&*word) { &*word } else { "" };
            assert_eq!(by_caller, expect, "{role} of sites: {is_limited}, {ask:?}: {status} {word}");
            assert_eq!(
                status == 401 || (status == 403 && word != "program"),
                !expect.is_empty(),
                "{ask:?} {word}"
            );
        }
        // The owner of the socket may do all.
        let (status, word) = told(&answer(socket.clone(), ask, JSON));
        assert!(!BY_CALLER.contains(&&*word) && status != 401 && status != 403, "{ask:?}: {status} {word}");
    }
    assert_eq!(seen, ROWS.len(), "a row without an operation");
    until("refused attempts are in the history", || history(&weir, &["--result", "refused"]).len() > 50);
}

/// The site, the objects and the plan: what an attempt could change.
fn state(weir: &Weir) -> Value {
    let status: Value = serde_json::from_str(&weir.command(&["status", "--json"]).stdout).unwrap();
    let tokens: Value = serde_json::from_str(&weir.command(&["token", "list", "--json"]).stdout).unwrap();
    json!([status["plan"], status["pid"], status["reloads"], status["ledger"]["number"], tokens])
}

#[test]
fn what_is_refused_changes_nothing_and_is_in_the_history() {
    let origin = origin();
    let weir = of_two_sites(&origin);
    let (purge, reload) = (r#"{"scope":{"url":"http://b.test/x"}}"#, Ask("POST", "/v1/reload", ""));
    let purge = |path| Ask("POST", path, purge);
    let admin = weir.token("admin", &[]);
    let of_a = weir.token("purge", &["a.test"]);
    let short = weir.command(&["token", "add", "short", "--role", "admin", "--expires", "1ms"]);
    let short = short.stdout.lines().next().unwrap().to_owned();
    let (right, before) = (format!("{JSON}Authorization: Bearer {admin}\r\n"), state(&weir));
    let attempts = [
        (reload, JSON.to_owned(), 401, "no-token"),
        (reload, format!("{JSON}Authorization: Basic {admin}\r\n"), 401, "wrong-token"),
        (reload, format!("{JSON}Authorization: Bearer {}\r\n", &admin[..40]), 401, "wrong-token"),
        (reload, format!("{JSON}Authorization: Bearer {short}\r\n"), 401, "expired-token"),
        (reload, format!("{JSON}Authorization: Bearer {of_a}\r\n"), 403, "role"),
        (reload, format!("{right}Authorization: Bearer {admin}\r\n"), 401, "wrong-token"),
        (reload, format!("{right}Origin: http://evil.test\r\n"), 403, "foreign-origin"),
        (reload, format!("{right}Origin: null\r\n"), 403, "foreign-origin"),
        (reload, format!("{right}Sec-Fetch-Site: cross-site\r\n"), 403, "foreign-origin"),
        (purge("/v1/purge"), format!("{JSON}Authorization: Bearer {of_a}\r\n"), 403, "other-site"),
        (purge("/v1/purge"), format!("Authorization: Bearer {admin}\r\n"), 415, "content-type"),
        (
            purge("/v1/purge"),
            format!("Content-Type: text/plain;application/json\r\nAuthorization: Bearer {admin}\r\n"),
            415,
            "content-type",
        ),
        (purge("/v1/../v1/purge"), right.clone(), 404, "unknown-path"),
        (purge("/v1/purge/"), right.clone(), 404, "unknown-path"),
        (purge("//v1/purge"), right.clone(), 404, "unknown-path"),
        (purge("/v1/%70urge"), right.clone(), 404, "unknown-path"),
        (purge("/v1/purge%00"), right.clone(), 404, "unknown-path"),
        (Ask("GET", "/v1/purge", ""), right.clone(), 405, "method"),
        (Ask("GET", "/v1/reload", ""), right.clone(), 405, "method"),
        (Ask("DELETE", "/v1/tokens/../tokens", ""), right.clone(), 404, "unknown-path"),
        (Ask("POST", "/v1/upgrade", r#"{"program":"/bin/sh"}"#), right.clone(), 403, "program"),
    ];
    for (ask, fields, status, word) in &attempts {
        assert_eq!(
            told(&answer(weir.admin(), *ask, fields)),
            (*status, (*word).to_owned()),
            "{ask:?} {fields}"
        );
    }
    let unknown = answer(weir.admin(), purge("/v1/purge?dry-run=1"), &right);
    assert_eq!(told(&unknown), (422, "unfit".to_owned()));
    // Another host: by rebinding a name to this address.
    let mut client = Client::connect(weir.admin());
    client.send(head(reload, &right).replace("localhost", "evil.test") + "\r\n");
    assert_eq!(told(&client.recv().unwrap()), (421, "misdirected".to_owned()));
    // A content of 10 GiB, said and unsaid.
    let mut client = Client::connect(weir.admin());
    let large = purge("/v1/purge");
    let length = format!("Length: {}", large.2.len());
    client.send(head(large, &right).replace(&length, "Length: 10737418240") + "\r\n");
    assert_eq!(told(&client.recv().unwrap()), (413, "too-large".to_owned()));
    let mut client = Client::connect(weir.admin());
    let chunked = head(reload, &right).replace("Content-Length: 0", "Transfer-Encoding: chunked");
    client.send(chunked + "\r\n280000000\r\n");
    let block = vec![b' '; 1 << 16];
    (0..17).all(|_| client.send(&block));
    assert_eq!(told(&client.recv().unwrap()), (413, "too-large".to_owned()));

    assert_eq!(state(&weir), before);
    let all = attempts.len() + 3;
    until("all attempts are in the history", || history(&weir, &["--result", "refused"]).len() >= all);
    let entries = history(&weir, &["--result", "refused"]);
    assert_eq!(entries.len(), all, "{entries:#?}");
    // An operation that has begun says what it was about.
    let begun = [("other-site", "purge"), ("program", "upgrade")];
    for (_, _, _, word) in attempts {
        let act = begun.iter().find(|(of, _)| *of == word).map(|(_, act)| *act);
        let is_it = |entry: &Value| act.map_or(entry["why"] == word, |act| entry["act"] == act);
        assert!(entries.iter().any(is_it), "{word}: {entries:#?}");
    }
    let files = ["audit", "audit-refused", "audit-strangers"].map(|name| weir.state().join(name));
    let text = files.map(|file| std::fs::read_to_string(file).unwrap()).concat();
    assert!(!text.contains(&admin[5..]) && !text.contains(&of_a[5..]), "a token is in the history");
}

/// A search for an act finds attempts at it, with what was asked for.
#[test]
fn an_attempt_is_found_by_its_act_and_says_what_it_was_about() {
    let origin = origin();
    let weir = of_two_sites(&origin);
    let (view, all) = (weir.token("view", &["a.test"]), weir.token("view", &[]));
    let purge = Ask("POST", "/v1/purge", r#"{"scope":{"url":"http://b.test/x"}}"#);
    assert_eq!(with(&weir, &view, purge).1, "role");
    assert_eq!(with(&weir, &view, Ask("GET", "/v1/objects?site=b.test", "")).1, "other-site");
    let explain = Ask("POST", "/v1/explain", r#"{"method":"GET","url":"http://b.test/x"}"#);
    assert_eq!(with(&weir, &view, explain).1, "other-site");
    let mut client = weir.client();
    client.send("PURGE /x HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.recv().unwrap().status(), 405);
    until("all are there", || history(&weir, &["--result", "refused"]).len() == 4);
    let purges = history(&weir, &["--act", "purge", "--result", "refused"]);
    let requests: Vec<_> = purges.iter().map(|entry| (&entry["request"], &entry["why"])).collect();
    assert_eq!(
        requests,
        [(&json!("POST /v1/purge"), &json!("role")), (&json!("PURGE /x"), &json!("purge-refused"))]
    );
    let others: Vec<Value> = history(&weir, &[])
        .into_iter()
        .filter(|entry| entry["why"] == "other-site")
        .inspect(|entry| assert_eq!(entry.get("sites"), None, "{entry}"))
        .collect();
    assert_eq!(others[0]["request"], "GET /v1/objects?site=b.test");
    assert_eq!(others[1]["scope"]["url"], "http://b.test/x");
    let seen = |token: &str| {
        let seen: Value = serde_json::from_str(&weir.admin_get_with("/v1/history", token).text()).unwrap();
        seen["entries"].as_array().unwrap().len()
    };
    assert_eq!(seen(&view), 3, "what it was refused itself");
    assert_eq!(seen(&all), history(&weir, &[]).len());
}

#[test]
fn a_question_of_the_history_that_makes_no_sense_is_refused() {
    let origin = origin();
    let weir = of_two_sites(&origin);
    assert_eq!(weir.command(&["purge", "--site", "b.test"]).code, Some(0));
    let asked = |args: &[&str]| weir.command(&[&["history"], args].concat());
    for (args, expect) in [
        (["--since", "yesterday"], "yesterday is no time"),
        (["--result", "refusd"], "there are done, refused, failed"),
        (["--act", "bogus"], "bogus is no act; there are purge, "),
        (["--site", "nowhere.test"], "no site is named nowhere.test"),
    ] {
        let refused = asked(&args);
        assert!(refused.code == Some(1) && refused.stderr.contains(expect), "{refused:?}");
    }
    for since in ["1h", "30d", "4w", "2026", "2026-11-22"] {
        assert_eq!(history(&weir, &["--since", since, "--site", "b.test"]).len(), 1, "{since}");
    }
    assert!(asked(&["--site", "www.a.test"]).stdout.contains("nothing like that"));
}

#[test]
fn guessing_ends_and_a_right_token_is_taken_all_the_same() {
    let origin = origin();
    let weir = of_two_sites(&origin);
    let (right, ask) = (weir.token("view", &[]), Ask("GET", "/v1/status", ""));
    for guess in 0..10 {
        assert_eq!(with(&weir, &format!("weir_{guess}"), ask), (401, "wrong-token".to_owned()));
    }
    for guess in 10..15 {
        let answer = answer(weir.admin(), ask, &format!("Authorization: Bearer weir_{guess}\r\n"));
        assert_eq!(told(&answer), (429, "too-many-wrong-tokens".to_owned()));
        assert!(answer.header("retry-after").is_some());
        assert_eq!(with(&weir, &right, ask).0, 200);
    }
}

#[test]
fn a_token_of_a_site_sees_and_touches_that_site_alone() {
    let origin = origin();
    let weir = of_two_sites(&origin);
    let mut client = weir.client();
    for host in ["a.test", "b.test"] {
        client.get(host, "/x", &[]);
        assert!(client.get(host, "/x", &[]).is_hit());
    }
    let (view, purge) = (weir.token("view", &["a.test"]), weir.token("purge", &["a.test"]));
    let seen = |path: &str| weir.admin_get_with(path, &view).text();
    for path in ["/v1/objects", "/v1/sites", "/v1/history", "/v1/objects?site=www.a.test"] {
        let text = seen(path);
        assert!(!text.contains("b.test"), "{path}: {text}");
    }
    assert!(seen("/v1/objects").contains("http://a.test/x") && seen("/v1/sites").contains("a.test"));
    for path in [
        "/v1/objects?site=b.test",
        "/v1/objects?prefix=http://b.test/",
        "/v1/objects?prefix=nowhere.test",
        "/v1/sites?site=b.test",
        "/v1/history?site=nowhere",
    ] {
        assert_eq!(weir.admin_get_with(path, &view).status(), 403, "{path}");
    }
    let explain = r#"{"method":"GET","url":"http://b.test/x"}"#;
    assert_eq!(with(&weir, &view, Ask("POST", "/v1/explain", explain)).1, "other-site");
    for scope in
        [r#"{"url":"http://b.test/x"}"#, r#"{"prefix":"b.test/"}"#, r#"{"site":"b.test"}"#, r#""all""#]
    {
        let (status, _) = with(&weir, &purge, Ask("POST", "/v1/purge", &format!("{{\"scope\":{scope}}}")));
        assert_eq!(status, 403, "{scope}");
    }
    assert_eq!(with(&weir, &purge, Ask("POST", "/v1/purge", r#"{"scope":{"site":"www.a.test"}}"#)).0, 200);
    assert!(!client.get("a.test", "/x", &[]).is_hit() && client.get("b.test", "/x", &[]).is_hit());
    let entries = history(&weir, &["--act", "purge", "--result", "done"]);
    assert_eq!(entries.len(), 1);
    assert!(entries[0]["actor"].as_str().unwrap().starts_with("token:purge-"), "{entries:?}");
    assert_eq!((&entries[0]["sites"], entries[0]["mark"].is_string()), (&json!(["a.test"]), true));
}

#[test]
fn tokens_outlast_reloads_and_upgrades_and_removal_counts_at_once() {
    let origin = origin();
    let mut weir = of_two_sites(&origin);
    let (token, ask) = (weir.token("view", &[]), Ask("GET", "/v1/status", ""));
    let name = history(&weir, &["--act", "token-add"])[0]["scope"]["name"].as_str().unwrap().to_owned();
    let is_taken = |weir: &Weir| with(weir, &token, ask).0 == 200;
    assert!(is_taken(&weir));
    assert_eq!(weir.reload().code, Some(0));
    assert!(is_taken(&weir));
    assert_eq!(weir.upgrade(&[]).code, Some(0));
    assert!(is_taken(&weir));
    let mut kept = Client::connect(weir.admin());
    let bearer = format!("Authorization: Bearer {token}\r\n\r\n");
    kept.send(head(ask, &bearer));
    assert_eq!(kept.recv().unwrap().status(), 200);
    assert_eq!(weir.command(&["token", "remove", &name]).code, Some(0));
    kept.send(head(ask, &bearer));
    assert_eq!(kept.recv().unwrap().status(), 401, "on an open connection as well");
    let acts: Vec<Value> =
        history(&weir, &["--result", "done"]).iter().map(|entry| entry["act"].clone()).collect();
    assert_eq!(acts, ["token-add", "reload", "upgrade", "token-remove"]);
}

#[test]
fn the_commands_use_a_url_with_a_token_also_over_tls() {
    let origin = origin();
    let authority = Authority::new();
    let (chain, key) = authority.issue(&["localhost", "127.0.0.1"]);
    let setup = crate::server::setup();
    for (name, text) in [("own.pem", &chain), ("own.key", &key), ("ca.pem", &authority.pem().to_owned())] {
        std::fs::write(setup.folder().join(name), text).unwrap();
    }
    let files = "[[certificate]]\nchain = \"{folder}/own.pem\"\nkey = \"{folder}/own.key\"\n";
    let weir = server(&[&origin]).more(SITES).more(files).text();
    let listen = "listen = \"{admin}\"";
    let weir = setup.run_config(&weir.replace(listen, &format!("{listen}\ntls = true")));
    let secret = weir.token("admin", &[]);
    let file = weir.folder().join("token");
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    let (url, file) = (format!("https://localhost:{}", weir.admin().port()), file.display().to_string());
    let ca = weir.folder().join("ca.pem").display().to_string();
    let remote = |args: &[&str]| weir.command(&[args, &["--url", &url, "--token-file", &file]].concat());
    let untrusted = remote(&["status"]);
    assert!(untrusted.code == Some(1) && untrusted.stderr.contains("did not answer"), "{untrusted:?}");
    let status = remote(&["status", "--ca-file", &ca]);
    assert!(status.code == Some(0) && status.stdout.contains("serving"), "{status:?}");
    let purged = remote(&["purge", "http://a.test/x", "--ca-file", &ca]);
    assert_eq!(purged.code, Some(0), "{purged:?}");
    assert_eq!(history(&weir, &["--act", "purge"])[0]["address"], "127.0.0.1");
    // Without TLS nothing is answered, and a client sees the certificate for the name that it asks for.
    let mut plain = Client::connect(weir.admin());
    plain.send("GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(plain.recv().is_err());
    let mut client =
        Client::over(TlsClient::trusting(&authority).connect(weir.admin(), "localhost").unwrap());
    assert_eq!(client.get("localhost", "/health/live", &[]).text(), "live\n");
}

/// A client that connects by an address says no name (RFC 6066 §3).
#[test]
fn over_tls_a_client_that_says_no_name_gets_the_default_certificate() {
    let origin = origin();
    let authority = Authority::new();
    let setup = crate::server::setup();
    let mut own = Vec::new();
    for (name, names) in [("named", ["localhost"]), ("other", ["weir.example"])] {
        let (chain, key) = authority.issue(&names);
        std::fs::write(setup.folder().join(format!("{name}.pem")), &chain).unwrap();
        std::fs::write(setup.folder().join(format!("{name}.key")), key).unwrap();
        own.push(format!(
            "[[certificate]]\nchain = \"{{folder}}/{name}.pem\"\nkey = \"{{folder}}/{name}.key\"\n"
        ));
    }
    let config = |certificates: &str| {
        let listen = "listen = \"{admin}\"";
        let text = server(&[&origin]).more(SITES).more(certificates).text();
        text.replace(listen, &format!("{listen}\ntls = true\nhosts = [\"weir.example\"]"))
    };
    let weir = setup.run_config(&config(&format!("{}{}default = true\n", own[0], own[1])));
    let shown = |name: &str| {
        let socket = TlsClient::insecure().connect(weir.admin(), name)?;
        let leaf = socket.session().unwrap().certificates.remove(0);
        Ok::<_, std::io::Error>((leaf, Client::over(socket)))
    };
    let (named, other) = (shown("localhost").unwrap().0, shown("weir.example").unwrap().0);
    let (by_address, mut client) = shown("127.0.0.1").unwrap();
    assert!(by_address == other && by_address != named);
    assert_eq!(client.get("127.0.0.1", "/health/live", &[]).text(), "live\n");
    assert_eq!(shown("nobody.example").unwrap().0, other);
    // Where there is none, such a client gets no certificate.
    weir.rewrite_config(&config(&own.concat()));
    assert_eq!(weir.reload().code, Some(0));
    until("the default is gone", || shown("127.0.0.1").is_err());
    assert_eq!(shown("localhost").unwrap().0, named);
}

#[test]
fn a_full_disk_is_said_and_holds_up_no_purge() {
    let origin = origin();
    let setup = crate::server::setup();
    std::fs::create_dir_all(setup.folder().join("state")).unwrap();
    std::os::unix::fs::symlink("/dev/full", setup.folder().join("state/audit-purges")).unwrap();
    let weir = server(&[&origin]).site(PURGERS).start_in(setup);
    for _ in 0..3 {
        assert_eq!(weir.command(&["purge", "--all"]).code, Some(0));
    }
    let said = Instant::now();
    for _ in 0..3 {
        let mut client = weir.client();
        client.send("PURGE / HTTP/1.1\r\nHost: localhost\r\nxkey: a\r\n\r\n");
        assert_eq!(client.recv().unwrap().status(), 200);
    }
    assert!(said.elapsed() < Duration::from_secs(30), "a purge waits for a disk that fails");
    let shown = weir.command(&["history"]);
    assert!(shown.stdout.contains("the history cannot be written now: No space left"), "{shown:?}");
    std::fs::remove_file(weir.state().join("audit-purges")).unwrap();
    until("what waited is written", || history(&weir, &["--act", "purge"]).len() == 6);
    assert!(!weir.command(&["history"]).stdout.contains("cannot be written"));
}

/// Rights for every client here, whether it is named or not.
const PURGERS: &str = "purge = { allow = [\"127.0.0.0/8\"], local = true }\n";

#[test]
fn what_a_client_has_purged_is_in_the_history_when_it_is_told() {
    let origin = origin();
    let weir = server(&[&origin]).site(PURGERS).start();
    let mut client = weir.client();
    for number in 1..=20 {
        client.send(format!("PURGE /{number} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(client.recv().unwrap().status(), 200);
        let written = std::fs::read_to_string(weir.state().join("audit-purges")).unwrap();
        assert_eq!(written.lines().count(), number, "{written}");
        let last: Value = serde_json::from_str(written.lines().last().unwrap()).unwrap();
        assert_eq!((&last["act"], &last["result"]), (&json!("purge"), &json!("done")));
        assert_eq!(
            (&last["scope"], last["mark"].is_string()),
            (&json!({ "url": format!("localhost/{number}") }), true)
        );
    }
}

/// WP Rocket does not wait for the answer.
#[test]
fn a_purge_of_a_client_that_goes_at_once_is_carried_out_and_in_the_history() {
    let origin = origin();
    let weir = server(&[&origin]).site(PURGERS).start();
    for round in 1..=20 {
        weir.get("/x");
        assert!(weir.get("/x").is_hit());
        let mut client = weir.client();
        client.send("PURGE /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
        drop(client);
        until("the page is fetched again", || !weir.get("/x").is_hit());
        until("it is in the history", || {
            let written = std::fs::read_to_string(weir.state().join("audit-purges")).unwrap_or_default();
            written.lines().filter(|line| line.contains("\"done\"")).count() == round
        });
    }
}

#[test]
fn no_secret_of_the_configuration_is_in_an_answer() {
    let origin = origin();
    let secret = "request_headers.set = { Authorization = \"Bearer hush-hush\", X-Why = \"shown\" }\n";
    let weir = server(&[&origin]).site(secret).start();
    let token = weir.token("admin", &[]);
    let ask = Ask("POST", "/v1/explain", r#"{"method":"GET","url":"http://localhost/x"}"#);
    let explained = answer(weir.admin(), ask, &format!("{JSON}Authorization: Bearer {token}\r\n")).text();
    assert!(!explained.contains("hush-hush") && explained.contains("***"), "{explained}");
    assert!(explained.contains("shown"), "{explained}");
    weir.rewrite_config("[[site]]\nhosts = [\"*\"]\nkey = \"hush-hush\n");
    let refused =
        answer(weir.admin(), Ask("POST", "/v1/reload", ""), &format!("Authorization: Bearer {token}\r\n"));
    assert_eq!(refused.status(), 422);
    assert!(!refused.text().contains("hush-hush"), "{}", refused.text());
    assert!(!weir.admin_get_with("/v1/status", &token).text().contains("hush-hush"));
}
