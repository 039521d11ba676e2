//! An origin that gives no answer at all: the stored response goes out stale for the time that the route
//! names (RFC 9111 §4.2.4).

use std::time::Duration;

use weir_testkit::{Origin, Resource};

use crate::kit::server;

fn held(control: &str) -> Resource {
    Resource::new("old").header("Cache-Control", control).etag("\"1\"")
}

#[test]
fn an_error_of_the_origin_is_passed_on() {
    let origin = Origin::start();
    origin.put("/plain", held("max-age=1"));
    let weir = server(&[&origin]).start();
    assert_eq!(weir.get("/plain").text(), "old");
    weir.later(Duration::from_millis(2100));
    for status in [500, 502, 503, 504] {
        origin.put("/plain", Resource::new("error").status(status));
        let answer = weir.get("/plain");
        assert_eq!((answer.status(), answer.text().as_str()), (status, "error"), "{:?}", answer.head);
    }
    // Bytes that are not HTTP are an answer as well, though nobody can read it.
    origin.raw("/plain", "SSH-2.0-OpenSSH_9.2\r\n\r\n");
    assert_eq!(weir.get("/plain").status(), 502);
    origin.on("/plain", |exchange| exchange.close());
    assert_eq!(weir.get("/plain").text(), "old");
}

/// What a route says, what the origin says, and what is served two seconds later.
#[test]
fn the_time_is_what_the_route_says() {
    let cases = [
        ("stale.if_unreachable = \"1s\"", "max-age=1", false),
        ("stale.if_unreachable = \"0s\"", "max-age=1", false),
        ("stale.if_unreachable = \"1h\"", "max-age=1", true),
        ("stale.if_unreachable = \"1h\"", "max-age=1, stale-if-error=0", true),
        ("stale.if_unreachable = \"1h\"", "max-age=1, must-revalidate", false),
        ("", "max-age=1, stale-if-error=0", false),
        ("", "max-age=1, stale-if-error=1", false),
        ("", "max-age=1, stale-if-error=60", true),
        ("stale = { if_error = \"1h\", if_unreachable = \"0s\" }", "max-age=1", true),
        ("stale = { if_error = \"1s\" }", "max-age=1", true),
    ];
    for (site, control, goes) in cases {
        let origin = Origin::start();
        origin.put("/x", held(control));
        let weir = server(&[&origin]).site(site).start();
        assert_eq!(weir.get("/x").text(), "old");
        weir.later(Duration::from_millis(2100));
        drop(origin);
        let answer = weir.get("/x");
        assert_eq!(answer.text() == "old", goes, "{site} | {control} | {:?}", answer.head);
        assert_eq!(answer.status(), if goes { 200 } else { 502 }, "{site} | {control}");
    }
}
