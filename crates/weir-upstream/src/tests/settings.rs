//! Addresses as they are written, and settings that contradict themselves.

use super::scripted::settings;
use crate::{Blame, OriginAddress, Role, Upstream};

fn check(text: &str, expect: Option<&str>) {
    let parsed: Result<OriginAddress, _> = text.parse();
    assert_eq!(parsed.ok().map(|address| address.to_string()).as_deref(), expect, "{text}");
}

#[test]
fn addresses() {
    check("http://a.example", Some("http://a.example:80"));
    check("HTTPS://A.example/", Some("https://a.example:443"));
    check("http://127.0.0.1:8080", Some("http://127.0.0.1:8080"));
    check("http://[::1]:8080", Some("http://[::1]:8080"));
    check("https://[::1]", Some("https://[::1]:443"));
    check("unix:/run/app.sock", Some("unix:/run/app.sock"));
    for bad in [
        "",
        "a.example",
        "ftp://a.example",
        "http://",
        "http://:80",
        "http://a.example:0",
        "http://a.example:99999",
        "http://a.example:+80",
        "http://a.example:",
        "http://a.example/path",
        "http://u@a.example",
        "http://::1",
        "http://[::1",
        "http://[::1]x",
        "http://a b",
        "http://a.example?x",
        "unix:run/app.sock",
        "http://a:1:2",
    ] {
        check(bad, None);
    }
}

#[test]
fn authorities() {
    let authority = |text: &str| text.parse::<OriginAddress>().unwrap().authority();
    assert_eq!(authority("http://a.example").as_deref(), Some("a.example"));
    assert_eq!(authority("http://a.example:443").as_deref(), Some("a.example:443"));
    assert_eq!(authority("https://a.example:443").as_deref(), Some("a.example"));
    assert_eq!(authority("https://[::1]:8443").as_deref(), Some("[::1]:8443"));
    assert_eq!(authority("unix:/run/a"), None);
    let named = |text: &str| text.parse::<OriginAddress>().unwrap().is_named();
    assert!(
        named("http://localhost:1")
            && !named("http://127.0.0.1")
            && !named("http://[::1]")
            && !named("unix:/a")
    );
}

#[test]
fn settings_that_cannot_be() {
    let mut backups = settings(&["http://a.example"]);
    backups.origins[0].role = Role::Backup;
    let error = Upstream::new(backups).unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.blame()),
        ("upstream test has no primary origin", Blame::Config)
    );
    let mut weightless = settings(&["http://a.example"]);
    weightless.origins[0].weight = 0;
    assert!(Upstream::new(weightless).is_err());
    let mut closed = settings(&["http://a.example"]);
    closed.bounds.connections_max = 0;
    assert!(Upstream::new(closed).is_err());
    let mut missing = settings(&["https://a.example"]);
    missing.tls.verify = crate::Verify::CaFile("/nonexistent/ca.pem".into());
    assert!(Upstream::new(missing).unwrap_err().to_string().starts_with("cannot read /nonexistent/ca.pem"));
}

#[test]
fn an_upstream_is_send_and_sync_and_so_are_its_futures() {
    fn check<T: Send + Sync>() {}
    fn sendable<T: Send>(_: T) {}
    check::<Upstream>();
    check::<crate::OriginBody>();
    check::<crate::OriginError>();
    let upstream = Upstream::new(settings(&["http://a.example"])).unwrap();
    sendable(upstream.send(super::scripted::get("/"), None));
    sendable(upstream.probe(None));
}

#[test]
fn addresses_have_the_limits_of_the_file() {
    let (host, path) = (|n: usize| format!("http://{}:80", "a".repeat(n)), |n: usize| "a".repeat(n));
    let unix = |n: usize| format!("unix:/{}", path(n));
    for (text, expect) in [
        (host(253), None),
        (host(254), Some("at most 253")),
        (host(200_000), Some("at most 253")),
        (unix(102), None),
        (unix(103), Some("at most 103")),
        ("unix:/run/a\nb".to_owned(), Some("control")),
        ("unix:/run/a\u{7f}".to_owned(), Some("control")),
        ("http://a\u{1b}[2J".to_owned(), Some("no host has")),
    ] {
        let why = text.parse::<OriginAddress>().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(why.contains(expect.unwrap_or_default()), "{why}");
        assert_eq!(why.is_empty(), expect.is_none(), "{why}");
        assert!(why.len() < 300, "only its beginning is shown");
    }
}
