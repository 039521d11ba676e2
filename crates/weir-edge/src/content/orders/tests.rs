//! Types and times in words.

use super::*;

#[test]
fn a_media_type_is_one_or_is_refused() {
    for (written, expect) in [
        ("text/html", Some("text/html")),
        (" text/html; charset=utf-8 ", Some("text/html; charset=utf-8")),
        ("application/vnd.a+json;v=\"1 2\"", Some("application/vnd.a+json;v=\"1 2\"")),
        ("html", None),
        ("", None),
        ("/", None),
        ("text/", None),
        ("te xt/html", None),
        ("text/html\r\nX: y", None),
        ("text/html; \u{e9}", None),
        ("text/html\0", None),
    ] {
        assert_eq!(checked_type(written).ok().as_deref(), expect, "{written:?}");
    }
}

#[test]
fn the_type_is_told_by_the_path_without_the_query() {
    for (url, expect) in [
        ("a.test/x.css?y=z.png", "text/css; charset=utf-8"),
        ("a.test/", "application/octet-stream"),
        ("a.test/a.b/c", "application/octet-stream"),
        ("a.html/x.js", "text/javascript; charset=utf-8"),
    ] {
        assert_eq!(by_name(url), expect, "{url}");
    }
}

#[test]
fn a_time_has_bounds() {
    let now = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    assert!(end(now, Duration::ZERO).is_err() && end(now, Duration::MAX).is_err());
    assert!(end(now, TTL_MAX + Duration::from_secs(1)).is_err());
    assert_eq!(end(now, Duration::from_secs(60)).unwrap(), now + Duration::from_secs(60));
}
