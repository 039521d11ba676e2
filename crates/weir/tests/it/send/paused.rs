//! Clients that pause in the middle of a body get the rest of it, and its end, whatever became of the body
//! meanwhile: it lies on a volume now, and memory has let go of it.

use std::time::Duration;

use weir_testkit::{
    Authority, Client, Drive, Gate, Origin, Resource, Shape, TlsClient, Weir, narrow, pattern, until,
};

use crate::arrive::http2;
use crate::server::{Server, server, setup};

/// What the kernel receives ahead of a client that reads nothing.
const RECEIVE_BYTES: usize = 8 << 10;
/// Longer than it takes until a body is told that its client waits.
const PAUSE: Duration = Duration::from_millis(1500);
const LENGTH: usize = 700_001;

const VOLUME: &str = "[cache]\nadmission = \"always\"\n[[cache.volume]]\npath = \"{folder}/v\"\n\
size = \"256MiB\"\n";

/// Fresh, without a length and without the name of a version.
fn endless(body: &[u8]) -> Resource {
    Resource::fresh(body).shape(Shape::Chunked(65_536))
}

fn with_volume(origin: &Origin) -> Server {
    server(&[origin]).more(VOLUME)
}

fn is_on_volume(weir: &Weir, objects: usize) {
    until("it is on the volume", || weir.metric("weir_volume_objects") >= Some(objects as f64));
}

/// Asks in one version of HTTP/1, and reads nothing yet.
fn ask(weir: &Weir, version: &str, path: &str) -> Client {
    let mut client = Client::connect_narrow(weir.addr(), RECEIVE_BYTES);
    client.send(format!("GET {path} HTTP/{version}\r\nHost: localhost\r\n\r\n"));
    client
}

#[test]
fn a_body_of_unknown_length_ends_cleanly_for_clients_that_paused() {
    let origin = Origin::start();
    let body = pattern(1, LENGTH);
    origin.put("/1.1", endless(&body)).put("/1.0", endless(&body));
    let weir = with_volume(&origin).start();
    for (number, version) in ["1.1", "1.0"].into_iter().enumerate() {
        let path = format!("/{version}");
        let mut clients = [ask(&weir, version, &path), ask(&weir, version, &path)];
        is_on_volume(&weir, number + 1);
        std::thread::sleep(PAUSE);
        for client in &mut clients {
            let got = client.recv().unwrap();
            assert!(got.status() == 200 && got.body == body, "{version}: {} bytes", got.body.len());
        }
        // Of HTTP/1.1 the end was said, and the connection goes on.
        if version == "1.1" {
            assert!(clients.iter_mut().all(|client| client.get("localhost", &path, &[]).body == body));
        }
    }
    assert_eq!((origin.count("/1.1"), origin.count("/1.0")), (1, 1));
}

#[test]
fn a_body_of_unknown_length_ends_cleanly_at_a_limited_rate() {
    let origin = Origin::start();
    let body = pattern(2, LENGTH);
    origin.put("/x", endless(&body));
    let weir = with_volume(&origin).site("rate = { limit = \"300kB/s\" }").start();
    assert!(ask(&weir, "1.1", "/x").recv().unwrap().body == body);
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn a_body_of_unknown_length_ends_cleanly_over_http2() {
    let origin = Origin::start();
    let body = pattern(3, LENGTH);
    origin.put("/x", endless(&body));
    let weir = http2::weir(&origin, VOLUME);
    let mut client = http2::client(&weir);
    client.hold_windows();
    let stream = client.ask("GET", http2::HOST, "/x", &[]);
    client.recv_head(stream).unwrap();
    is_on_volume(&weir, 1);
    std::thread::sleep(PAUSE);
    client.open(0, 1 << 24);
    client.open(stream, 1 << 24);
    assert!(client.recv(stream).unwrap().body == body);
    assert_eq!(origin.count("/x"), 1);
}

/// Memory keeps a window of it, and it cannot be asked for again: its only reader has nothing but the volume.
fn the_only_reader_of_a_body_on_a_drive_that_stood_still(resource: impl Fn(&[u8]) -> Resource) {
    let Some(drive) = Drive::ext4(300 << 20) else { return };
    let origin = Origin::start();
    let body = pattern(4, 6_000_000);
    origin.put("/x", resource(&body)).put("/first", Resource::fresh(vec![b'f'; 1000]));
    let volume = drive.path().join("volume").display().to_string();
    let weir = server(&[&origin])
        .more(&format!(
            "[limits]\nsend_stall = \"10m\"\n[cache]\nmemory = \"8MiB\"\nadmission = \"always\"\n\
             [[cache.volume]]\npath = \"{volume}\"\nsize = \"200MiB\"\n[log]\naccess = \"json\""
        ))
        .start();
    weir.get("/first");
    is_on_volume(&weir, 1);
    let frozen = drive.freeze();
    let mut client = ask(&weir, "1.1", "/x");
    origin.await_count("/x", 1);
    std::thread::sleep(2 * PAUSE);
    drop(frozen);
    std::thread::sleep(PAUSE);
    let is_whole = client.recv().is_ok_and(|got| got.body == body);
    assert!(is_whole, "{}", weir.stdout());
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn the_only_reader_of_an_unnamed_version_gets_it_after_the_drive_stood_still() {
    the_only_reader_of_a_body_on_a_drive_that_stood_still(|body| Resource::fresh(body));
}

#[test]
fn the_only_reader_of_a_body_of_unknown_length_gets_it_after_the_drive_stood_still() {
    the_only_reader_of_a_body_on_a_drive_that_stood_still(endless);
}

/// Of what the kernel had no room for nothing stays behind in Weir while the origin pauses.
#[test]
fn all_that_the_origin_has_sent_so_far_reaches_a_client_over_tls() {
    let (origin, gate, authority) = (Origin::start(), Gate::new(), Authority::new());
    // Of some the last piece does not fit into the kernel's buffers.
    let lengths: Vec<usize> = (0..12).map(|number| 150_000 + number * 25_000).collect();
    for length in &lengths {
        let resource = Resource::new(pattern(5, length + 1000)).header("Cache-Control", "no-store");
        origin.put(&format!("/{length}"), resource.body_gate(*length, &gate));
    }
    let setup = setup();
    setup.certificate("own", &authority, &["localhost"]);
    let weir = setup.run_config(&format!(
        "{}\n[[listen]]\naddress = \"{{tls}}\"\ntls = true\nprotocols = [\"http/1.1\"]\n\
         [[certificate]]\nchain = \"own.pem\"\nkey = \"own.key\"\n",
        server(&[&origin]).text()
    ));
    let ask = |length: &usize| {
        let connection = narrow(weir.tls(), RECEIVE_BYTES);
        let mut client = Client::over(TlsClient::trusting(&authority).over(connection, "localhost").unwrap());
        client.send_get("localhost", &format!("/{length}"), &[]);
        client
    };
    let mut clients: Vec<Client> = lengths.iter().map(ask).collect();
    std::thread::sleep(PAUSE);
    let mut got: Vec<Vec<u8>> = vec![Vec::new(); lengths.len()];
    let mut read_to = |more: usize| {
        for ((client, got), length) in clients.iter_mut().zip(&mut got).zip(&lengths) {
            if got.is_empty() {
                assert_eq!(client.recv_head_only().unwrap().status, 200);
            }
            got.extend(client.read_at_least((length + more).saturating_sub(got.len())));
            assert!(got.len() >= length + more, "{} of {length} bytes and {more}", got.len());
        }
    };
    read_to(0);
    gate.open();
    read_to(1000);
    assert!(got.iter().zip(&lengths).all(|(got, length)| *got == pattern(5, length + 1000)));
}

#[test]
fn a_response_that_paused_ends_with_its_last_byte() {
    let origin = Origin::start();
    let body = pattern(6, 3_000_000);
    origin.put("/x", Resource::fresh(&body).etag("\"1\""));
    let log = "[log]\naccess = \"json\"\npath = \"{folder}/access.log\"\n[limits]\nidle = \"1s\"\n";
    let weir = with_volume(&origin).more(log).start();
    assert!(weir.get("/x").body == body);
    is_on_volume(&weir, 1);
    let mut client = ask(&weir, "1.1", "/x");
    std::thread::sleep(2 * PAUSE);
    assert!(client.recv().unwrap().body == body);
    // A connection is idle from then on, not from its pause on.
    assert!(client.get("localhost", "/x", &[]).body == body);
    let log = || std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default();
    until("three lines are there", || log().lines().count() == 3);
    let total_ms =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["total_ms"].as_f64().unwrap();
    let times: Vec<f64> = log().lines().map(total_ms).collect();
    assert!(times[1] >= 2900.0, "{times:?}");
}
