//! How fast bodies are sent: limits hold for hits, fills, passes and ranges, for each response by itself, and
//! an MP4 is sent at its own bit rate. Only lower bounds of times are asserted: a limited response is never
//! faster than its limit.

use std::time::{Duration, Instant};

use weir_testkit::{Gate, Origin, Resource, Response, Shape, Weir, pattern, until};

use crate::arrive::http2;
use crate::server::{server, setup};

/// A Weir whose only site has this rate.
fn paced(origin: &Origin, rate: &str) -> Weir {
    server(&[origin]).site(&format!("rate = {{ {rate} }}")).start()
}

/// A response and how long it took.
fn timed(get: impl FnOnce() -> Response) -> (Response, Duration) {
    let begun = Instant::now();
    let response = get();
    (response, begun.elapsed())
}

#[test]
fn a_limit_holds_for_fills_and_hits_and_passes_and_ranges() {
    let body = pattern(1, 150_000);
    let origin = Origin::start();
    origin.put("/x", Resource::fresh(&body).ranges());
    origin.put("/chunked", Resource::fresh(&body).shape(Shape::Chunked(70_000)));
    origin.put("/private", Resource::new(&body).header("Cache-Control", "private"));
    let weir = paced(&origin, "limit = \"200kB/s\", burst = \"50kB\"");
    for (target, is_hit) in
        [("/x", false), ("/x", true), ("/chunked", false), ("/chunked", true), ("/private", false)]
    {
        let (response, took) = timed(|| weir.get(target));
        assert!(response.body == body, "{target}");
        assert_eq!(response.is_hit(), is_hit, "{target}: {}", response.cache_status());
        assert!(
            took >= Duration::from_millis(500),
            "{target}, hit {is_hit}: {took:?} for 100 kB after the burst"
        );
    }
    let (part, took) = timed(|| weir.get_with("/x", &[("Range", "bytes=20000-139999")]));
    assert_eq!((part.status(), part.body == body[20_000..140_000]), (206, true));
    assert!(took >= Duration::from_millis(350), "{took:?} for 70 kB after the burst");
}

#[test]
fn the_head_does_not_wait_and_each_response_has_its_own_burst() {
    let body = pattern(1, 40_000);
    let origin = Origin::start();
    origin.put("/x", Resource::fresh(&body));
    let weir = paced(&origin, "limit = \"1B/s\", burst = \"39990B\"");
    // The last ten bytes would take ten seconds. Every client gets head and burst without waiting.
    let mut clients: Vec<_> = (0..3)
        .map(|_| {
            let mut client = weir.client();
            client.send_get("localhost", "/x", &[]);
            client.recv_head_only().unwrap();
            client
        })
        .collect();
    for client in &mut clients {
        let mut got = Vec::new();
        while got.len() < 39_990 {
            let piece = client.read_some();
            assert!(!piece.is_empty(), "cut after {}", got.len());
            got.extend(piece);
        }
        assert!(got == body[..got.len()]);
    }
    // The response to another method is not limited; it would take hours.
    let answer = body.repeat(2);
    let answered = answer.clone();
    origin.on("/post", move |exchange| {
        exchange.reply(200, &[], &answered);
    });
    let mut client = weir.client();
    client.send("POST /post HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert!(client.recv().unwrap().body == answer);
}

#[test]
fn clients_ask_for_a_rate_up_to_the_cap() {
    let body = pattern(1, 100_000);
    let origin = Origin::start();
    origin.put("/x", Resource::fresh(&body));
    let weir = paced(&origin, "limit = \"200kB/s\", query = \"rate\", query_max = \"400kB/s\"");
    let least_ms = |target: &str, ms: u64| {
        let (response, took) = timed(|| weir.get(target));
        assert!(response.body == body, "{target}");
        assert!(took >= Duration::from_millis(ms), "{target}: {took:?}");
        response
    };
    assert!(!least_ms("/x?rate=100k", 1000).is_hit());
    assert!(least_ms("/x?rate=999M", 250).is_hit());
    for nonsense in ["/x", "/x?rate=fast", "/x?rate=0", "/x?rate=-1", "/x?rate"] {
        assert!(least_ms(nonsense, 500).is_hit(), "{nonsense} is another object");
    }
    // Only Weir sees the parameter.
    let asked: Vec<String> = origin.requests("/x").iter().map(|request| request.target.clone()).collect();
    assert_eq!(asked, ["/x"]);
}

#[test]
fn a_key_that_names_the_parameter_keeps_it() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("x"));
    let site = "rate = { query = \"rate\" }\nkey = { query = { keep = [\"rate\"] } }";
    let weir = server(&[&origin]).site(site).start();
    assert!(!weir.get("/x?rate=1M").is_hit());
    assert!(!weir.get("/x?rate=2M").is_hit());
    let asked: Vec<String> = origin.requests("/x").iter().map(|request| request.target.clone()).collect();
    assert_eq!(asked, ["/x?rate=1M", "/x?rate=2M"]);
}

#[test]
fn a_route_undoes_what_it_inherits() {
    let origin = Origin::start();
    let body = pattern(1, 4_000_000);
    origin.put("/free/x", Resource::fresh(&body));
    let site = "rate = { limit = \"1B/s\" }\n[[site.route]]\nprefix = \"/free/\"\nrate = {}";
    let weir = server(&[&origin]).site(site).start();
    // At its limit it would take weeks.
    assert!(weir.get("/free/x").body == body);
    assert!(weir.get("/free/x").body == body);
}

#[test]
fn a_client_held_back_by_a_rate_does_not_count_as_slow() {
    let body = pattern(1, 3_000);
    let origin = Origin::start();
    origin.put("/x", Resource::fresh(&body));
    let weir = server(&[&origin])
        .site("rate = { limit = \"1kB/s\" }")
        .more("[limits]\nsend_stall = \"200ms\"\nidle = \"200ms\"")
        .start();
    let (response, took) = timed(|| weir.get("/x"));
    assert!(response.body == body);
    assert!(took >= Duration::from_secs(3), "{took:?}");
}

#[test]
fn a_client_that_leaves_while_held_back_ends_its_response() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh(pattern(1, 100_000)));
    let mut weir = paced(&origin, "limit = \"1B/s\"");
    let mut client = weir.client();
    client.send_get("localhost", "/x", &[]);
    client.recv_head_only().unwrap();
    client.reset();
    weir_testkit::until("the response has ended", || weir.metric("weir_requests_running") == Some(0.0));
    // When Weir ends, a client that stays is not waited for longer than others.
    weir.rewrite_config(
        &server(&[&origin]).site("rate = { limit = \"1B/s\" }").more("[limits]\ndrain = \"1s\"").text(),
    );
    assert_eq!(weir.reload().code, Some(0));
    let mut client = weir.client();
    client.send_get("localhost", "/x", &[]);
    client.recv_head_only().unwrap();
    weir.signal("TERM");
    assert!(weir.wait(Duration::from_secs(30)).is_some(), "it does not end");
}

/// A box of an MP4.
fn boxed(kind: &str, content: &[u8]) -> Vec<u8> {
    let size = u32::try_from(content.len() + 8).unwrap();
    [&size.to_be_bytes()[..], kind.as_bytes(), content].concat()
}

/// The box with the duration of `seconds`.
fn moov(seconds: u32) -> Vec<u8> {
    let fields = [&[0; 12][..], &1000u32.to_be_bytes(), &(seconds * 1000).to_be_bytes(), &[0; 80]].concat();
    boxed("moov", &boxed("mvhd", &fields))
}

/// A film of 300 s and 300 kB, with its index in front or at the end.
fn film(is_in_front: bool) -> Vec<u8> {
    let (ftyp, mdat) = (boxed("ftyp", b"isom\0\0\0\0"), boxed("mdat", &pattern(1, 299_860)));
    match is_in_front {
        true => [ftyp, moov(300), mdat].concat(),
        false => [ftyp, mdat, moov(300)].concat(),
    }
}

/// 60 kB of it are the first 60 s. At a hundred times the speed the other 240 kB take 2.4 s.
fn a_film_takes_its_time(weir: &Weir, target: &str, film: &[u8]) {
    let (response, took) = timed(|| weir.get(target));
    assert!(response.body == film, "{target}");
    assert!(took >= Duration::from_millis(2_350), "{target}: {took:?}");
}

#[test]
fn a_film_goes_out_by_its_own_bit_rate() {
    let (front, back, broken) = (film(true), film(false), pattern(2, 300_000));
    let origin = Origin::start();
    let gate = Gate::new();
    let mp4 = |body: &[u8]| Resource::fresh(body).header("Content-Type", "video/mp4");
    origin.put("/front", mp4(&front).body_gate(60_000, &gate));
    origin.put("/back", mp4(&back));
    origin.put("/text", Resource::fresh(&front).header("Content-Type", "text/plain"));
    origin.put("/broken", mp4(&broken));
    let weir = paced(&origin, "media = 100");
    // If the index is in front, the rate is known from the first byte, while the film arrives: the first
    // minute is sent at once.
    let mut client = weir.client();
    client.send_get("localhost", "/front", &[]);
    client.recv_head_only().unwrap();
    let mut got = Vec::new();
    while got.len() < 60_000 {
        got.extend(client.read_some());
    }
    let begun = Instant::now();
    gate.open();
    while got.len() < front.len() {
        let piece = client.read_some();
        assert!(!piece.is_empty(), "cut after {}", got.len());
        got.extend(piece);
    }
    assert!(got == front);
    // The bytes of 100 ms may have been saved up in the meantime.
    assert!(begun.elapsed() >= Duration::from_millis(2_250), "{:?}", begun.elapsed());
    a_film_takes_its_time(&weir, "/front", &front);
    // If it is at the end, the rate is known once all is here: from the second response on.
    assert!(weir.get("/back").body == back);
    a_film_takes_its_time(&weir, "/back", &back);
    // What is not a film is not limited: at the speed of a film it would take minutes.
    let played = paced(&origin, "media = 1");
    for (target, body) in [("/text", &front), ("/broken", &broken)] {
        for _ in 0..2 {
            assert!(played.get(target).body == *body, "{target}");
        }
    }
}

#[test]
fn the_lower_of_two_rates_counts() {
    let film = film(true);
    let origin = Origin::start();
    origin.put("/film", Resource::fresh(&film).header("Content-Type", "audio/mp4; codecs=mp4a"));
    let weir = paced(&origin, "media = 1000, limit = \"100kB/s\", query = \"rate\", query_max = \"10MB/s\"");
    let (response, took) = timed(|| weir.get("/film"));
    assert!(response.body == film);
    assert!(took >= Duration::from_millis(2_900), "the limit: {took:?}");
    // A client may ask for more, and then its own bit rate counts: 240 kB at 1 MB/s.
    let (response, took) = timed(|| weir.get("/film?rate=10M"));
    assert!(response.body == film && response.is_hit());
    assert!(took >= Duration::from_millis(230), "its own: {took:?}");
}

#[test]
fn a_film_on_the_volume_goes_out_by_its_own_bit_rate() {
    let (front, back) = (film(true), film(false));
    let origin = Origin::start();
    let mp4 = |body: &[u8]| Resource::fresh(body).header("Content-Type", "video/mp4").etag("\"1\"");
    origin.put("/front", mp4(&front));
    origin.put("/back", mp4(&back));
    let mut weir = server(&[&origin])
        .site("rate = { media = 100 }")
        .more("[cache]\nmemory = \"64MiB\"\n[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"256MiB\"")
        .start();
    assert!(weir.get("/front").body == front);
    assert!(weir.get("/back").body == back);
    weir.signal("TERM");
    weir.start_again();
    a_film_takes_its_time(&weir, "/front", &front);
    a_film_takes_its_time(&weir, "/back", &back);
    assert_eq!((origin.count("/front"), origin.count("/back")), (1, 1));
}

#[test]
fn a_map_says_who_is_held_back() {
    let body = pattern(1, 100_000);
    let origin = Origin::start();
    origin.put("/x", Resource::fresh(&body));
    let map =
        "[map.speed]\nof = \"{cookie.plan}\"\nrules = [[\"free\", \"200kB/s\"], [\"trial\", \"250kB/s\"]]\n";
    let weir = server(&[&origin]).site("rate = \"{map.speed}\"\n").more(map).start();
    for (cookies, least_ms) in
        [("plan=free", 400), ("plan=trial", 300), ("plan=gold", 0), ("a=b; plan=free", 400)]
    {
        let (response, took) = timed(|| weir.get_with("/x", &[("Cookie", cookies)]));
        assert!(response.body == body, "{cookies}");
        assert!(took >= Duration::from_millis(least_ms), "{cookies}: {took:?}");
    }
    assert_eq!(origin.total(), 1, "a rate is in no key");
}

/// What it asks for would take a day.
#[test]
fn a_client_that_asks_for_little_holds_no_origin_for_long() {
    let (origin, body) = (Origin::start(), pattern(7, 100_000));
    origin.put("/x", Resource::new(&body).header("Cache-Control", "no-store"));
    let weir = setup().run_config(&format!(
        "[admin]\nlisten = \"{{admin}}\"\n[limits]\nread_rate = \"64KiB\"\n\
         [[listen]]\naddress = \"{{listen}}\"\nprotocols = [\"h2\", \"http/1.1\"]\n\
         [upstream.main]\norigins = [\"{}\"]\n\
         [[site]]\nhosts = [\"*\"]\nupstream = \"main\"\nrate = {{ query = \"rate\" }}\n",
        origin.url()
    ));
    let (mut old, mut new) = (weir.client(), http2::client(&weir));
    let gets = [
        std::thread::spawn(move || old.get("localhost", "/x?rate=1", &[]).body),
        std::thread::spawn(move || new.get(http2::HOST, "/x?rate=1", &[]).body),
    ];
    until("both have come", || gets.iter().all(std::thread::JoinHandle::is_finished));
    assert!(gets.into_iter().all(|got| got.join().unwrap() == body));
}
