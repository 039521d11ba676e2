//! The demo origin over a real socket, and its ranges.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;

use super::body::pattern;
use super::pages::OFFSETS_BYTES;
use super::resource::{Wanted, parse_range};

fn origin() -> SocketAddr {
    static ORIGIN: OnceLock<SocketAddr> = OnceLock::new();
    *ORIGIN.get_or_init(|| super::start().unwrap())
}

/// The status, the head in lower case, the body.
fn get(path: &str, fields: &str) -> (u16, String, Vec<u8>) {
    let mut stream = TcpStream::connect(origin()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: demo\r\nConnection: close\r\n{fields}\r\n").unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let end = all.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(all[..end].to_vec()).unwrap().to_lowercase();
    (head[9..12].parse().unwrap(), head, all[end + 4..].to_vec())
}

#[test]
fn every_link_of_the_index_leads_somewhere() {
    let (status, head, body) = get("/", "");
    assert_eq!(status, 200);
    assert!(head.contains("etag: \"index-1\"") && head.contains("cache-control: max-age=60"), "{head}");
    let index = String::from_utf8(body).unwrap();
    let links: Vec<&str> =
        index.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(links.len() > 10);
    for link in links.into_iter().filter(|link| *link != "/slow") {
        let (status, _, body) = get(link, "");
        let expect = match link {
            "/moved" => 302,
            "/broken" => 500,
            "/nowhere" => 404,
            _ => 200,
        };
        assert_eq!(status, expect, "{link}");
        assert!(!body.is_empty(), "{link}");
    }
}

#[test]
fn validators_are_honoured() {
    let (status, head, body) = get("/hello", "If-None-Match: \"x\", W/\"hello-1\"\r\n");
    assert_eq!((status, body.len()), (304, 0));
    assert!(head.contains("etag: \"hello-1\"") && !head.contains("content-type"), "{head}");
    assert_eq!(get("/hello", "If-None-Match: \"x\"\r\n").0, 200);
    assert_eq!(get("/hello", "If-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT\r\n").0, 304);
    assert_eq!(get("/hello", "If-Modified-Since: Wed, 31 Dec 2025 00:00:00 GMT\r\n").0, 200);
    let both = "If-None-Match: \"x\"\r\nIf-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT\r\n";
    assert_eq!(get("/hello", both).0, 200);
}

#[test]
fn the_offset_file_is_what_it_says() {
    let (status, head, body) = get("/offsets.txt", "");
    assert_eq!((status, body.len() as u64), (200, OFFSETS_BYTES));
    assert!(head.contains("content-length: 10485760") && head.contains("accept-ranges: bytes"), "{head}");
    assert_eq!(body, pattern(0..OFFSETS_BYTES));
    assert_eq!(&body[..20], b"000000000\n000000010\n");
    assert_eq!(&body[1_000_000..1_000_010], b"001000000\n");
}

#[test]
fn ranges_are_cut_from_it() {
    let (status, head, body) = get("/offsets.txt", "Range: bytes=95-104\r\n");
    assert_eq!((status, &body[..]), (206, &b"0090\n00000"[..]));
    assert!(head.contains("content-range: bytes 95-104/10485760"), "{head}");
    assert_eq!(get("/offsets.txt", "Range: bytes=0-9\r\nIf-Range: \"offsets-1\"\r\n").0, 206);
    assert_eq!(get("/offsets.txt", "Range: bytes=0-9\r\nIf-Range: \"other\"\r\n").0, 200);
    let (status, head, _) = get("/offsets.txt", "Range: bytes=10485760-\r\n");
    assert_eq!(status, 416);
    assert!(head.contains("content-range: bytes */10485760"), "{head}");
    for (range, expect) in [
        ("bytes=0-0", Wanted::Part(0..1)),
        ("bytes=10-", Wanted::Part(10..100)),
        ("bytes=-10", Wanted::Part(90..100)),
        ("bytes=-1000", Wanted::Part(0..100)),
        ("bytes=0-18446744073709551616", Wanted::Part(0..100)),
        ("bytes=100-", Wanted::Unsatisfiable),
        ("bytes=-0", Wanted::Unsatisfiable),
        ("bytes=9-5", Wanted::Whole),
        ("bytes=0-1,5-6", Wanted::Whole),
        ("bytes=+1-5", Wanted::Whole),
        ("lines=1-5", Wanted::Whole),
    ] {
        assert_eq!(parse_range(range, 100), expect, "{range}");
    }
}

#[test]
fn what_must_not_be_stored_says_so() {
    assert!(get("/private", "").1.contains("cache-control: no-store"));
    assert!(get("/account", "").1.contains("set-cookie: session=demo"));
    let (_, head, _) = get("/unmarked", "");
    assert!(!head.contains("cache-control") && !head.contains("last-modified"), "{head}");
    let (_, head, body) = get("/greeting", "Accept-Language: xx, de-CH\r\n");
    assert!(head.contains("vary: accept-language"), "{head}");
    assert_eq!(body, b"Guten Tag!\n");
}

#[test]
fn the_slow_page_comes_whole_with_its_length() {
    let (status, head, body) = get("/slow", "");
    assert_eq!(status, 200);
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    assert!(body.ends_with(b"line 6 of 6, half a second each\n"));
}
