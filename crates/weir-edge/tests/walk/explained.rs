//! `explain` is asked before each request of a table, and must predict what then happens.

use std::time::Duration;

use weir_edge::Explanation;
use weir_observe::Count;
use weir_testkit::{Origin, Resource, Response, pattern};

use crate::kit::{message, server, setup};

const HOST: &str = "shop.example";
/// More than one chunk of a part.
const LARGE_BYTES: usize = 5 << 20;

/// One request of the table.
struct Row {
    /// Method, target and fields.
    head: &'static str,
    /// What `explain` must call it.
    verdict: &'static str,
    /// The status of the response.
    status: u16,
}

const fn row(head: &'static str, verdict: &'static str, status: u16) -> Row {
    Row { head, verdict, status }
}

/// In this order: later rows find what earlier ones have stored.
const TABLE: &[Row] = &[
    row("GET /page", "miss", 200),
    row("GET /page", "hit", 200),
    row("HEAD /page", "hit", 200),
    row("GET /page?x=1", "miss", 200),
    row("GET /page\r\nrange: bytes=2-4", "hit", 206),
    row("GET /page\r\nif-none-match: \"v1\"", "hit", 304),
    row("GET /page\r\nrange: bytes=900-", "hit", 416),
    row("GET /page\r\ncache-control: no-cache", "revalidate", 200),
    row("GET /page\r\ncache-control: no-store", "pass", 200),
    row("GET /a/../page", "pass", 404),
    row("GET /none\r\ncache-control: only-if-cached", "gateway-timeout", 504),
    row("GET /page\r\ncache-control: only-if-cached", "hit", 200),
    row("GET /page\r\nupgrade: other\r\nconnection: upgrade", "pass", 200),
    row("POST /page", "pass", 200),
    row("GET /page", "miss", 200),
    row("GET /large\r\nrange: bytes=0-9", "miss", 206),
    row("GET /large\r\nrange: bytes=0-9", "hit", 206),
    row("GET /large\r\ncache-control: only-if-cached", "gateway-timeout", 504),
    row("GET /large", "miss", 200),
    row("GET /large", "hit", 200),
    row("GET /vary\r\naccept-language: de", "miss", 200),
    row("GET /vary\r\naccept-language: en", "miss", 200),
    row("GET /vary\r\naccept-language: de", "hit", 200),
    row("GET /private", "miss", 200),
    row("GET /private", "pass", 200),
    row("PURGE /page", "local", 405),
    row("OPTIONS /page\r\nmax-forwards: 0", "local", 204),
    row("GET /page\r\nauthorization: Basic eA==", "hit", 200),
    row("GET /page\r\nauthorization: Negotiate eA==", "pass", 200),
];

/// The requests made first, two seconds before [`AGED`].
const YOUNG: &[Row] = &[
    row("GET /brief", "miss", 200),
    row("GET /brief", "hit", 200),
    row("GET /bound", "miss", 200),
    row("GET /window", "miss", 200),
    row("GET /long", "miss", 200),
];

const AGED: &[Row] = &[
    row("GET /brief\r\ncache-control: only-if-cached", "gateway-timeout", 504),
    row("GET /brief\r\ncache-control: max-stale=60", "stale", 200),
    row("GET /bound\r\ncache-control: max-stale=60", "revalidate", 200),
    row("GET /brief", "revalidate", 200),
    row("GET /brief", "hit", 200),
    row("GET /window\r\nif-none-match: \"1\"", "stale", 304),
    row("GET /window", "hit", 200),
    row("GET /long\r\ncache-control: max-age=1", "revalidate", 200),
    row("GET /long\r\ncache-control: min-fresh=601", "revalidate", 200),
    row("GET /long", "hit", 200),
];

/// Who sees what became of a request.
const DEBUG: &str = "[debug]\nallow = [\"192.0.2.0/24\"]\n";

fn origin() -> Origin {
    let origin = Origin::start();
    let page = |etag: &str| {
        Resource::new("a page of some bytes").etag(etag).header("cache-control", "max-age=600").ranges()
    };
    origin.put("/page", page("\"v1\"")).put("/page?x=1", page("\"x1\""));
    let large = Resource::new(pattern(7, LARGE_BYTES)).etag("\"l1\"").header("cache-control", "max-age=600");
    origin.put("/large", large.ranges());
    let vary = Resource::new("in a language").header("cache-control", "max-age=600");
    origin.put("/vary", vary.header("vary", "accept-language"));
    for (path, control) in [
        ("/brief", "max-age=1"),
        ("/bound", "max-age=1, must-revalidate"),
        ("/window", "max-age=1, stale-while-revalidate=60"),
        ("/long", "max-age=600"),
    ] {
        origin.put(path, Resource::new("of a moment").etag("\"1\"").header("cache-control", control));
    }
    origin.put("/private", Resource::new("for one").header("cache-control", "private"));
    origin
}

/// A request whose fields follow method and target, which shows what became of it.
fn request(head: &str) -> String {
    let (line, fields) = head.split_once("\r\n").unwrap_or((head, ""));
    let (method, target) = line.split_once(' ').unwrap();
    let fields = fields.split("\r\n").filter_map(|line| line.split_once(": "));
    let fields: Vec<_> = fields.chain([("weir-debug", "1")]).collect();
    message(method, HOST, target, &fields)
}

/// The gate at which a walk ended.
fn gate(came: &Response) -> String {
    let outcome = came.header("weir-debug-outcome").unwrap_or_else(|| panic!("{came:?}"));
    outcome.split("gate=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned()
}

/// The gates that a question comes to.
fn gates(said: &Explanation) -> Vec<&'static str> {
    said.gates.iter().map(|(name, _)| *name).collect()
}

/// What explain said of a request must be what happened.
fn check(row: &Row, said: &Explanation, came: &Response) {
    let head = row.head;
    assert_eq!(said.verdict.word(), row.verdict, "{head}: {said:?}");
    assert_eq!(came.status(), row.status, "{head}: {came:?}");
    assert_eq!(gates(said).last(), Some(&&*gate(came)), "{head}");
    let status = &came.header("cache-status").unwrap();
    match &said.cache_status {
        None => {
            // `explain` does not know whether this client may purge.
            let word = if said.reason == "purge" { "purge-refused" } else { said.reason };
            assert_eq!(*status, format!("weir; detail={word}"), "{head}");
        }
        // The response adds what the origin answered, and its lifetime; a 416 has a word of its own.
        Some(_) if row.status == 416 => assert_eq!(status, "weir; detail=range", "{head}"),
        Some(first) => {
            let first = first.split("; ttl=").next().unwrap();
            let first = first.split("; fwd-status=").next().unwrap();
            assert!(
                status.starts_with(first.split("; detail=").next().unwrap()),
                "{head}: {status}, not {first}"
            );
        }
    }
}

#[test]
fn explain_says_of_each_request_what_then_comes_to_a_caller_without_a_socket() {
    let origin = origin();
    let weir = server(&[&origin]).more(DEBUG).start();
    // Explain assumes a client that is not trusted.
    weir.come_from("192.0.2.7");
    let walk = |table: &[Row]| {
        for row in table {
            let request = request(row.head);
            let said = weir.explain(&request);
            let came = weir.send(&request);
            check(row, &said, &came);
            if row.head == "GET /large" {
                assert!(came.body == pattern(7, LARGE_BYTES), "{} bytes", came.body.len());
            }
        }
    };
    walk(TABLE);
    walk(YOUNG);
    weir.later(Duration::from_millis(2100));
    walk(AGED);
    assert_eq!(weir.snapshot().counts[Count::ConnectionsAccepted], 0);
}

/// In the order of the walk: each comes further than the one before.
const ENDS: &[(&str, &[&str])] = &[
    ("OPTIONS /page\r\nmax-forwards: 0", &["itself"]),
    ("GET /old/../x", &["by-hand", "rewrite"]),
    ("GET /www/a.txt", &["file"]),
    ("GET /page\r\ncache-control: no-store", &["cache"]),
    ("GET /kept", &["held"]),
    ("GET /none\r\ncache-control: only-if-cached", &["warming", "early-data", "only-if-cached"]),
    ("GET /none\r\nx-look: 1", &["login", "no-store"]),
    ("GET /none", &["origin"]),
];

#[test]
fn each_request_ends_at_the_gate_that_explain_names() {
    let origin = origin();
    origin.put("/kept", Resource::new("kept").header("cache-control", "max-age=600"));
    let setup = setup();
    std::fs::create_dir_all(setup.folder().join("www")).unwrap();
    std::fs::write(setup.folder().join("www/a.txt"), "a file").unwrap();
    let site = "no_store = { headers = [\"X-Look\"] }\nrewrite = [{ from = \"/old/**\", to = \"/{1}\" }]\n\
                [[site.route]]\npath = \"/www/**\"\nroot = \"FOLDER\"\n";
    let site = site.replace("FOLDER", &setup.folder().display().to_string());
    let weir = server(&[&origin]).site(&site).more(DEBUG).start_in(setup);
    weir.come_from("192.0.2.7");
    weir.send(&request("GET /kept"));
    let mut passed = Vec::new();
    for (head, ends) in ENDS {
        passed.extend_from_slice(ends);
        let said = weir.explain(&request(head));
        assert_eq!(gates(&said), passed, "{head}: {said:?}");
        assert_eq!(gate(&weir.send(&request(head))), *ends.last().unwrap(), "{head}");
    }
}

#[test]
fn explain_resolves_what_hangs_on_the_client_and_on_the_status() {
    let origin = origin();
    origin.put("/gone", Resource::new("gone").status(404));
    let site = "deny = [\"203.0.113.0/24\"]\nttl = { \"404\" = \"1m\", \"any\" = \"10s\" }\n\
                ignore = { \"4xx\" = [\"private\"] }\nstale = { if_status = { \"404\" = \"10m\" } }\n\
                bypass = { clients = [\"192.0.2.0/28\"], map = [\"place=lab\"] }\n\
                response_headers = { set = { X-Place = \"{map.place}\" } }\n\
                [map.place]\nof = \"{client.address}\"\n\
                rules = [[\"192.0.2.64/26\", \"lab\"], [\"192.0.2.0/24\", \"office\"]]\n";
    let weir = server(&[&origin]).site(site).start();
    let request = request("GET /gone");
    for (client, verdict, reason, place) in [
        ("198.51.100.1", "miss", "uri-miss", "place says nothing"),
        ("192.0.2.129", "hit", "", "place=office"),
        ("192.0.2.3", "pass", "bypass-client", "place=office"),
        ("192.0.2.65", "pass", "bypass-map", "place=lab"),
    ] {
        let said = weir.explain_of(&request, Some(client));
        assert_eq!((said.verdict.word(), said.reason), (verdict, reason), "{client}: {said:?}");
        assert_eq!(said.maps, [place], "{client}");
        let sent = said.asked.iter().flat_map(|asked| &asked.headers);
        let mut sent = sent.filter(|(name, _)| name == "x-forwarded-for").map(|(_, value)| value.as_str());
        assert!(verdict == "hit" || sent.next() == Some(client), "{said:?}");
        weir.come_from(client);
        let came = weir.send(&request);
        assert_eq!(came.status(), 404, "{client}");
        assert_eq!(came.is_hit(), verdict == "hit", "{client}: {:?}", came.head);
    }
    let refused = weir.explain_of(&request, Some("203.0.113.9"));
    assert_eq!((refused.verdict.word(), refused.reason), ("local", "denied"));
    let unknown = weir.explain(&request);
    assert_eq!(
        (unknown.verdict.word(), unknown.maps.as_slice()),
        ("hit", &["place (by the client's address: `--client`)".to_owned()][..])
    );
    assert!(unknown.bypass.contains(&"client 192.0.2.0/28".to_owned()), "{:?}", unknown.bypass);
    let of_office = weir.explain_of(&request, Some("192.0.2.3")).bypass;
    assert!(of_office.contains(&"client 192.0.2.0/28 (this one)".to_owned()), "{of_office:?}");
    assert_eq!(unknown.stored[0].by_status, ["ttl 60 s", "if_status 600 s", "ignores private"]);
}
