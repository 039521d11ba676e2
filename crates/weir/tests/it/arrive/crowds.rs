//! Several clients that take together all that they can of what all need: others get their part at once, in
//! every version of HTTP. One client alone is asked of `slow.rs`.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use weir_testkit::h2::{flag, hpack, kind, setting};
use weir_testkit::{
    Authority, Client, Frame, Gate, H2Client, H2Frames, Head, Origin, Resource, Response, TlsClient, Trouble,
    Weir, until,
};

use super::http2::HOST;
use crate::server::setup;

const PATIENCE: Duration = Duration::from_secs(20);
/// What is answered at once did not wait for a connection, or for a time.
const AT_ONCE: Duration = Duration::from_secs(3);
const LONG: &str = "first_byte = \"5m\"\nbetween_bytes = \"5m\"";

/// A Weir that speaks both versions, with more lines of its upstream.
fn weir(origin: &Origin, top: &str, upstream: &str) -> Weir {
    setup().run_config(&format!(
        "{top}\n[admin]\nlisten = \"{{admin}}\"\n[limits]\nconnections_per_client = 2000\n\
         [[listen]]\naddress = \"{{listen}}\"\nprotocols = [\"h2\", \"http/1.1\"]\n\
         [upstream.main]\norigins = [\"{}\"]\n{upstream}\n\
         [[site]]\nhosts = [\"*\"]\nupstream = \"main\"\nbypass = {{ paths = [\"/pass/**\"] }}\n",
        origin.url()
    ))
}

/// An origin that holds back all but `/ok` until the gate opens.
fn held(gate: &Gate) -> Origin {
    let origin = Origin::start();
    origin.put("/ok", Resource::new("ok").header("Cache-Control", "no-store"));
    let gate = gate.clone();
    origin.otherwise(move |exchange| {
        gate.pass();
        exchange.reply(200, &[("Cache-Control", "no-store")], "late");
    });
    origin
}

/// One request of a client that a trusted proxy names, or of nobody.
enum Asked {
    Http1(Client),
    Http2(Box<H2Client>, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
}

const VERSIONS: [Version; 2] = [Version::Http1, Version::Http2];

impl Asked {
    fn of(weir: &Weir, version: Version, client: Option<&str>, target: &str) -> Asked {
        let named: Vec<(&str, &str)> = client.map(|client| ("x-forwarded-for", client)).into_iter().collect();
        match version {
            Version::Http1 => {
                let mut proxy = weir.client();
                proxy.send_get(HOST, target, &named);
                Asked::Http1(proxy)
            }
            Version::Http2 => {
                let mut proxy = H2Client::connect(weir.addr()).patience(PATIENCE);
                let stream = proxy.ask("GET", HOST, target, &named);
                Asked::Http2(Box::new(proxy), stream)
            }
        }
    }

    fn head(&mut self) -> Result<Head, Trouble> {
        match self {
            Asked::Http1(client) => client.recv_head_only(),
            Asked::Http2(client, stream) => client.recv_head(*stream),
        }
    }

    fn recv(&mut self) -> Result<Response, Trouble> {
        match self {
            Asked::Http1(client) => client.recv(),
            Asked::Http2(client, stream) => client.recv(*stream),
        }
    }

    /// Whether its events, of which there was one, come to an end that is whole. Its head was received.
    fn ends_whole(&mut self) -> bool {
        match self {
            Asked::Http1(client) => {
                let mut rest = Vec::new();
                while !rest.ends_with(b"0\r\n\r\n") {
                    let some = client.read_some();
                    if some.is_empty() {
                        return false;
                    }
                    rest.extend(some);
                }
                rest == b"9\r\ndata: 1\n\n\r\n0\r\n\r\n"
            }
            Asked::Http2(client, stream) => {
                client.recv(*stream).is_ok_and(|whole| whole.body == b"data: 1\n\n")
            }
        }
    }
}

/// A hundred requests of a client on one connection of HTTP/2, of whose responses nothing but heads is taken
/// where `window` is 0.
fn hundred(weir: &Weir, client: &str, window: u32, target: impl Fn(u32) -> String) -> H2Frames {
    let mut frames = H2Frames::connect(weir.addr()).patience(PATIENCE);
    frames.begin(&[(setting::INITIAL_WINDOW_SIZE, window)]);
    for number in 0..100 {
        let target = target(number);
        let own = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", HOST),
            (":path", target.as_str()),
            ("x-forwarded-for", client),
        ];
        frames.send_frame(&Frame::headers(2 * number + 1, flag::END_STREAM, hpack::literals(own)));
    }
    frames
}

fn named(last: usize) -> String {
    format!("192.0.2.{last}")
}

fn origin_metric(origin: &Origin, weir: &Weir, name: &str) -> f64 {
    let series = format!("{name}{{upstream=\"main\",origin=\"{}\"}}", origin.url());
    weir.metric(&series).unwrap_or_else(|| panic!("no {series}"))
}

fn queued(weir: &Weir) -> f64 {
    weir.metric("weir_origin_requests_queued").unwrap_or_default()
}

/// 1,600 slow requests from two addresses, with all defaults.
#[test]
fn two_clients_with_slow_requests_do_not_use_up_an_origin() {
    let gate = Gate::new();
    let origin = held(&gate);
    let weir = weir(&origin, "", LONG);
    let hog = |at: usize| hundred(&weir, &named(at % 2), 65_535, |number| format!("/slow/{at}/{number}"));
    let _hogs: Vec<H2Frames> = (0..16).map(hog).collect();
    until("many of them hang", || origin.total() >= 128);
    until("no other one comes", || {
        let before = (origin.total(), queued(&weir));
        std::thread::sleep(Duration::from_millis(300));
        before == (origin.total(), queued(&weir))
    });
    for version in VERSIONS {
        let begun = Instant::now();
        let statuses: Vec<u16> = (0..25)
            .map(|other| Asked::of(&weir, version, Some(&named(100 + other)), "/ok"))
            .map(|mut other| other.recv().unwrap().status())
            .collect();
        assert_eq!(statuses, [200; 25], "{version:?}");
        assert!(begun.elapsed() < AT_ONCE, "{version:?}: {:?}", begun.elapsed());
    }
    gate.open();
}

/// The same by their own addresses, where no proxy is trusted.
#[test]
fn two_addresses_with_slow_requests_do_not_use_up_an_origin() {
    let gate = Gate::new();
    let origin = held(&gate);
    let upstream = format!("connections = 16\nqueue = 100\n{LONG}");
    let weir = weir(&origin, "trusted_proxies = [\"192.0.2.0/24\"]", &upstream);
    let from = |last: u8, target: &str| {
        let mut client = Client::connect_from(IpAddr::from([127, 0, 0, last]), weir.addr());
        client.send_get(HOST, target, &[]);
        client
    };
    let _hogs: Vec<Client> = (0..200).map(|at| from(2 + at % 2, &format!("/slow/{at}"))).collect();
    until("the queue is full", || queued(&weir) >= 90.0);
    let statuses: Vec<u16> = (0..25).map(|other| from(10 + other, "/ok").recv().unwrap().status()).collect();
    assert_eq!(statuses, [200; 25]);
    gate.open();
}

/// All connections are taken by who has no share, and the queue by two clients.
#[test]
fn in_a_full_queue_the_latest_request_of_the_client_with_most_gives_way() {
    for version in VERSIONS {
        let gate = Gate::new();
        let origin = held(&gate);
        let upstream = format!("connections = 2\nqueue = 20\nqueue_wait = \"1m\"\n{LONG}");
        let weir = weir(&origin, "", &upstream);
        let ask = |client: Option<usize>, target: &str| {
            Asked::of(&weir, version, client.map(named).as_deref(), target)
        };
        let mut proxys = [ask(None, "/slow/1"), ask(None, "/slow/2")];
        origin.await_count("/slow/1", 1);
        origin.await_count("/slow/2", 1);
        let mut hogs = Vec::new();
        for at in 0..20 {
            hogs.push(ask(Some(1 + at % 2), &format!("/hog/{at}")));
            until("it waits", || queued(&weir) == (at + 1) as f64);
        }
        let mut others: Vec<Asked> = (0..5).map(|at| ask(Some(10 + at), "/ok")).collect();
        for hog in &mut hogs[15..] {
            let answer = hog.recv().unwrap();
            let cache_status = answer.cache_status();
            assert_eq!(answer.status(), 503, "{version:?}: {cache_status}");
            assert!(cache_status.contains("detail=client-share"), "{cache_status}");
            assert!(answer.header("retry-after").is_some());
        }
        until("the others wait in their place", || queued(&weir) == 20.0);
        assert!(origin_metric(&origin, &weir, "weir_origin_busy_total") >= 5.0);
        gate.open();
        for asked in others.iter_mut().chain(&mut hogs[..15]).chain(&mut proxys) {
            assert_eq!(asked.recv().unwrap().status(), 200, "{version:?}");
        }
    }
}

/// The request that gives way leads a fill, which a request of another client has joined.
#[test]
fn a_lead_that_gives_way_is_no_failure_of_those_that_joined_it() {
    let gate = Gate::new();
    let origin = held(&gate);
    let upstream = format!("connections = 1\nqueue = 4\nclient_share = 100\nqueue_wait = \"1m\"\n{LONG}");
    let weir = weir(&origin, "", &upstream);
    let inner = gate.clone();
    origin.on("/shared", move |exchange| {
        inner.pass();
        exchange.reply(200, &[("Cache-Control", "max-age=60")], "for all");
    });
    let ask = |client: Option<usize>, target: &str| {
        Asked::of(&weir, Version::Http1, client.map(named).as_deref(), target)
    };
    let mut proxys = ask(None, "/slow");
    origin.await_count("/slow", 1);
    let mut hogs = Vec::new();
    for (at, target) in ["/pass/a", "/pass/b", "/pass/c", "/shared"].into_iter().enumerate() {
        hogs.push(ask(Some(1), target));
        until("it waits", || queued(&weir) == (at + 1) as f64);
    }
    let mut joined: Vec<Asked> = (0..3).map(|_| ask(Some(2), "/shared")).collect();
    until("they have joined", || weir.metric("weir_requests_running") == Some(8.0));
    let mut other = ask(Some(3), "/other");
    assert_eq!(hogs[3].recv().unwrap().status(), 503, "the lead gives way");
    assert_eq!(hogs[2].recv().unwrap().status(), 503, "and another one to the new lead");
    gate.open();
    for joined in &mut joined {
        assert_eq!(joined.recv().unwrap().text(), "for all");
    }
    for asked in [&mut other, &mut proxys].into_iter().chain(&mut hogs[..2]) {
        assert_eq!(asked.recv().unwrap().status(), 200);
    }
    assert_eq!(origin.count("/shared"), 1, "one of them leads, and the others join it");
}

/// An origin with event streams, and with tunnels below `/ws`, and how many of them have ended.
fn endless() -> (Origin, Arc<AtomicUsize>) {
    let (origin, ended) = (Origin::start(), Arc::new(AtomicUsize::new(0)));
    let count = ended.clone();
    origin.put("/ok", Resource::new("ok").header("Cache-Control", "no-store"));
    origin.otherwise(move |exchange| {
        if exchange.request.target.starts_with("/ws") {
            exchange.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n");
        } else {
            let fields = "Content-Type: text/event-stream\r\nCache-Control: no-store\r\n\
                          Transfer-Encoding: chunked\r\n";
            exchange.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n9\r\ndata: 1\n\n\r\n"));
        }
        exchange.peer_left_within(Duration::from_secs(120));
        count.fetch_add(1, Ordering::SeqCst);
        exchange.close();
    });
    (origin, ended)
}

#[test]
fn two_clients_with_event_streams_do_not_use_up_the_streams() {
    for version in VERSIONS {
        let (origin, ended) = endless();
        let weir = weir(&origin, "", &format!("streams = 8\n{LONG}"));
        let begin = |client: usize, target: &str| {
            let mut asked = Asked::of(&weir, version, Some(&named(client)), target);
            let status = asked.head().map(|head| head.status);
            (asked, status)
        };
        let mut hogs: Vec<Asked> = Vec::new();
        for at in 0..8 {
            let (asked, status) = begin(1 + at % 2, &format!("/events/{at}"));
            assert_eq!(status, Ok(200));
            hogs.push(asked);
        }
        assert_eq!(begin(1, "/events/more").1, Ok(503));
        let mut others: Vec<Asked> = Vec::new();
        for at in 0..2 {
            let (asked, status) = begin(10 + at, &format!("/events/other{at}"));
            assert_eq!(status, Ok(200), "{version:?}");
            others.push(asked);
        }
        for hog in &mut hogs[6..] {
            assert!(hog.ends_whole(), "{version:?}: the latest ones end");
        }
        // With the one that was refused.
        until("their connections have ended", || ended.load(Ordering::SeqCst) == 3);
        assert_eq!(origin_metric(&origin, &weir, "weir_origin_streams"), 8.0);
        assert_eq!(Asked::of(&weir, version, None, "/ok").recv().unwrap().status(), 200);
    }
}

#[test]
fn two_clients_with_tunnels_do_not_use_up_the_streams() {
    let (setup, authority, (origin, ended)) = (setup(), Authority::new(), endless());
    setup.certificate("live", &authority, &[HOST]);
    let weir = setup.run_config(&format!(
        "[admin]\nlisten = \"{{admin}}\"\n[[listen]]\naddress = \"{{listen}}\"\n\
         [[listen]]\naddress = \"{{tls}}\"\ntls = true\n\
         [[certificate]]\nchain = \"live.pem\"\nkey = \"live.key\"\n\
         [upstream.main]\norigins = [\"{}\"]\nstreams = 4\n{LONG}\n\
         [[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n",
        origin.url()
    ));
    let begin = |client: usize, is_secured: bool| {
        let mut proxy = match is_secured {
            true => Client::over(TlsClient::trusting(&authority).connect(weir.tls(), HOST).unwrap()),
            false => weir.client(),
        };
        let from = named(client);
        let fields = [("Connection", "Upgrade"), ("Upgrade", "x"), ("X-Forwarded-For", from.as_str())];
        proxy.send_get(HOST, "/ws", &fields);
        let status = proxy.recv_head_only().map(|head| head.status);
        (proxy, status)
    };
    let mut hogs: Vec<Client> = Vec::new();
    for at in 0..4 {
        let (client, status) = begin(1 + at % 2, at % 2 == 1);
        assert_eq!(status, Ok(101));
        hogs.push(client);
    }
    let mut others = Vec::new();
    for other in 0..2 {
        let (client, status) = begin(10 + other, false);
        assert_eq!(status, Ok(101));
        others.push(client);
    }
    for hog in &mut hogs[2..] {
        assert!(hog.read_to_end().is_empty(), "the latest ones end, with TLS and without");
    }
    until("their connections have ended", || ended.load(Ordering::SeqCst) == 2);
    assert_eq!(origin_metric(&origin, &weir, "weir_origin_streams"), 4.0);
    hogs[0].send("x");
    assert!(!hogs[0].is_closed_within(Duration::from_millis(300)), "the others go on");
}

/// Two connections of HTTP/2 that read nothing of a hundred lists of a megabyte.
#[test]
fn two_clients_that_read_no_lists_do_not_use_up_their_memory() {
    let setup = setup();
    let folder = setup.folder().join("www");
    std::fs::create_dir(&folder).unwrap();
    for number in 0..2000 {
        std::fs::write(folder.join(format!("{number:04}{}", "x".repeat(200))), "").unwrap();
    }
    let weir = setup.run_config(
        "[admin]\nlisten = \"{admin}\"\n[[listen]]\naddress = \"{listen}\"\n\
         protocols = [\"h2\", \"http/1.1\"]\n[[site]]\nhosts = [\"*\"]\nroot = \"www\"\n\
         files.listing = true\n",
    );
    let mut hogs = Vec::new();
    for hog in 0..2 {
        let mut frames = hundred(&weir, &named(1 + hog), 0, |_| "/".to_owned());
        // Each is answered, by a list or by a 503.
        let mut heads = 0;
        while heads < 100 {
            let frame = frames.recv().unwrap();
            heads += usize::from(frame.kind == kind::HEADERS);
        }
        hogs.push(frames);
    }
    // One after another, until there is no room for one more.
    let mut more: Vec<Asked> = Vec::new();
    loop {
        let mut asked = Asked::of(&weir, Version::Http2, Some(&named(1)), "/");
        if asked.head().map(|head| head.status) == Ok(503) {
            break;
        }
        more.push(asked);
    }
    for version in VERSIONS {
        for other in 10..14 {
            let answer = Asked::of(&weir, version, Some(&named(other)), "/").recv().unwrap();
            assert_eq!(answer.status(), 200, "{version:?}: {}", answer.cache_status());
            assert!(answer.body.len() > 500_000, "{} bytes", answer.body.len());
        }
    }
}
