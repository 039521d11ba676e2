//! Who the client is: the PROXY protocol, unix and IPv6 listeners.

use std::net::TcpListener;

use weir_testkit::{Address, Client, Origin, Weir, until};

use crate::server::{server, setup};

fn echo() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let raw = exchange.request.raw.clone();
        exchange.reply(200, &[("Cache-Control", "no-store")], raw);
    });
    origin
}

/// The value of a field as the origin saw it.
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
