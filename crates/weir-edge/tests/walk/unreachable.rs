//! An origin that gives no answer at all: the stored response goes out stale for the time that the route
//! names (RFC 9111 §4.2.4).

use std::time::Duration;

use weir_testkit::{Origin, Resource};

use crate::kit::{message, server};

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
        // s-maxage leaves what the route or the origin names, or the route ignores it (ADR 0095).
        ("", "s-maxage=1", false),
        ("stale.if_unreachable = \"1h\"", "s-maxage=1", true),
        ("stale.if_unreachable = \"1s\"", "s-maxage=1", false),
        ("stale.if_error = \"1h\"", "s-maxage=1", true),
        ("stale.while_revalidate = \"1h\"", "s-maxage=1", true),
        ("", "s-maxage=1, stale-while-revalidate=60", true),
        ("", "s-maxage=1, stale-if-error=60", true),
        ("ignore = [\"must-revalidate\"]", "s-maxage=1", true),
        ("ignore = [\"must-revalidate\"]", "s-maxage=1, proxy-revalidate", true),
        ("ignore = [\"no-cache\"]", "s-maxage=1", false),
        ("stale.if_error = \"1h\"", "s-maxage=1, must-revalidate", false),
        ("stale.if_error = \"1h\"", "s-maxage=1, proxy-revalidate", false),
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

/// What was stored for a request with credentials because of s-maxage is nobody's while it is stale (RFC 9111
/// §3.5), whatever the route says.
#[test]
fn what_was_stored_for_credentials_because_of_s_maxage_is_never_stale() {
    let site = "stale = { if_error = \"1h\", while_revalidate = \"1h\", if_status = { 5xx = \"1h\" } }\n\
                ignore = [\"must-revalidate\"]\n";
    let credentials = [("Authorization", "Basic YTpi")];
    for (first, renewed, control, goes) in [
        (&credentials[..], None, "s-maxage=1", false),
        (&[], None, "s-maxage=1", true),
        (&credentials, None, "s-maxage=1, public", true),
        (&credentials, Some(&[][..]), "s-maxage=1", false),
        (&[], Some(&credentials[..]), "s-maxage=1", false),
        (&[], Some(&credentials), "s-maxage=1, public", true),
    ] {
        let origin = Origin::start();
        origin.put("/x", held(control));
        // While it may go out stale it is renewed in the background, for nobody.
        let renewing = server(&[&origin]).site(if renewed.is_some() { "" } else { site }).start();
        assert_eq!(renewing.get_with("/x", first).text(), "old");
        assert!(renewing.get("/x").is_hit(), "{control}: it is for others, too");
        renewing.later(Duration::from_millis(2100));
        if let Some(by) = renewed {
            assert_eq!(renewing.get_with("/x", by).text(), "old");
            assert_eq!(origin.count("/x"), 2, "{control}");
            renewing.later(Duration::from_millis(2100));
        }
        let explained = renewing.explain(&message("GET", "localhost", "/x", &[]));
        let is_bound = explained.stored[0].marks.contains(&"s-maxage-authorization");
        assert_eq!(is_bound, !goes, "{control}: {:?}", explained.stored[0].marks);
        if renewed.is_none() {
            drop(origin);
            let answer = renewing.get("/x");
            assert_eq!(answer.text() == "old", goes, "{control} {first:?} {:?}", answer.head);
        }
    }
}

/// `explain` names the directive.
#[test]
fn explain_says_which_directive_forbids_stale_responses() {
    for (site, control, word) in [
        ("", "s-maxage=1", "s-maxage"),
        ("", "max-age=1, must-revalidate", "must-revalidate"),
        ("", "max-age=1, proxy-revalidate", "proxy-revalidate"),
        ("", "s-maxage=1, proxy-revalidate", "proxy-revalidate"),
        ("ignore = [\"must-revalidate\"]", "s-maxage=1, proxy-revalidate", ""),
        ("", "max-age=1", ""),
    ] {
        let origin = Origin::start();
        origin.put("/x", held(control));
        let weir = server(&[&origin]).site(site).start();
        weir.get("/x");
        weir.later(Duration::from_millis(2100));
        let said = weir.explain(&message("GET", "localhost", "/x", &[]));
        assert_eq!(said.verdict.word(), "revalidate", "{control}");
        assert_eq!(said.stored[0].marks, if word.is_empty() { vec![] } else { vec![word] }, "{control}");
        assert_eq!(said.because.contains(&format!("its {word}")), !word.is_empty(), "{}", said.because);
    }
}
