//! Clients that read slowly get the version whose beginning they have, to its end, though it is purged,
//! replaced or evicted on its volume meanwhile, and memory has none of it.

use std::time::Duration;

use weir_testkit::{
    Authority, Client, Gate, H2Client, Origin, Resource, Socket, TlsClient, Weir, narrow, pattern, until,
};

use crate::durable::{restart, settle};
use crate::server::setup;

const HOST: &str = "www.example.com";
/// Responses with and without TLS are one object for clients behind a proxy that speaks TLS.
const HTTPS: (&str, &str) = ("x-forwarded-proto", "https");
const PATIENCE: Duration = Duration::from_secs(60);
/// What the kernel receives ahead of a client that reads nothing.
const RECEIVE_BYTES: usize = 64 << 10;
/// What a client reads before it pauses.
const FIRST_BYTES: usize = 1 << 20;
const LENGTH: usize = 46_000_000;
/// Longer than it takes until a body is told that its client waits.
const PAUSE: Duration = Duration::from_millis(500);

/// A Weir with a volume of that size and little memory, which speaks both versions with TLS and without.
fn start(origin: &Origin, memory: &str, size: &str) -> (Authority, Weir) {
    let (setup, authority) = (setup(), Authority::new());
    setup.certificate("site", &authority, &[HOST]);
    let config = format!(
        "[admin]\nlisten = \"{{admin}}\"\n[limits]\nsend_stall = \"10m\"\n\
         [[listen]]\naddress = \"{{listen}}\"\nprotocols = [\"h2\", \"http/1.1\"]\n\
         [[listen]]\naddress = \"{{tls}}\"\ntls = true\n\
         [[certificate]]\nchain = \"site.pem\"\nkey = \"site.key\"\n\
         [log]\naccess = \"json\"\npath = \"{{folder}}/access.log\"\n\
         [cache]\nmemory = \"{memory}\"\nadmission = \"always\"\n\
         [[cache.volume]]\npath = \"{{folder}}/volume\"\nsize = \"{size}\"\n\
         [upstream.main]\norigins = [\"{}\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n",
        origin.url()
    );
    (authority, setup.run_config(&config))
}

/// A version of a body that can be told from others, and of which the origin sends parts.
fn version(number: u64, length: usize) -> (Vec<u8>, Resource) {
    let body = pattern(number, length);
    let resource = Resource::fresh(&body).etag(&format!("\"{number}\"")).ranges();
    (body, resource)
}

/// A client that has read the beginning of a body.
enum Slow {
    Http1(Client, Vec<u8>),
    Http2(Box<H2Client>, u32, Vec<u8>),
}

impl Slow {
    fn http1(mut client: Client, target: &str) -> Slow {
        client.send_get(HOST, target, &[HTTPS]);
        client.recv_head_only().unwrap();
        Slow::Http1(client, Vec::new())
    }

    fn http2(mut client: H2Client, target: &str) -> Slow {
        client.hold_windows();
        let stream = client.ask("GET", HOST, target, &[HTTPS]);
        client.recv_head(stream).unwrap();
        Slow::Http2(Box::new(client), stream, Vec::new())
    }

    /// One of each: HTTP/1 and HTTP/2, without TLS and with.
    fn all(weir: &Weir, authority: &Authority, target: &str) -> Vec<Slow> {
        let tls = |protocol| {
            let tls = TlsClient::trusting(authority).protocols(&[protocol]);
            tls.over(narrow(weir.tls(), RECEIVE_BYTES), HOST).unwrap()
        };
        let plain = || Socket::Tcp(narrow(weir.addr(), RECEIVE_BYTES));
        let http2 = |socket| H2Client::over(socket).patience(PATIENCE);
        vec![
            Slow::http1(Client::over(plain()).patience(PATIENCE), target),
            Slow::http1(Client::over(tls("http/1.1")).patience(PATIENCE), target),
            Slow::http2(http2(plain()), target),
            Slow::http2(http2(tls("h2")), target),
        ]
    }

    /// Reads some more. False at the end.
    fn read(&mut self) -> bool {
        match self {
            Slow::Http1(client, got) => {
                let piece = client.read_some();
                got.extend_from_slice(&piece);
                !piece.is_empty()
            }
            Slow::Http2(client, stream, got) => {
                if client.window(*stream) < 32 << 10 {
                    client.open(0, 256 << 10);
                    client.open(*stream, 256 << 10);
                }
                let piece = client.recv_some(*stream).unwrap_or_default();
                got.extend_from_slice(&piece);
                !piece.is_empty()
            }
        }
    }

    fn got(&self) -> &[u8] {
        match self {
            Slow::Http1(_, got) | Slow::Http2(_, _, got) => got,
        }
    }

    /// Reads on until it has so many bytes, with a pause now and then. Returns what has come.
    fn read_to(&mut self, bytes: usize) -> &[u8] {
        let mut pause_at = self.got().len() + (8 << 20);
        while self.got().len() < bytes && self.read() {
            if self.got().len() > pause_at {
                pause_at += 8 << 20;
                std::thread::sleep(PAUSE);
            }
        }
        self.got()
    }
}

/// Fills the volume with the first version of a body.
fn fill(origin: &Origin, weir: &Weir, length: usize) -> Vec<u8> {
    let (body, resource) = version(1, length);
    origin.put("/file", resource);
    assert!(get(weir, "/file") == body);
    settle(weir);
    body
}

/// Clients that have read the beginning.
fn begin(weir: &Weir, authority: &Authority) -> Vec<Slow> {
    let mut slow = Slow::all(weir, authority, "/file");
    for client in &mut slow {
        assert!(client.read_to(FIRST_BYTES).len() >= FIRST_BYTES);
    }
    std::thread::sleep(PAUSE);
    slow
}

fn get(weir: &Weir, path: &str) -> Vec<u8> {
    weir.client().patience(PATIENCE).get(HOST, path, &[HTTPS]).body
}

/// All of them get the whole first version, and nothing is kept for them any longer.
fn assert_whole(weir: &Weir, body: &[u8], slow: Vec<Slow>) {
    let length = body.len();
    let finished: Vec<_> = slow
        .into_iter()
        .map(|mut client| std::thread::spawn(move || client.read_to(length).to_vec()))
        .collect();
    for (number, client) in finished.into_iter().enumerate() {
        let got = client.join().unwrap();
        assert!(body.starts_with(&got), "client {number} got bytes of another version");
        assert_eq!(got.len(), body.len(), "client {number} was cut");
    }
    assert_eq!(weir.metric("weir_volume_kept_no_longer_total"), Some(0.0));
    until("nothing is kept", || weir.metric("weir_volume_kept_bytes") == Some(0.0));
}

fn purge(weir: &Weir, arguments: &[&str]) {
    let output = weir.command(&[&["purge"], arguments].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
}

/// How many segments were given back.
fn freed(weir: &Weir) -> f64 {
    weir.metric("weir_volume_segments_freed_total").unwrap()
}

/// A download under way, in which the file changes at the origin and the old version is purged.
fn downloads_end_after(arguments: &[&str], has_new: bool) {
    let origin = Origin::start();
    let (authority, weir) = start(&origin, "16MiB", "1GiB");
    let body = fill(&origin, &weir, LENGTH);
    let slow = begin(&weir, &authority);
    let (new, resource) = version(2, LENGTH);
    origin.put("/file", resource);
    purge(&weir, arguments);
    if has_new {
        // A soft purge loses nothing: the new version takes the place of the old one.
        assert!(get(&weir, "/file") == new);
    }
    until("the old version has left the volume", || freed(&weir) >= 2.0);
    assert!(get(&weir, "/file") == new, "no look-up finds it");
    assert_whole(&weir, &body, slow);
}

#[test]
fn downloads_under_way_end_after_a_purge_of_their_url() {
    downloads_end_after(&["https://www.example.com/file"], false);
}

#[test]
fn downloads_under_way_end_after_a_purge_of_their_site() {
    downloads_end_after(&["--site", "*"], false);
}

#[test]
fn downloads_under_way_end_after_a_soft_purge() {
    downloads_end_after(&["--soft", "https://www.example.com/file"], true);
}

#[test]
fn slow_downloads_of_a_file_that_still_arrives_have_what_came_before_its_purge() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let (authority, weir) = start(&origin, "16MiB", "1GiB");
    let (body, resource) = version(1, LENGTH);
    origin.put("/file", resource.body_gate(20 << 20, &gate));
    // One client takes all that comes, so that others do not set the pace.
    let mut quick = Slow::http1(weir.client().patience(PATIENCE), "/file");
    let quick = std::thread::spawn(move || quick.read_to(LENGTH).to_vec());
    let slow = begin(&weir, &authority);
    until("much has come", || weir.metric("weir_volume_written_body_bytes_total") > Some(19.5e6));
    let (new, resource) = version(2, LENGTH);
    origin.put("/file", resource);
    purge(&weir, &["https://www.example.com/file"]);
    gate.open();
    assert!(quick.join().unwrap() == body);
    until("its first segment has left the volume", || freed(&weir) >= 1.0);
    assert!(get(&weir, "/file") == new, "no look-up finds it");
    // What came later was stored for nobody, and the origin has another version.
    for mut client in slow {
        let got = client.read_to(LENGTH);
        assert!(got.len() > 19_000_000 && body.starts_with(got), "{} bytes", got.len());
    }
}

#[test]
fn downloads_under_way_end_after_the_eviction_of_what_they_read() {
    const SHORT: usize = 9_000_000;
    let origin = Origin::start();
    let (authority, mut weir) = start(&origin, "16MiB", "128MiB");
    let body = fill(&origin, &weir, SHORT);
    // Memory has nothing of it any more.
    restart(&mut weir, "TERM");
    let slow = begin(&weir, &authority);
    // The origin has another version: nobody else has the rest.
    origin.put("/file", version(2, SHORT).1);
    for number in 0..45 {
        let path = format!("/other/{number}");
        origin.put(&path, Resource::fresh(pattern(100 + number, 4_000_000)));
        assert_eq!(get(&weir, &path).len(), 4_000_000);
    }
    until("it was evicted", || weir.metric("weir_volume_evicted_total") > Some(5.0));
    assert!(weir.metric("weir_volume_used_bytes") <= weir.metric("weir_volume_size_bytes"));
    assert_whole(&weir, &body, slow);
}

#[test]
fn a_download_of_which_more_than_a_tenth_of_the_volume_is_left_is_cut_and_counted() {
    let origin = Origin::start();
    let (authority, weir) = start(&origin, "16MiB", "256MiB");
    let body = fill(&origin, &weir, LENGTH);
    let mut slow = begin(&weir, &authority);
    origin.put("/file", version(2, LENGTH).1);
    purge(&weir, &["https://www.example.com/file"]);
    until("the old version has left the volume", || freed(&weir) >= 4.0);
    let got = slow[0].read_to(LENGTH);
    assert!(got.len() < LENGTH && body.starts_with(got), "{} bytes", got.len());
    assert!(weir.metric("weir_volume_kept_bytes") <= Some((256 << 20) as f64 / 10.0));
    assert!(weir.metric("weir_volume_kept_no_longer_total") >= Some(1.0));
    drop(slow);
    until("nothing is kept", || weir.metric("weir_volume_kept_bytes") == Some(0.0));
    until("the log says why", || {
        let log = std::fs::read_to_string(weir.folder().join("access.log")).unwrap();
        log.contains("\"kept-no-longer\"")
    });
}
