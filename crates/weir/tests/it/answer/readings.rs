//! What origins may read in several ways, over both versions of HTTP: paths, methods, fields that name
//! another method, requests that are signed.

use weir_testkit::{H2Client, Origin, Weir};

use crate::server::setup;

const HOST: &str = "www.example.com";

fn weir(origin: &Origin) -> Weir {
    setup().run_config(&format!(
        "[admin]\nlisten = \"{{admin}}\"\n\
         [[listen]]\naddress = \"{{listen}}\"\nprotocols = [\"h2\", \"http/1.1\"]\n\
         [upstream.main]\norigins = [\"{}\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n\
         [[site.route]]\npath = \"/admin/**\"\ndeny = [\"0.0.0.0/0\", \"::/0\"]\n\
         [[site.route]]\nmethod = [\"DELETE\"]\nanswer = {{ status = 403, body = \"closed\" }}\n",
        origin.url()
    ))
}

/// Method, path, fields, and the status that comes back: 200 where it reaches the origin.
type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)], u16);

const ROWS: [Row; 15] = [
    ("GET", "/x", &[], 200),
    ("GET", "/admin/x", &[], 403),
    ("GET", "/admin/../x", &[], 403),
    ("GET", "/admin/..;/x", &[], 400),
    ("GET", "/admin/%2e%2e%3b/x", &[], 400),
    ("GET", "/admin/..%5cx", &[], 400),
    ("GET", "/admin/..\\x", &[], 400),
    ("GET", "/a/..;/x", &[], 200),
    ("POST", "/x", &[("x-http-method-override", "PUT")], 200),
    ("POST", "/x", &[("x-http-method-override", "Delete")], 403),
    ("POST", "/x", &[("x-http-method-override", "PUT"), ("x-method-override", "PATCH")], 400),
    ("post", "/x", &[], 501),
    ("Delete", "/x", &[], 501),
    ("get", "/x", &[], 501),
    ("GET", "/signed", &[("authorization", "AWS4-HMAC-SHA256 x"), ("range", "bytes=3-4")], 200),
];

#[test]
fn both_versions_are_refused_alike_and_what_goes_on_goes_as_it_came() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.body();
        exchange.reply(200, &[("Cache-Control", "no-store")], "open");
    });
    let weir = weir(&origin);
    let mut h2 = H2Client::connect(weir.addr());
    for (method, path, fields, status) in ROWS {
        let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut h1 = weir.client();
        let content = if method == "GET" { "" } else { "Content-Length: 0\r\n" };
        h1.send(format!("{method} {path} HTTP/1.1\r\nHost: {HOST}\r\n{content}{lines}\r\n"));
        let old = h1.recv().unwrap();
        let stream = h2.ask(method, HOST, path, fields);
        let new = h2.recv(stream).unwrap();
        assert_eq!(
            (old.status(), new.status()),
            (status, status),
            "{method} {path} {fields:?}: {:?}",
            old.head
        );
        assert_eq!(old.cache_status(), new.cache_status(), "{method} {path} {fields:?}");
        let reached = if status == 200 { origin.requests(path) } else { Vec::new() };
        assert_eq!(status == 200, !reached.is_empty(), "{method} {path}");
        for asked in reached.iter().rev().take(if status == 200 { 2 } else { 0 }) {
            for (name, value) in fields {
                assert_eq!(asked.header(name).as_deref(), Some(*value), "{method} {path}: {asked:?}");
            }
        }
    }
    assert!(origin.requests("/admin/x").is_empty() && origin.requests("/admin/../x").is_empty());
    let url = format!("http://{HOST}/x");
    let asked = ["explain", "-H", "X-Original-URL: /admin/x", "-H", "Range: bytes=0-1", &url];
    let said = weir.command(&asked).stdout;
    assert!(said.contains("fields lost  x-original-url, range"), "{said}");
}
