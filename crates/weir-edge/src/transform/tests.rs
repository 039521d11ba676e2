//! What goes through, what does not, and what is added.

use std::net::IpAddr;
use std::sync::LazyLock;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use proptest::prelude::*;

use super::Trust;
use super::request::{
    From, OF_TRUSTED_PEERS, Own, STRIPPED, ends_here, is_loop, known_id, of_fill, of_nobody, scheme,
    towards_origin,
};
use super::response::{Place, location_back, towards_client};

const OWN: &str = "weir-0123abcd";
static OWN_NAME: LazyLock<Own> = LazyLock::new(|| Own::new(OWN));

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in lines {
        let name: HeaderName = name.parse().unwrap();
        map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    map
}

fn from(trust: Trust) -> From<'static> {
    From {
        address: Some([192, 0, 2, 7].into()),
        client: None,
        trust,
        method: &Method::GET,
        protocol: "HTTP/1.1",
        scheme: "http",
        host: "site.example",
        request_id: "made-here",
        own: &OWN_NAME,
        certificate: None,
    }
}

/// What an origin gets of these fields, one line a field, sorted, without those that are always there.
fn check(trust: Trust, lines: &[(&str, &str)], expect: &[(&str, &str)]) {
    let sent = towards_origin(&headers(lines), &from(trust));
    let given = [
        "host",
        "via",
        "cdn-loop",
        "x-request-id",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
        "x-forwarded-port",
    ];
    let mut rest: Vec<_> = sent
        .iter()
        .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .filter(|(name, _)| !given.contains(name) || expect.iter().any(|(wanted, _)| wanted == name))
        .collect();
    rest.sort();
    let expect: Vec<_> = expect.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    assert_eq!(rest, expect, "{lines:?}");
}

use Trust::{Trusted, Untrusted};

#[test]
fn lists_are_sorted_for_the_search() {
    assert!(STRIPPED.is_sorted());
    assert!(OF_TRUSTED_PEERS.is_sorted());
}

#[test]
fn what_is_always_there() {
    let sent = towards_origin(&headers(&[("host", "SITE.example:80")]), &from(Untrusted));
    let expect = headers(&[
        ("x-forwarded-for", "192.0.2.7"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "site.example"),
        ("x-forwarded-port", "80"),
        ("x-request-id", "made-here"),
        ("via", "1.1 weir-0123abcd"),
        ("cdn-loop", "weir-0123abcd"),
        ("host", "site.example"),
    ]);
    assert_eq!(sent, expect);
}

#[test]
fn ordinary_fields_go_through_with_all_their_lines() {
    let lines = [("accept", "*/*"), ("cookie", "a=1"), ("cookie", "b=2"), ("x-own", "caf\u{e9}")];
    for trust in [Trusted, Untrusted] {
        check(trust, &lines, &lines);
    }
}

#[test]
fn hop_by_hop_fields_do_not_go_through() {
    let lines = [
        ("connection", "keep-alive, X-Mine, x-other"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("proxy-authorization", "Basic eDp5"),
        ("te", "trailers"),
        ("trailer", "x-sum"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("x-mine", "1"),
        ("x-other", "1"),
        ("expect", "100-continue"),
        ("accept", "*/*"),
    ];
    check(Untrusted, &lines, &[("accept", "*/*")]);
}

#[test]
fn stripped_fields_do_not_go_through_not_even_from_trusted_peers() {
    for name in STRIPPED {
        for trust in [Trusted, Untrusted] {
            check(trust, &[(name, "evil.example"), (name, "again")], &[]);
        }
    }
}

#[test]
fn who_the_client_is_only_trusted_peers_say() {
    for name in OF_TRUSTED_PEERS {
        check(Untrusted, &[(name, "203.0.113.9")], &[]);
        check(Trusted, &[(name, "203.0.113.9")], &[(name, "203.0.113.9")]);
    }
}

#[test]
fn x_forwarded_host_is_the_host() {
    let name = "x-forwarded-host";
    for said in ["Site.Example", "evil.example", "site.example, evil.example", "site.example:8080"] {
        for trust in [Trusted, Untrusted] {
            check(trust, &[(name, said), (name, "evil.example")], &[(name, "site.example")]);
        }
    }
}

#[test]
fn x_forwarded_for_is_continued_or_begun_again() {
    let name = "x-forwarded-for";
    let lines = [(name, "203.0.113.1, 203.0.113.2"), (name, "203.0.113.3")];
    check(Trusted, &lines, &[(name, "203.0.113.1, 203.0.113.2, 203.0.113.3, 192.0.2.7")]);
    check(Untrusted, &lines, &[(name, "192.0.2.7")]);
    let nobody = From { address: None, ..from(Untrusted) };
    assert!(towards_origin(&headers(&lines), &nobody).get(name).is_none());
    let local = From { address: None, ..from(Trusted) };
    assert_eq!(towards_origin(&headers(&lines[1..]), &local)[name], "203.0.113.3");
    let mapped = From { address: Some("::ffff:192.0.2.8".parse().unwrap()), ..from(Untrusted) };
    assert_eq!(towards_origin(&headers(&[]), &mapped)[name], "192.0.2.8");
}

#[test]
fn x_forwarded_proto_is_believed_from_trusted_peers_alone() {
    let said = |values: &[&str], trust| {
        let lines: Vec<_> = values.iter().map(|value| ("x-forwarded-proto", *value)).collect();
        scheme(&headers(&lines), trust, "http")
    };
    assert_eq!(said(&["https"], Trusted), "https");
    assert_eq!(said(&["HTTPS "], Trusted), "https");
    assert_eq!(said(&["https"], Untrusted), "http");
    assert_eq!(said(&[], Trusted), "http");
    assert_eq!(said(&["https, http"], Trusted), "http");
    assert_eq!(said(&["https", "https"], Trusted), "http");
    assert_eq!(said(&["wss"], Trusted), "http");
    // The origin gets the value that Weir believed.
    let sent = towards_origin(&headers(&[("x-forwarded-proto", "https")]), &from(Untrusted));
    assert_eq!(sent["x-forwarded-proto"], "http");
}

#[test]
fn x_forwarded_port_is_believed_from_trusted_peers_alone() {
    let name = "x-forwarded-port";
    check(Untrusted, &[(name, "1337")], &[(name, "80")]);
    check(Trusted, &[(name, "8443")], &[(name, "8443")]);
    check(Trusted, &[], &[(name, "80")]);
}

#[test]
fn request_ids_are_kept_from_trusted_peers_if_sane() {
    let long = "a".repeat(129);
    let known =
        |value: &str, trust| known_id(&headers(&[("x-request-id", value)]), trust).map(ToOwned::to_owned);
    assert_eq!(known("abc-1", Trusted).as_deref(), Some("abc-1"));
    assert_eq!(known("abc-1", Untrusted), None);
    assert_eq!(known("Root=1-67891233-ab;Self=2", Trusted).as_deref(), Some("Root=1-67891233-ab;Self=2"));
    for odd in ["", "a b", "\"><script>", long.as_str(), "caf\u{e9}"] {
        assert_eq!(known(odd, Trusted), None, "{odd:?}");
    }
    let sent = towards_origin(&headers(&[("x-request-id", "one"), ("x-request-id", "two")]), &from(Trusted));
    assert_eq!(sent.get_all("x-request-id").iter().count(), 1);
}

#[test]
fn via_says_in_which_version_the_request_came() {
    for (protocol, version) in [("HTTP/1.0", "1.0"), ("HTTP/1.1", "1.1"), ("HTTP/2.0", "2")] {
        let from = From { protocol, ..from(Untrusted) };
        let sent = towards_origin(&HeaderMap::new(), &from);
        assert_eq!(sent["via"], format!("{version} {OWN}"));
    }
}

#[test]
fn via_and_cdn_loop_are_continued_in_one_line() {
    let lines =
        [("via", "1.0 fred, 1.1 p.example"), ("via", "2 q"), ("cdn-loop", "foo; a=1"), ("cdn-loop", "bar")];
    let sent = towards_origin(&headers(&lines), &from(Untrusted));
    assert_eq!(sent["via"], "1.0 fred, 1.1 p.example, 2 q, 1.1 weir-0123abcd");
    assert_eq!(sent["cdn-loop"], "foo; a=1, bar, weir-0123abcd");
    assert_eq!(sent.get_all("via").iter().count(), 1);
}

#[test]
fn loops_are_seen() {
    let check = |name: &str, value: &str, expect: bool| {
        assert_eq!(is_loop(&headers(&[(name, value)]), OWN), expect, "{name}: {value}");
    };
    check("cdn-loop", "weir-0123abcd", true);
    check("cdn-loop", "foo, WEIR-0123abcd ;a=b,bar", true);
    check("cdn-loop", "weir-0123abce", false);
    check("cdn-loop", "foo;a=weir-0123abcd", false);
    check("cdn-loop", "foo;a=\"open, weir-0123abcd", true);
    check("cdn-loop", "caf\u{e9}, weir-0123abcd", true);
    check("via", "1.1 weir-0123abcd", true);
    check("via", "1.0 fred, HTTP/1.1  weir-0123abcd (a comment)", true);
    check("via", "1.1 fred (weir-0123abcd)", false);
    check("via", "1.1 fred (open, 1.1 weir-0123abcd", true);
    check("via", "weir-0123abcd", false);
    check("via", "1.1 weir", false);
    check("x-via", "1.1 weir-0123abcd", false);
    assert!(is_loop(&headers(&[("via", "1.1 a"), ("via", "1.1 weir-0123abcd")]), OWN));
}

#[test]
fn max_forwards_counts_down_and_ends() {
    let with = |value: &str| headers(&[("max-forwards", value)]);
    assert!(ends_here(&Method::OPTIONS, &with("0")));
    assert!(!ends_here(&Method::OPTIONS, &with("1")));
    assert!(!ends_here(&Method::OPTIONS, &with("+0")));
    assert!(!ends_here(&Method::GET, &with("0")));
    check(Untrusted, &[("max-forwards", "7")], &[("max-forwards", "6")]);
    check(Untrusted, &[("max-forwards", "soon")], &[("max-forwards", "soon")]);
}

#[test]
fn a_fill_asks_for_the_whole() {
    let asked = headers(&[
        ("range", "bytes=0-1"),
        ("if-range", "\"a\""),
        ("if-match", "\"a\""),
        ("if-none-match", "\"a\""),
        ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("a-im", "vcdiff"),
        ("accept", "image/webp"),
    ]);
    let nobody = headers(&[("accept", "image/webp")]);
    let mut expect = towards_origin(&nobody, &from(Untrusted));
    expect.extend(headers(&[("surrogate-capability", "weir=\"Surrogate/1.0\"")]));
    assert!(expect["x-forwarded-for"] == "192.0.2.7" && expect["x-forwarded-port"] == "80");
    assert_eq!(of_fill(&asked, &from(Untrusted), &[]), expect);
    let normal = |value: &str| {
        let fill = of_fill(&headers(&[("accept-encoding", value)]), &from(Untrusted), &[]);
        fill.get("accept-encoding").cloned()
    };
    assert_eq!(normal("gzip, deflate, br"), normal("br;q=1.0, deflate, gzip"));
    assert_eq!(normal("identity"), None);
}

/// What a fill carries of the client, where a trusted peer says all that it may say.
#[test]
fn a_fill_carries_no_field_that_one_client_has_written() {
    let said: Vec<_> = OF_TRUSTED_PEERS.iter().map(|name| (*name, "1337")).collect();
    let of = |scheme, host, client: Option<IpAddr>, keyed: &[HeaderName]| {
        let from = From { scheme, host, client, ..from(Trusted) };
        let mut lines = said.clone();
        lines.push(("x-forwarded-for", "evil, 203.0.113.9"));
        of_fill(&headers(&lines), &from, keyed)
    };
    let client = Some([203, 0, 113, 9].into());
    for (scheme, host, port) in [
        ("http", "site.example", "80"),
        ("https", "site.example", "443"),
        ("https", "site.example:8443", "8443"),
        ("http", "[2001:db8::1]", "80"),
        ("http", "[2001:db8::1]:81", "81"),
    ] {
        let fill = of(scheme, host, client, &[]);
        assert_eq!(fill["x-forwarded-port"], port);
        assert_eq!(fill["x-forwarded-for"], "203.0.113.9");
        let kept = OF_TRUSTED_PEERS.iter().filter(|name| fill.contains_key(**name)).count();
        assert_eq!(kept, 1, "{fill:?}");
    }
    assert_eq!(of("http", "a", None, &[])["x-forwarded-for"], "192.0.2.7");
    let keyed = ["x-forwarded-port", "x-real-ip", "x-forwarded-for"].map(HeaderName::from_static);
    let fill = of("http", "a", client, &keyed);
    assert_eq!(fill[&keyed[0]], "1337");
    assert_eq!(fill[&keyed[1]], "1337");
    assert_eq!(fill[&keyed[2]], "evil, 203.0.113.9, 192.0.2.7");
    let local = From { address: None, ..from(Trusted) };
    let fill = of_fill(&headers(&[("x-forwarded-for", "evil")]), &local, &[]);
    assert!(!fill.contains_key("x-forwarded-for"));
}

#[test]
fn responses_lose_what_was_the_connections() {
    let mut response = headers(&[
        ("connection", "close, x-hop"),
        ("x-hop", "1"),
        ("keep-alive", "timeout=5"),
        ("transfer-encoding", "chunked"),
        ("proxy-authenticate", "Basic"),
        ("content-length", "5"),
        ("via", "1.1 inner"),
        ("set-cookie", "a=1"),
        ("set-cookie", "b=2"),
    ]);
    towards_client(&mut response, &OWN_NAME);
    let expect =
        [("via", "1.1 inner"), ("via", "1.1 weir-0123abcd"), ("set-cookie", "a=1"), ("set-cookie", "b=2")];
    assert_eq!(response, headers(&expect));
}

/// `Location` from an origin at `https://www.example.com` for a client at `http://127.0.0.1:8080`.
fn check_location(location: &str, expect: &str) {
    let mut response = headers(&[("location", location)]);
    let origin = Place { scheme: "https", authority: "www.example.com" };
    let client = Place { scheme: "http", authority: "127.0.0.1:8080" };
    location_back(&mut response, origin, client);
    assert_eq!(response["location"], expect);
}

#[test]
fn locations_are_written_back_where_they_name_the_origin() {
    check_location("https://www.example.com/a?b#c", "http://127.0.0.1:8080/a?b#c");
    check_location("HTTPS://WWW.example.com:443/a", "http://127.0.0.1:8080/a");
    check_location("https://www.example.com", "http://127.0.0.1:8080");
    check_location("https://www.example.com?x", "http://127.0.0.1:8080?x");
    check_location("//www.example.com/a", "http://127.0.0.1:8080/a");
    check_location("http://www.example.com/a", "http://127.0.0.1:8080/a");
    for other in [
        "/a",
        "a",
        "",
        "https://other.example/",
        "https://www.example.com.evil.example/",
        "https://www.example.com:8443/",
        "https://www.example.com@evil.example/",
        "https://user@www.example.com/",
        "ftp://www.example.com/",
        "/to?next=https://www.example.com/",
    ] {
        check_location(other, other);
    }
}

#[test]
fn an_origin_may_send_its_clients_to_tls() {
    let mut response = headers(&[("location", "https://www.example.com/")]);
    let origin = Place { scheme: "http", authority: "www.example.com" };
    location_back(&mut response, origin, Place { scheme: "http", authority: "127.0.0.1:8080" });
    assert_eq!(response["location"], "https://www.example.com/");
    location_back(&mut response, origin, Place { scheme: "https", authority: "cdn.example" });
    assert_eq!(response["location"], "https://cdn.example/");
}

proptest! {
    /// Whatever a client sends: no stripped field, one line of each field that is ours, and a loop is seen.
    #[test]
    fn what_leaves_is_ours(
        lines in prop::collection::vec((0usize..60, "[ -~]{0,12}"), 0..20),
        is_trusted in any::<bool>(),
    ) {
        let others =
            ["via", "cdn-loop", "x-forwarded-for", "x-forwarded-host", "host", "connection", "accept"];
        let mut map = HeaderMap::new();
        for (index, value) in &lines {
            let all = STRIPPED.iter().chain(&others).chain(&OF_TRUSTED_PEERS);
            let name = all.cycle().nth(*index).unwrap();
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        let trust = if is_trusted { Trusted } else { Untrusted };
        let sent = towards_origin(&map, &from(trust));
        for name in STRIPPED {
            prop_assert!(!sent.contains_key(name));
        }
        let ours = [
            "via", "cdn-loop", "host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
            "x-request-id",
        ];
        for name in ours {
            prop_assert_eq!(sent.get_all(name).iter().count(), 1);
        }
        prop_assert_eq!(&sent["host"], "site.example");
        prop_assert!(!sent.contains_key("connection"));
        prop_assert!(is_loop(&sent, OWN));
        let last = sent["x-forwarded-for"].to_str().unwrap().rsplit(", ").next().unwrap();
        prop_assert_eq!(last, "192.0.2.7");
    }
}

#[test]
fn in_nobodys_name_goes_what_no_client_has_chosen() {
    let sent = headers(&[
        ("user-agent", "odd"),
        ("x-odd", "1"),
        ("cookie", "tracked=1; theme=dark"),
        ("accept-language", "de"),
        ("x-country", "CH"),
        ("x-forwarded-for", "192.0.2.7"),
        ("via", "1.1 odd, 1.1 weir-0123abcd"),
    ]);
    let sent = of_fill(&sent, &from(Untrusted), &[]);
    let language = HeaderMap::from_iter([(http::header::VARY, HeaderValue::from_static("accept-language"))]);
    let variant = weir_policy::Variant::of(&sent, &language).unwrap();
    let key = b"http://site.example/\nx-country:CH\nx-absent\ncookie theme=dark\ncookie absent";
    let coding = HeaderValue::from_static("br");
    let expect = headers(&[
        ("accept-encoding", "br"),
        ("accept-language", "de"),
        ("cdn-loop", OWN),
        ("cookie", "theme=dark"),
        ("host", "site.example"),
        ("surrogate-capability", sent["surrogate-capability"].to_str().unwrap()),
        ("via", "1.1 weir-0123abcd"),
        ("x-country", "CH"),
        ("x-forwarded-host", "site.example"),
        ("x-forwarded-port", "80"),
        ("x-forwarded-proto", "http"),
        ("x-request-id", "made-here"),
    ]);
    assert_eq!(of_nobody(&sent, key, &variant, Some(&coding)), expect);
    let whole_key = b"http://site.example/\naccept-language:de";
    assert_eq!(of_nobody(&sent, whole_key, &variant, None).get_all("accept-language").iter().count(), 1);
}
