//! What a change makes invalid.

use super::{invalidation, same_origin_target};
use crate::RequestView;
use crate::tests::given::{fields, request};
use http::{HeaderValue, Method, StatusCode};
use proptest::prelude::*;

fn targets(method: &str, status: u16, response: &str) -> Vec<String> {
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    let headers = fields("");
    let status = StatusCode::from_u16(status).expect("a status");
    invalidation(&request(&method, "/a/b?c", &headers), status, &fields(response)).into_vec()
}

#[test]
fn only_successful_changes() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "UNHEARD-OF"] {
        assert_eq!(targets(method, 204, ""), ["/a/b?c"], "{method}");
        assert_eq!(targets(method, 303, ""), ["/a/b?c"], "{method}");
        assert!(targets(method, 404, "").is_empty(), "{method}");
        assert!(targets(method, 500, "").is_empty(), "{method}");
    }
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND"] {
        assert!(targets(method, 200, "location: /x").is_empty(), "{method}");
    }
}

#[test]
fn follows_locations_on_the_same_origin() {
    let expect = ["/a/b?c", "/x", "/a/y"];
    assert_eq!(targets("POST", 200, "location: /x\ncontent-location: y"), expect);
    assert_eq!(targets("POST", 200, "location: http://other.com/x"), ["/a/b?c"]);
    assert_eq!(targets("POST", 200, "location: /a/b?c"), ["/a/b?c"]);
}

#[test]
fn resolves_references() {
    let headers = fields("");
    let view = request(&Method::POST, "/a/b?c", &headers);
    let secure = RequestView { scheme: "https", host: "example.com:8443", ..view };
    for (view, reference, expect) in [
        (&view, "/x?y#z", Some("/x?y")),
        (&view, "x", Some("/a/x")),
        (&view, "./x", Some("/a/x")),
        (&view, "../x", Some("/x")),
        (&view, "../../../x", Some("/x")),
        (&view, "..", Some("/")),
        (&view, ".", Some("/a/")),
        (&view, "?y", Some("/a/b?y")),
        (&view, "", Some("/a/b?c")),
        (&view, "#z", Some("/a/b?c")),
        (&view, "//example.com/x", Some("/x")),
        (&view, "//other.com/x", None),
        (&view, "http://example.com", Some("/")),
        (&view, "HTTP://EXAMPLE.COM:80/x", Some("/x")),
        (&view, "http://example.com./x", Some("/x")),
        (&view, "http://example.com:81/x", None),
        (&view, "https://example.com/x", None),
        (&view, "http://user@example.com/x", None),
        (&view, "mailto:a@b", None),
        (&view, "http://", None),
        (&view, "/x:y", Some("/x:y")),
        (&view, "x/y:z", Some("/a/x/y:z")),
        (&secure, "https://example.com:8443/x", Some("/x")),
        (&secure, "https://example.com/x", None),
    ] {
        let value = HeaderValue::from_str(reference).expect("a value");
        assert_eq!(same_origin_target(view, &value).as_deref(), expect, "{reference}");
    }
}

proptest! {
    #[test]
    fn never_panics(reference in "[a-z:/.?#@\\[\\]% ]{0,20}") {
        let headers = fields("");
        let value = HeaderValue::from_str(&reference).expect("a value");
        if let Some(target) = same_origin_target(&request(&Method::POST, "/a/b", &headers), &value) {
            prop_assert!(target.starts_with('/'), "{}", target);
        }
    }
}
