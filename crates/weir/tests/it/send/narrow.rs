//! Clients with receive buffers of 8 KiB that read little, in little memory: all of them get their bodies
//! whole in the end, and nobody else waits for them meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_testkit::{Client, Drive, Gate, Origin, Resource, Shape, Trouble, Weir, pattern, until};

use crate::server::{Server, server};

/// What a slow client lets the kernel receive ahead of it.
const RECEIVE_BYTES: usize = 8 << 10;
/// Longer than anything here takes while a machine is busy, and less than a timeout of an origin, or than a
/// fill waits for memory.
const SOON: Duration = Duration::from_secs(25);

const SLOW: usize = 16;

/// Where bodies may be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    InMemory,
    OnVolume,
}

/// Whether the origin names versions, so that the rest of a body can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Named,
    Unnamed,
}

fn weir(origin: &Origin, memory: &str, stored: Stored) -> Server {
    let volume = match stored {
        Stored::InMemory => "",
        Stored::OnVolume => {
            "admission = \"always\"\n[[cache.volume]]\npath = \"{folder}/v\"\nsize = \"512MiB\"\n"
        }
    };
    // A client that reads nothing is not cut before the end of this.
    let limits = format!("[limits]\nsend_stall = \"10m\"\n[cache]\nmemory = \"{memory}\"\n{volume}");
    server(&[origin]).more(&limits).more("[log]\naccess = \"json\"\npath = \"{folder}/access.log\"")
}

/// What the log says of responses that did not end whole.
fn broken(weir: &Weir) -> String {
    let log = std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default();
    log.lines().filter(|line| !line.contains("\"whole\"")).fold(String::new(), |all, line| all + line + "\n")
}

fn resource(body: Vec<u8>, version: Version) -> Resource {
    match version {
        Version::Named => Resource::fresh(body).etag("\"1\"").ranges(),
        Version::Unnamed => Resource::fresh(body),
    }
}

/// Asks and reads no further than the head.
fn ask(weir: &Weir, path: &str) -> Client {
    let mut client = Client::connect_narrow(weir.addr(), RECEIVE_BYTES);
    client.send_get("localhost", path, &[]);
    client
}

/// The rest of a body of so many bytes.
fn rest(client: &mut Client, length: usize) -> Vec<u8> {
    let head = client.recv_head_only().unwrap();
    assert_eq!(head.status, 200, "{head:?}");
    client.read_at_least(length)
}

fn sixteen_readers_and_twelve_mebibytes(stored: Stored, version: Version) {
    let length = |number: usize| 4_000_000 + number * 130_000;
    let origin = Origin::start();
    for number in 0..SLOW {
        origin.put(&format!("/{number}"), resource(pattern(number as u64, length(number)), version));
    }
    const OTHERS: [usize; 4] = [300, 40_000, 1_500_000, 5_000_000];
    for (number, length) in OTHERS.iter().enumerate() {
        for round in 0..4 {
            let body = pattern(100 + number as u64, *length);
            origin.put(&format!("/other/{number}/{round}"), resource(body, version));
        }
    }
    let weir = weir(&origin, "12MiB", stored).start();
    let mut slow: Vec<Client> = (0..SLOW).map(|number| ask(&weir, &format!("/{number}"))).collect();
    until("all have been asked for", || origin.total() >= SLOW);
    std::thread::sleep(Duration::from_secs(1));
    for round in 0..4 {
        for (number, length) in OTHERS.iter().enumerate() {
            let begun = Instant::now();
            let found = weir.get(&format!("/other/{number}/{round}"));
            assert!(begun.elapsed() < SOON, "{number}/{round} after {:?}", begun.elapsed());
            let is_right = found.status() == 200 && found.body == pattern(100 + number as u64, *length);
            assert!(is_right, "{number}/{round}: {:?} and {} bytes", found.head, found.body.len());
        }
    }
    for (number, client) in slow.iter_mut().enumerate() {
        let got = rest(client, length(number));
        let is_right = got == pattern(number as u64, length(number));
        assert!(is_right, "{number}: {} of {} bytes\n{}", got.len(), length(number), broken(&weir));
    }
}

#[test]
fn sixteen_narrow_readers_in_memory_alone() {
    sixteen_readers_and_twelve_mebibytes(Stored::InMemory, Version::Named);
}

#[test]
fn sixteen_narrow_readers_of_unnamed_versions_in_memory_alone() {
    sixteen_readers_and_twelve_mebibytes(Stored::InMemory, Version::Unnamed);
}

#[test]
fn sixteen_narrow_readers_before_a_volume() {
    sixteen_readers_and_twelve_mebibytes(Stored::OnVolume, Version::Named);
}

#[test]
fn sixteen_narrow_readers_of_unnamed_versions_before_a_volume() {
    sixteen_readers_and_twelve_mebibytes(Stored::OnVolume, Version::Unnamed);
}

/// Its origin names the version, and neither says how long it is nor sends parts of it.
#[test]
fn a_reader_behind_a_body_of_unknown_length_gets_the_rest() {
    let origin = Origin::start();
    let body = pattern(7, 20_000_000);
    origin.put("/x", Resource::fresh(body.clone()).etag("\"1\"").shape(Shape::Chunked(65_536)));
    let weir = weir(&origin, "8MiB", Stored::InMemory).start();
    let mut slow = ask(&weir, "/x");
    until("it has been asked for", || origin.total() == 1);
    assert!(weir.get("/x").body == body);
    let got = slow.recv();
    assert!(got.is_ok_and(|got| got.body == body), "{}", broken(&weir));
    // The connection goes on: the end was said.
    slow.send_get("localhost", "/x", &[]);
    assert_eq!(slow.recv().unwrap().status(), 200);
}

/// Where others have had all of a version by then, a shorter body under its tag is not the rest of it.
#[test]
fn a_reader_behind_a_body_of_unknown_length_is_cut_where_the_rest_ends_early() {
    const LENGTH: usize = 20_000_000;
    const FIRST: usize = 18_000_000;
    // More than a socket holds for the slow one, and less than where memory begins to have the last 8 MiB.
    const REST_BEGINS: usize = 7_000_000;
    let (origin, body) = (Origin::start(), pattern(7, LENGTH));
    let gates: [Gate; 4] = std::array::from_fn(|_| Gate::new());
    let [is_behind, all, rest_begun, rest] = gates.clone();
    let got = Arc::new(AtomicUsize::new(0));
    let got_by_other = Arc::clone(&got);
    origin.on("/x", move |exchange| {
        let [is_behind, all, rest_begun, rest] = &gates;
        let is_rest = exchange.request.header("range").is_some();
        exchange.send("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nCache-Control: max-age=60\r\n");
        exchange.send("Transfer-Encoding: chunked\r\n\r\n");
        let mut send = |from: usize, to: usize| {
            exchange.send(format!("{:x}\r\n", to - from));
            exchange.send(&body[from..to]);
            exchange.send("\r\n");
        };
        if is_rest {
            send(0, REST_BEGINS);
            rest_begun.open();
            rest.pass();
            send(REST_BEGINS, 15_000_000);
        } else {
            // The other one has each piece before the next is sent: memory leaves the slow one behind alone.
            for from in (0..FIRST).step_by(FIRST / 36) {
                send(from, from + FIRST / 36);
                until("another has it", || got.load(Relaxed) >= from + FIRST / 36);
            }
            is_behind.open();
            all.pass();
            send(FIRST, LENGTH);
        }
        exchange.send("0\r\n\r\n");
    });
    // On a busy machine it takes a while until the slow one asks for the rest; meanwhile nothing comes.
    let patience = Duration::from_secs(120);
    let waits = "between_bytes = \"10m\"";
    let weir = weir(&origin, "8MiB", Stored::InMemory).upstream(waits).start();
    let mut slow = ask(&weir, "/x").patience(patience);
    until("it has been asked for", || origin.count("/x") == 1);
    std::thread::scope(|scope| {
        let mut other = Client::connect(weir.addr()).patience(patience);
        let other = scope.spawn(move || {
            other.send_get("localhost", "/x", &[]);
            other.recv_into(&mut |piece| {
                got_by_other.fetch_add(piece.len(), Relaxed);
            })
        });
        is_behind.pass();
        let slow = scope.spawn(move || slow.recv());
        rest_begun.pass();
        all.open();
        assert!(other.join().unwrap().is_ok());
        rest.open();
        match slow.join().unwrap() {
            Err(Trouble::Cut(got)) => assert!(pattern(7, LENGTH).starts_with(&got.body)),
            got => panic!("{:?}", got.map(|got| got.body.len())),
        }
    });
}

/// Neither origin nor Weir can give a client the rest of a version without a name once it has another.
#[test]
fn a_client_gets_its_version_whole_that_others_have_replaced() {
    let origin = Origin::start();
    let body = pattern(8, 20_000_000);
    origin.put("/x", resource(body.clone(), Version::Unnamed));
    let weir = weir(&origin, "16MiB", Stored::OnVolume).start();
    // One by whose request it is loaded, one that finds it under way, and one that finds it on the volume.
    let mut slow = vec![ask(&weir, "/x")];
    until("it has been asked for", || origin.total() == 1);
    slow.push(ask(&weir, "/x"));
    assert!(weir.get("/x").body == body);
    slow.push(ask(&weir, "/x"));
    for round in 0..3 {
        origin.put("/x", resource(pattern(20 + round, 20_000_000), Version::Unnamed));
        let mut other = Client::connect(weir.addr());
        let found = other.get("localhost", "/x", &[("cache-control", "no-cache")]);
        assert!(found.body == pattern(20 + round, 20_000_000), "{round}: {:?}", found.head);
        assert!(weir.get("/x").is_hit(), "{round}");
    }
    for client in &mut slow {
        assert!(rest(client, body.len()) == body, "{}", broken(&weir));
    }
}

fn thirty_bodies_and_eight_mebibytes(stored: Stored, version: Version) {
    const BODIES: usize = 30;
    const LENGTH: usize = 1_500_000;
    let origin = Origin::start();
    for number in 0..BODIES {
        origin.put(&format!("/{number}"), resource(pattern(number as u64, LENGTH), version));
    }
    let weir = weir(&origin, "8MiB", stored).start();
    std::thread::scope(|scope| {
        for number in 0..2 * BODIES {
            let weir = &weir;
            scope.spawn(move || {
                let number = number % BODIES;
                let mut client = ask(weir, &format!("/{number}"));
                std::thread::sleep(Duration::from_millis(20 * (number as u64 % 7)));
                let head = client.recv_head_only().unwrap();
                assert_eq!(head.status, 200, "{number}: {head:?}");
                let mut got = Vec::new();
                while got.len() < LENGTH {
                    let piece = client.read_some();
                    if piece.is_empty() {
                        break;
                    }
                    got.extend(piece);
                    // At 8 KiB at a time this lasts for about two seconds.
                    std::thread::sleep(Duration::from_millis(number as u64 % 16));
                }
                let is_right = got == pattern(number as u64, LENGTH);
                assert!(is_right, "{number}: {} of {LENGTH} bytes\n{}", got.len(), broken(weir));
            });
        }
    });
}

#[test]
fn thirty_bodies_at_once_in_memory_alone() {
    thirty_bodies_and_eight_mebibytes(Stored::InMemory, Version::Named);
}

#[test]
fn thirty_bodies_of_unnamed_versions_at_once_in_memory_alone() {
    thirty_bodies_and_eight_mebibytes(Stored::InMemory, Version::Unnamed);
}

#[test]
fn thirty_bodies_at_once_before_a_volume() {
    thirty_bodies_and_eight_mebibytes(Stored::OnVolume, Version::Named);
}

#[test]
fn thirty_bodies_of_unnamed_versions_at_once_before_a_volume() {
    thirty_bodies_and_eight_mebibytes(Stored::OnVolume, Version::Unnamed);
}

/// A thousand readers of large bodies, made small: `examples/stress/slow.toml` has the whole.
#[test]
fn many_narrow_readers_of_few_bodies_leave_memory_to_others() {
    const BODIES: usize = 12;
    const READERS: usize = 120;
    let length = |number: usize| 2_500_000 + number * 100_000;
    let origin = Origin::start();
    for number in 0..BODIES {
        origin.put(&format!("/{number}"), resource(pattern(number as u64, length(number)), Version::Named));
    }
    let other = |number: usize| pattern(500 + number as u64, 500_000);
    for number in 0..4 {
        origin.put(&format!("/other/{number}"), resource(other(number), Version::Named));
    }
    let weir = weir(&origin, "8MiB", Stored::OnVolume).start();
    let ask = |reader: usize| ask(&weir, &format!("/{}", reader % BODIES));
    let mut slow: Vec<Client> = (0..READERS).map(ask).collect();
    until("all bodies have been asked for", || origin.total() >= BODIES);
    // The readers hold nothing: what others ask for is stored in memory, and stays there.
    let is_stored = |number: usize| {
        let found = weir.get(&format!("/other/{number}"));
        assert!(found.status() == 200 && found.body == other(number), "{number}: {:?}", found.head);
        found.is_hit()
    };
    until("memory is there for others", || (0..4).all(is_stored));
    let anonymous = weir.anonymous();
    assert!(anonymous < (8 + 32) << 20, "{} MiB", anonymous >> 20);
    for (reader, client) in slow.iter_mut().enumerate() {
        let number = reader % BODIES;
        let got = rest(client, length(number));
        let is_right = got == pattern(number as u64, length(number));
        assert!(is_right, "{reader}: {} of {} bytes\n{}", got.len(), length(number), broken(&weir));
    }
    assert_eq!(broken(&weir), "");
}

/// Whether the last of many bodies is stored that come while the drive stands still for less than half a
/// second. `None` where there is no such drive.
fn is_last_one_stored() -> Option<bool> {
    const BODIES: usize = 15;
    const LENGTH: usize = 6_000_000;
    let drive = Drive::ext4(400 << 20)?;
    let origin = Origin::start();
    origin.put("/first", Resource::fresh(vec![b'f'; 1000]));
    for number in 0..=BODIES {
        origin.put(&format!("/{number}"), resource(pattern(number as u64, LENGTH), Version::Named));
    }
    let volume = drive.path().join("volume").display().to_string();
    let weir = server(&[&origin])
        .more(&format!(
            "[limits]\nsend_stall = \"10m\"\n[cache]\nmemory = \"8MiB\"\nadmission = \"always\"\n\
             [[cache.volume]]\npath = \"{volume}\"\nsize = \"300MiB\""
        ))
        .start();
    weir.get("/first");
    until("it is on the volume", || weir.metric("weir_volume_objects") >= Some(1.0));
    let frozen = drive.freeze();
    let mut slow: Vec<Client> = (0..BODIES).map(|number| ask(&weir, &format!("/{number}"))).collect();
    until("all have been asked for", || origin.total() > BODIES);
    std::thread::sleep(Duration::from_millis(300));
    slow.push(ask(&weir, &format!("/{BODIES}")));
    std::thread::sleep(Duration::from_millis(100));
    drop(frozen);
    let last = slow[BODIES].recv_head_only().unwrap();
    let state = last.header("cache-status").unwrap_or_default();
    println!("{state}");
    Some(state.contains("; stored"))
}

/// What the first of them have received takes all memory until the drive has it. The others wait for their
/// turn: passed, each would hold a connection to the origin for as long as its client reads.
#[test]
fn large_bodies_that_come_at_once_wait_for_their_turn_with_the_drive() {
    // On a busy machine the drive may be late.
    let stored = (0..4).map(|_| is_last_one_stored()).find(|stored| *stored != Some(false));
    assert!(stored.is_some(), "it was passed each time");
}

/// Slow readers can take all memory that bodies may have, and all connections to the origin. Then nobody else
/// waits longer than for a connection.
#[test]
fn a_client_that_cannot_be_served_is_told_so_and_what_is_held_is_served() {
    const CONNECTIONS: usize = 5;
    let origin = Origin::start();
    for number in 0..3 * CONNECTIONS {
        let body = pattern(number as u64, 3_000_000);
        origin.put(&format!("/{number}"), resource(body, Version::Unnamed));
    }
    let stale = Resource::new("stale").header("Cache-Control", "max-age=1, stale-if-error=600");
    origin.put("/stale", stale).put("/held", Resource::fresh("held"));
    let upstream = format!("connections = {CONNECTIONS}\nqueue_wait = \"300ms\"\nclient_share = 100");
    let weir = weir(&origin, "8MiB", Stored::InMemory).upstream(&upstream).start();
    assert_eq!((weir.get("/held").text(), weir.get("/stale").text()), ("held".into(), "stale".into()));
    let slow: Vec<Client> = (0..3 * CONNECTIONS).map(|number| ask(&weir, &format!("/{number}"))).collect();
    let mut number = 0;
    let mut new = || {
        number += 1;
        origin.put(&format!("/new/{number}"), Resource::fresh("new"));
        weir.get(&format!("/new/{number}"))
    };
    until("all connections are taken", || new().status() == 503);
    let begun = Instant::now();
    let refused = new();
    assert_eq!(refused.status(), 503, "{:?}", refused.head);
    assert!(refused.header("retry-after").is_some(), "{:?}", refused.head);
    let held = weir.get("/held");
    assert!(held.is_hit() && held.text() == "held", "{:?}", held.head);
    until("it is stale", || weir.get("/stale").cache_status().contains("ttl=-"));
    assert_eq!(weir.get("/stale").text(), "stale");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    drop(slow);
    until("it is fetched", || new().text() == "new");
}
