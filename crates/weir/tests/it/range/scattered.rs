//! Single bytes requested all over one object: what is fetched and what is stored of it stays bounded.
//!
//! `WEIR_SCATTERED` sets how many bytes are requested.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use weir_testkit::{Origin, Random, Weir, pattern, until};

use crate::counted::{self, Counted, Version};
use crate::server::server;

const LENGTH: usize = 50_000_000;
const CLIENTS: u64 = 8;
/// How much Weir may grow beyond the object itself: buffers of connections, and what is on its way.
const BESIDE_BYTES_MAX: u64 = 48 << 20;

/// Of so many requests to the origin one may be given up for another, which takes over: on a busy machine a
/// transfer may come so slowly that a reader has its own (`weir_fill::speed`).
const GIVEN_UP_ONE_OF: usize = 10;

/// What Weir has taken of the object, by its own log of its requests.
struct Taken {
    /// By request, in the order of the object.
    intervals: Vec<Range<u64>>,
    /// So many requests were given up.
    given_up: usize,
    /// What the origin may have sent of these that Weir has not taken.
    in_vain_bytes: u64,
}

impl Taken {
    /// As soon as all requests have ended.
    fn by(weir: &Weir, origin: &Origin) -> Taken {
        let mut asked = Vec::new();
        until("all requests have ended", || {
            let log = std::fs::read_to_string(weir.folder().join("upstream.log")).unwrap_or_default();
            // The last line may be half written.
            let lines = log.rsplit_once('\n').map_or("", |(whole, _)| whole).lines();
            let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
            asked = lines.filter(|line| line["target"] == "/x").map(|line| interval(&line)).collect();
            asked.len() >= origin.count("/x")
        });
        let starts: Vec<u64> = asked.iter().map(|(range, _)| range.start).collect();
        let mut taken = Taken { intervals: Vec::new(), given_up: 0, in_vain_bytes: 0 };
        for (range, is_given_up) in asked {
            // It is given up where another begins that takes over.
            let others = starts.iter().filter(|start| range.start < **start && **start < range.end);
            let end = others.min().filter(|_| is_given_up).map_or(range.end, |start| *start);
            taken.given_up += usize::from(is_given_up);
            taken.in_vain_bytes += range.end - end;
            taken.intervals.push(range.start..end);
        }
        taken.intervals.sort_by_key(|range| range.start);
        taken
    }

    /// Weir has asked for nothing again that a transfer had brought, or was to bring.
    fn check(&self) {
        for two in self.intervals.windows(2) {
            assert!(two[0].end <= two[1].start, "{:?} and {:?} were asked for", two[0], two[1]);
        }
        let (given_up, asked) = (self.given_up, self.intervals.len());
        assert!(given_up * GIVEN_UP_ONE_OF <= asked, "{given_up} of {asked} requests were given up");
    }
}

/// What a line of the log says was asked for, and whether Weir has given it up.
fn interval(line: &Value) -> (Range<u64>, bool) {
    let range = line["range"].as_str().and_then(|range| counted::part(range, LENGTH as u64));
    (range.unwrap_or(0..LENGTH as u64), line["completion"] == "abandoned")
}

/// Requests `count` single bytes and compares them.
fn ask(weir: &Weir, body: &[u8], count: u64, seed: u64) {
    let (mut random, mut client) = (Random::new(seed), weir.client());
    for _ in 0..count {
        let at = random.below(LENGTH as u64) as usize;
        let found = client.get("localhost", "/x", &[("Range", &format!("bytes={at}-{at}"))]);
        assert_eq!((found.status(), &found.body[..]), (206, &body[at..=at]), "byte {at}");
    }
}

#[test]
fn scattered_bytes_cost_the_object_once_at_most() {
    let count = std::env::var("WEIR_SCATTERED").ok().and_then(|count| count.parse().ok()).unwrap_or(2000);
    let (origin, body) = (Origin::start(), Arc::<[u8]>::from(pattern(11, LENGTH)));
    let fields = [("Cache-Control", "max-age=3600")];
    let counted = Counted::new(Version::new("\"1\"", body.clone()), &fields).at(&origin, "/x");
    let more = "[cache]\nmemory = \"256MiB\"\n[log]\nupstream = \"{folder}/upstream.log\"";
    let weir = server(&[&origin]).more(more).start();
    let resting = weir.rss();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (weir, body) = (&weir, &body);
            scope.spawn(move || ask(weir, body, count / CLIENTS, client));
        }
    });
    until("the transfers are over", || weir.metric("weir_fills_running") == Some(0.0));
    let grown = weir.rss_peak().saturating_sub(resting);
    let taken = Taken::by(&weir, &origin);
    let (sent, again, given_up) = (counted.bytes(), counted.bytes_again(), taken.given_up);
    println!(
        "{count} bytes: {} requests to the origin, {given_up} given up, {sent} bytes, {again} again; \
         Weir grew by {} KiB at most, {} now",
        origin.count("/x"),
        grown >> 10,
        weir.rss().saturating_sub(resting) >> 10
    );
    taken.check();
    assert!(sent <= LENGTH as u64 + taken.in_vain_bytes && again <= taken.in_vain_bytes);
    assert!(grown < LENGTH as u64 + BESIDE_BYTES_MAX, "grew by {grown} bytes");
    let asked = origin.count("/x");
    let blocks = (LENGTH as u64).div_ceil(64 << 10) as usize;
    assert!(asked <= blocks, "{asked} requests, and there are {blocks} blocks");
    assert!(weir.get("/x").body[..] == body[..]);
    let taken = Taken::by(&weir, &origin);
    taken.check();
    assert!(counted.bytes() <= LENGTH as u64 + taken.in_vain_bytes);
}
