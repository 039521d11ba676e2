//! What is seen from outside: logs, metrics, health.

use std::path::Path;

use weir_testkit::{Origin, Resource, Weir, until};

use crate::server::{before, server};

fn origin() -> Origin {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello"));
    origin.put("/pass", Resource::new("hello!").header("Cache-Control", "private"));
    origin
}

fn logged(origin: &Origin, format: &str) -> Weir {
    let log = format!("[log]\naccess = \"{format}\"\npath = \"{{folder}}/access.log\"");
    server(&[origin]).more(&log).start()
}

/// The lines of a file, once there are `n`.
fn lines(path: &Path, n: usize) -> Vec<String> {
    let read = || std::fs::read_to_string(path).unwrap_or_default();
    until(&format!("{n} lines in {path:?}"), || read().lines().count() >= n);
    read().lines().map(ToOwned::to_owned).collect()
}

/// The text between `"name":` and the next comma or brace, quotes removed.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let (_, rest) = line.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name} in {line}"));
    rest.split([',', '}']).next().unwrap_or_default().trim_matches('"')
}

/// A form of one's own: a line for each request, whatever clients write.
#[test]
fn the_log_may_have_a_form_of_its_own() {
    let origin = origin();
    let format = "{client.address} \"{method} {uri}\" {status} {outcome} {body_bytes} {age} {header.X-Said} \
                  {header.X-Said | json} {{}}";
    let log = format!("[log]\nformat = '{format}'\npath = \"{{folder}}/access.log\"");
    let weir = server(&[&origin]).more(&log).start();
    weir.get("/x?%0a");
    weir.get_with("/x?%0a", &[("X-Said", "a\tb \"c\" \u{e9}")]);
    weir.get_with("/x?%0a", &[("X-Said", "x")]);
    let mut client = weir.client();
    client.send("nonsense\r\n\r\n");
    assert_eq!(client.recv().unwrap().status(), 400);
    let lines = lines(&weir.folder().join("access.log"), 4);
    for expected in [
        r#"127.0.0.1 "GET /x?%0a" 200 miss 5 - - null {}"#,
        r#"127.0.0.1 "GET /x?%0a" 200 hit 5 0 a\x09b \x22c\x22 \xC3\xA9 "a\u0009b \"c\" \u00e9" {}"#,
        r#"127.0.0.1 "GET /x?%0a" 200 hit 5 0 x "x" {}"#,
        r#"127.0.0.1 "- -" 400 refused "#,
    ] {
        assert!(lines.iter().any(|line| line.starts_with(expected)), "{expected}\n{lines:#?}");
    }
    assert_eq!(lines.len(), 4);
}

#[test]
fn the_json_log_says_what_was_done_and_why() {
    let origin = origin();
    let weir = logged(&origin, "json");
    weir.get("/x");
    weir.get_with("/x", &[("User-Agent", "say \"hi\"")]);
    weir.get("/pass");
    let mut client = weir.client();
    client.send("nonsense\r\n\r\n");
    assert_eq!(client.recv().unwrap().status(), 400);
    let lines = lines(&weir.folder().join("access.log"), 4);
    // Each worker writes its own lines. Their order is that of time only within a connection.
    let line = |outcome: &str| {
        lines
            .iter()
            .find(|line| field(line, "outcome") == outcome)
            .unwrap_or_else(|| panic!("no {outcome}: {lines:?}"))
    };
    for (outcome, status, bytes) in [("miss", "200", "5"), ("hit", "200", "5"), ("pass", "200", "6")] {
        assert_eq!(
            [field(line(outcome), "status"), field(line(outcome), "body_bytes")],
            [status, bytes],
            "{outcome}"
        );
    }
    assert_eq!(field(line("refused"), "status"), "400");
    assert_eq!((field(line("miss"), "method"), field(line("miss"), "target")), ("GET", "/x"));
    assert_eq!(field(line("pass"), "not_stored"), "private");
    assert!(line("hit").contains(r#"say \"hi\""#), "{}", line("hit"));
}

#[test]
fn the_combined_log_has_its_fields() {
    let origin = origin();
    let weir = logged(&origin, "combined");
    weir.get_with("/x", &[("Referer", "http://a/"), ("User-Agent", "me")]);
    let line = lines(&weir.folder().join("access.log"), 1).remove(0);
    assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
    assert!(line.contains("] \"GET /x HTTP/1.1\" 200 5 \"http://a/\" \"me\""), "{line}");
}

#[test]
fn the_log_has_the_status_on_the_wire_and_names_cuts() {
    let origin = Origin::start();
    origin.put("/cut", Resource::new(vec![b'x'; 5000]).fault(weir_testkit::Fault::Truncate(1000)));
    let weir = logged(&origin, "json");
    let mut client = weir.client();
    client.send_get("x", "/cut", &[]);
    assert!(client.recv().is_err());
    let line = lines(&weir.folder().join("access.log"), 1).remove(0);
    assert_eq!((field(&line, "status"), field(&line, "completion")), ("200", "cut"), "{line}");
}

#[test]
fn the_answer_and_the_log_name_the_field_that_has_two_values() {
    let origin = origin();
    let weir = logged(&origin, "json");
    let mut client = weir.client();
    client.send("GET /x HTTP/1.1\r\nHost: x\r\nReferer: http://a/\r\nReferer: http://b/\r\n\r\n");
    let answer = client.recv().unwrap();
    assert_eq!(answer.text(), "400 Bad Request: referer has two values that differ\n");
    let line = lines(&weir.folder().join("access.log"), 1).remove(0);
    assert_eq!((field(&line, "status"), field(&line, "detail")), ("400", "field-twice:referer"), "{line}");
    assert_eq!(origin.total(), 0);
}

#[test]
fn the_log_counts_the_bytes_written_before_a_cut() {
    const LENGTH: usize = 32 << 20;
    let origin = Origin::start();
    origin.put("/past", Resource::new(vec![b'x'; LENGTH]).header("Cache-Control", "no-store"));
    origin.put("/held", Resource::fresh(vec![b'x'; LENGTH]));
    let more = "[limits]\nsend_stall = \"1s\"\n[cache]\nmemory = \"256MiB\"\n\
                [log]\naccess = \"json\"\npath = \"{folder}/access.log\"";
    let weir = server(&[&origin]).more(more).start();
    assert_eq!(weir.get("/held").body.len(), LENGTH);
    for (path, count) in [("/held", 2), ("/past", 3)] {
        let mut client = weir.client();
        client.send_get("localhost", path, &[]);
        assert_eq!(client.recv_head_only().map(|head| head.status), Ok(200));
        // The client reads nothing more until Weir has given up.
        let lines = lines(&weir.folder().join("access.log"), count);
        let cut = lines.iter().find(|line| field(line, "target") == path && !line.contains("whole")).unwrap();
        assert_eq!((field(cut, "completion"), field(cut, "detail")), ("cut", "send-stall"), "{cut}");
        let received = client.read_to_end().len();
        assert!(received > 0 && received < LENGTH, "{received}");
        assert_eq!(field(cut, "body_bytes"), received.to_string(), "{cut}");
    }
    // One row of the counters' table gives the metric, the status for programs and the one for people.
    assert_eq!(weir.metric("weir_site_send_stall_cuts_total{site=\"*\"}"), Some(2.0));
    let status: serde_json::Value =
        serde_json::from_str(&weir.command(&["status", "--json"]).stdout).unwrap();
    assert_eq!(status["counters"]["weir_site_send_stall_cuts"], 2, "{status}");
    let shown = weir.command(&["status"]).stdout;
    assert!(shown.contains("of note      2 cut for send_stall\n"), "{shown}");
}

#[test]
fn a_request_that_ends_with_its_client_says_so() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.peer_left_within(std::time::Duration::from_secs(120));
    });
    let more = "[limits]\nhalf_close = \"0s\"\n[log]\naccess = \"json\"\npath = \"{folder}/access.log\"";
    let weir = server(&[&origin]).more(more).start();
    for (number, (method, outcome, ends, detail)) in [
        ("GET", "miss", true, "half-close"),
        ("POST", "pass", true, "half-close"),
        ("GET", "miss", false, "client-gone"),
        ("POST", "pass", false, "client-gone"),
    ]
    .into_iter()
    .enumerate()
    {
        let target = format!("/{number}");
        let mut client = weir.client();
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"));
        origin.await_count(&target, 1);
        if ends {
            client.finish();
        } else {
            client.reset();
        }
        let lines = lines(&weir.folder().join("access.log"), number + 1);
        let line = lines.iter().find(|line| field(line, "target") == target).unwrap();
        let found = ["status", "outcome", "detail", "completion"].map(|name| field(line, name));
        assert_eq!(found, ["0", outcome, detail, "client-gone"], "{line}");
    }
}

#[test]
fn usr1_opens_the_log_again() {
    let origin = origin();
    let mut weir = logged(&origin, "json");
    let (path, moved) = (weir.folder().join("access.log"), weir.folder().join("access.log.1"));
    weir.get("/x");
    assert_eq!(lines(&path, 1).len(), 1);
    std::fs::rename(&path, &moved).unwrap();
    weir.signal("USR1");
    until("the log is opened again", || path.exists());
    weir.get("/x");
    assert_eq!((lines(&path, 1).len(), lines(&moved, 1).len()), (1, 1));
    assert!(weir.runs());
}

#[test]
fn a_log_line_cannot_be_forged() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.reply(200, &[], "x");
    });
    for format in ["json", "combined"] {
        let weir = logged(&origin, format);
        weir.get_with("/a%0ab\"\\", &[("User-Agent", "a\\\"\tb\u{e9}\u{9b}2J")]);
        weir.get("/second");
        let lines = lines(&weir.folder().join("access.log"), 2);
        assert_eq!(lines.len(), 2);
        assert!(!lines.concat().contains(char::is_control), "{lines:?}");
    }
}

#[test]
fn the_log_names_the_client_that_a_trusted_proxy_names() {
    let origin = origin();
    for format in ["json", "combined"] {
        let weir = logged(&origin, format);
        let mut client = weir.client();
        for forwarded in ["192.0.2.7", "unknown, 192.0.2.8, 127.0.0.9", "nobody"] {
            client.get("localhost", "/x", &[("X-Forwarded-For", forwarded)]);
        }
        let lines = lines(&weir.folder().join("access.log"), 3);
        for (line, expect) in lines.iter().zip(["192.0.2.7", "192.0.2.8", "127.0.0.1"]) {
            let named =
                if format == "json" { field(line, "client") } else { line.split(' ').next().unwrap() };
            assert_eq!(named, expect, "{line}");
        }
    }
}

#[test]
fn metrics_count_what_happened() {
    let origin = origin();
    let weir = before(&origin);
    for _ in 0..3 {
        weir.get("/x");
    }
    weir.get("/pass");
    let count = |series: &str| weir.metric(series).unwrap_or(-1.0);
    until("the requests are counted", || count("weir_requests_total{outcome=\"hit\"}") == 2.0);
    assert_eq!(
        count("weir_requests_total{outcome=\"miss\"}")
            + count("weir_requests_total{outcome=\"pass\"}").max(0.0),
        2.0
    );
    assert_eq!(count("weir_forwarded_requests_total"), 2.0);
    assert_eq!(count("weir_cache_objects"), 1.0);
    assert!(count("weir_cache_memory_bytes") > 0.0);
    let text = weir.admin_get("/metrics").text();
    assert!(text.ends_with("# EOF\n") || text.contains("# TYPE"), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.rsplit(' ').next().is_some_and(|number| number.parse::<f64>().is_ok()), "{line}");
    }
}

#[test]
fn health_is_on_the_admin_listener() {
    let origin = origin();
    let weir = before(&origin);
    assert_eq!(weir.admin_get("/health/live").status(), 200);
    assert_eq!(weir.admin_get("/health/ready").status(), 200);
    assert_eq!(weir.admin_get("/nothing").status(), 404);
    assert_eq!(origin.total(), 0);
}

#[test]
fn the_admin_listener_refuses_nonsense_and_lives_on() {
    let origin = origin();
    let weir = before(&origin);
    for bytes in ["nonsense\r\n\r\n", "POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n"] {
        let mut client = weir_testkit::Client::connect(weir.admin());
        client.send(bytes);
        if let Ok(answer) = client.recv() {
            assert!((400..500).contains(&answer.status()), "{bytes:?}: {:?}", answer.head);
        }
    }
    assert_eq!(weir.admin_get("/metrics").status(), 200);
}

#[test]
fn one_id_names_a_request_everywhere() {
    let origin = Origin::start();
    origin.echo("/x", &[("Cache-Control", "no-store")]);
    let weir = logged(&origin, "json");
    weir.get("/x");
    weir.get_with("/x", &[("X-Request-Id", "from-the-balancer")]);
    let lines = lines(&weir.folder().join("access.log"), 2);
    let asked = origin.requests("/x");
    for request in asked {
        let id = request.header("x-request-id").unwrap();
        assert!(lines.iter().any(|line| field(line, "request_id") == id), "{id} is not in {lines:?}");
    }
    assert!(lines.iter().any(|line| field(line, "request_id") == "from-the-balancer"), "{lines:?}");
}
