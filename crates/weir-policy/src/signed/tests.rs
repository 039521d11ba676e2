//! Which requests may be signed, and what a fill would change of them.

use super::{changes_fields, may_be_signed};
use crate::tests::given::{fields, request};
use http::Method;

#[test]
fn what_may_be_signed() {
    let query = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a%2Fb&X-Amz-Date=d&X-Amz-Expires=60";
    for (target, lines, expect) in [
        ("/a", "", false),
        ("/a?x=1&significant=2&design=3", "", false),
        ("/a", "authorization: AWS4-HMAC-SHA256 Credential=x", true),
        ("/a", "authorization: Basic YTpi", true),
        (&format!("/a?{query}&X-Amz-Signature=00"), "", true),
        (&format!("/a?{query}&x-amz-signature=00"), "", true),
        (&format!("/a?{query}&X-Amz-SignedHeaders=host&X-Amz-Signature=00"), "", false),
        (&format!("/a?{query}&X-Amz-SignedHeaders=host%3Bx-amz-date&X-Amz-Signature=00"), "", false),
        (&format!("/a?{query}&X-Amz-SignedHeaders=host%3Brange&X-Amz-Signature=00"), "", true),
        (&format!("/a?{query}&X-Amz-SignedHeaders=Accept-Encoding%3bhost&X-Amz-Signature=00"), "", true),
        (&format!("/a?{query}&X-Amz-SignedHeaders=host"), "", false),
        ("/a?X-Goog-Signature=00", "", true),
        ("/a?X-Goog-SignedHeaders=host&X-Goog-Signature=00", "", false),
        ("/a?AWSAccessKeyId=x&Expires=1&Signature=y", "", true),
        ("/a?sv=2022&sp=r&sig=y", "", true),
    ] {
        let headers = fields(lines);
        assert_eq!(may_be_signed(&request(&Method::GET, target, &headers)), expect, "{target} {lines}");
    }
}

#[test]
fn what_a_fill_changes() {
    const NAMED: &str = "authorization: AWS4-HMAC-SHA256 SignedHeaders=Accept-Encoding;host, Signature=0\n";
    for (target, lines, expect) in [
        ("/a", "", false),
        ("/a", "x-a: b\naccept: x", false),
        ("/a", "range: bytes=0-1", true),
        ("/a", "if-none-match: \"a\"", true),
        ("/a", "if-match: \"a\"", true),
        ("/a", "if-modified-since: x", true),
        ("/a", "if-unmodified-since: x", true),
        ("/a", "if-range: \"a\"", true),
        ("/a", "authorization: Basic YTpi\naccept-encoding: identity", false),
        ("/a?X-Amz-SignedHeaders=accept-encoding%3Bhost", "accept-encoding: identity", true),
        ("/a?X-Amz-SignedHeaders=host", "accept-encoding: identity", false),
        ("/a", NAMED, false),
        ("/a", &format!("{NAMED}accept-encoding: gzip"), false),
        ("/a", &format!("{NAMED}accept-encoding: gzip,br;q=0.1"), true),
        ("/a", &format!("{NAMED}accept-encoding: identity"), true),
        ("/a", &format!("{NAMED}accept-encoding: gzip, compress"), true),
        ("/a", &format!("{NAMED}accept-encoding: gzip\naccept-encoding: br"), true),
    ] {
        let headers = fields(lines);
        assert_eq!(changes_fields(&request(&Method::GET, target, &headers)), expect, "{target} {lines}");
    }
}
