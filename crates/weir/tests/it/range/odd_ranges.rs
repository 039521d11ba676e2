//! Origins that answer ranges oddly: clients get the right bytes of one version, or a clear error or cut.
//!
//! Each oddness meets a cold range and a gap of a stored part. What was sent is compared byte by byte. Once
//! the origin answers correctly again, nothing odd must be left.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_testkit::{Exchange, Fault, Origin, Resource, Response, Trouble, Weir, pattern, until};

use crate::counted::part;
use crate::server::server;

const LENGTH: usize = 3_000_000;
/// Where the first transfer breaks off, for cases with a stored part.
const HELD: usize = 2_000_000;

/// What is odd about the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Odd {
    /// 200 with the whole.
    IgnoresRange,
    /// A hundred bytes more at both ends.
    Wider,
    /// A thousand bytes further on.
    Shifted,
    /// The first half alone.
    Shorter,
    /// No entity tag on parts.
    NoValidator,
    /// A weak entity tag, always.
    Weak,
    /// `bytes a-b/*`.
    NoTotal,
    /// A total that is five bytes too large.
    OtherTotal,
    /// `multipart/byteranges` for one range.
    Multipart,
    /// This status instead of a part.
    Status(u16),
    /// 206 without Content-Range.
    NoContentRange,
    /// Content-Length is twice what Content-Range says, and that many bytes come.
    LengthContradicts,
    /// Half of the part, then the connection ends.
    Breaks,
    /// A 206 with the front half for a request without a range.
    PartUnasked,
}

const ALL: [Odd; 18] = [
    Odd::IgnoresRange,
    Odd::Wider,
    Odd::Shifted,
    Odd::Shorter,
    Odd::NoValidator,
    Odd::Weak,
    Odd::NoTotal,
    Odd::OtherTotal,
    Odd::Multipart,
    Odd::Status(302),
    Odd::Status(404),
    Odd::Status(416),
    Odd::Status(500),
    Odd::Status(503),
    Odd::NoContentRange,
    Odd::LengthContradicts,
    Odd::Breaks,
    Odd::PartUnasked,
];

const FIELDS: &str = "Cache-Control: max-age=3600\r\n";

/// Sends a part, or the whole if there is none, with these fields and this many bytes of the body.
fn send(exchange: &mut Exchange<'_>, fields: &str, body: &[u8], part: Option<Range<usize>>) {
    let length = body.len();
    let (status, place, part) = match part {
        Some(part) => {
            (206, format!("Content-Range: bytes {}-{}/{length}\r\n", part.start, part.end - 1), part)
        }
        None => (200, String::new(), 0..length),
    };
    let head = format!("HTTP/1.1 {status} Status\r\n{FIELDS}{fields}{place}");
    exchange.send(format!("{head}Content-Length: {}\r\n\r\n", part.len()));
    exchange.send(&body[part]);
}

impl Odd {
    fn answer(self, exchange: &mut Exchange<'_>, body: &[u8]) {
        exchange.body();
        let length = body.len();
        let tag = if self == Odd::Weak { "ETag: W/\"1\"\r\n" } else { "ETag: \"1\"\r\n" };
        let range = exchange.request.header("range").unwrap_or_default();
        let Some(asked) = part(&range, length as u64) else {
            let front = (self == Odd::PartUnasked).then_some(0..length / 2);
            return send(exchange, tag, body, front);
        };
        let asked = asked.start as usize..asked.end as usize;
        let place = format!("Content-Range: bytes {}-{}", asked.start, asked.end - 1);
        let bytes = &body[asked.clone()];
        let raw = |exchange: &mut Exchange<'_>, fields: &str, bytes: &[u8]| {
            let length = bytes.len();
            let head = format!("HTTP/1.1 206 Part\r\n{FIELDS}{tag}{fields}Content-Length: {length}\r\n\r\n");
            exchange.send(head);
            exchange.send(bytes);
        };
        match self {
            Odd::IgnoresRange => send(exchange, tag, body, None),
            Odd::Wider => {
                let wider = asked.start.saturating_sub(100)..(asked.end + 100).min(length);
                send(exchange, tag, body, Some(wider));
            }
            Odd::Shifted => {
                let start = (asked.start + 1000).min(length - 1);
                send(exchange, tag, body, Some(start..(asked.end + 1000).min(length)));
            }
            Odd::Shorter => {
                send(exchange, tag, body, Some(asked.start..asked.start + asked.len().div_ceil(2)))
            }
            Odd::NoValidator => send(exchange, "", body, Some(asked)),
            Odd::Weak | Odd::PartUnasked => send(exchange, tag, body, Some(asked)),
            Odd::NoTotal => raw(exchange, &format!("{place}/*\r\n"), bytes),
            Odd::OtherTotal => raw(exchange, &format!("{place}/{}\r\n", length + 5), bytes),
            Odd::Multipart => {
                let mut parts = format!("--cut\r\n{place}/{length}\r\n\r\n").into_bytes();
                parts.extend_from_slice(bytes);
                parts.extend_from_slice(b"\r\n--cut--\r\n");
                raw(exchange, "Content-Type: multipart/byteranges; boundary=cut\r\n", &parts);
            }
            Odd::Status(status) => {
                let place = format!("bytes */{length}");
                let fields = [
                    ("Cache-Control", "no-store"),
                    ("Location", "/elsewhere"),
                    ("Content-Range", place.as_str()),
                ];
                exchange.reply(status, &fields, "odd\n");
            }
            Odd::NoContentRange => raw(exchange, "", bytes),
            Odd::LengthContradicts => {
                let mut twice = bytes.to_vec();
                twice.extend_from_slice(bytes);
                raw(exchange, &format!("{place}/{length}\r\n"), &twice);
            }
            Odd::Breaks => {
                let head = format!("HTTP/1.1 206 Part\r\n{FIELDS}{tag}{place}/{length}\r\n");
                exchange.send(format!("{head}Content-Length: {}\r\n\r\n", bytes.len()));
                exchange.send(&bytes[..bytes.len() / 2]);
                exchange.close();
            }
        }
    }

    /// The most origin requests for one client request: for a gap, for a gap in the background, for a cold
    /// range, past the cache; more if each brings half of the rest.
    fn requests_max(self) -> usize {
        if matches!(self, Odd::Shorter | Odd::Breaks) { 128 } else { 4 }
    }

    /// Whether a client may get this status: what the origin said, or that its answer could not be used.
    fn may_say(self, status: u16) -> bool {
        matches!(status, 502 | 504) || self == Odd::Status(status)
    }
}

/// Judges a response. True if the client got all that it requested.
fn judge(odd: Odd, range: &str, answer: Result<Response, Trouble>, body: &[u8]) -> bool {
    let (response, is_whole) = match answer {
        Ok(response) => (response, true),
        Err(Trouble::Cut(response)) => (*response, false),
        Err(why) => panic!("{odd:?} {range:?}: {why}"),
    };
    let told = format!("{odd:?} {range:?}, {} bytes: {:?}", response.body.len(), response.head);
    let (got, length) = (&response.body, body.len() as u64);
    let wanted = match response.status() {
        200 => 0..length,
        206 => {
            let value = response.header("content-range").unwrap_or_else(|| panic!("no place: {told}"));
            let (interval, total) = value.strip_prefix("bytes ").unwrap().split_once('/').unwrap();
            let lie = odd == Odd::OtherTotal && total.parse() == Ok(length + 5);
            assert!(total == "*" || total.parse() == Ok(length) || lie, "{told}");
            part(&format!("bytes={interval}"), length).unwrap_or_else(|| panic!("{told}"))
        }
        status => {
            assert!(is_whole && odd.may_say(status), "not what was said: {told}");
            return false;
        }
    };
    let wanted = &body[wanted.start as usize..wanted.end as usize];
    assert!(got.len() <= wanted.len() && wanted.starts_with(got), "wrong bytes: {told}");
    assert!(got.len() == wanted.len() || !is_whole, "a short clean end: {told}");
    let asked = part(range, length).unwrap_or(0..length);
    is_whole && (response.status() == 200 || wanted.len() as u64 == asked.end - asked.start)
}

fn ask(weir: &Weir, range: &str) -> Result<Response, Trouble> {
    let headers: Vec<_> = (!range.is_empty()).then_some(("Range", range)).into_iter().collect();
    let mut client = weir.client();
    client.send_get("localhost", "/x", &headers);
    client.recv()
}

/// The requested ranges in this order; the empty one is the whole.
const ASKED: [&str; 7] = [
    "bytes=2500000-2500999",
    "bytes=2500000-2500999",
    "bytes=-1000",
    "bytes=2900000-",
    "bytes=1900000-2099999",
    "",
    "bytes=100-199",
];

/// A Weir that has stored the first two thirds of the body, and an origin that answers oddly from now on.
fn held_in_part(origin: &Origin, body: &[u8]) -> Weir {
    let first = Resource::fresh(body).etag("\"1\"");
    origin.put("/x", first.fault(Fault::Truncate(HELD)));
    let weir = server(&[origin]).start();
    assert!(ask(&weir, "").is_err());
    until("nothing is fetched", || weir.metric("weir_fills_running") == Some(0.0));
    weir
}

/// Lets the origin answer oddly until the flag is lowered.
fn put(origin: &Origin, odd: Odd, body: &Arc<[u8]>) -> Arc<AtomicBool> {
    let (is_odd, body) = (Arc::new(AtomicBool::new(true)), body.clone());
    let (flag, sane) = (is_odd.clone(), Resource::fresh(&body).etag("\"1\"").ranges());
    origin.on("/x", move |exchange| match flag.load(Ordering::SeqCst) {
        true => odd.answer(exchange, &body),
        false => sane.answer(exchange),
    });
    is_odd
}

fn meet(odd: Odd, is_held: bool) {
    let (origin, body) = (Origin::start(), Arc::<[u8]>::from(pattern(3, LENGTH)));
    let weir = if is_held { held_in_part(&origin, &body) } else { server(&[&origin]).start() };
    let is_odd = put(&origin, odd, &body);
    for range in ASKED {
        let before = origin.count("/x");
        let all_came = judge(odd, range, ask(&weir, range), &body);
        let asked = origin.count("/x") - before;
        assert!(asked <= odd.requests_max(), "{odd:?} {range:?}: {asked} requests");
        println!("{odd:?}, held: {is_held}, {range:?}: came: {all_came}, {asked} requests");
    }
    is_odd.store(false, Ordering::SeqCst);
    until("nothing is fetched", || weir.metric("weir_fills_running") == Some(0.0));
    for range in ASKED {
        assert!(judge(odd, range, ask(&weir, range), &body), "{odd:?} {range:?} stayed");
    }
    until("it is held whole", || {
        let last = weir.get("/x");
        assert!(last.body[..] == body[..], "{odd:?}: {}", last.cache_status());
        last.is_hit()
    });
}

/// Every oddness meets a Weir of its own. Reports all failures together.
fn meet_all(is_held: bool) {
    let failed: Vec<Odd> =
        ALL.into_iter().filter(|odd| std::panic::catch_unwind(|| meet(*odd, is_held)).is_err()).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn odd_answers_to_cold_ranges_give_right_bytes_or_an_honest_error() {
    meet_all(false);
}

#[test]
fn odd_answers_to_gaps_give_right_bytes_or_an_honest_error() {
    meet_all(true);
}

/// A file that grows in place: clients get its old front or the new whole.
fn grows(tag: &str) {
    let (origin, body) = (Origin::start(), pattern(3, LENGTH));
    let weir = held_in_part(&origin, &body[..LENGTH - 100_000]);
    origin.put("/x", Resource::fresh(&body).etag(tag).ranges());
    for range in ASKED {
        let Ok(found) = ask(&weir, range) else { continue };
        let length = if found.header("etag").as_deref() == Some("\"1\"") && tag != "\"1\"" {
            LENGTH - 100_000
        } else {
            let place = found.header("content-range").unwrap_or_default();
            place.rsplit_once('/').map_or(found.body.len(), |(_, total)| total.parse().unwrap())
        };
        assert!(length == LENGTH || length == LENGTH - 100_000, "{range:?}: {:?}", found.head);
        assert!(judge(Odd::OtherTotal, range, Ok(found), &body[..length]), "{range:?}");
    }
    until("the grown one is held whole", || {
        let found = ask(&weir, "");
        found.is_ok_and(|found| found.is_hit() && found.body == body)
    });
}

#[test]
fn a_file_that_grows_under_a_new_tag_is_fetched_again() {
    grows("\"2\"");
}

#[test]
fn a_file_that_grows_under_its_old_tag_is_fetched_again() {
    grows("\"1\"");
}
