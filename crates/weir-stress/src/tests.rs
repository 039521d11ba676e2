//! The pure parts, and loads against the floor server and against faulty servers.

mod streams;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use clap::Parser;
use proptest::prelude::*;
use serde_json::json;

use crate::body::{Body, Content, Progress};
use crate::floor::Floor;
use crate::head::{self, Framing};
use crate::pick::{Picker, WONDERS_FROM};
use crate::{Fault, Pick, Report, StressArgs, StressError, offsets, run};

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: StressArgs,
}

fn args(line: &str) -> StressArgs {
    Command::try_parse_from(std::iter::once("stress").chain(line.split(' '))).unwrap().args
}

pub(crate) fn floor() -> SocketAddr {
    let floor = Floor::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = floor.address();
    thread::spawn(move || floor.run());
    address
}

/// A server that answers each request with `answer` of its head, and closes the connection if `answer` says
/// so.
fn server(answer: impl Fn(&str) -> (Vec<u8>, bool) + Send + Sync + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.unwrap(), answer.clone());
            thread::spawn(move || {
                let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
                while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                    head.extend_from_slice(&buffer[..bytes]);
                    while let Some(end) = memchr::memmem::find(&head, b"\r\n\r\n") {
                        let (bytes, ends) = answer(&String::from_utf8_lossy(&head[..end + 4]));
                        head.drain(..end + 4);
                        if stream.write_all(&bytes).is_err() || ends {
                            return;
                        }
                    }
                }
            });
        }
    });
    address
}

fn load(line: &str) -> Report {
    run(&args(line)).unwrap()
}

fn faults(report: &Report) -> Vec<Fault> {
    report.sides()[0].faults.iter().map(|(fault, _)| *fault).collect()
}

#[test]
fn the_offset_pattern_names_its_places() {
    assert_eq!(&offsets::body(40), b"000000000000000\n000000000000016\n00000000");
    let mut middle = [0; 5];
    offsets::fill(1_000_000_000_013, &mut middle);
    assert_eq!(&middle, b"00\n00");
    assert!(offsets::matches(99_990, &offsets::body(110_000)[99_990..]));
    assert!(!offsets::matches(99_991, &offsets::body(110_000)[99_990..]));
}

#[test]
fn picks_are_in_bounds_and_zipf_is_skewed() {
    let mut seq = Picker::new(Pick::Seq, 5, 3, 0.0, 1);
    assert_eq!((0..5).map(|_| seq.next()).collect::<Vec<_>>(), [5, 6, 7, 5, 6]);
    let mut zipf = Picker::new(Pick::Zipf(1.0), 0, 1000, 0.0, 1);
    let mut counts = vec![0u32; 1000];
    (0..100_000).for_each(|_| counts[zipf.next() as usize] += 1);
    // The harmonic number of 1000 is 7.485: the first has 13.4 %, the second 6.7 %.
    assert!((12_500..14_300).contains(&counts[0]), "{}", counts[0]);
    assert!((6_000..7_400).contains(&counts[1]), "{}", counts[1]);
    let mut wonders = Picker::new(Pick::Uniform, 0, 10, 0.5, 7);
    let picked: Vec<u64> = (0..1000).map(|_| wonders.next()).collect();
    let mut once: Vec<u64> = picked.iter().copied().filter(|&number| number >= WONDERS_FROM).collect();
    assert!((400..600).contains(&once.len()));
    once.dedup();
    assert_eq!(once.len(), picked.iter().filter(|&&number| number >= WONDERS_FROM).count());
}

#[test]
fn heads_are_read() {
    let read = |text: &str| head::parse(text.as_bytes());
    let length = read("HTTP/1.1 200 OK\r\ncontent-LENGTH: 12\r\n\r\nx").unwrap().unwrap();
    assert_eq!((length.framing, length.closes, length.head_bytes), (Framing::Length(12), false, 39));
    let chunked = read("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n");
    assert_eq!(chunked.unwrap().unwrap().framing, Framing::Chunked);
    let close = read("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n").unwrap().unwrap();
    assert_eq!((close.framing, close.closes), (Framing::Close, true));
    let unchanged = read("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n").unwrap().unwrap();
    assert_eq!(unchanged.framing, Framing::Length(0));
    let part = read("HTTP/1.1 206 P\r\nContent-Range: bytes 2-5/10\r\nContent-Length: 4\r\n\r\n");
    assert_eq!(part.unwrap().unwrap().range, Some((2, 6, 10)));
    assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n"), Ok(None));
    assert!(read("SSH-2.0\r\n\r\n").is_err());
    assert!(read("HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n").is_err());
}

#[test]
fn contradicting_arguments_are_refused() {
    for (line, part) in [
        ("http://127.0.0.1/x -o 5", "`{}`"),
        ("http://127.0.0.1/x --ranges", "--length"),
        ("http://127.0.0.1/x --same --discard", "exclude"),
        ("http://127.0.0.1/x -c 0", "--users"),
        ("http://127.0.0.1/x -d 0", "above 0"),
        ("http://127.0.0.1/x -H nonsense", "header"),
        ("ftp://127.0.0.1/x", "no target"),
        ("http://127.0.0.1/x --insecure", "https://"),
        ("https://127.0.0.1/x --resume", "--new-connections"),
        ("https://127.0.0.1/x --group x", "no group"),
        ("https://127.0.0.1/x --ca /nowhere", "/nowhere"),
        ("http://127.0.0.1/x -m 2", "--http2"),
        ("http://127.0.0.1/x -m 1000 -c 1000 --http2", "times"),
        ("http://127.0.0.1/x -m 2 --http2 --new-connections", "exclude"),
        ("http://me@127.0.0.1/x", "no target"),
        ("http://127.0.0.1/x --wonders 2", "`{}`"),
        ("http://192.0.2.1/x", "--i-own-this-host"),
        ("http://127.0.0.1/x --seconds 1e300", "up to a week"),
        ("http://127.0.0.1/x --timeout nan", "up to a week"),
    ] {
        let error = run(&args(line)).unwrap_err().to_string();
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn a_counted_load_of_the_floor_is_clean() {
    let at = floor();
    for line in [
        "--length 1024 --offsets -c 3",
        "--length 1024 --same -c 3",
        "--length 1024 --discard -c 3 --new-connections",
        "--pick zipf:0.9 -o 20 --wonders 0.1",
    ] {
        let report = load(&format!("http://{at}/x/{{}} -n 200 {line}"));
        assert!(report.is_clean(), "{line}: {report}");
        assert_eq!((report.sides()[0].requests, report.sides()[0].bytes), (200, 200 * 1024));
    }
    let big = load(&format!("http://{at}/3MB.html -n 20 -c 4 --offsets --length 3145728"));
    assert!(big.is_clean(), "{big}");
}

#[test]
fn two_servers_take_turns() {
    let (a, b) = (floor(), floor());
    let report = load(&format!("http://{a}/1KB --vs http://{b}/2KB -n 50 --rounds 1"));
    let requests: Vec<u64> = report.sides().iter().map(|side| side.requests).collect();
    assert_eq!(requests, [100, 100]);
    assert_eq!(report.sides()[1].bytes, 100 * 2048);
    assert!(report.json()["ratio"]["p50"].is_number());
    assert!(report.to_string().contains("/ first, in 2 turns"), "{report}");
}

#[test]
fn three_servers_take_turns_and_have_ratios() {
    let [a, b, c] = [floor(), floor(), floor()];
    let line = format!("http://{a}/1KB --vs http://{b}/1KB --vs http://{c}/3KB -n 20 --rounds 2 -c 2");
    let report = load(&line);
    assert_eq!(report.sides().iter().map(|side| side.requests).collect::<Vec<_>>(), [80, 80, 80]);
    let ratios = &report.json()["ratios"];
    assert_eq!((&ratios[1]["of"], ratios.as_array().unwrap().len()), (&json!(format!("http://{c}/3KB")), 2));
    let p50 = &ratios[1]["p50"];
    let [low, high] = [0, 1].map(|at| p50["interval"][at].as_f64().unwrap());
    assert!((low..=high).contains(&p50["ratio"].as_f64().unwrap()), "{p50}");
    assert!(report.json()["ratio"].is_null(), "the ratio of two");
}

/// A server that sleeps once for 400 ms, in the answer to its 20th request.
fn stalling() -> SocketAddr {
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    server(move |_| {
        if asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 20 {
            thread::sleep(std::time::Duration::from_millis(400));
        }
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx".to_vec(), false)
    })
}

/// With one user and 100 requests a second, a stall of 400 ms holds up about 40 requests: they were due while
/// nothing could begin. Counted from their sending, all but one would have been quick.
#[test]
fn requests_that_a_stall_held_up_count_from_when_they_were_due() {
    let spaced = load(&format!("http://{}/ -n 100 -c 1 --rate 100", stalling()));
    assert!(spaced.is_clean(), "{spaced}");
    let total = spaced.sides()[0].total;
    assert!(total.p90_us > 150_000.0, "{spaced}");
    assert!(total.max_us >= 390_000.0, "{spaced}");
}

#[test]
fn a_stall_at_the_end_is_not_spared() {
    let turns = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let at = server(move |_| {
        let silent = turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 10;
        (if silent { vec![] } else { b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx".to_vec() }, false)
    });
    let report = load(&format!("http://{at}/ -d 2 -c 1 --rate 10"));
    let side = &report.sides()[0];
    assert_eq!(side.requests, 10, "{report}");
    assert!(side.unanswered >= 9, "{report}");
    assert!(side.total.max_us > 800_000.0, "{report}");
}

#[test]
fn a_timed_load_ends() {
    let report = load(&format!("http://{}/ -d 0.2 -c 2", floor()));
    assert!(report.is_clean());
    assert!(report.sides()[0].seconds < 5.0);
}

#[test]
fn every_way_of_framing_is_followed() {
    let bodies: [(&'static str, bool); 5] = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nA: b\r\n\
            \r\n",
            false,
        ),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", true),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            false,
        ),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", true),
    ];
    for (response, ends) in bodies {
        let at = server(move |_| (response.as_bytes().to_vec(), ends));
        let report = load(&format!("http://{at}/ -n 20 -c 2 --length 5 --same"));
        assert!(report.is_clean(), "{response}: {report}");
        assert_eq!(report.sides()[0].requests, 20);
    }
}

#[test]
fn each_fault_is_named() {
    let cases: [(&'static str, bool, Fault); 7] = [
        ("HTTP/1.1 503 No\r\nContent-Length: 5\r\n\r\nhello", false, Fault::Status),
        ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell", false, Fault::Length),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", true, Fault::Short),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!", false, Fault::Surplus),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", false, Fault::Broken),
        ("HTTP/1.1 20", true, Fault::Closed),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, Fault::Content),
    ];
    for (response, ends, expect) in cases {
        let at = server(move |_| (response.as_bytes().to_vec(), ends));
        let more = if expect == Fault::Content { "--offsets" } else { "--length 5" };
        let report = load(&format!("http://{at}/ -n 3 -c 1 {more}"));
        assert_eq!(faults(&report), [expect], "{response}: {report}");
        assert!(!report.is_clean());
    }
    let silent = server(|_| (vec![], false));
    assert_eq!(faults(&load(&format!("http://{silent}/ -n 1 -c 1 --timeout 0.2"))), [Fault::Timeout]);
}

#[test]
fn bodies_of_one_url_must_agree() {
    let at = server(|head| {
        let lie = if head.starts_with("GET /3") { head.len() % 7 } else { 0 };
        (format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{lie}").into_bytes(), false)
    });
    let same = load(&format!("http://{at}/{{}} -n 30 -c 1 -o 5 --same"));
    assert!(same.is_clean(), "{same}");
    let turns = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let at = server(move |_| {
        let turn = turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 2;
        (format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{turn}").into_bytes(), false)
    });
    assert_eq!(faults(&load(&format!("http://{at}/ -n 30 -c 1 --same"))), [Fault::Content]);
}

/// The interval that a range of 10,000 bytes asks for.
fn interval(range: &str) -> (u64, u64) {
    let (first, last) = range.split_once('-').unwrap();
    match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) => (first, last + 1),
        (Ok(first), Err(_)) => (first, 10_000),
        (Err(_), Ok(last)) => (10_000 - last, 10_000),
        _ => panic!("{range}"),
    }
}

/// Answers `Range` of a 10,000 byte offset body (RFC 9110 §14.2), shifted by `shift`.
fn ranges(shift: u64) -> SocketAddr {
    server(move |head| {
        let range = head.lines().find_map(|line| line.strip_prefix("Range: bytes=")).unwrap();
        let (start, end) = interval(range);
        let mut body = vec![0; (end - start) as usize];
        offsets::fill(start + shift, &mut body);
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-{}/10000\r\nContent-Length: {}\r\n\
            \r\n",
            end - 1,
            body.len()
        );
        ([head.as_bytes(), &body].concat(), false)
    })
}

#[test]
fn ranges_are_compared_byte_by_byte() {
    let right = load(&format!("http://{}/ -n 300 -c 4 --ranges --length 10000", ranges(0)));
    assert!(right.is_clean(), "{right}");
    let wrong = load(&format!("http://{}/ -n 300 -c 4 --ranges --length 10000", ranges(16)));
    assert_eq!(faults(&wrong), [Fault::Content]);
    let whole = load(&format!("http://{}/9KB -n 10 -c 1 --ranges --length 9216", floor()));
    assert_eq!(faults(&whole), [Fault::Status]);
}

#[test]
fn a_dead_server_is_a_fault_or_the_end() {
    // A port that was closed may become another test's.
    let gone = "127.0.0.1:1";
    let report = load(&format!("http://{gone}/ -d 0.3 -c 2"));
    assert_eq!(faults(&report), [Fault::Connect]);
    let error = run(&args(&format!("http://{gone}/ -n 1000 -c 1"))).unwrap_err();
    assert!(matches!(error, StressError::Hopeless { .. }), "{error}");
}

fn feed(bytes: &[u8], pieces: &[usize]) -> (Vec<Progress>, u64) {
    let mut body = Body::new(Framing::Chunked, 0, Content::Offsets);
    let (mut at, mut all) = (0, Vec::new());
    for piece in pieces {
        let next = (at + piece).min(bytes.len());
        all.push(body.feed(&bytes[at..next]));
        at = next;
    }
    all.push(body.feed(&bytes[at..]));
    assert!(body.is_right());
    (all, body.received)
}

proptest! {
    #[test]
    fn chunks_are_followed_however_they_are_split(
        sizes in proptest::collection::vec(1usize..50, 0..6),
        pieces in proptest::collection::vec(1usize..20, 0..40),
    ) {
        let total: usize = sizes.iter().sum();
        let content = offsets::body(total as u64);
        let (mut coded, mut at) = (Vec::new(), 0);
        for size in sizes {
            coded.extend(format!("{size:X}\r\n").bytes());
            coded.extend_from_slice(&content[at..at + size]);
            coded.extend(b"\r\n");
            at += size;
        }
        coded.extend(b"0\r\n\r\n");
        let (progress, received) = feed(&coded, &pieces);
        prop_assert_eq!(received, total as u64);
        prop_assert!(!progress.contains(&Progress::Broken));
        prop_assert_eq!(progress.iter().filter(|one| matches!(one, Progress::End(_))).count(), 1);
    }

    #[test]
    fn no_bytes_make_the_readers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = head::parse(&[b"HTTP/1.1 200 OK\r\n".as_slice(), &bytes, b"\r\n\r\n"].concat());
        let mut body = Body::new(Framing::Chunked, 0, Content::Counted);
        let _ = body.feed(&bytes);
    }
}
