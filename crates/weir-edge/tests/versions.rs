//! The data plane on real sockets, with three workers and little memory. Many clients ask, leave and change
//! objects at random, while the origin is slow, cuts bodies and answers in every framing. Every byte is
//! checked against the version that the response's own ETag names, and nobody waits for ever. A client that
//! made a change sees it afterwards, whether the change went through Weir or was followed by a purge.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_config::{Flags, from_flags};
use weir_edge::plan::Plan;
use weir_edge::{Edge, FromOutside, PurgeOrder, PurgeTarget};
use weir_observe::Observatory;
use weir_store::{Force, Store};
use weir_testkit::{Client, Exchange, Origin, Response, Trouble, free_port, pattern};

const WORKERS: usize = 3;
const CLIENTS: u64 = 12;
const STEPS: u64 = 30;
/// Longer than anything takes that is not stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound
    }
}

/// `/length/3`, `/chunked/3`, `/large/3` (more than the store keeps, chunked) or `/broken/3` (cut now and
/// then).
fn length_of(path: &str) -> usize {
    let number: usize = path.rsplit('/').next().unwrap().parse().unwrap();
    if path.starts_with("/large/") { 5_000_000 + number } else { 1 + number * number * 9_000 }
}

fn seed_of(path: &str, version: u64) -> u64 {
    path.bytes().fold(version, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)))
}

fn body_of(path: &str, version: u64) -> Vec<u8> {
    pattern(seed_of(path, version), length_of(path))
}

/// The origin's versions, and how it behaves.
#[derive(Default)]
struct Versions {
    versions: Mutex<HashMap<String, u64>>,
    turns: AtomicU64,
}

impl Versions {
    fn answer(&self, exchange: &mut Exchange<'_>) {
        let path = exchange.request.path().to_owned();
        let mut random = Random(77 + self.turns.fetch_add(1, Ordering::Relaxed));
        for _ in 0..8 {
            random.below(2);
        }
        std::thread::sleep(Duration::from_micros(random.below(3000)));
        if exchange.request.header("content-length").is_some() {
            let version = self.change(&path);
            exchange.reply(200, &[("x-version", &version.to_string())], "");
            return;
        }
        let version = *self.versions.lock().unwrap().entry(path.clone()).or_insert(1);
        let etag = format!("\"{version}\"");
        if exchange.request.header("if-none-match").is_some_and(|tags| tags.contains(&etag)) {
            exchange.reply(304, &[("etag", &etag), ("cache-control", "max-age=1")], "");
            return;
        }
        let body = body_of(&path, version);
        let start = match (exchange.request.header("range"), exchange.request.header("if-range")) {
            (Some(range), Some(condition)) if condition == etag => {
                Some(range.strip_prefix("bytes=").unwrap().split('-').next().unwrap().parse().unwrap())
            }
            _ => None,
        };
        send(exchange, &mut random, &path, &etag, &body, start);
    }

    /// Changes an object behind Weir's back.
    fn change(&self, path: &str) -> u64 {
        let mut versions = self.versions.lock().unwrap();
        let version = versions.entry(path.to_owned()).or_insert(1);
        *version += 1;
        *version
    }

    /// Whether the origin has another version by now than the response.
    fn has_changed(&self, path: &str, response: &Response) -> bool {
        self.versions.lock().unwrap()[path] != version_in(response)
    }
}

/// Sends a representation, or the rest of it, in pieces; some are cut.
fn send(
    exchange: &mut Exchange<'_>,
    random: &mut Random,
    path: &str,
    etag: &str,
    body: &[u8],
    range: Option<usize>,
) {
    let is_chunked = path.starts_with("/chunked/") || path.starts_with("/large/") || random.below(4) == 0;
    let breaks_at = match path.starts_with("/broken/") && random.below(3) == 0 {
        true => random.below(body.len() as u64) as usize,
        false => usize::MAX,
    };
    let max_age = [1, 60][random.below(2) as usize];
    let start = range.unwrap_or(0);
    let mut head = match range {
        None => "HTTP/1.1 200 OK\r\n".to_owned(),
        Some(_) => {
            let (last, total) = (body.len() - 1, body.len());
            format!("HTTP/1.1 206 Partial Content\r\ncontent-range: bytes {start}-{last}/{total}\r\n")
        }
    };
    head += &format!("etag: {etag}\r\ncache-control: max-age={max_age}\r\nsurrogate-key: all {path}\r\n");
    head += &match is_chunked {
        true => "transfer-encoding: chunked\r\n\r\n".to_owned(),
        false => format!("content-length: {}\r\n\r\n", body.len() - start),
    };
    if !exchange.send(head) {
        return;
    }
    let mut at = start;
    while at < body.len() {
        if at >= breaks_at {
            return exchange.close();
        }
        let end = body.len().min(at + 1 + random.below(200_000) as usize);
        let piece = &body[at..end];
        let is_sent = match is_chunked {
            true => {
                exchange.send(format!("{:x}\r\n", piece.len()))
                    && exchange.send(piece)
                    && exchange.send("\r\n")
            }
            false => exchange.send(piece),
        };
        if !is_sent {
            return exchange.close();
        }
        at = end;
        std::thread::sleep(Duration::from_micros(random.below(1500)));
    }
    if is_chunked {
        exchange.send("0\r\n\r\n");
    }
}

/// What happened to the clients.
#[derive(Debug, Default)]
struct Met {
    whole: AtomicU64,
    partial: AtomicU64,
    hits: AtomicU64,
    cut: AtomicU64,
    errors: AtomicU64,
    left: AtomicU64,
    changed: AtomicU64,
    purged: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn version_in(response: &Response) -> u64 {
    response.header("etag").unwrap().trim_matches('"').parse().unwrap()
}

/// One client: a random walk over paths.
struct Walker<'a> {
    port: u16,
    random: Random,
    met: &'a Met,
    versions: &'a Versions,
    edge: &'a Edge,
}

impl Walker<'_> {
    fn path(&mut self) -> String {
        let kind = ["length", "chunked", "chunked", "broken", "large"][self.random.below(5) as usize];
        let numbers = if kind == "large" { 2 } else { 8 };
        format!("/{kind}/{}", self.random.below(numbers))
    }

    fn step(&mut self) {
        let path = self.path();
        let mut client =
            Client::connect(std::net::SocketAddr::from(([127, 0, 0, 1], self.port))).patience(PATIENCE);
        match self.random.below(10) {
            0 => self.change(&mut client, &path),
            4 => self.purge(&mut client, &path),
            1 | 2 => self.leave(client, &path),
            3 => self.part(&mut client, &path),
            _ => {
                self.whole(&mut client, &path, 0);
            }
        }
    }

    /// A GET whose body must be that of the version its ETag names.
    fn whole(&mut self, client: &mut Client, path: &str, at_least: u64) {
        client.send_get("example.test", path, &[]);
        let Some(response) = self.received(client.recv(), path) else { return };
        assert_eq!(response.status(), 200, "{path}: {:?}", response.head);
        let version = version_in(&response);
        assert!(response.body == body_of(path, version), "{path}: wrong bytes of version {version}");
        assert!(
            version >= at_least,
            "{path}: version {version} after {at_least}: {}",
            response.cache_status()
        );
        count(&self.met.whole);
        if response.is_hit() {
            count(&self.met.hits);
        }
    }

    fn part(&mut self, client: &mut Client, path: &str) {
        let length = length_of(path) as u64;
        let start = self.random.below(length);
        let last = (start + self.random.below(100_000)).min(length - 1);
        client.send_get("example.test", path, &[("range", &format!("bytes={start}-{last}"))]);
        let Some(response) = self.received(client.recv(), path) else { return };
        let body = body_of(path, version_in(&response));
        let expected = match response.status() {
            206 => &body[start as usize..=last as usize],
            _ => &body[..],
        };
        assert!(response.body == expected, "{path}: wrong bytes {start}-{last} in {:?}", response.head);
        count(&self.met.partial);
    }

    /// What came; `None` where the body may be cut and was.
    fn received(&self, received: Result<Response, Trouble>, path: &str) -> Option<Response> {
        match received {
            Ok(response) if response.status() >= 500 => {
                count(&self.met.errors);
                assert!(path.starts_with("/broken/"), "{path}: {:?}", response.head);
                None
            }
            Ok(response) => Some(response),
            Err(Trouble::Cut(_) | Trouble::Closed) if path.starts_with("/broken/") => {
                count(&self.met.cut);
                None
            }
            // A reader behind the window of a large object continues by itself, unless the object has
            // changed.
            Err(Trouble::Cut(cut))
                if path.starts_with("/large/") && self.versions.has_changed(path, &cut) =>
            {
                count(&self.met.cut);
                None
            }
            Err(trouble) => panic!("{path}: {trouble}"),
        }
    }

    /// Asks, reads a little, and leaves.
    fn leave(&mut self, mut client: Client, path: &str) {
        client.send_get("example.test", path, &[]);
        if self.random.below(2) == 0 {
            client.read_some();
        } else {
            std::thread::sleep(Duration::from_micros(self.random.below(5000)));
        }
        count(&self.met.left);
        if self.random.below(2) == 0 {
            client.reset();
        }
    }

    /// Changes an object behind Weir's back and purges it, by any scope, hard or soft. Then it must see the
    /// change.
    fn purge(&mut self, client: &mut Client, path: &str) {
        let version = self.versions.change(path);
        let target = match self.random.below(8) {
            0 => PurgeTarget::All,
            1 => PurgeTarget::Site("*".to_owned()),
            2 | 3 => PurgeTarget::Tags { tags: vec!["none".to_owned(), path.to_owned()], site: None },
            4 | 5 => PurgeTarget::Prefix(format!("http://example.test{}", &path[..path.len() - 1])),
            _ => PurgeTarget::Url(format!("example.test{path}")),
        };
        let force = if self.random.below(2) == 0 { Force::Hard } else { Force::Soft };
        let (done, acknowledged) = std::sync::mpsc::channel();
        let acknowledge = move |written: Result<_, _>| done.send(written.is_ok()).unwrap();
        let order = PurgeOrder { target, force };
        self.edge.purge(&[order], Box::new(acknowledge)).unwrap();
        assert!(acknowledged.recv().unwrap());
        count(&self.met.purged);
        self.whole(client, path, version);
    }

    /// Changes an object (RFC 9111 §4.4), then must see the change.
    fn change(&mut self, client: &mut Client, path: &str) {
        client.send(format!("POST {path} HTTP/1.1\r\nHost: example.test\r\nContent-Length: 1\r\n\r\nx"));
        let Some(response) = self.received(client.recv(), path) else { return };
        let version = response.header("x-version").unwrap().parse().unwrap();
        count(&self.met.changed);
        self.whole(client, path, version);
    }
}

#[test]
fn no_client_gets_a_wrong_byte_or_waits_for_ever() {
    let (origin, versions) = (Origin::start(), Arc::new(Versions::default()));
    origin.otherwise({
        let versions = versions.clone();
        move |exchange| versions.answer(exchange)
    });
    let port = free_port();
    let flags = Flags {
        origin: origin.url(),
        listen: vec![format!("127.0.0.1:{port}")],
        memory: Some("4MiB".to_owned()),
        ..Flags::default()
    };
    let loaded = from_flags(&flags).ok().unwrap();
    let observatory = Observatory::start(WORKERS, &[]).unwrap();
    let plan = Plan::compile(&loaded, &|name| observatory.site(name));
    let store = Store::new(plan.memory_bytes());
    let edge = Edge::start(plan, WORKERS, observatory.clone(), store, FromOutside::default()).unwrap();
    let met = Met::default();
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (met, versions, edge) = (&met, &*versions, &edge);
            scope.spawn(move || {
                let mut walker = Walker { port, random: Random(1 + number * 7919), met, versions, edge };
                (0..STEPS).for_each(|_| walker.step());
            });
        }
    });
    println!("{met:?}, origin asked {} times, {:?}", origin.total(), edge.usage());
    assert!(edge.usage().used_bytes <= edge.usage().limit_bytes);
    assert!(met.hits.load(Ordering::Relaxed) > 0 && met.purged.load(Ordering::Relaxed) > 0);
    edge.drain(Duration::from_secs(10));
    // A transfer that nobody reads may still be on its way, where little of it is missing.
    for _ in 0..1000 {
        if edge.fills() == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(edge.fills(), 0, "a fill outlived its readers and its origin");
}
