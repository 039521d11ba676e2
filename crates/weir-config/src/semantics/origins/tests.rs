//! `origins`: what is refused, with the exact sentence.

use crate::sample::{expect, good, load};

/// An upstream with these origins, in line 2, and one more line.
fn file(origins: &str, more: &str) -> String {
    format!("[upstream.app]\norigins = [{origins}]\n{more}\n[[site]]\nhosts = [\"*\"]\nupstream = \"app\"\n")
}

#[test]
fn an_origin_stands_once() {
    for (origins, twice) in [
        ("\"http://a:8080\", \"http://a:8080\"", "http://a:8080"),
        ("\"http://a\", \"http://a:80\"", "http://a"),
        ("\"https://a:443\", \"https://A./\"", "https://a"),
        ("\"http://a\", \"http://b\", { url = \"http://a\", weight = 3 }", "http://a"),
        ("\"http://a\", { url = \"http://a\", backup = true }", "http://a"),
        ("\"http://[::1]:81\", \"http://[0:0::1]:81\"", "http://[0:0::1]:81"),
        ("\"unix:/run/a.sock\", \"unix:/run/a.sock\"", "unix:/run/a.sock"),
    ] {
        let sentence = format!("the origin `{twice}` appears twice");
        expect(&file(origins, ""), &[(2, &sentence)]);
    }
    good(&file("\"http://a:80\", \"http://a:81\", \"https://a\", \"http://b\", \"unix:/a\"", ""));
    let shown = load(&file("\"http://a\", \"http://a\"", "")).unwrap_err().to_string();
    assert!(shown.contains("leave one out; for a larger share it has a `weight`"), "{shown}");
}

#[test]
fn a_service_is_asked_for() {
    let each = "resolve = \"each\"";
    good(&file("\"http://_http._tcp.app.test\", \"http://app_1.test:81\"", each));
    good(&file("\"http://_app.test:81\"", ""));
    let none = "`_http._tcp.app.test` is the name of a service, which has no address of its own";
    expect(&file("\"http://_http._tcp.app.test\"", ""), &[(2, none)]);
    expect(&file("\"http://_http._tcp.app.test\"", "resolve = \"one\""), &[(2, none)]);
    let port = "a service name has no port here: its SRV records say the ports";
    for url in ["http://_http._tcp.app.test:9999", "http://_http._tcp.app.test:80"] {
        expect(&file(&format!("\"{url}\""), each), &[(2, port)]);
        let shown = load(&file(&format!("{{ url = \"{url}\" }}"), each)).unwrap_err().to_string();
        assert!(shown.contains("write `http://_http._tcp.app.test`"), "{shown}");
    }
}

#[test]
fn statuses_that_are_failures_are_counted() {
    let none = "`status` has no use: `failures = 0` counts none";
    let upstream = |eject: &str| file("\"http://a\", \"http://b\"", &format!("eject = {{ {eject} }}"));
    expect(&upstream("status = \"500-599\", failures = 0"), &[(3, none)]);
    good(&upstream("status = \"500-599\", failures = 3"));
    good(&upstream("status = \"500-599\""));
    good(&upstream("failures = 0"));
}
