//! What is under way through five upgrades with changing numbers of workers, over both protocols and with and
//! without TLS: uploads, downloads and WebSockets stay with the process that began them, and end whole there.

use std::time::Duration;

use weir_testkit::{
    Authority, Client, End, Gate, H2Client, Origin, Resource, TlsClient, Weir, pattern, until,
};

use super::{binary, origin, program, upgraded};
use crate::server::setup;

const CONFIG: &str = r#"
[[listen]]
address = "{listen}"
protocols = ["h2", "http/1.1"]
[[listen]]
address = "{tls}"
tls = true
[admin]
listen = "{admin}"
[limits]
{limits}
[[certificate]]
chain = "{folder}/live.pem"
key = "{folder}/live.key"
[upstream.main]
origins = ["{origin}"]
[[site]]
hosts = ["x"]
upstream = "main"
"#;

const LONG: usize = 6_000_000;
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn start(origin: &Origin, authority: &Authority, limits: &str) -> Weir {
    let setup = setup().arg("--workers").arg("2");
    setup.certificate("live", authority, &["x"]);
    setup.run_config(&CONFIG.replace("{origin}", &origin.url()).replace("{limits}", limits))
}

/// Answers a WebSocket's request, and sends back what comes.
fn chat(origin: &Origin) {
    origin.on("/chat", |exchange| {
        let lines = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n";
        exchange.send(format!("HTTP/1.1 101 Switching Protocols\r\n{lines}\r\n"));
        loop {
            let came = exchange.read_some();
            if came.is_empty() || !exchange.send(came) {
                return exchange.close();
            }
        }
    });
}

/// A client with something under way.
pub(super) enum Connection {
    Http1(Client),
    Http2(Box<H2Client>, u32),
}

/// Over HTTP/1 and HTTP/2, without and with TLS.
pub(super) fn connections(weir: &Weir, authority: &Authority) -> Vec<(&'static str, Connection)> {
    let secure =
        |protocol| TlsClient::trusting(authority).protocols(&[protocol]).connect(weir.tls(), "x").unwrap();
    vec![
        ("HTTP/1", Connection::Http1(weir.client())),
        ("HTTP/1 with TLS", Connection::Http1(Client::over(secure("http/1.1")))),
        ("HTTP/2", Connection::Http2(Box::new(H2Client::connect(weir.addr())), 0)),
        ("HTTP/2 with TLS", Connection::Http2(Box::new(H2Client::over(secure("h2"))), 0)),
    ]
}

impl Connection {
    /// Begins a WebSocket.
    fn begin_chat(&mut self) {
        self.begin_web_socket("/chat");
    }

    pub(super) fn begin_web_socket(&mut self, target: &str) {
        match self {
            Connection::Http1(client) => {
                let lines = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                             Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n";
                client.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n{lines}\r\n"));
                assert_eq!(client.recv().unwrap().status(), 101);
            }
            Connection::Http2(client, stream) => {
                // It must know that the server takes them.
                client.ping().unwrap();
                let scheme = if client.frames().socket().session().is_some() { "https" } else { "http" };
                let fields = [
                    (":method", "CONNECT"),
                    (":protocol", "websocket"),
                    (":scheme", scheme),
                    (":path", target),
                    (":authority", "x"),
                    ("sec-websocket-version", "13"),
                ];
                *stream = client.send_fields(&fields, End::Open);
                assert_eq!(client.recv_head(*stream).unwrap().status, 200);
            }
        }
    }

    /// Begins a request with content, or without.
    pub(super) fn begin(&mut self, target: &str, content_bytes: Option<usize>) {
        match (self, content_bytes) {
            (Connection::Http1(client), None) => drop(client.send_get("x", target, &[])),
            (Connection::Http1(client), Some(bytes)) => {
                let head = format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {bytes}\r\n\r\n");
                client.send(head);
            }
            (Connection::Http2(client, stream), None) => {
                client.hold_windows();
                client.open(0, 1 << 26);
                *stream = client.ask("GET", "x", target, &[]);
                client.recv_head(*stream).unwrap();
            }
            (Connection::Http2(client, stream), Some(_)) => *stream = client.begin("POST", "x", target, &[]),
        }
    }

    pub(super) fn send(&mut self, bytes: &[u8], end: End) {
        match self {
            Connection::Http1(client) => assert!(client.send(bytes)),
            Connection::Http2(client, stream) => client.data(*stream, bytes, end).unwrap(),
        }
    }

    pub(super) fn read_some(&mut self) -> Vec<u8> {
        match self {
            Connection::Http1(client) => client.read_some(),
            Connection::Http2(client, stream) => client.recv_some(*stream).unwrap_or_default(),
        }
    }

    /// Says something over a WebSocket, and hears it again.
    fn talk(&mut self, name: &str, text: &str) {
        self.send(text.as_bytes(), End::Open);
        let mut heard = Vec::new();
        while heard.len() < text.len() {
            let more = self.read_some();
            assert!(!more.is_empty(), "{name}: {text} comes not back");
            heard.extend(more);
        }
        assert_eq!(heard, text.as_bytes(), "{name}");
    }

    /// The whole answer.
    pub(super) fn answer(&mut self, name: &str) -> Vec<u8> {
        let answer = match self {
            Connection::Http1(client) => client.recv(),
            Connection::Http2(client, stream) => {
                client.open(*stream, 1 << 26);
                client.recv(*stream)
            }
        };
        let answer = answer.unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(answer.status(), 200, "{name}: {:?}", answer.head);
        answer.body
    }
}

#[test]
fn uploads_downloads_and_web_sockets_end_whole_through_five_upgrades() {
    let (authority, origin, gate) = (Authority::new(), origin(), Gate::new());
    chat(&origin);
    origin.put("/long", Resource::fresh(pattern(7, LONG)).body_gate(LONG / 2, &gate));
    origin.put("/held", Resource::fresh(pattern(8, LONG)));
    origin.on("/take", |exchange| {
        let body = exchange.body();
        exchange.reply(200, &[("X-Whole", &exchange.is_whole().to_string())], body);
    });
    let mut weir = start(&origin, &authority, "drain = \"100s\"");
    weir.client().get("x", "/held", &[]);
    let begun = || connections(&weir, &authority);
    let (mut chats, mut uploads, mut filling, mut held) = (begun(), begun(), begun(), begun());
    let content = pattern(9, LONG);
    chats.iter_mut().for_each(|(_, connection)| connection.begin_chat());
    uploads.iter_mut().for_each(|(_, connection)| connection.begin("/take", Some(LONG)));
    filling.iter_mut().for_each(|(_, connection)| connection.begin("/long", None));
    held.iter_mut().for_each(|(_, connection)| connection.begin("/held", None));
    let config = weir.folder().join("weir.toml").display().to_string();
    let mut pieces = content.chunks(LONG / 6 + 1);
    let mut step = |round: usize, last: End| {
        for (name, connection) in &mut chats {
            connection.talk(name, &format!("round {round} of {name}"));
        }
        let piece = pieces.next().unwrap();
        for (_, connection) in &mut uploads {
            connection.send(piece, last);
        }
    };
    step(0, End::Open);
    until("all is under way", || weir.metric("weir_requests_running") == Some(16.0));
    for (round, workers) in [4, 1, 3, 2, 3].into_iter().enumerate() {
        let script = format!("exec {} run --config {config} --workers {workers}", binary());
        let program = program(&weir, "next", &script);
        upgraded(&mut weir, &["--program", &program]);
        step(round + 1, if round == 4 { End::Stream } else { End::Open });
    }
    assert!(weir.runs(), "the first process has clients left");
    gate.open();
    for (name, connection) in &mut uploads {
        assert!(connection.answer(name) == content, "{name}: other bytes went up");
    }
    for (name, connection) in &mut filling {
        assert!(connection.answer(name) == pattern(7, LONG), "{name}: other bytes of a fill");
    }
    for (name, connection) in &mut held {
        assert!(connection.answer(name) == pattern(8, LONG), "{name}: other bytes of what is held");
    }
    assert_eq!((origin.count("/take"), origin.count("/chat")), (4, 4), "nothing is sent again");
    for (name, connection) in &mut chats {
        connection.talk(name, "the end");
    }
    drop((chats, uploads, filling, held));
    assert!(weir.wait(PATIENCE).is_some_and(|status| status.success()), "the first process ends");
}

#[test]
fn a_web_socket_lives_on_after_an_upgrade_for_as_long_as_an_old_process_may_take() {
    let (authority, origin) = (Authority::new(), origin());
    chat(&origin);
    let mut weir = start(&origin, &authority, "upgrade_drain = \"3s\"");
    let mut chats = connections(&weir, &authority);
    for (name, connection) in &mut chats {
        connection.begin_chat();
        connection.talk(name, "before");
    }
    upgraded(&mut weir, &[]);
    for (name, connection) in &mut chats {
        connection.talk(name, "after");
    }
    assert!(weir.wait(PATIENCE).is_some(), "the old process ends");
    for (name, connection) in &mut chats {
        assert!(connection.read_some().is_empty(), "{name} has ended");
    }
    assert_eq!(weir.client().get("x", "/a", &[]).body, pattern(1, 3000));
}
