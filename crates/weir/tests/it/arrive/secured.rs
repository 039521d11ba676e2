//! What TLS means for requests: which hosts a connection may ask for, the client's certificate for the
//! origin, `https = "redirect"` and `hsts`, early data, and what the log says.

use std::fs;
use std::time::Duration;

use weir_testkit::{Authority, Client, Origin, Response, Setup, TlsClient, Weir, until};

use crate::server::setup;

const CONFIG: &str = r#"
[[listen]]
address = "{listen}"
[[listen]]
address = "{tls}"
tls = true
protocols = ["http/1.1"]
[admin]
listen = "{admin}"
[[certificate]]
chain = "{folder}/live-*.pem"
key = "{folder}/live-*.key"
[log]
access = "json"
path = "{folder}/access.log"
[upstream.main]
origins = ["{origin}"]
[defaults]
upstream = "main"
"#;

fn run(setup: Setup, origin: &Origin, sites: &str) -> Weir {
    setup.run_config(&format!("{}\n{sites}", CONFIG.replace("{origin}", &origin.url())))
}

/// One request over a connection of its own.
fn over(client: &TlsClient, weir: &Weir, name: &str, host: &str, fields: &[(&str, &str)]) -> Response {
    Client::over(client.connect(weir.tls(), name).unwrap()).get(host, "/x", fields)
}

/// One request without TLS.
fn plain(weir: &Weir, host: &str, target: &str, fields: &[(&str, &str)]) -> Response {
    weir.client().get(host, target, fields)
}

/// An origin that says which client certificate it was shown, and lets everything be stored.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let shown = exchange.request.header("client-cert").unwrap_or_default();
        let early = exchange.request.header("early-data").unwrap_or_default();
        let status = if early == "1" { 425 } else { 200 };
        let hsts = ("Strict-Transport-Security", "max-age=1");
        exchange.reply(status, &[("Cache-Control", "max-age=600"), hsts], format!("{shown}|{early}"));
    });
    origin
}

#[test]
fn a_connection_asks_only_for_hosts_of_its_certificate() {
    let (authority, origin, setup) = (Authority::new(), origin(), setup());
    setup.certificate("live-a", &authority, &["a.example", "also.example"]);
    setup.certificate("live-b", &authority, &["b.example"]);
    let hosts = "[[site]]\nhosts = [\"a.example\", \"also.example\"]\n[[site]]\nhosts = [\"b.example\"]";
    let weir = run(setup, &origin, hosts);
    let client = TlsClient::trusting(&authority);
    let status = |name, host| over(&client, &weir, name, host, &[]).status();
    assert_eq!((status("a.example", "a.example"), status("a.example", "also.example")), (200, 200));
    assert_eq!((status("a.example", "b.example"), status("b.example", "a.example")), (421, 421));
    assert_eq!(plain(&weir, "b.example", "/x", &[]).status(), 200);
}

#[test]
fn a_site_sends_requests_without_tls_to_https() {
    let (authority, origin, setup) = (Authority::new(), origin(), setup());
    setup.certificate("live-a", &authority, &["a.example"]);
    let site = "[health]\npath = \"/health\"\n[[site]]\nhosts = [\"a.example\"]\n\
                https = \"redirect\"\nhsts = \"1d\"";
    let weir = run(setup, &origin, site);
    let get = |target, fields: &[(&str, &str)]| plain(&weir, "a.example", target, fields);
    let sent = get("/x?y=%20", &[]);
    let port = weir.tls().port();
    assert_eq!(
        (sent.status(), sent.header("location").unwrap()),
        (308, format!("https://a.example:{port}/x?y=%20"))
    );
    assert_eq!(sent.header("strict-transport-security"), None, "{:?}", sent.head);
    assert_eq!(get("/health", &[]).status(), 200);
    let mut old = weir.client();
    assert!(old.send("GET /x HTTP/1.0\r\n\r\n"));
    assert_eq!(old.recv().unwrap().header("location"), None, "there is no URL to go to");
    // A trusted proxy has ended TLS: loopback is one.
    assert_eq!(get("/x", &[("X-Forwarded-Proto", "https")]).status(), 200);
    let client = TlsClient::trusting(&authority);
    for round in 0..2 {
        let answered = over(&client, &weir, "a.example", "a.example", &[]);
        assert_eq!(answered.status(), 200);
        let hsts = answered.head.all("strict-transport-security");
        assert_eq!(hsts, ["max-age=86400"], "round {round}");
    }
    assert_eq!(origin.total(), 1);
}

#[test]
fn an_origin_sees_the_certificate_of_each_client_and_of_nobody_else() {
    let (authority, origin, setup) = (Authority::new(), origin(), setup());
    setup.certificate("live-a", &authority, &["*.example"]);
    setup.file("ca.pem", authority.pem());
    let ask =
        |mode: &str| format!("client_certificate = {{ ca = \"{{folder}}/ca.pem\", mode = \"{mode}\" }}");
    let site = |host: &str, more: &str| format!("[[site]]\nhosts = [\"{host}\"]\n{more}\n");
    let sites = [
        site("must.example", &ask("required")),
        site("may.example", &ask("optional")),
        site("open.example", ""),
    ]
    .concat();
    let weir = run(setup, &origin, &sites);
    let one = TlsClient::insecure().certificate(authority.issue(&["one"]));
    let two = TlsClient::insecure().certificate(authority.issue(&["two"]));
    let none = TlsClient::insecure();
    let forged = [("Client-Cert", ":Zm9yZ2Vk:"), ("Client-Cert-Chain", ":Zm9yZ2Vk:")];
    let get = |client: &TlsClient, name: &str| {
        let answered = over(client, &weir, name, name, &forged);
        (answered.status(), answered.text())
    };
    let (status, first) = get(&one, "may.example");
    assert!(status == 200 && first.len() > 200 && first.starts_with(':') && !first.contains("Zm9yZ2Vk"));
    let (_, second) = get(&two, "may.example");
    assert!(second.starts_with(':') && second != first);
    assert_eq!(get(&none, "may.example"), (200, "|".to_owned()));
    let asked = origin.total();
    assert_eq!((get(&one, "may.example").1, get(&two, "may.example").1), (first.clone(), second));
    assert_eq!(origin.total(), asked, "each has its own copy");
    assert_eq!(get(&one, "open.example"), (200, "|".to_owned()));
    // A connection that was made for another site has shown nothing to this one.
    assert_eq!(over(&one, &weir, "may.example", "must.example", &[]).status(), 421);
    assert_eq!(over(&none, &weir, "open.example", "may.example", &[]).status(), 421);
    let without = |host| plain(&weir, host, "/x", &forged);
    assert_eq!((without("must.example").status(), without("may.example").text()), (403, "|".to_owned()));
    until("the log names the client", || {
        let log = fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default();
        log.contains("\"tls_version\":\"TLSv1.3\"") && log.contains("\"tls_name\":\"may.example\"")
    });
}

#[test]
fn a_request_that_may_be_a_replay_goes_to_the_origin_and_its_refusal_to_nobody_else() {
    let (authority, origin, setup) = (Authority::new(), origin(), setup());
    setup.certificate("live-a", &authority, &["a.example"]);
    let weir = run(setup, &origin, "[[site]]\nhosts = [\"a.example\"]");
    // Loopback is a trusted proxy.
    let early = || plain(&weir, "a.example", "/x", &[("Early-Data", "1")]).status();
    assert_eq!((early(), early()), (425, 425));
    assert_eq!(plain(&weir, "a.example", "/x", &[]).text(), "|");
    assert_eq!(early(), 200, "what is held may be read again");
    assert_eq!(origin.total(), 3);
}

#[test]
fn a_handshake_has_a_deadline_and_what_is_no_tls_is_refused() {
    let (authority, origin, setup) = (Authority::new(), origin(), setup());
    setup.certificate("live-a", &authority, &["a.example"]);
    let weir = run(setup, &origin, "[limits]\nhead_time = \"1s\"\n[[site]]\nhosts = [\"a.example\"]");
    let mut silent = Client::connect(weir.tls());
    let mut loud = Client::connect(weir.tls());
    loud.send([3, 2, 1, 0, 1, 2, 3, 4]);
    assert!(loud.recv().is_err());
    assert!(silent.is_closed_within(Duration::from_secs(20)));
    until("both are counted", || {
        weir.metric("weir_tls_handshakes_failed_total") == Some(1.0)
            && weir.metric("weir_tls_handshakes_late_total") == Some(1.0)
    });
}

#[test]
fn http_without_tls_on_a_port_of_tls_is_told_so() {
    let (authority, origin, setup) = (Authority::new(), origin(), setup());
    setup.certificate("live-a", &authority, &["a.example"]);
    let weir = run(setup, &origin, "[[site]]\nhosts = [\"a.example\"]");
    for head in ["GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "g"] {
        let mut client = Client::connect(weir.tls());
        client.send(head);
        let answer = client.recv().unwrap();
        assert_eq!(answer.status(), 400, "{head}");
        let text = "400 Bad Request: the plain HTTP request was sent to the HTTPS port\n";
        assert_eq!(
            (answer.text().as_str(), answer.header("connection").as_deref()),
            (text, Some("close")),
            "{head}"
        );
        assert!(client.read_to_end().is_empty(), "{head}");
    }
    // What is neither gets an alert of TLS.
    let mut client = Client::connect(weir.tls());
    client.send("\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}");
    assert!(!client.read_to_end().starts_with(b"HTTP"));
    assert_eq!(weir.metric("weir_tls_handshakes_failed_total"), Some(4.0));
    assert_eq!(over(&TlsClient::trusting(&authority), &weir, "a.example", "a.example", &[]).status(), 200);
}

#[test]
fn no_request_without_tls_reaches_the_origin_of_a_site_that_redirects() {
    let (authority, origin, setup) = (Authority::new(), origin(), setup());
    setup.certificate("live-a", &authority, &["a.example"]);
    let sites = "[[site]]\nhosts = [\"a.example\"]\nhttps = \"redirect\"\n\
                 [[site]]\nhosts = [\"*\"]\nhttps = \"redirect\"";
    let weir = run(setup, &origin, sites);
    for head in ["OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n", "GET /x HTTP/1.0\r\n\r\n"] {
        let mut client = weir.client();
        client.send(head);
        let answer = client.recv().unwrap();
        assert_eq!(
            (answer.status(), answer.text().as_str()),
            (403, "403 Forbidden: this site needs TLS\n"),
            "{head}"
        );
    }
    assert_eq!(plain(&weir, "a.example", "/x", &[]).status(), 308);
    assert_eq!(origin.total(), 0);
    let explained = weir.command(&["explain", "-X", "GET", "https://a.example/x"]).stdout;
    assert!(explained.contains("  tls          a.example  (ecdsa, valid until "), "{explained}");
    let other = weir.command(&["explain", "https://b.example/x"]).stdout;
    assert!(other.contains("  tls          no certificate for this host: the handshake fails"), "{other}");
}
