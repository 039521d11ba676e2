//! Conditions against a table of records with known answers.

use std::sync::Arc;
use std::time::Duration;

use http::Method;

use super::*;
use crate::asked::{AskedEnd, AskedId, AskedObject, Purpose};
use crate::record::{Completion, Description, Outcome, Sharing, Storing, Tls};

/// The records: `a` a hit, `b` a slow miss that is stored, `c` a failure, `d` a joined pass that is cut.
fn records() -> Vec<(char, Record)> {
    let ms = Duration::from_millis;
    let facts = |status, outcome, total| Facts {
        status,
        outcome,
        total: ms(total),
        first_byte: (status != 0).then_some(ms(total / 2)),
        ..Facts::default()
    };
    let texts = |site: &str, target: &str| Description {
        client: "192.0.2.7".to_owned(),
        method: Some(Method::GET),
        host: format!("{site}.test"),
        target: target.to_owned(),
        site: Arc::from(site),
        version: "HTTP/1.1",
        ..Description::default()
    };
    let a = Facts { ttl_left_s: Some(40), body_bytes: 1000, ..facts(200, Outcome::Hit, 0) };
    let storing = Storing::Stored { ttl_s: 3600, source: "max-age" };
    let b = Facts { storing, body_bytes: 1 << 20, detail: "uri-miss", ..facts(200, Outcome::Miss, 900) };
    let c = Facts { detail: "connect-refused", ..facts(502, Outcome::Miss, 10) };
    let d = Facts {
        completion: Completion::Cut,
        sharing: Sharing::Joined,
        storing: Storing::NotStored("no-store"),
        ..facts(0, Outcome::Pass, 30)
    };
    let tls = Tls { version: "TLSv1.3", is_resumed: true, ..Tls::default() };
    let record = |facts, description| Record { facts, description };
    vec![
        ('a', record(a, texts("shop", "/api/items?x=1"))),
        ('b', record(b, Description { user_agent: Some("curl/8 (x)".to_owned()), ..texts("shop", "/big") })),
        ('c', record(c, Description { tls: Some(tls), ..texts("blog", "/api/") })),
        ('d', record(d, Description { method: Some(Method::POST), ..texts("blog", "/ö\u{1b}") })),
    ]
}

#[track_caller]
fn check(condition: &str, expect: &str) {
    let known = |name: &str| ["shop", "blog"].iter().position(|own| *own == name).map(SiteId::new);
    let read = Condition::read(condition, LogOf::Clients).unwrap();
    let numbered = read.clone().of_sites(&known);
    let mut found = String::new();
    for (name, mut record) in records() {
        if read.fits(&record) {
            found.push(name);
        }
        // Before texts are made nothing is turned away that fits, and by names of sites it is the same.
        record.facts.site = known(&record.description.site).unwrap();
        assert_eq!(numbered.fits(&record), read.fits(&record), "{condition}: {name}");
        assert!(numbered.may_fit(&record.facts) || !read.fits(&record), "{condition}: {name}");
    }
    assert_eq!(found, expect, "{condition}");
}

#[test]
fn conditions_find_what_they_say() {
    for (condition, expect) in [
        ("status >= 500", "c"),
        ("status == 200", "ab"),
        ("status != 200", "cd"),
        ("status == 2xx", "ab"),
        ("status != 2xx", "cd"),
        ("status > 2xx", "c"),
        ("status < 2xx", "d"),
        ("status in (200, 5xx)", "abc"),
        ("status not in (200, 5xx)", "d"),
        ("status in 0, 502", "cd"),
        ("not status == 200", "cd"),
        ("! status == 200 && site == blog", "cd"),
        ("first_byte > 200ms", "b"),
        ("first_byte_ms > 200", "b"),
        ("first_byte_ms > 0.2s", "b"),
        // What has none is neither below nor above.
        ("first_byte <= 1h", "abc"),
        ("first_byte != 5ms", "abd"),
        ("total >= 10ms and total < 900ms", "cd"),
        ("body >= 1MiB", "b"),
        ("body == 1kB or body_bytes == 0", "acd"),
        ("stored > 10m", "b"),
        ("ttl_left < 1m", "a"),
        ("site == shop", "ab"),
        ("site != shop", "cd"),
        ("site in (shop, blog) and outcome != hit", "bcd"),
        ("site == elsewhere", ""),
        ("outcome == hit or outcome == pass", "ad"),
        ("outcome in hit,pass", "ad"),
        ("completion == cut", "d"),
        ("collapsed", "d"),
        ("not collapsed", "abc"),
        ("collapsed == false and tls_resumed", "c"),
        ("not_stored == no-store", "d"),
        ("not_stored == ''", "abc"),
        ("url ~ ^/api", "ac"),
        ("url ~ \"^/api\" and status >= 500 and site == blog", "c"),
        ("target !~ \"^/api\"", "bd"),
        ("url ~ ^/(api|big)", "abc"),
        ("(url ~ ^/(api|big)) and not (site == blog or outcome == hit)", "b"),
        ("url ~ (?i)^/API/I", "a"),
        ("url ~ 'x=\\d$'", "a"),
        ("url == \"/ö\u{1b}\"", "d"),
        ("user_agent == \"curl/8 (x)\"", "b"),
        ("user_agent ~ curl", "b"),
        ("method == POST", "d"),
        // And binds closer than or.
        ("method == POST or site == shop and status == 502", "d"),
        ("(method == POST or site == shop) and status == 200", "ab"),
        ("not not status==200", "ab"),
    ] {
        check(condition, expect);
    }
}

#[test]
fn numbers_turn_away_before_there_are_texts() {
    let number = |name: &str| (name == "shop").then(|| SiteId::new(0));
    let facts = Facts { status: 200, site: SiteId::new(1), ..Facts::default() };
    for (condition, expect) in [
        ("status >= 500 and url ~ x", false),
        ("status < 500 and url ~ x", true),
        ("status >= 500 or url ~ x", true),
        ("not (status < 500 or url ~ x)", false),
        ("site == shop", false),
        ("site != shop", true),
        ("site == later", true),
        ("not (site != shop)", false),
        ("site ~ shop", true),
    ] {
        let condition = Condition::read(condition, LogOf::Clients).unwrap().of_sites(&number);
        assert_eq!(condition.may_fit(&facts), expect, "{condition:?}");
    }
}

#[test]
fn sites_are_known_by_their_hosts() {
    let named = |host: &str| matches!(host, "www" | "shop").then(|| "shop".to_owned());
    let mut condition = Condition::read("status == 1 or not site in (www, '')", LogOf::Clients).unwrap();
    condition.name_sites(&named).unwrap();
    let fits: Vec<bool> = records().iter().map(|(_, record)| condition.fits(record)).collect();
    assert_eq!(fits, [false, false, true, true]);
    let mut condition = Condition::read("site == www or site != elsewhere", LogOf::Clients).unwrap();
    assert_eq!(condition.name_sites(&named), Err("elsewhere".to_owned()));
}

/// The second attempt of a request to an origin.
fn asked() -> Asked {
    Asked {
        begun: std::time::SystemTime::UNIX_EPOCH,
        purpose: Purpose::Fill,
        id: AskedId(0xabc),
        attempt: 2,
        retry: "connect-refused",
        request_id: "r".to_owned(),
        site: Arc::from("shop"),
        upstream: "up".to_owned(),
        origin: Arc::from("one"),
        pick: String::new(),
        address: "127.0.0.1:1".to_owned(),
        connection: "new",
        connect: Some(Duration::from_millis(3)),
        method: "GET".to_owned(),
        host: "shop.test".to_owned(),
        target: "/a".to_owned(),
        origin_host: String::new(),
        range: String::new(),
        status: None,
        content_type: String::new(),
        object: Some(AskedObject { key: "http://shop.test/a\nx: 1".to_owned(), volume: None }),
        sent_bytes: 10,
        received_bytes: 0,
        first_byte: None,
        total: Duration::from_secs(2),
        end: AskedEnd::Failed("connect-refused"),
    }
}

#[test]
fn requests_to_origins_are_asked_in_the_same_way() {
    let asked = asked();
    for (condition, expect) in [
        ("attempt > 1 and origin == one", true),
        ("asked == 0000000000000abc", true),
        ("purpose == pass", false),
        ("connect < 5ms and total > 1s", true),
        ("completion == failed and error == connect-refused", true),
        ("status == 200", false),
        ("key == http://shop.test/a and key_fields ~ x", true),
        ("sent > 1KiB", false),
    ] {
        let read = Condition::read(condition, LogOf::Origins).unwrap();
        assert_eq!(read.fits_asked(&asked), expect, "{condition}");
    }
}

/// A record with a value for each name but those of what is not stored.
fn full() -> Record {
    let facts = Facts {
        status: 200,
        outcome: Outcome::Miss,
        detail: "uri-miss",
        storing: Storing::Stored { ttl_s: 60, source: "max-age" },
        sharing: Sharing::Joined,
        ttl_left_s: Some(-5),
        body_bytes: 2048,
        first_byte: Some(Duration::from_micros(1500)),
        total: Duration::from_secs(90),
        session: "kept",
        ..Facts::default()
    };
    let name = |text: &str| Some(Arc::from(text));
    let tls = Tls {
        version: "TLSv1.3",
        group: "x25519",
        is_resumed: true,
        name: "sni.test".to_owned(),
        client: "cn".to_owned(),
    };
    let description = Description {
        client: "2001:db8::7".to_owned(),
        method: Some(Method::GET),
        scheme: "https",
        host: "a.test".to_owned(),
        target: "/x?y=1".to_owned(),
        version: "HTTP/2",
        site: Arc::from("shop"),
        route: Arc::from("/x"),
        upstream: name("up"),
        origin: name("http://one"),
        pick: "hash/bound".to_owned(),
        request_id: "r1".to_owned(),
        referer: Some("http://b.test/".to_owned()),
        user_agent: Some("curl/8".to_owned()),
        tls: Some(tls),
        asked: vec![AskedId(1), AskedId(0xabc)],
        ..Description::default()
    };
    Record { facts, description }
}

/// Each condition fits, with `not` it does not; together they use each name of the log once at least.
#[track_caller]
fn check_names(log: LogOf, conditions: &[&str], fits: &dyn Fn(&Condition) -> bool) {
    let mut left: Vec<&str> = log.names().collect();
    for text in conditions {
        let read =
            |text: &str| Condition::read(text, log).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        assert!(fits(&read(text)) && !fits(&read(&format!("not ({text})"))), "{text}");
        let word = text.split(' ').next().unwrap();
        let row = names::rows(log).iter().find(|row| row.name == word || row.other == word).unwrap();
        left.retain(|name| *name != row.name);
    }
    assert!(left.is_empty(), "no condition uses {left:?}");
}

#[test]
fn each_name_of_a_client_has_its_value() {
    let (record, declined) = (full(), records().remove(3).1);
    let conditions = [
        "client == 2001:db8::7",
        "method in (GET, HEAD)",
        "scheme == https",
        "host ~ ^a[.]test$",
        "target == /x?y=1",
        "url ~ y=1",
        "version == HTTP/2",
        "tls_version == TLSv1.3",
        "tls_group == x25519",
        "tls_resumed == yes",
        "tls_name ~ sni",
        "tls_client == cn",
        "site == shop",
        "route == /x",
        "upstream != down",
        "origin == http://one",
        "pick == hash/bound",
        "request_id !~ q",
        "asked ~ 0000000000000abc",
        "referer == http://b.test/",
        "user_agent ~ (?i)^CURL",
        "status == 2xx",
        "outcome == miss",
        "detail == uri-miss",
        "stored_s == 60",
        "stored == 1m",
        "ttl_source == max-age",
        "not_stored == ''",
        "collapsed == true",
        "ttl_left_s == -5",
        "ttl_left < 0",
        "body_bytes == 2048",
        "body == 2KiB",
        "first_byte_ms == 1.5",
        "first_byte == 1500us",
        "total_ms == 90000",
        "total == 1.5m",
        "completion == whole",
        "session == kept",
    ];
    check_names(LogOf::Clients, &conditions, &|condition| condition.fits(&record));
    let not_stored = Condition::read("not_stored == no-store", LogOf::Clients).unwrap();
    assert!(not_stored.fits(&declined) && !not_stored.fits(&record));
}

#[test]
fn each_name_of_an_attempt_has_its_value() {
    let asked = Asked {
        pick: "hash/bound".to_owned(),
        origin_host: "o.test".to_owned(),
        range: "bytes=0-9".to_owned(),
        status: Some(206),
        content_type: "text/plain".to_owned(),
        object: Some(AskedObject {
            key: "http://shop.test/a\nx: 1".to_owned(),
            volume: Some(Arc::from("ssd")),
        }),
        received_bytes: 3_000_000,
        first_byte: Some(Duration::from_millis(7)),
        ..asked()
    };
    let conditions = [
        "purpose == fill",
        "asked == 0000000000000abc",
        "attempt >= 2",
        "retry == connect-refused",
        "request_id == r",
        "site == shop",
        "method == GET",
        "host == shop.test",
        "target == /a",
        "upstream == up",
        "origin == one",
        "pick ~ bound",
        "address == 127.0.0.1:1",
        "origin_host == o.test",
        "range == bytes=0-9",
        "status == 206",
        "content_type ~ ^text/",
        "key == http://shop.test/a",
        "key_fields == 'x: 1'",
        "volume == ssd",
        "sent_bytes == 10",
        "sent < 1kB",
        "received_bytes == 3000000",
        "received == 3MB",
        "connection == new",
        "connect_ms == 3",
        "connect < 1s",
        "first_byte_ms == 7",
        "first_byte <= 7ms",
        "total_ms == 2000",
        "total == 2s",
        "completion == failed",
        "error == connect-refused",
    ];
    check_names(LogOf::Origins, &conditions, &|condition| condition.fits_asked(&asked));
}

#[test]
fn each_unit_and_each_operator_counts() {
    let day = Record { facts: Facts { total: Duration::from_secs(86_400), ..full().facts }, ..full() };
    let times = ["86400000000us", "86400000000µs", "86400000ms", "86400s", "1440m", "24h", "1d"];
    let large = Record { facts: Facts { body_bytes: 1 << 40, ..full().facts }, ..full() };
    let sizes = ["1099511627776B", "1073741824KiB", "1048576MiB", "1024GiB", "1TiB"];
    let round = Record { facts: Facts { body_bytes: 1_000_000_000_000, ..full().facts }, ..full() };
    let round_sizes = ["1000000000kB", "1000000MB", "1000GB", "1TB"];
    let of = |name, record, values: &[&'static str]| -> Vec<(&str, Record, &str)> {
        values.iter().map(|value| (name, Record::clone(record), *value)).collect()
    };
    let all = [of("total", &day, &times), of("body", &large, &sizes), of("body", &round, &round_sizes)];
    for (name, record, value) in all.concat() {
        for (op, expect) in [
            ("==", true),
            ("!=", false),
            ("<", false),
            ("<=", true),
            (">", false),
            (">=", true),
            ("in", true),
        ] {
            let text = format!("{name} {op} {value}");
            let condition = Condition::read(&text, LogOf::Clients).unwrap();
            assert_eq!(condition.fits(&record), expect, "{text}");
            assert_eq!(condition.may_fit(&record.facts), expect, "{text}");
        }
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (condition, at, message) in [
        ("", 0, "a condition is missing here"),
        ("status", 6, "status is not compared with anything"),
        ("status = 1", 7, "one = compares nothing"),
        ("statsu == 1", 0, "statsu is no name of this log"),
        ("status == 1 site == a", 12, "and or or is missing before this"),
        ("status == ", 10, "a value is missing here"),
        ("status == and", 10, "a value is missing here"),
        ("status == abc", 10, "abc is no value of status"),
        ("first_byte > 200", 13, "200 is no value of first_byte_ms"),
        ("first_byte > 200kB", 13, "200kB is no value of first_byte_ms"),
        ("body > 5ms", 7, "5ms is no value of body_bytes"),
        ("url < 5", 4, "url cannot be compared with <"),
        ("status ~ 5", 7, "status cannot be compared with ~"),
        ("collapsed > 1", 10, "collapsed cannot be compared with >"),
        ("collapsed == 7", 13, "write true or false"),
        ("outcome == hitt", 11, "outcome is never hitt"),
        ("outcome in (hit, mis)", 17, "outcome is never mis"),
        ("purpose == fill", 0, "purpose is no name of this log"),
        ("(status == 1", 0, "the bracket that opens here is not closed"),
        ("status == 1)", 11, "this bracket closes nothing"),
        ("status in (1, 2", 10, "the bracket that opens here is not closed"),
        ("url == \"a", 7, "the text that begins here has no end"),
        ("url ~ '(a'", 6, "no pattern: unclosed group"),
        ("\"a\" == 1", 0, "a name belongs here"),
        ("status & 1", 7, "one & joins nothing"),
        ("status not 1", 7, "not stands before a test, or before in"),
    ] {
        let error = Condition::read(condition, LogOf::Clients).unwrap_err();
        assert_eq!((error.at, error.message.as_str()), (at, message), "{condition}");
    }
    let unknown = |text| Condition::read(text, LogOf::Clients).unwrap_err().unknown.unwrap();
    assert!(unknown("statsu == 1").known.contains(&"status"));
    assert!(unknown("outcome == hitt").known.contains(&"hit"));
}

#[test]
fn conditions_are_bounded() {
    let deep = "(".repeat(40) + "status == 1" + &")".repeat(40);
    let long = ["status == 1"; 1000].join(" or ");
    let many = ["url ~ a"; 9].join(" or ");
    for text in [deep, long, many, "url ~ '(a{100}){100}'".to_owned(), "not ".repeat(900) + "collapsed"] {
        assert!(Condition::read(&text, LogOf::Clients).is_err(), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_does_harm(text in "[a-z_=!<>~()\",' |&0-9µ%ö]{0,60}") {
        for log in [LogOf::Clients, LogOf::Origins] {
            if let Err(error) = Condition::read(&text, log) {
                assert!(text.is_char_boundary(error.at), "{text}");
            }
        }
    }
}
