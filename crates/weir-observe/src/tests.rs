//! Units of the observing room.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use http::Method;
use jiff::tz::TimeZone;

use super::latency::LatencyCells;
use super::lines::{self, TerminalLines};
use super::*;

/// A folder of this test run that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("weir-observe-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn record(target: &str, facts: Facts) -> Record {
    let description = Description {
        wall: UNIX_EPOCH + Duration::from_millis(1_795_176_001_250),
        client: "192.0.2.7".to_owned(),
        method: Some(Method::GET),
        scheme: "http",
        host: "example.com".to_owned(),
        target: target.to_owned(),
        version: "HTTP/1.1",
        site: Arc::from("example"),
        route: Arc::from("all"),
        upstream: Some(Arc::from("main")),
        origin: Some(Arc::from("https://www.example.com")),
        pick: "hash/bound".to_owned(),
        request_id: "abc".to_owned(),
        referer: None,
        user_agent: Some("curl/8 \"x\"\n".to_owned()),
        tls: None,
        asked: Vec::new(),
        line: None,
        trace: None,
    };
    Record { facts, description }
}

fn hit() -> Facts {
    Facts {
        status: 200,
        outcome: Outcome::Hit,
        ttl_left_s: Some(58),
        body_bytes: 18_432,
        first_byte: Some(Duration::from_micros(50)),
        total: Duration::from_micros(60),
        ..Facts::default()
    }
}

fn miss() -> Facts {
    Facts {
        status: 200,
        outcome: Outcome::Miss,
        storing: Storing::Stored { ttl_s: 60, source: "max-age" },
        body_bytes: 18_432,
        first_byte: Some(Duration::from_millis(80)),
        total: Duration::from_millis(84),
        ..Facts::default()
    }
}

fn pass(word: &'static str) -> Facts {
    Facts {
        status: 200,
        outcome: Outcome::Pass,
        storing: Storing::NotStored(word),
        body_bytes: 2_100,
        total: Duration::from_millis(91),
        ..Facts::default()
    }
}

#[test]
fn the_terminal_shows_aligned_columns_and_reasons() {
    let mut terminal = TerminalLines::new(120, Colour::Never, TimeZone::UTC);
    let mut out = Vec::new();
    terminal.line(&record("/account", pass("set-cookie")), &mut out);
    terminal.line(&record("/", miss()), &mut out);
    terminal.line(&record("/", hit()), &mut out);
    let expect = "\
12:00:01  GET /account  200  pass   2.1 kB    91 ms  not stored: set-cookie
12:00:01  GET /         200  miss  18.4 kB    84 ms  stored 60 s (max-age)
12:00:01  GET /         200  hit   18.4 kB  0.06 ms  58 s left
";
    assert_eq!(String::from_utf8(out).unwrap(), expect);
}

#[test]
fn the_terminal_hints_at_ttl_once() {
    let mut terminal = TerminalLines::new(80, Colour::Never, TimeZone::UTC);
    let mut out = Vec::new();
    terminal.line(&record("/", pass("no-freshness")), &mut out);
    terminal.line(&record("/", pass("no-freshness")), &mut out);
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.matches("--ttl 60s").count(), 1);
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn the_terminal_is_not_steered_by_what_clients_send() {
    let mut terminal = TerminalLines::new(80, Colour::Never, TimeZone::UTC);
    let mut out = Vec::new();
    terminal.line(&record("/\u{1b}[2J\u{9b}x", miss()), &mut out);
    terminal.line(&record(&"/long".repeat(100), miss()), &mut out);
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains('\u{1b}') && !text.contains('\u{9b}'));
    assert!(text.lines().all(|line| line.chars().count() < 120), "{text}");
}

#[test]
fn the_terminal_says_how_it_ended() {
    let mut out = Vec::new();
    let cut = Facts { completion: Completion::Cut, ..miss() };
    TerminalLines::new(80, Colour::Never, TimeZone::UTC).line(&record("/", cut), &mut out);
    let joined = Facts { sharing: Sharing::Joined, completion: Completion::ClientGone, ..miss() };
    TerminalLines::new(80, Colour::Never, TimeZone::UTC).line(&record("/", joined), &mut out);
    let refused = Facts { status: 400, detail: "bare-lf", ..Facts::default() };
    TerminalLines::new(80, Colour::Always, TimeZone::UTC).line(&record("", refused), &mut out);
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("stored 60 s (max-age); cut before its end\n"), "{text}");
    assert!(text.contains("stored 60 s (max-age), read another's download; the client left\n"), "{text}");
    assert!(text.contains("\u{1b}[31mrefused\u{1b}[0m") && text.ends_with("bare-lf\n"), "{text}");
}

#[test]
fn sizes_and_durations_read_well() {
    for (bytes, expect) in [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (18_432, "18.4 kB"),
        (99_949, "99.9 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (10_485_760, "10.5 MB"),
        (u64::MAX, "18446744 TB"),
    ] {
        assert_eq!(lines::size(bytes), expect);
    }
    for (us, expect) in [
        (60, "0.06 ms"),
        (999, "1.0 ms"),
        (8_400, "8.4 ms"),
        (84_000, "84 ms"),
        (9_999_000, "9999 ms"),
        (12_300_000, "12.3 s"),
    ] {
        assert_eq!(lines::took(Duration::from_micros(us)), expect);
    }
}

#[test]
fn json_leaves_out_what_is_empty_and_stays_one_line() {
    let mut out = Vec::new();
    lines::json(&record("/a\"b\n", miss()), &mut out);
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
    let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(value["time"], "2026-11-20T12:00:01.250Z");
    assert_eq!(value["target"], "/a\"b\n");
    assert_eq!(value["outcome"], "miss");
    assert_eq!(value["status"], 200);
    assert_eq!(value["stored_s"], 60);
    assert_eq!(value["ttl_source"], "max-age");
    assert_eq!(value["total_ms"], 84.0);
    assert_eq!(value["completion"], "whole");
    assert!(value.get("referer").is_none() && value.get("detail").is_none());
}

#[test]
fn a_terminal_that_shows_json_is_not_steered() {
    let steering = "a\u{1b}[2J\u{7f}\u{80}\u{9b}31m\u{9f}\u{2028}\u{202e}\u{2066}z\u{e9}\u{20ac}\u{1f980}";
    let mut record = record(steering, miss());
    record.description.user_agent = Some(steering.to_owned());
    let mut out = Vec::new();
    lines::json(&record, &mut out);
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains(r"\u0080\u009b31m\u009f\u2028\u202e\u2066zé"), "{text}");
    assert!(
        !text.trim_end().contains(|c: char| c.is_control() || ('\u{2028}'..'\u{2070}').contains(&c)),
        "{text}"
    );
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((value["target"].as_str(), value["user_agent"].as_str()), (Some(steering), Some(steering)));
}

#[test]
fn what_is_not_seen_is_escaped() {
    let unseen = "\u{ad}\u{200b}\u{200d}\u{2060}\u{feff}\u{3164}\u{fe0f}\u{fff9}\u{e0041}\u{1d173}";
    assert!(unseen.chars().all(steers));
    assert!(!"aé€🦀ß日本 \u{301}".chars().any(steers), "what is seen stays");
    let json = String::from_utf8(plain_json(&unseen).unwrap()).unwrap();
    assert!(json.is_ascii() && json.contains(r"\u200b") && json.contains(r"\udb40\udc41"), "{json}");
    assert_eq!(serde_json::from_str::<String>(&json).unwrap(), unseen);
}

#[test]
fn combined_lines_cannot_be_forged() {
    let mut out = Vec::new();
    lines::combined(&record("/\" 200\n", hit()), &TimeZone::UTC, &mut out);
    lines::combined(
        &Record { facts: Facts::default(), description: Description::default() },
        &TimeZone::UTC,
        &mut out,
    );
    let expect = concat!(
        "192.0.2.7 - - [20/Nov/2026:12:00:01 +0000] \"GET /\\x22 200\\x0A HTTP/1.1\" 200 18432 \"-\" ",
        "\"curl/8 \\x22x\\x22\\x0A\"\n",
        "- - - [01/Jan/1970:00:00:00 +0000] \"-\" 0 0 \"-\" \"-\"\n",
    );
    assert_eq!(String::from_utf8(out).unwrap(), expect);
}

#[test]
fn workers_are_summed() {
    let observatory = Observatory::start(2, &[]).unwrap();
    let (site, other) = (observatory.site("example"), observatory.site("other"));
    assert_eq!(site, observatory.site("example"));
    assert_ne!(site, other);
    for worker in 0..2 {
        let observer = observatory.observer(worker);
        assert!(!observer.wants_records());
        observer.counters().connection_accepted();
        observer.counters().request_begun();
        observer.record(&Facts { site, ..hit() }, || None, |_| unreachable!("no log is wanted"));
    }
    let observer = observatory.observer(0);
    observer.counters().connection_closed();
    observer.counters().request_ended();
    observer.counters().fill_begun();
    observer.counters().fill_begun();
    observer.counters().fill_failed();
    observer.counters().error("connection_refused");
    observer.record(&Facts { site: other, ..miss() }, || None, |_| Description::default());
    observer.record(&pass("set-cookie"), || None, |_| Description::default());
    observer.record(&Facts { status: 999, ..Facts::default() }, || None, |_| Description::default());
    let sum = observatory.snapshot();
    assert_eq!(sum.requests_of(Outcome::Hit), 2);
    assert_eq!(sum.requests, [2, 0, 1, 0, 1, 0, 1]);
    assert_eq!(sum.statuses, [0, 0, 4, 0, 0, 1]);
    assert_eq!((sum.counts[Count::ConnectionsAccepted], sum.now(&Level::CONNECTIONS)), (2, 1));
    assert_eq!((sum.counts[Count::RequestsBegun], sum.now(&Level::REQUESTS)), (2, 1));
    let failed = sum.counts[Count::FillsFailed];
    assert_eq!((sum.counts[Count::Fills], sum.now(&Level::FILLS), failed), (2, 1, 1));
    assert_eq!(sum.counts[Count::ClientBodyBytes], 3 * 18_432 + 2_100);
    assert_eq!(sum.counts[Count::CachedBodyBytes], 2 * 18_432);
    assert_eq!(
        (sum.counts[Count::Stored], sum.not_stored["set-cookie"], sum.errors["connection_refused"]),
        (1, 1, 1)
    );
    assert_eq!(sum.sites[0].requests[Outcome::Hit as usize], 2);
    assert_eq!(sum.sites[1].counts[SiteCount::ClientBodyBytes], 18_432);
    assert_eq!((&*sum.sites[2].name, sum.sites[2].requests), ("-", [0, 0, 0, 0, 1, 0, 1]));
    assert_eq!(sum.first_byte[Outcome::Hit as usize].count(), 2);
    observatory.finish(Duration::from_secs(5));
}

#[test]
fn sites_and_words_are_bounded() {
    let observatory = Observatory::start(1, &[]).unwrap();
    let mut last = SiteId::NONE;
    for number in 0..16_384 {
        last = observatory.site(&format!("site-{number}"));
    }
    assert_ne!(last, SiteId::NONE);
    assert_eq!(observatory.site("one too many"), SiteId::NONE);
    let observer = observatory.observer(0);
    observer.record(&Facts { site: last, ..hit() }, || None, |_| Description::default());
    observer.counters().client_bytes(last, 7);
    observer.counters().client_bytes(SiteId::NONE, 9);
    observer.counters().origin_sent(last);
    observer.counters().origin_read(last, 11);
    observer.record(&Facts { site: SiteId::NONE, ..hit() }, || None, |_| Description::default());
    for number in 0..1_000 {
        observer.counters().error(Box::leak(format!("word-{number}").into_boxed_str()));
    }
    let sum = observatory.snapshot();
    let (site, nowhere) = (&sum.sites[16_383], &sum.sites[16_384]);
    assert_eq!(site.requests[Outcome::Hit as usize], 1);
    let of = |count| site.counts[count];
    assert_eq!(
        (of(SiteCount::ClientBytes), of(SiteCount::OriginRequests), of(SiteCount::OriginBytes)),
        (7, 1, 11)
    );
    assert_eq!((nowhere.counts[SiteCount::ClientBytes], nowhere.requests[Outcome::Hit as usize]), (9, 1));
    assert!(sum.errors.len() <= 194);
    assert_eq!(sum.errors.values().sum::<u64>(), 1_000);
    assert!(sum.errors["other"] > 800);
}

#[test]
fn quantiles_are_near_and_bounds_exact() {
    let cells = LatencyCells::new();
    for us in 1..=1_000 {
        cells.add(Duration::from_micros(us));
    }
    cells.add(Duration::from_secs(10_000));
    let mut sum = Latency::default();
    assert_eq!(sum.quantile_us(0.5), None);
    sum.merge(&cells);
    assert_eq!(sum.count(), 1_001);
    let median = sum.quantile_us(0.5).unwrap();
    assert!((500..=650).contains(&median), "{median}");
    let below: Vec<(u64, u64)> = bounds_us().zip(sum.cumulative()).collect();
    assert_eq!(below[0], (16, 15));
    assert_eq!(below[5], (512, 511));
    assert_eq!(below.last(), Some(&(1 << 26, 1_000)));
}

#[test]
fn records_reach_files_and_follow_a_rotation() {
    let folder = Folder::new();
    let path = folder.0.join("access.log");
    let file = |format| LogSettings { format, target: LogTarget::File(path.clone()), bytes_max: None };
    let observatory = Observatory::start(1, &[file(LogFormat::Json)]).unwrap();
    let observer = observatory.observer(0);
    assert!(observer.wants_records());
    let say = |target: &'static str| observer.record(&hit(), || None, |_| record(target, hit()).description);
    let holds = |path: &PathBuf, needle: &str| {
        (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            let mut text = String::new();
            fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)).is_ok()
                && text.contains(needle)
        })
    };
    say("/one");
    assert!(holds(&path, "\"/one\""));
    let rotated = folder.0.join("access.log.1");
    fs::rename(&path, &rotated).unwrap();
    say("/two");
    assert!(holds(&rotated, "\"/two\""));
    observatory.reopen();
    assert!(holds(&path, ""));
    say("/three");
    assert!(holds(&path, "\"/three\""));
    observatory.set_logs(OpenLogs::open(&[file(LogFormat::Combined)]).unwrap());
    say("/four");
    observatory.finish(Duration::from_secs(5));
    assert!(holds(&path, "/four"));
    assert_eq!(observatory.snapshot().counts[Count::LogDropped], 0);
}

#[test]
fn a_log_that_cannot_be_opened_is_said() {
    let missing = LogTarget::File(PathBuf::from("/nonexistent/folder/access.log"));
    let settings = |format| LogSettings { format, target: missing.clone(), bytes_max: None };
    for (format, log) in [(LogFormat::Json, "access"), (LogFormat::Upstream, "upstream")] {
        let said = Observatory::start(1, &[settings(format)]).unwrap_err().to_string();
        let expect = format!("cannot open the {log} log /nonexistent/folder/access.log: No such file");
        assert!(said.starts_with(&expect), "{said}");
        assert!(said.contains("make its folder writable"), "{said}");
    }
}

#[test]
fn a_log_that_cannot_be_written_loses_records_and_blocks_nobody() {
    let full = |format| {
        let target = LogTarget::File(PathBuf::from("/dev/full"));
        LogSettings { format, target, bytes_max: Some(1) }
    };
    let observatory = Observatory::start(1, &[full(LogFormat::Json), full(LogFormat::Upstream)]).unwrap();
    let observer = observatory.observer(0);
    for _ in 0..20_000 {
        observer.record(&hit(), || None, |_| record("/", hit()).description);
        observer.asked(asked());
    }
    observatory.finish(Duration::from_secs(5));
    let counts = observatory.snapshot().counts;
    assert_eq!((counts[Count::LogDropped], counts[Count::UpstreamLogDropped]), (20_000, 20_000));
}

#[test]
fn long_and_odd_texts_are_bounded() {
    assert_eq!(text(&[b'a'; 5_000]).len(), 2_048);
    assert_eq!(text(b"caf\xe9"), "caf\u{fffd}");
}

/// A range of a response that was stored on a volume.
fn asked() -> Asked {
    let begun = UNIX_EPOCH + Duration::from_millis(1_500);
    Asked {
        begun,
        purpose: Purpose::Range,
        id: AskedId(0xab),
        attempt: 2,
        retry: "closed-early",
        request_id: "17".into(),
        site: "a.example".into(),
        upstream: "main".into(),
        origin: "http://o.example:80".into(),
        pick: "round_robin/retry".to_owned(),
        address: "192.0.2.1:80".into(),
        connection: "new",
        connect: Some(Duration::from_micros(250)),
        method: "GET".into(),
        host: "a.example".into(),
        target: "/x?\u{9b}".into(),
        origin_host: "o.example".into(),
        range: "bytes=0-9".into(),
        status: Some(206),
        content_type: "text/plain".into(),
        object: Some(AskedObject { key: "http://a.example/x\nmore".into(), volume: Some("v1".into()) }),
        sent_bytes: 100,
        received_bytes: 200,
        first_byte: Some(Duration::from_micros(500)),
        total: Duration::from_millis(2),
        end: AskedEnd::Cut("incomplete"),
    }
}

#[test]
fn a_request_to_an_origin_is_one_line_without_what_is_unknown() {
    let line = |asked: &Asked| {
        let mut line = Vec::new();
        lines::json(asked, &mut line);
        String::from_utf8(line).unwrap()
    };
    assert_eq!(
        line(&asked()),
        "{\"time\":\"1970-01-01T00:00:01.500Z\",\"end\":\"1970-01-01T00:00:01.502Z\",\"purpose\":\"range\",\
         \"asked\":\"00000000000000ab\",\"attempt\":2,\"retry\":\"closed-early\",\"request_id\":\"17\",\
         \"site\":\"a.example\",\"method\":\"GET\",\"host\":\"a.example\",\"target\":\"/x?\\u009b\",\
         \"upstream\":\"main\",\"origin\":\"http://o.example:80\",\"pick\":\"round_robin/retry\",\
         \"address\":\"192.0.2.1:80\",\
         \"origin_host\":\"o.example\",\"range\":\"bytes=0-9\",\"status\":206,\
         \"content_type\":\"text/plain\",\"key\":\"http://a.example/x\",\"key_fields\":[\"more\"],\
         \"volume\":\"v1\",\"sent_bytes\":100,\"received_bytes\":200,\"connection\":\"new\",\
         \"connect_ms\":0.25,\"first_byte_ms\":0.5,\"total_ms\":2.0,\"completion\":\"cut\",\
         \"error\":\"incomplete\"}\n"
    );
    let none = String::new;
    let refused = Asked {
        retry: "",
        connection: "",
        connect: None,
        range: none(),
        status: None,
        content_type: none(),
        object: None,
        first_byte: None,
        end: AskedEnd::Failed("connection-refused"),
        ..asked()
    };
    let said = line(&refused);
    assert!(said.ends_with("\"completion\":\"failed\",\"error\":\"connection-refused\"}\n"), "{said}");
    for absent in ["retry", "connection\":", "connect_ms", "range\":\"bytes", "status", "content_type", "key"]
    {
        assert!(!said.contains(&format!("\"{absent}")), "{absent}: {said}");
    }
}

#[test]
fn a_log_that_grows_too_large_is_rotated_and_loses_no_line() {
    let folder = Folder::new();
    let path = folder.0.join("upstream.log");
    let settings = |bytes_max| LogSettings {
        format: LogFormat::Upstream,
        target: LogTarget::File(path.clone()),
        bytes_max,
    };
    let observatory = Observatory::start(1, &[settings(Some(4_000))]).unwrap();
    let observer = observatory.observer(0);
    let count = |path: &PathBuf| fs::read_to_string(path).unwrap_or_default().lines().count();
    let rotated = folder.0.join("upstream.log.1");
    let mut written = 0;
    while !rotated.exists() {
        observer.asked(asked());
        written += 1;
        let is_there = (0..3_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            count(&path) + count(&rotated) == written
        });
        assert!(is_there, "{written} lines");
    }
    assert!(written > 2, "{written}");
    assert!(fs::metadata(&rotated).unwrap().len() <= 4_000);
    assert_eq!((count(&path), count(&rotated)), (1, written - 1));
    observatory.finish(Duration::from_secs(5));
}
