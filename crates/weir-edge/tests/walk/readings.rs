//! Paths and methods that origins read in several ways: none goes round a route that guards a path or a
//! method.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use weir_testkit::Origin;

use crate::kit::{Weir, message, server};

/// A server, and the path by which it chooses what answers, of the path in a request. `None`: it refuses it.
type Reading = (&'static str, fn(&str) -> Option<String>);

/// How servers read a path, as their documentation and sources say.
const ORIGINS: [Reading; 12] = [
    ("nginx", |path| Some(resolved(&merged(&decoded(path, "")?)))),
    ("nginx with merge_slashes off", |path| Some(resolved(&decoded(path, "")?))),
    ("Apache httpd with AllowEncodedSlashes", |path| Some(resolved(&merged(&decoded(path, "")?)))),
    ("Tomcat", |path| {
        let path = decoded(&without_parameters(path), "")?;
        Some(resolved(&merged(&path.replace('\\', "/"))))
    }),
    ("Jetty", |path| Some(resolved(&decoded(&without_parameters(path), "")?))),
    ("IIS", |path| Some(resolved(&decoded(path, "")?.replace('\\', "/")))),
    ("Express", |path| Some(path.to_owned())),
    ("Node's URL", |path| Some(whatwg(path))),
    ("Go's ServeMux", |path| Some(resolved(&merged(&decoded(path, "")?)))),
    ("WSGI, and PHP behind a front controller", |path| decoded(path, "")),
    ("PHP's parse_url", |path| behind_host(path).map(str::to_owned)),
    ("the JDK's server", |path| decoded(behind_host(path)?, "")),
];

/// Escapes decoded once, but for those of these bytes.
fn decoded(path: &str, but: &str) -> Option<String> {
    let (mut out, mut rest) = (Vec::new(), path.as_bytes());
    while let Some(first) = rest.first() {
        let digits = rest.get(1..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' && !but.as_bytes().contains(&byte) => {
                out.push(byte);
                rest = &rest[3..];
            }
            _ => {
                out.push(*first);
                rest = &rest[1..];
            }
        }
    }
    String::from_utf8(out).ok()
}

fn merged(path: &str) -> String {
    let mut path = path.to_owned();
    while path.contains("//") {
        path = path.replace("//", "/");
    }
    path
}

fn without_parameters(path: &str) -> String {
    let segments = path.split('/').map(|segment| segment.split(';').next().unwrap());
    segments.collect::<Vec<_>>().join("/")
}

/// Without dot segments (RFC 3986 §5.2.4).
fn resolved(path: &str) -> String {
    let mut left: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (at, segment) in segments.iter().enumerate() {
        match *segment {
            ".." => drop(left.pop()),
            "." => {}
            name => {
                left.push(name);
                continue;
            }
        }
        if at + 1 == segments.len() {
            left.push("");
        }
    }
    format!("/{}", left.join("/"))
}

/// Behind the host with which two slashes begin (RFC 3986 §4.2). What begins with three is no URL.
fn behind_host(path: &str) -> Option<&str> {
    match path.strip_prefix("//") {
        Some(named) if named.starts_with('/') => None,
        Some(named) => Some(named.find('/').map_or("/", |at| &named[at..])),
        None => Some(path),
    }
}

/// As `new URL(path, base).pathname`: `\` is `/`, a dot may be encoded, and a host follows two slashes or
/// more.
fn whatwg(path: &str) -> String {
    let mut path = path.replace('\\', "/");
    if path.starts_with("//") {
        let named = path.trim_start_matches('/');
        path = named.find('/').map_or("/", |at| &named[at..]).to_owned();
    }
    let dots = |segment: &str| match segment.to_ascii_lowercase().replace("%2e", ".").as_str() {
        dots @ ("." | "..") => dots.to_owned(),
        _ => segment.to_owned(),
    };
    resolved(&path.split('/').map(dots).collect::<Vec<_>>().join("/"))
}

#[test]
fn the_readings_are_those_of_the_servers() {
    for (path, expect) in [
        ("/admin/..;/x", [("nginx", "/admin/..;/x"), ("Tomcat", "/x"), ("Express", "/admin/..;/x")]),
        ("/a%2F..//b", [("nginx", "/b"), ("Express", "/a%2F..//b"), ("Node's URL", "/a%2F..//b")]),
        ("/a\\..\\b", [("IIS", "/b"), ("nginx", "/a\\..\\b"), ("Node's URL", "/b")]),
        ("/a//../b", [("nginx", "/b"), ("Jetty", "/a/b"), ("Node's URL", "/a/b")]),
        ("/a/%2e%2E/b", [("nginx", "/b"), ("Express", "/a/%2e%2E/b"), ("Node's URL", "/b")]),
    ] {
        for (name, read) in expect {
            let (_, reading) = ORIGINS.iter().find(|(of, _)| *of == name).unwrap();
            assert_eq!(reading(path).as_deref(), Some(read), "{name} {path}");
        }
    }
}

const GUARDS: [&str; 3] = [
    "[[site.route]]\npath = \"/admin/**\"\ndeny = [\"0.0.0.0/0\", \"::/0\"]\n",
    "[[site.route]]\npath = \"/admin/**\"\nallow = [\"192.0.2.7\"]\n",
    "[[site.route]]\npath = \"/admin/**\"\nanswer = { status = 403, body = \"closed\" }\n",
];

fn echo() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.body();
        exchange.reply(200, &[("Cache-Control", "no-store")], "open");
    });
    origin
}

fn guarded(origin: &Origin, guard: &str) -> Weir {
    server(&[origin]).site(guard).start()
}

/// What reaches the origin for these paths; those of them are checked that any server takes for guarded.
fn check(weir: &Weir, origin: &Origin, path: &str, method: &str) {
    let before = origin.total();
    let answer = weir.send(&message(method, "localhost", path, &[]));
    let has_reached = origin.total() > before;
    for (name, reading) in ORIGINS {
        let Some(read) = reading(path) else { continue };
        let is_guarded = read.starts_with("/admin/");
        assert!(!(is_guarded && has_reached), "{name} reads {path} as {read}: {:?}", answer.head);
    }
    assert!(matches!(answer.status(), 200 | 400 | 403), "{path}: {:?}", answer.head);
}

#[test]
fn no_reading_of_a_path_goes_round_its_guard() {
    let pieces = [
        "/", "admin", "x", "..", ".", "//", "\\", "%2f", "%2F", "%5c", "%2e", "%2e%2E", ";", "%3b", "..;",
        ";a=1", "%61dmin", "admin/", "/..", "a",
    ];
    for guard in GUARDS {
        let origin = echo();
        let weir = guarded(&origin, guard);
        for path in [
            "/admin/..;/x",
            "/admin/..;a/x",
            "/admin/%2e%2e%3b/x",
            "/admin/..\\x",
            "/admin/..%5cx",
            "/admin/../x",
            "/admin//../y",
            "/admin/a/..%2f../x",
            "/x/..;/admin/y",
            "/x/..\\admin/y",
            "/admin/.;/../x",
            "//admin/x",
            "/%61dmin/x",
            "/x/../admin/y",
            "/admin;a/../x/y",
            "/;/..;/admin/x",
            "/%5c;%5cx/admin/y",
            "//x/admin/y",
            "/\\x/admin/y",
            "///x/admin/y",
            "//x\\y/admin/z",
            "//x/a/../admin/y",
        ] {
            check(&weir, &origin, path, "GET");
            check(&weir, &origin, path, "DELETE");
        }
        let paths = prop::collection::vec(prop::sample::select(pieces.to_vec()), 1..9);
        let mut runner =
            TestRunner::new(Config { cases: 2000, failure_persistence: None, ..Config::default() });
        let run = runner.run(&(paths, any::<bool>()), |(path, begins)| {
            let path = format!("/{}{}", if begins { "admin/" } else { "" }, path.concat());
            check(&weir, &origin, &path, "GET");
            Ok(())
        });
        run.unwrap();
    }
}

/// The answer says which it was: the strictest route where origins differ about dots, 400 where they differ
/// about `;` and `\`.
#[test]
fn a_path_of_two_readings_is_refused_by_the_strictest_route_or_as_ambiguous() {
    for (guard, status, word) in [(GUARDS[0], 403, "denied"), (GUARDS[2], 403, "static")] {
        let origin = echo();
        let weir = guarded(&origin, guard);
        for (path, expect) in [
            ("/admin/../x", (status, word)),
            ("/x/../admin/y", (status, word)),
            ("/admin/%2e%2e/x", (status, word)),
            ("/admin/..;/x", (400, "path-ambiguous")),
            ("/x/..;/admin/y", (400, "path-ambiguous")),
            ("/admin/..\\x", (400, "path-ambiguous")),
            ("/a%2fb//c;d\\e%5c/../f", (400, "path-ambiguous")),
        ] {
            let answer = weir.get(path);
            assert_eq!(answer.status(), expect.0, "{path}: {:?}", answer.head);
            assert!(answer.cache_status().contains(expect.1), "{path}: {:?}", answer.head);
            let told = weir.explain_of(&message("GET", "localhost", path, &[]), Some("127.0.0.1"));
            assert_eq!((told.verdict.word(), told.reason), ("local", expect.1), "{path}");
        }
        // Where both readings lead to one route, the path goes on as it came.
        for path in ["/x/..;/y", "/x/../y", "/x\\..\\y", "/a;v=1/b"] {
            assert_eq!(weir.get(path).text(), "open", "{path}");
            assert_eq!(origin.count(path), 1, "{path}");
        }
    }
    // Of clients that the guard lets in, the reading of most decides.
    let origin = echo();
    let weir = guarded(&origin, GUARDS[1]);
    weir.come_from("192.0.2.7");
    assert_eq!(weir.get("/admin/../x").text(), "open");
    // A site of one route has nothing to go round.
    let weir = server(&[&origin]).start();
    assert_eq!(weir.get("/a%2fb//c;d\\e%5c/../f").text(), "open");
}

/// RFC 9110 §9.1: methods are case-sensitive. PHP and others read `post` as POST all the same.
#[test]
fn a_method_that_differs_from_a_known_one_by_its_case_is_not_implemented() {
    let origin = echo();
    let site = "[[site.route]]\nmethod = [\"POST\", \"FROB\"]\ndeny = [\"0.0.0.0/0\"]\n";
    let weir = server(&[&origin]).site(site).start();
    let known: BTreeSet<_> = [
        "post", "Post", "pOST", "get", "Head", "put", "patch", "delete", "Options", "propfind", "mkcol",
        "purge", "Ban", "query", "frob", "Frob",
    ]
    .into();
    for method in &known {
        let answer = weir.send(&message(method, "localhost", "/x", &[("Content-Length", "0")]));
        assert_eq!(answer.status(), 501, "{method}: {:?}", answer.head);
        assert!(answer.cache_status().contains("method-case"), "{method}: {:?}", answer.head);
        assert_eq!(weir.explain(&message(method, "localhost", "/x", &[])).reason, "method-case");
    }
    assert_eq!(origin.total(), 0);
    for method in ["PUT", "PROPFIND", "FROBNICATE", "frobnicate", "REPORT"] {
        assert_eq!(
            weir.send(&message(method, "localhost", "/x", &[("Content-Length", "0")])).status(),
            200,
            "{method}"
        );
    }
    for method in ["POST", "FROB"] {
        assert_eq!(
            weir.send(&message(method, "localhost", "/x", &[("Content-Length", "0")])).status(),
            403,
            "{method}"
        );
    }
}
