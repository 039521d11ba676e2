//! What `weir top` and `/v1/top` say, against requests that were counted: outcomes, offload, times, and the
//! lists in each order; for tokens of one site; once, as a stream, and after an upgrade.

use serde_json::Value;
use weir_testkit::{Client, Origin, Resource, Weir, until};

use crate::server::server;

const HITS: u64 = 30;
const MISSES: u64 = 5;
const PASSES: u64 = 4;
const LARGE: usize = 40_000;
const OTHER: &str = "[[site]]\nhosts = [\"other.test\"]\nupstream = \"main\"\n";

fn top(weir: &Weir, args: &[&str]) -> Value {
    let output = weir.command(&[&["top", "--json"], args].concat());
    assert_eq!(output.code, Some(0), "{args:?} {output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

/// Name, count and reason of each row. All were counted.
fn rows(top: &Value) -> Vec<(String, u64, String)> {
    let row = |row: &Value| {
        assert_eq!(row["error"], 0, "{row}");
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        (text("name"), row["count"].as_u64().unwrap(), text("why"))
    };
    top["rows"].as_array().unwrap().iter().map(row).collect()
}

fn row(name: &str, count: u64) -> (String, u64, String) {
    (name.to_owned(), count, String::new())
}

/// A Weir that has answered 31 requests for `/hit`, of which one was fetched, 5 for others that were fetched,
/// 4 that were not stored, and 3 of another site.
fn asked() -> (Origin, Weir) {
    let origin = Origin::start();
    origin.put("/hit", Resource::fresh("ten bytes!"));
    origin.put("/large", Resource::fresh(vec![7; LARGE]));
    for number in 1..MISSES {
        origin.put(&format!("/miss/{number}"), Resource::fresh("x"));
    }
    origin.put("/never", Resource::new("never").header("Cache-Control", "no-store"));
    let weir = server(&[&origin]).more(OTHER).start();
    let paths = (0..=HITS).map(|_| "/hit".to_owned()).chain(["/large".to_owned()]);
    let paths = paths.chain((1..MISSES).map(|number| format!("/miss/{number}")));
    for path in paths.chain((0..PASSES).map(|_| "/never".to_owned())) {
        assert_eq!(weir.get(&path).status(), 200);
    }
    (0..3).for_each(|_| drop(weir.client().get("other.test", "/hit", &[])));
    let all = HITS + 1 + MISSES + PASSES + 3;
    until("all is in the lists", || top(&weir, &[])["totals"]["asked"].as_u64() == Some(all));
    (origin, weir)
}

#[test]
fn the_table_is_what_was_counted() {
    let (origin, weir) = asked();
    let shown = top(&weir, &[]);
    for span in ["now", "traffic"] {
        let traffic = &shown[span];
        let count = |outcome: &str| traffic["outcomes"][outcome]["count"].as_u64().unwrap_or_default();
        let counted = ["hit", "miss", "pass", "stale"].map(count);
        // The first response that is not stored was a miss of the cache; the URL is passed from then on.
        assert_eq!(counted[0], HITS + 2, "{traffic}");
        assert_eq!(counted[1] + counted[2], 1 + MISSES + PASSES + 1, "{traffic}");
        assert_eq!(counted[3], 0);
        for outcome in ["hit", "miss"] {
            let of = &traffic["outcomes"][outcome];
            let [half, most] =
                ["first_byte_ms_p50", "first_byte_ms_p99"].map(|name| of[name].as_f64().unwrap());
            assert!(0.0 < half && half <= most, "{of}");
            let per_s = of["per_s"].as_f64().unwrap();
            let (found, expect) =
                (per_s * traffic["span_s"].as_f64().unwrap(), of["count"].as_f64().unwrap());
            // The span is told in tenths of a second.
            let most = 0.05 * per_s + 0.01 * expect + 1.0;
            assert!((found - expect).abs() <= most, "{found} and {expect}: {traffic}");
        }
    }
    let bodies = (HITS + 1 + 3) * 10 + LARGE as u64 + (MISSES - 1) + PASSES * 5;
    let from_origin = 2 * 10 + LARGE as u64 + (MISSES - 1) + PASSES * 5;
    let offload = 1.0 - from_origin as f64 / bodies as f64;
    assert!((shown["traffic"]["offload"].as_f64().unwrap() - offload).abs() < 0.001, "{shown}");
    assert_eq!(shown["totals"]["bytes"], bodies);
    let span_s = shown["traffic"]["span_s"].as_f64().unwrap();
    let per_s = shown["traffic"]["origin_requests_per_s"].as_f64().unwrap();
    assert!((per_s * span_s - origin.total() as f64).abs() < 0.05 * per_s + 1.0, "{shown}");
}

#[test]
fn each_list_has_each_order_and_span() {
    let (origin, weir) = asked();
    for window in ["minute", "hour"] {
        let list =
            |by: &str, order: &str| rows(&top(&weir, &["--by", by, "--order", order, "--window", window]));
        let urls = list("url", "asked");
        assert_eq!(urls[..2], [row("http://localhost/hit", HITS + 1), row("http://localhost/never", PASSES)]);
        assert_eq!(urls.len() as u64, 3 + MISSES);
        assert!(urls.contains(&row("http://other.test/hit", 3)));
        let bytes = list("url", "bytes");
        assert_eq!(
            bytes[..2],
            [row("http://localhost/large", LARGE as u64), row("http://localhost/hit", 10 * (HITS + 1))]
        );
        let missed = list("url", "missed");
        assert!(missed.iter().all(|(_, count, _)| *count == 1), "{missed:?}");
        assert!(missed.contains(&row("http://localhost/miss/1", 1)) && missed.len() as u64 >= MISSES + 2);
        let unstored = list("url", "not-stored");
        let count: u64 = unstored.iter().map(|(_, count, _)| count).sum();
        assert_eq!(count, PASSES, "{unstored:?}");
        assert!(unstored.iter().all(|(url, _, _)| url == "http://localhost/never"), "{unstored:?}");
        assert!(unstored.iter().any(|(_, _, why)| why == "no-store"), "{unstored:?}");
        let all = HITS + 1 + MISSES + PASSES + 3;
        assert_eq!(list("client", "asked"), [row("127.0.0.1", all)]);
        assert_eq!(list("site", "asked"), [row("*", all - 3), row("other.test", 3)]);
        assert_eq!(list("site", "missed")[0].0, "*");
        let from_origin = 2 + MISSES + PASSES;
        assert_eq!(list("origin", "asked"), [row(&origin.url(), from_origin)]);
        assert_eq!(list("origin", "bytes")[0].1, 20 + LARGE as u64 + MISSES - 1 + 5 * PASSES);
        assert_eq!(rows(&top(&weir, &["--window", window, "--limit", "1"])).len(), 1);
    }
    for (args, expect) in [
        (&["--by", "path"][..], "invalid value 'path'"),
        (&["--once", "--limit", "0"], "limit is between 1 and 100"),
        (&["--once", "--site", "nowhere.test"], "no site is named nowhere.test; there are: "),
        (&[], "needs a terminal"),
    ] {
        let refused = weir.command(&[&["top"], args].concat());
        assert!(refused.code != Some(0) && refused.stderr.contains(expect), "{args:?} {refused:?}");
    }
}

#[test]
fn a_token_of_one_site_sees_its_own_alone() {
    let (origin, weir) = asked();
    let of_other = weir.token("view", &["other.test"]);
    let get = |query: &str| {
        let answer = weir.admin_get_with(&format!("/v1/top?{query}"), &of_other);
        assert_eq!(answer.status(), 200, "{}", answer.text());
        serde_json::from_slice::<Value>(&answer.body).unwrap()
    };
    let urls = get("by=url");
    assert_eq!(rows(&urls), [row("http://other.test/hit", 3)]);
    assert!(urls["traffic"].is_null() && urls["now"].is_null() && urls["volumes"].is_null(), "{urls}");
    assert_eq!(urls["totals"]["asked"], 3);
    assert_eq!(rows(&get("by=client")), [row("127.0.0.1", 3)]);
    assert_eq!(rows(&get("by=site")), [row("other.test", 3)]);
    assert_eq!(rows(&get("by=origin")), [row(&origin.url(), 1)]);
    let refused = weir.admin_get_with("/v1/top?site=*", &of_other);
    assert_eq!(refused.status(), 403);
    // The same lists for a caller that may see all, of that site.
    let narrowed = top(&weir, &["--site", "other.test"]);
    assert_eq!(rows(&narrowed), rows(&urls));
    assert!(narrowed["traffic"].is_null());
}

#[test]
fn once_it_is_text_that_does_nothing_to_a_terminal() {
    let (_origin, weir) = asked();
    for target in ["/a%1B[2J", "/\u{202e}gpj.exe", "/b?\u{200b}c", "/\u{9b}31m"] {
        let mut client = weir.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert!(client.recv().is_ok());
    }
    let args = ["top", "--once", "--order", "asked"];
    until("the last is in the list", || weir.command(&args).stdout.contains("/a%1B[2J"));
    let text = weir.command(&args).stdout;
    let is_harmless = |c: char| c == '\n' || c == '±' || (' '..='~').contains(&c) || c.is_alphanumeric();
    assert!(text.chars().all(is_harmless), "{text:?}");
    for expect in ["weir top  pid ", "outcome ", "from the cache ", "the most requests by url", "exact"] {
        assert!(text.contains(expect), "{expect}: {text}");
    }
    let first = text.lines().find(|line| line.contains("http://localhost/hit")).unwrap();
    assert!(first.trim_start().starts_with("31 "), "{text}");
    let unstored = weir.command(&["top", "--once", "--order", "not-stored"]).stdout;
    assert!(unstored.contains("no-store") && unstored.contains("http://localhost/never"), "{unstored}");
}

#[test]
fn as_a_stream_it_comes_each_second_and_from_the_new_process_after_an_upgrade() {
    let (_origin, mut weir) = asked();
    let token = weir.token("view", &[]);
    let mut client = Client::connect(weir.admin());
    client.send(format!(
        "GET /v1/top?by=site HTTP/1.1\r\nHost: localhost\r\nAccept: application/jsonl\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    ));
    let mut read = String::new();
    while read.matches("\"by\":\"site\"").count() < 3 {
        let piece = client.read_some();
        assert!(!piece.is_empty(), "{read}");
        read += &String::from_utf8_lossy(&piece);
    }
    let line = read.lines().find(|line| line.starts_with('{')).unwrap();
    assert_eq!(rows(&serde_json::from_str(line).unwrap())[1], row("other.test", 3));
    let before = top(&weir, &[])["pid"].clone();
    assert_eq!(weir.upgrade(&[]).code, Some(0));
    let after = top(&weir, &[]);
    assert_ne!(after["pid"], before);
    assert_eq!(after["totals"]["asked"], 0, "the new process begins with nothing: {after}");
    weir.get("/hit");
    until("it is in the new lists", || rows(&top(&weir, &[])) == [row("http://localhost/hit", 1)]);
}
