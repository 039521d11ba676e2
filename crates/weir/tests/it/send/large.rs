//! Bodies that are hit often go out of files in memory, by the kernel. Each client, however slowly it reads,
//! gets the bytes of its body and no others.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use weir_testkit::{Authority, Client, H2Client, Origin, Resource, Setup, TlsClient, Weir, pattern, until};

use crate::durable::settle;
use crate::server::{server, setup};

const HOST: &str = "www.example.com";
const LARGE: usize = 1_500_001;
/// Responses with and without TLS are one object for clients behind a proxy that speaks TLS.
const HTTPS: (&str, &str) = ("x-forwarded-proto", "https");
const PATIENCE: Duration = Duration::from_secs(30);

/// A Weir with this memory that is asked with and without TLS. It has patience with clients that stop.
fn weir(setup: Setup, origin: &Origin, memory: &str) -> Weir {
    setup.run_config(&format!(
        "[admin]\nlisten = \"{{admin}}\"\n[cache]\nmemory = \"{memory}\"\n\
         [limits]\nsend_stall = \"10m\"\n\
         [[listen]]\naddress = \"{{listen}}\"\nprotocols = [\"h2\", \"http/1.1\"]\n\
         [[listen]]\naddress = \"{{tls}}\"\ntls = true\nprotocols = [\"http/1.1\"]\n\
         [[certificate]]\nchain = \"live.pem\"\nkey = \"live.key\"\n\
         [upstream.main]\norigins = [\"{}\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n",
        origin.url()
    ))
}

fn start(origin: &Origin, memory: &str) -> (Authority, Weir) {
    let (authority, setup) = (Authority::new(), setup());
    setup.certificate("live", &authority, &[HOST]);
    let weir = weir(setup, origin, memory);
    (authority, weir)
}

/// How many files the process has bodies in.
fn files(weir: &Weir) -> usize {
    let maps = fs::read_to_string(format!("/proc/{}/maps", weir.pid())).unwrap();
    maps.lines().filter(|map| map.contains("memfd:weir-body")).count()
}

/// Asks for a body until it is in a file, as the `count`th.
fn move_to_file(weir: &Weir, target: &str, body: &[u8], count: usize) {
    let mut client = weir.client();
    until("it is in a file", || {
        assert!(client.get(HOST, target, &[HTTPS]).body == body);
        files(weir) >= count
    });
}

/// Asks for a body and reads its head only, with a small window.
fn begin(mut client: Client, target: &str) -> Client {
    client.send_get(HOST, target, &[HTTPS]);
    client.recv_head_only().unwrap();
    client
}

#[test]
fn a_body_in_a_file_is_the_same_for_everybody() {
    let origin = Origin::start();
    let body = pattern(1, LARGE);
    origin.put("/large", Resource::fresh(&body).etag("\"1\""));
    let (authority, weir) = start(&origin, "64MiB");
    let mut plain = weir.client();
    for _ in 0..20 {
        assert!(plain.get(HOST, "/large", &[HTTPS]).body == body);
    }
    until("it is in a file", || files(&weir) == 1);
    let socket = TlsClient::trusting(&authority).connect(weir.tls(), HOST).unwrap();
    let (mut secured, mut h2) = (Client::over(socket), H2Client::connect(weir.addr()).patience(PATIENCE));
    for _ in 0..2 {
        for (range, (start, end)) in
            [("0-99999", (0, 100_000)), ("1000001-", (1_000_001, LARGE)), ("-70000", (LARGE - 70_000, LARGE))]
        {
            let range = format!("bytes={range}");
            let fields = [HTTPS, ("range", &*range)];
            for part in [
                plain.get(HOST, "/large", &fields),
                secured.get(HOST, "/large", &fields),
                h2.get(HOST, "/large", &fields),
            ] {
                assert!(part.status() == 206 && part.body == body[start..end], "{range}: {:?}", part.head);
            }
        }
        for whole in [
            plain.get(HOST, "/large", &[HTTPS]),
            secured.get(HOST, "/large", &[HTTPS]),
            h2.get(HOST, "/large", &[HTTPS]),
        ] {
            assert!(whole.is_hit() && whole.body == body, "{:?}", whole.head);
        }
        let several = plain.get(HOST, "/large", &[HTTPS, ("range", "bytes=5-9,1200000-1200009")]);
        assert_eq!(several.status(), 206);
        let has = |part: &[u8]| several.body.windows(part.len()).any(|window| window == part);
        assert!(has(&body[5..10]) && has(&body[1_200_000..1_200_010]));
        assert_eq!(plain.get(HOST, "/large", &[HTTPS, ("if-none-match", "\"1\"")]).status(), 304);
    }
    plain.send(format!("HEAD /large HTTP/1.1\r\nHost: {HOST}\r\nX-Forwarded-Proto: https\r\n\r\n"));
    let head = plain.recv_head().unwrap();
    assert_eq!(head.header("content-length"), Some(LARGE.to_string()));
    // Two behind each other, and one of HTTP/1.0.
    plain.send(format!("GET /large HTTP/1.1\r\nHost: {HOST}\r\nX-Forwarded-Proto: https\r\n\r\n").repeat(2));
    assert!(plain.recv().unwrap().body == body && plain.recv().unwrap().body == body);
    plain.send(format!("GET /large HTTP/1.0\r\nHost: {HOST}\r\nX-Forwarded-Proto: https\r\n\r\n"));
    assert!(plain.recv().unwrap().body == body);
    assert_eq!((origin.total(), files(&weir)), (1, 1));
}

#[test]
fn bodies_that_go_over_tls_or_are_small_or_too_large_stay_as_they_are() {
    let origin = Origin::start();
    let lengths = [0, 1, 65_536, 9 << 20];
    for length in lengths {
        origin.put(&format!("/{length}"), Resource::fresh(pattern(2, length)));
    }
    origin.put("/tls", Resource::fresh(pattern(2, LARGE)));
    let (authority, weir) = start(&origin, "64MiB");
    let socket = TlsClient::trusting(&authority).connect(weir.tls(), HOST).unwrap();
    let (mut plain, mut secured) = (weir.client(), Client::over(socket));
    for _ in 0..10 {
        for length in lengths {
            assert!(plain.get(HOST, &format!("/{length}"), &[]).body == pattern(2, length), "{length}");
        }
        assert!(secured.get(HOST, "/tls", &[]).body == pattern(2, LARGE));
    }
    assert_eq!(files(&weir), 0);
}

#[test]
fn readers_of_blocks_go_on_when_their_body_moves_to_a_file() {
    let origin = Origin::start();
    let length = 2_000_001;
    let body = pattern(3, length);
    origin.put("/moves", Resource::fresh(&body));
    let (authority, weir) = start(&origin, "128MiB");
    assert!(weir.client().get(HOST, "/moves", &[HTTPS]).body == body);
    let socket = TlsClient::trusting(&authority).connect(weir.tls(), HOST).unwrap();
    let (mut plain, mut secured) = (begin(weir.client(), "/moves"), begin(Client::over(socket), "/moves"));
    let mut h2 = H2Client::connect(weir.addr()).patience(PATIENCE);
    h2.hold_windows();
    let stream = h2.ask("GET", HOST, "/moves", &[HTTPS]);
    h2.recv_head(stream).unwrap();
    move_to_file(&weir, "/moves", &body, 1);
    assert!(plain.read_at_least(length) == body);
    assert!(secured.read_at_least(length) == body);
    h2.open(0, 1 << 30);
    h2.open(stream, 1 << 30);
    assert!(h2.recv(stream).unwrap().body == body);
    assert_eq!(origin.total(), 1);
}

#[test]
fn clients_that_stop_reading_get_their_own_body_when_its_memory_is_used_again() {
    let origin = Origin::start();
    // One that the kernel takes as a whole, and one of which Weir has to send more later.
    let lengths = [400_000, 2_000_001];
    let old = lengths.map(|length| pattern(4, length));
    for (number, body) in old.iter().enumerate() {
        origin.put(&format!("/old/{number}"), Resource::fresh(body));
    }
    let other = |number: usize| pattern(100 + number as u64, 2_000_000);
    for number in 0..60 {
        origin.put(&format!("/other/{number}"), Resource::fresh(other(number)));
    }
    let (_, weir) = start(&origin, "64MiB");
    for (number, body) in old.iter().enumerate() {
        move_to_file(&weir, &format!("/old/{number}"), body, number + 1);
    }
    let mut stopped: Vec<Client> =
        (0..4).map(|at| begin(weir.client().patience(PATIENCE), &format!("/old/{}", at % 2))).collect();
    for (number, length) in lengths.into_iter().enumerate() {
        let said = weir.command(&["purge", &format!("{HOST}/old/{number}")]);
        assert!(said.stdout.starts_with("purged: "), "{said:?}");
        origin.put(&format!("/old/{number}"), Resource::fresh(pattern(5, length)));
    }
    // The memory of what was purged is used by others, which move to files as well.
    for number in 0..60 {
        let mut client = weir.client();
        for _ in 0..8 {
            assert!(client.get(HOST, &format!("/other/{number}"), &[HTTPS]).body == other(number));
        }
    }
    for (number, length) in lengths.into_iter().enumerate() {
        let found = weir.client().get(HOST, &format!("/old/{number}"), &[HTTPS]);
        assert!(found.body == pattern(5, length));
    }
    for (at, client) in stopped.iter_mut().enumerate() {
        let (body, got) = (&old[at % 2], client.read_at_least(lengths[at % 2]));
        assert!(body.starts_with(&got), "{at}: bytes of another body");
        assert_eq!(got.len(), body.len(), "{at}: nothing was a reason to cut it");
    }
    assert!(weir.metric("weir_cache_memory_bytes").unwrap() <= f64::from(64 << 20));
}

/// Turns one bit in the middle of the body in the volume's segments, and has the kernel read the page again.
fn flip(weir: &Weir, body: &[u8], at: usize) {
    let marker = &body[at..at + 32];
    let mut flipped = 0;
    for entry in walk(&weir.folder().join("volume")) {
        let bytes = fs::read(&entry).unwrap();
        for (place, _) in bytes.windows(marker.len()).enumerate().filter(|(_, window)| window == &marker) {
            let file = fs::OpenOptions::new().write(true).open(&entry).unwrap();
            file.write_all_at(&[bytes[place] ^ 4], place as u64).unwrap();
            file.sync_all().unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            flipped += 1;
        }
    }
    assert!(flipped > 0, "the body is on the volume");
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn a_bit_that_flips_after_its_block_was_verified_and_sent_once_is_never_sent() {
    let origin = Origin::start();
    let length = 12_000_001;
    let body = pattern(6, length);
    origin.put("/flips", Resource::fresh(&body).etag("\"1\"").ranges());
    let more = "[cache]\nmemory = \"16MiB\"\nadmission = \"always\"\n\
                [[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"256MiB\"";
    let weir = server(&[&origin]).more(more).start();
    assert!(weir.get("/flips").body == body);
    settle(&weir);
    for _ in 0..6 {
        let found = weir.get("/flips");
        assert!(found.is_hit() && found.body == body, "{}", found.cache_status());
    }
    assert_eq!((files(&weir), origin.total()), (0, 1), "it is too large for memory");
    let mut stopped = weir.client().patience(PATIENCE);
    stopped.send_get("localhost", "/flips", &[]);
    assert!(stopped.recv_head_only().unwrap().header("cache-status").unwrap().contains("hit"));
    flip(&weir, &body, 9_000_000);
    let got = stopped.read_at_least(length);
    assert!(body.starts_with(&got) && got.len() > 1 << 20, "{} bytes", got.len());
    for _ in 0..3 {
        let mut client = weir.client();
        client.send_get("localhost", "/flips", &[]);
        client.recv_head_only().unwrap();
        assert!(body.starts_with(&client.read_at_least(length)));
    }
    until("it is whole again", || weir.get("/flips").body == body);
}
