//! Who the client is: the PROXY protocol, unix and IPv6 listeners, trusted proxies.

use std::net::TcpListener;

use weir_testkit::{Address, Client, Origin, Weir, until};

use crate::server::{Server, server, setup};

fn echo() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let raw = exchange.request.raw.clone();
        exchange.reply(200, &[("Cache-Control", "no-store")], raw);
    });
    origin
}

/// What the origin saw of a field.
fn seen(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let values: Vec<String> =
        lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim().to_owned()).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

fn proxied(origin: &Origin, version: &str) -> Weir {
    let text = server(&[origin]).text();
    let listen = "address = \"{listen}\"";
    setup().run_config(&text.replace(listen, &format!("{listen}\nproxy_protocol = \"{version}\"")))
}

#[test]
fn the_text_form_of_the_proxy_protocol_names_the_client() {
    let origin = echo();
    let weir = proxied(&origin, "v1");
    let mut client = weir.client();
    client.send("PROXY TCP4 192.0.2.7 127.0.0.1 5000 80\r\n");
    let text = client.get("localhost", "/x", &[]).text();
    assert_eq!(seen(&text, "x-forwarded-for").as_deref(), Some("192.0.2.7"));
    assert_eq!(client.get("localhost", "/y", &[]).status(), 200);
}

#[test]
fn the_binary_form_of_the_proxy_protocol_names_the_client() {
    let origin = echo();
    let weir = proxied(&origin, "v2");
    let mut head = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    head.extend([192, 0, 2, 8, 127, 0, 0, 1, 0x13, 0x88, 0, 80]);
    for size in [1, 100] {
        let mut client = weir.client();
        client.send_split(&head, size);
        let text = client.get("localhost", "/x", &[]).text();
        assert_eq!(seen(&text, "x-forwarded-for").as_deref(), Some("192.0.2.8"));
    }
}

#[test]
fn a_connection_without_the_proxy_protocol_is_refused_where_it_is_demanded() {
    let origin = echo();
    for version in ["v1", "v2", "any"] {
        let weir = proxied(&origin, version);
        let mut client = weir.client();
        client.send_get("localhost", "/x", &[]);
        match client.recv() {
            Ok(answer) => assert_eq!(answer.status(), 400),
            Err(why) => assert!(matches!(why, weir_testkit::Trouble::Closed), "{why}"),
        }
    }
    assert_eq!(origin.total(), 0);
}

#[test]
fn either_form_is_read_where_any_is_allowed() {
    let origin = echo();
    let weir = proxied(&origin, "any");
    let mut client = weir.client();
    client.send("PROXY TCP6 2001:db8::1 ::1 5000 80\r\n");
    let text = client.get("localhost", "/x", &[]).text();
    assert_eq!(seen(&text, "x-forwarded-for").as_deref(), Some("2001:db8::1"));
}

#[test]
fn a_unix_listener_serves() {
    let origin = echo();
    let setup = setup();
    let path = setup.folder().join("weir.sock");
    let text = server(&[&origin]).more("[[listen]]\naddress = \"unix:{folder}/weir.sock\"").text();
    let weir = setup.run_config(&text);
    // Weir counts as started once its first listener answers.
    let address = Address::Unix(path);
    until("the unix listener takes connections", || address.connect().is_ok());
    let mut client = Client::connect(address);
    assert_eq!(client.get("localhost", "/x", &[("X-Forwarded-For", "192.0.2.9")]).status(), 200);
    let text = client.get("localhost", "/y", &[("X-Forwarded-For", "192.0.2.9")]).text();
    assert!(seen(&text, "x-forwarded-for").is_some_and(|v| v.starts_with("192.0.2.9")), "{text}");
    assert_eq!(weir.get("/z").status(), 200);
}

#[test]
fn an_ipv6_listener_serves() {
    let Ok(probe) = TcpListener::bind("[::1]:0") else { return };
    let addr = probe.local_addr().unwrap();
    drop(probe);
    let origin = echo();
    let weir = server(&[&origin]).more(&format!("[[listen]]\naddress = \"{addr}\"")).start();
    until("the IPv6 listener takes connections", || Address::Tcp(addr).connect().is_ok());
    let text = weir_testkit::get(addr, "/x").text();
    assert!(seen(&text, "x-forwarded-for").is_some_and(|v| v.ends_with("::1")), "{text}");
    assert_eq!(weir.get("/y").status(), 200);
}

const CLAIMS: [(&str, &str); 4] = [
    ("X-Forwarded-For", "192.0.2.1"),
    ("X-Forwarded-Proto", "https"),
    ("X-Request-Id", "mine-1"),
    ("X-Forwarded-Host", "localhost"),
];

fn claimed(server: Server) -> (String, Weir, ()) {
    let weir = server.start();
    let text = weir.get_with("/x", &CLAIMS).text();
    (text, weir, ())
}

#[test]
fn a_trusted_proxy_is_believed() {
    let origin = echo();
    let (text, weir, ()) = claimed(server(&[&origin]));
    // A fill is for all: of whom it comes is one address, and nothing that a client could have written before
    // it.
    assert_eq!(seen(&text, "x-forwarded-for").as_deref(), Some("192.0.2.1"));
    assert_eq!(seen(&text, "x-forwarded-proto").as_deref(), Some("https"));
    assert_eq!(seen(&text, "x-request-id").as_deref(), Some("mine-1"));
    let claims: String = CLAIMS.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut client = weir.client();
    client.send(format!(
        "POST /x HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Port: 8443\r\n{claims}Content-Length: 0\r\n\r\n"
    ));
    let text = client.recv().unwrap().text();
    assert_eq!(seen(&text, "x-forwarded-for").as_deref(), Some("192.0.2.1, 127.0.0.1"));
    assert_eq!(seen(&text, "x-forwarded-port").as_deref(), Some("8443"));
}

/// `Location: http://host:1337/` was everybody's.
#[test]
fn a_port_or_an_address_that_a_trusted_proxy_passes_on_does_not_reach_others() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let seen = |name| exchange.request.header(name).unwrap_or_default();
        let to = format!("http://host:{}/{}", seen("x-forwarded-port"), seen("x-real-ip"));
        exchange.reply(301, &[("Cache-Control", "max-age=600"), ("Location", &to)], "");
    });
    let weir = server(&[&origin]).start();
    let claims = [("X-Forwarded-Port", "1337"), ("X-Real-IP", "192.0.2.1")];
    for (host, path, fields, expect) in [
        ("a.example", "/x", &claims[..], "http://host:80/"),
        ("a.example", "/x", &[], "http://host:80/"),
        ("a.example", "/y", &[("X-Forwarded-Proto", "https")], "http://host:443/"),
        ("a.example:8080", "/z", &claims, "http://host:8080/"),
    ] {
        let answer = weir.client().get(host, path, fields);
        assert_eq!(answer.header("location").as_deref(), Some(expect), "{host} {path}");
    }
    assert_eq!(origin.total(), 3);
}

#[test]
fn anybody_else_is_not() {
    let origin = echo();
    let (text, _weir, ()) = claimed(server(&[&origin]).top("trusted_proxies = [\"192.0.2.0/24\"]"));
    assert_eq!(seen(&text, "x-forwarded-for").as_deref(), Some("127.0.0.1"));
    assert_eq!(seen(&text, "x-forwarded-proto").as_deref(), Some("http"));
    assert!(seen(&text, "x-request-id").is_some_and(|id| id != "mine-1" && !id.is_empty()));
}

#[test]
fn the_believed_scheme_is_part_of_the_key() {
    let origin = Origin::start();
    origin.on("/x", |exchange| {
        let scheme = exchange.request.header("x-forwarded-proto").unwrap_or_default();
        exchange.reply(200, &[("Cache-Control", "max-age=60")], scheme);
    });
    let weir = server(&[&origin]).start();
    for scheme in ["http", "https", "http", "https"] {
        assert_eq!(weir.get_with("/x", &[("X-Forwarded-Proto", scheme)]).text(), scheme);
    }
    assert_eq!(origin.count("/x"), 2);
}
