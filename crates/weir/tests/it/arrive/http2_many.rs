//! One HTTP/2 connection with many clients, as a trusted proxy has it: what one of them does ends nothing of
//! the others, and what stands still on one stream holds back no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_testkit::h2::{code, flag, hpack};
use weir_testkit::{End, Frame, H2Client, Origin, Resource, Trouble, Weir, pattern};

use super::http2::{HOST, client, weir};

const PATIENCE: Duration = Duration::from_secs(20);

fn origin() -> Origin {
    let origin = Origin::start();
    origin.put("/small", Resource::new(pattern(0, 1024)).header("Cache-Control", "max-age=600"));
    origin.on("/slow", |exchange| {
        exchange.peer_left_within(PATIENCE);
    });
    origin
}

fn of(address: &str) -> [(&str, &str); 1] {
    [("x-forwarded-for", address)]
}

fn is_served(client: &mut H2Client, address: &str) -> bool {
    let stream = client.ask("GET", HOST, "/small", &of(address));
    client.recv(stream).is_ok_and(|answered| answered.status() == 200)
}

/// How a request of this address is refused.
fn refused(client: &mut H2Client, address: &str) -> Option<u32> {
    let stream = client.ask("GET", HOST, "/small", &of(address));
    match client.recv(stream) {
        Err(Trouble::Reset(code, _)) => Some(code),
        _ => None,
    }
}

/// The connection goes on, and `address` alone gets nothing.
fn check(weir: &Weir, client: &mut H2Client, address: &str, counter: &str) {
    assert!(is_served(client, "192.0.2.2"), "{counter}");
    assert_eq!(refused(client, address), Some(code::ENHANCE_YOUR_CALM), "{counter}");
    assert!(is_served(client, "192.0.2.3") && client.goaway().is_none(), "{counter}");
    assert_eq!(weir.metric(&format!("weir_http2_floods_{counter}_total")), Some(1.0));
}

#[test]
fn cancels_of_one_client_refuse_that_client_alone() {
    let origin = origin();
    let weir = weir(&origin, "");
    let mut client = client(&weir);
    assert!(is_served(&mut client, "192.0.2.1"));
    let waits = client.ask("GET", HOST, "/slow?other", &of("192.0.2.2"));
    for number in 0..110 {
        let stream = client.ask("GET", HOST, &format!("/slow?{number}"), &of("192.0.2.1"));
        client.reset(stream, code::CANCEL);
    }
    check(&weir, &mut client, "192.0.2.1", "resets");
    assert!(!client.is_over(waits), "the request of another goes on");
    assert!(origin.total() < 110, "{}", origin.total());
    // Clients that are not named have no bound: nobody could tell them apart.
    for number in 0..110 {
        let stream = client.ask("GET", HOST, &format!("/slow?{number}"), &[]);
        client.reset(stream, code::CANCEL);
    }
    assert!(is_served(&mut client, "192.0.2.2"));
}

#[test]
fn streams_that_one_client_has_reset_refuse_that_client_alone() {
    let origin = origin();
    let weir = weir(&origin, "");
    let mut client = client(&weir);
    assert!(is_served(&mut client, "192.0.2.2"));
    let own = [(":method", "POST"), (":scheme", "http"), (":authority", HOST), (":path", "/slow")];
    let more = [of("192.0.2.1")[0], ("content-length", "9")];
    for number in 0..130 {
        // Beneath the client: what follows a stream that was refused is answered with a second reset.
        let stream = 2 * number + 10_001;
        let head = Frame::headers(stream, 0, hpack::literals(own.iter().chain(&more).copied()));
        let data = Frame::data(stream, flag::END_STREAM, "more than nine");
        assert!(client.frames().send_frames(&[head, data]), "{number}");
    }
    client.skip_to(20_001);
    check(&weir, &mut client, "192.0.2.1", "made_resets");
}

/// The crate under Weir counts streams that it resets for as long as a connection lives.
#[test]
fn malformed_heads_that_a_proxy_passes_on_do_not_end_its_connection() {
    let origin = origin();
    let weir = weir(&origin, "");
    let mut client = client(&weir);
    assert!(is_served(&mut client, "192.0.2.2"));
    let own = [(":method", "GET"), (":scheme", "http"), (":authority", HOST), (":path", "/"), ("te", "x")];
    for number in 0..1200 {
        let stream = 2 * number + 10_001;
        let frame = Frame::headers(stream, flag::END_STREAM, hpack::literals(own.iter().copied()));
        assert!(client.frames().send_frame(&frame), "{number}");
        if number % 50 == 49 {
            client.ping().unwrap();
        }
    }
    client.skip_to(20_001);
    assert!(is_served(&mut client, "192.0.2.2") && client.goaway().is_none());
}

/// Sends on these streams whatever the windows let through, until they let nothing through for a while.
fn fill(client: &mut H2Client, streams: &[u32]) {
    let piece = vec![0; 16 << 10];
    let mut still = 0;
    while still < 10 {
        client.ping().unwrap();
        let mut sent = 0;
        for stream in streams {
            let room = client.room(*stream).min(piece.len());
            if room > 0 {
                client.data(*stream, &piece[..room], End::Open).unwrap();
            }
            sent += room;
        }
        if sent > 0 {
            still = 0;
        } else {
            still += 1;
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn uploads_that_their_origin_does_not_read_hold_back_no_other() {
    let (origin, is_over) = (origin(), Arc::new(AtomicBool::new(false)));
    let over = is_over.clone();
    origin.on("/stuck", move |exchange| {
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        exchange.reset();
    });
    origin.on("/read", |exchange| {
        let length = exchange.body().len().to_string();
        exchange.reply(200, &[], length);
    });
    let weir = weir(&origin, "");
    let charged = || weir.metric("weir_cache_memory_bytes").unwrap();
    let before = charged();
    let mut client = client(&weir);
    let stuck: Vec<u32> = (0..12)
        .map(|number| client.begin("POST", HOST, &format!("/stuck?{number}"), &of("192.0.2.1")))
        .collect();
    fill(&mut client, &stuck);
    assert!(stuck.iter().all(|stream| client.room(*stream) < 16 << 10));
    let read = client.begin("POST", HOST, "/read", &of("192.0.2.2"));
    client.data(read, &vec![1; 300_000], End::Stream).unwrap();
    assert_eq!(client.recv(read).unwrap().text(), "300000");
    // The first window is the connection's own.
    assert!(charged() >= before + (11 << 16) as f64, "{} of {before}", charged());
    is_over.store(true, Ordering::Relaxed);
    drop(client);
    weir_testkit::until("it is given back", || charged() <= before);
}

#[test]
fn large_heads_of_one_client_leave_room_for_others() {
    let origin = origin();
    let weir = weir(&origin, "");
    let mut client = client(&weir);
    assert!(is_served(&mut client, "192.0.2.2"));
    let slow = |client: &mut H2Client, address, bytes| {
        let fields = [of(address)[0], ("x-long", &*"x".repeat(bytes))];
        client.ask("GET", HOST, "/slow", &fields)
    };
    let last = (0..40).map(|_| slow(&mut client, "192.0.2.1", 7000)).last().unwrap();
    assert!(matches!(client.recv(last), Err(Trouble::Reset(code::REFUSED_STREAM, _))));
    let usual: Vec<u32> = (0..20).map(|_| slow(&mut client, "192.0.2.2", 2000)).collect();
    assert!((0..20).all(|_| is_served(&mut client, "192.0.2.2")));
    assert!(!usual.iter().any(|stream| client.is_over(*stream)));
}
