//! A property of every stream, over all protocols: whatever sizes, windows, resets, cuts, stalls and slow
//! readers meet, its bytes are exact, and it is ended or reset, never both. Afterwards nothing is left of it:
//! no connection, no stream, no request, no block of memory.
//!
//! Clients are made of random numbers. A failed one prints its seed: `WEIR_STREAMS_SEED` makes the same
//! clients again, `WEIR_STREAMS_SECONDS` says for how long more of them come.

mod asks;
mod http1;
mod http2;
mod source;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_testkit::{
    Authority, Client, Gate, H2Client, Origin, Random, Resource, TlsClient, Weir, pattern, until,
};

use self::asks::Asks;
use self::source::Source;
use crate::server::setup;

/// Connections at once.
const CLIENTS: u64 = 8;
const SECONDS: u64 = 8;
const MIB: u64 = 1 << 20;
/// `[cache] memory`, and what the process may take beside it while clients come and go: 32 MiB by
/// `docs/guide/operations.md`, and 1 MiB for each connection.
const MEMORY_BYTES: u64 = 16 * MIB;
const PROCESS_BYTES: u64 = (32 + CLIENTS) * MIB;

/// What the index has still to let go of: the heads of the objects that it dropped last, without bodies.
const HEADS_BYTES: f64 = 400_000.0;

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
send_stall = "4s"
[cache]
memory = "16MiB"
[[certificate]]
chain = "{folder}/live.pem"
key = "{folder}/live.key"
[upstream.sound]
origins = ["{sound}"]
[upstream.torn]
origins = ["{torn}"]
between_bytes = "6s"
[[site]]
hosts = ["sound.example"]
upstream = "sound"
[[site]]
hosts = ["torn.example"]
upstream = "torn"
"#;

/// A Weir in front of two origins: one that keeps its promises, and one that breaks off.
fn start(authority: &Authority, sound: &Origin, torn: &Origin) -> Weir {
    let setup = setup().arg("--workers").arg("2");
    setup.certificate("live", authority, &["sound.example", "torn.example"]);
    setup.run_config(&CONFIG.replace("{sound}", &sound.url()).replace("{torn}", &torn.url()))
}

/// How a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http1Tls,
    Http2,
    Http2Tls,
}

const PROTOCOLS: [Protocol; 4] = [Protocol::Http1, Protocol::Http1Tls, Protocol::Http2, Protocol::Http2Tls];

/// The ways to a Weir.
struct Ways<'w> {
    weir: &'w Weir,
    tls: TlsClient,
}

impl Ways<'_> {
    fn http1(&self, protocol: Protocol) -> Client {
        match protocol {
            Protocol::Http1Tls => {
                let tls = self.tls.clone().protocols(&["http/1.1"]);
                Client::over(tls.connect(self.weir.tls(), "sound.example").unwrap())
            }
            _ => self.weir.client(),
        }
    }

    fn http2(&self, protocol: Protocol, settings: &[(u16, u32)]) -> H2Client {
        let socket = match protocol {
            Protocol::Http2Tls => {
                self.tls.clone().protocols(&["h2"]).connect(self.weir.tls(), "sound.example").unwrap()
            }
            _ => weir_testkit::Address::from(self.weir.addr()).connect().unwrap(),
        };
        H2Client::with(socket, settings)
    }
}

/// Says which client has failed.
struct Named {
    seed: u64,
    protocol: Protocol,
}

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the client that failed speaks {:?}: WEIR_STREAMS_SEED={}", self.protocol, self.seed);
        }
    }
}

/// A number from the environment.
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// One client from its first byte to its last.
fn visit(ways: &Ways<'_>, seed: u64) {
    let mut random = Random::new(seed);
    let protocol = *random.one_of(&PROTOCOLS);
    let _named = Named { seed, protocol };
    let mut asks = Asks::new(random.number());
    match protocol {
        Protocol::Http1 | Protocol::Http1Tls => http1::visit(ways, protocol, &mut asks),
        Protocol::Http2 | Protocol::Http2Tls => http2::visit(ways, protocol, &mut asks),
    }
}

/// Nothing is under way.
fn is_quiet(weir: &Weir) -> bool {
    let open = [
        "weir_requests_running",
        "weir_connections_open",
        "weir_http2_connections_open",
        "weir_http2_streams_open",
        "weir_tunnels_open",
        "weir_fills_running",
    ];
    // Each look costs a page of metrics.
    std::thread::sleep(Duration::from_millis(50));
    open.iter().all(|gauge| weir.metric(gauge) == Some(0.0))
}

#[test]
fn every_stream_is_exact_and_ends_or_is_reset_and_leaves_nothing() {
    let authority = Authority::new();
    let source = Source::start();
    let weir = start(&authority, &source.sound, &source.torn);
    let ways = Ways { weir: &weir, tls: TlsClient::trusting(&authority) };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let only = variable("WEIR_STREAMS_SEED");
    let first = only.unwrap_or(since.as_nanos() as u64 >> 10);
    println!("WEIR_STREAMS_SEED={first} and the next ones");
    let until_then =
        Instant::now() + Duration::from_secs(variable("WEIR_STREAMS_SECONDS").unwrap_or(SECONDS));
    let next = AtomicU64::new(first);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while Instant::now() < until_then {
                    visit(&ways, next.fetch_add(1, Ordering::SeqCst));
                }
            });
        }
    });
    println!(
        "{} clients, {} requests",
        next.into_inner() - first,
        weir.metric("weir_requests_total").unwrap()
    );
    source.check();
    until("nothing is under way", || is_quiet(&weir));
    assert_eq!(weir.metric("weir_panics_total").unwrap_or(0.0), 0.0);
    let resident = weir.anonymous();
    assert!(resident < MEMORY_BYTES + PROCESS_BYTES, "{} MiB are resident", resident / MIB);
    // A block that a stream has pinned would stay.
    let purged = weir.command(&["purge", "--all"]);
    assert_eq!(purged.code, Some(0), "{purged:?}");
    until("the memory of all bodies is free", || {
        weir.metric("weir_cache_memory_bytes").is_some_and(|bytes| bytes < HEADS_BYTES)
    });
}

#[test]
fn a_cold_object_read_over_all_protocols_at_once_is_one_fetch() {
    const BYTES: usize = 3_000_000;
    const EACH: usize = 3;
    let authority = Authority::new();
    let (sound, torn) = (Origin::start(), Origin::start());
    let (head, middle) = (Gate::new(), Gate::new());
    let cold = Resource::fresh(pattern(5, BYTES)).head_gate(&head).body_gate(1_000_000, &middle);
    sound.put("/cold", cold);
    let weir = start(&authority, &sound, &torn);
    let ways = Ways { weir: &weir, tls: TlsClient::trusting(&authority) };
    let body = pattern(5, BYTES);
    let running = |count: usize| {
        until("all requests are there", || weir.metric("weir_requests_running") == Some(count as f64));
    };
    std::thread::scope(|scope| {
        for turn in 0..2 {
            for protocol in PROTOCOLS {
                for _ in 0..EACH {
                    let (ways, body) = (&ways, &body);
                    scope.spawn(move || {
                        let answer = match protocol {
                            Protocol::Http1 | Protocol::Http1Tls => {
                                ways.http1(protocol).get("sound.example", "/cold", &[])
                            }
                            _ => ways.http2(protocol, &[]).get("sound.example", "/cold", &[]),
                        };
                        assert!(
                            answer.status() == 200 && answer.body == *body,
                            "{protocol:?}: {:?}",
                            answer.head
                        );
                    });
                }
            }
            // The first half waits for the head, the second joins in the middle of the body.
            running((turn + 1) * EACH * PROTOCOLS.len());
            if turn == 0 { head.open() } else { middle.open() }
        }
    });
    // One of each scheme: `http` and `https` are two resources.
    let asked = sound.requests("/cold");
    let schemes: BTreeSet<_> = asked.iter().map(|asked| asked.header("x-forwarded-proto")).collect();
    assert_eq!((asked.len(), schemes.len()), (2, 2), "{asked:?}");
}
