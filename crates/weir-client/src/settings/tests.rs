//! Addresses as they are written.

use super::OriginAddress;

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
