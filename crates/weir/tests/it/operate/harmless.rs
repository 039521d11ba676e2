//! What strangers write into URLs, fields, tags and patterns is shown to operators, on terminals and in
//! files, and does nothing there: no escape sequence, no turned direction of writing, no byte that is not
//! UTF-8.

use std::path::Path;

use weir_observe::steers;
use weir_testkit::{Client, Origin, Output, Resource, Weir, until};

use crate::server::server;

/// U+202E turns the direction, U+200B and U+FEFF are not seen, 0x9B begins a sequence in eight bits, 0xFF is
/// no UTF-8.
const BAD: &[u8] = b"x\xe2\x80\xae\xe2\x80\x8b\xef\xbb\xbf\xc2\x9b31m\x9b2J\xff\xe2\x81\xa6y";
const TEXT: &str = "x\u{200b}\u{feff}\u{1b}[2J\u{202e}\u{9b}31m\u{2066}\ty";

fn check(what: &str, text: &[u8]) {
    let text = std::str::from_utf8(text).unwrap_or_else(|why| panic!("{what} is not UTF-8: {why}"));
    let bad = text.chars().find(|c| steers(*c) && *c != '\n');
    assert!(bad.is_none(), "{bad:?} in {what}:\n{}", text.escape_debug());
}

fn check_output(what: &str, output: &Output) {
    check(what, output.stdout.as_bytes());
    check(what, output.stderr.as_bytes());
}

/// Sends a request whose fields have [`BAD`] for `{}`; the status of the answer.
fn send(weir: &Weir, head: &str) -> u16 {
    let mut parts = head.split("{}");
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    parts.for_each(|part| bytes.extend([BAD, part.as_bytes()].concat()));
    let mut client: Client = weir.client();
    client.send([&bytes[..], b"\r\n\r\n"].concat());
    client.recv().unwrap().status()
}

fn file(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_default()
}

#[test]
fn what_strangers_write_does_nothing_where_it_is_shown() {
    for format in ["json", "combined"] {
        let origin = Origin::start();
        let bad = String::from_utf8(BAD.iter().filter(|byte| byte.is_ascii()).copied().collect()).unwrap();
        let tagged = format!("t \u{202e}\u{2066}{bad} x\u{200b}\u{feff}\u{200f}y");
        for path in ["/x", "/%1b%5b2J", "/%e2%80%ae%ff"] {
            let fresh = Resource::fresh("hello").header("Surrogate-Key", &tagged);
            origin
                .put(path, fresh.header("Content-Type", "text/\u{202e}plain").header("X-More", "\u{2067}z"));
        }
        let more = format!(
            "[log]\naccess = \"{format}\"\npath = \"{{folder}}/access.log\"\nupstream = \
             \"{{folder}}/upstream.log\"\n[events]\nfile = \"{{folder}}/events.json\"\n"
        );
        let site =
            "key = { headers = [\"X-Country\"] }\npurge = { allow = [\"127.0.0.0/8\"], local = true }\n";
        let weir = server(&[&origin]).site(site).more(&more).start();

        let fields =
            "Host: localhost\r\nUser-Agent: {}\r\nReferer: {}\r\nX-Country: {}\r\nX-Forwarded-For: {}";
        for target in ["/x", "/%1b%5b2J", "/%e2%80%ae%ff", "/{}", "/x?{}"] {
            let status = send(&weir, &format!("GET {target} HTTP/1.1\r\n{fields}"));
            assert!(matches!(status, 200 | 400 | 404), "{target}: {status}");
        }
        for (head, status) in [
            ("PURGE / HTTP/1.1\r\nHost: localhost\r\nxkey: {}", 200),
            ("BAN / HTTP/1.1\r\nHost: localhost\r\nX-Cache-Tags: {}[", 200),
            ("BAN / HTTP/1.1\r\nHost: localhost\r\nX-Cache-Tags: a\r\nX-Host: {}", 200),
            ("BAN / HTTP/1.1\r\nHost: localhost\r\nX-Url: {}", 200),
            ("PURGE /%1b%5b2J%e2%80%ae HTTP/1.1\r\nHost: localhost", 200),
            ("PURGE /%1b(.* HTTP/1.1\r\nHost: localhost\r\nX-Purge-Method: regex", 200),
        ] {
            assert_eq!(send(&weir, head), status, "{head}");
        }
        // What has been purged is stored again.
        for target in ["/x", "/%1b%5b2J", "/%e2%80%ae%ff"] {
            send(&weir, &format!("GET {target} HTTP/1.1\r\n{fields}"));
        }
        let country = format!("X-Country: {TEXT}");
        for args in [
            &["purge", "--tag", TEXT][..],
            &["purge", "--tag", TEXT, "--site", TEXT],
            &["purge", &format!("http://localhost/{TEXT}")],
            &["purge", &format!("http://{TEXT}/")],
            &["purge", "--prefix", &format!("http://localhost/x{TEXT}")],
            &["purge", "--site", TEXT, "--json"],
            &["token", "add", TEXT, "--role", "view"],
            &["token", "remove", TEXT],
            &["explain", "http://localhost/%1b%5b2J"],
            &["explain", "http://localhost/x", "-H", &country],
            &["explain", "http://localhost/x", "-H", &country, "--json"],
            &["explain", &format!("http://localhost/{TEXT}")],
            &["list"],
            &["list", "--json"],
            &["list", "--columns", "url,key,site,type"],
            &["list", "--sort", "url"],
            &["list", "--match", TEXT],
            &["list", "--place", TEXT],
            &["list", "--tag", TEXT],
            &["list", "--site", TEXT],
            &["list", "--prefix", &format!("localhost/{TEXT}")],
            &["list", "--after", TEXT],
            &["history"],
            &["history", "--json"],
            &["history", "--actor", TEXT],
            &["history", "--site", TEXT],
            &["history", "--since", TEXT],
            &["sites", "--site", TEXT],
            &["sites"],
            &["status"],
        ] {
            check_output(&format!("{args:?}"), &weir.command(args));
        }
        // RFC 4180: lines of CSV end with both.
        let csv = weir.command(&["list", "--csv"]).stdout;
        assert!(csv.ends_with("\r\n"), "{csv:?}");
        check("list --csv", csv.replace("\r\n", "\n").as_bytes());
        let listed = weir.command(&["list"]).stdout;
        assert!(listed.contains("x-country:x\\u202e"), "{listed}");
        let explained = weir.command(&["explain", "http://localhost/x", "-H", "X-Country: x"]).stdout;
        assert!(explained.contains("http://localhost/x"), "{explained}");
        let shown = weir.command(&["history"]).stdout;
        assert!(shown.contains("x-cache-tags: ") && shown.contains("xe2"), "{shown}");
        for name in ["access.log", "upstream.log", "events.json", "state/audit-purges"] {
            let path = weir.folder().join(name);
            until(&format!("{name} has its lines"), || file(&path).split(|byte| *byte == b'\n').count() > 5);
            check(name, &file(&path));
        }
        check("the diagnostics", weir.stderr().as_bytes());
        check("the standard output", weir.stdout().as_bytes());
        for path in ["/v1/history?limit=1000", "/v1/objects"] {
            check(path, weir.admin_get_with(path, &weir.token("view", &[])).text().as_bytes());
        }
    }
}
