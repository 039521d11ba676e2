//! Requests that may be signed: a fill would change fields that the signature covers, so they go as they came
//! until an answer was public.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_testkit::Origin;

use crate::kit::{Weir, message, server};

const BODY: &str = "0123456789";
/// What clients sign beside the host: as boto3, rclone, s3cmd and browsers send it.
const SIGNED: [&str; 4] = ["range", "if-none-match", "if-modified-since", "accept-encoding"];

/// An object storage with one object. A request's `Authorization` has the fields that it signs, each with its
/// value; what comes otherwise is refused. `control` is what it says of the object.
fn storage(control: &'static str, is_open: &Arc<AtomicBool>) -> Origin {
    let origin = Origin::start();
    let is_open = is_open.clone();
    origin.otherwise(move |exchange| {
        let request = &exchange.request;
        let text = |name: &str| request.header(name).unwrap_or_default();
        let now: Vec<String> = SIGNED.iter().map(|name| text(name)).collect();
        let of_query =
            request.target.split_once("&X-Amz-Signature=").map(|(_, signature)| signature.to_owned());
        let of_field =
            request.header("authorization").and_then(|own| Some(own.split_once(' ')?.1.to_owned()));
        let said = of_field.or(of_query);
        let sound = format!("{} {}", request.method, now.join("|").replace(' ', "_"));
        if said.as_deref() != Some(&sound.replace(' ', "+")) && !is_open.load(Ordering::SeqCst) {
            exchange.reply(403, &[], "SignatureDoesNotMatch");
            return;
        }
        let fields = [("Cache-Control", control), ("ETag", "\"1\""), ("Accept-Ranges", "bytes")];
        match (text("if-none-match").as_str(), text("range").strip_prefix("bytes=")) {
            ("\"1\"", _) => {
                exchange.reply(304, &fields, "");
            }
            (_, Some(range)) => {
                let (first, last) = range.split_once('-').unwrap();
                let first: usize = first.parse().unwrap();
                let last = last.parse().unwrap_or(BODY.len() - 1).min(BODY.len() - 1);
                let part = format!("bytes {first}-{last}/{}", BODY.len());
                let fields = [&fields[..], &[("Content-Range", part.as_str())]].concat();
                exchange.reply(206, &fields, &BODY[first..=last]);
            }
            _ => {
                exchange.reply(200, &fields, BODY);
            }
        }
    });
    origin
}

/// A request that is signed with its fields.
fn signed(
    weir: &Weir,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    by: &str,
) -> weir_testkit::Response {
    let value = |name: &str| {
        fields.iter().find(|(of, _)| of.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    };
    let values: Vec<_> = SIGNED.iter().map(|name| value(name)).collect();
    let signature = format!("{method} {}", values.join("|").replace(' ', "_")).replace(' ', "+");
    let own = format!("SignedHeaders=accept-encoding;host;range {signature}");
    let (path, credentials) = match by {
        "query" => (format!("{path}?X-Amz-Date=1&X-Amz-Signature={signature}").replace('"', "%22"), vec![]),
        _ => (path.to_owned(), vec![("Authorization", own.as_str())]),
    };
    weir.send(&message(method, "localhost", &path, &[fields, &credentials].concat()))
}

const ASKED: [(&str, &[(&str, &str)], u16, &str); 8] = [
    ("/range", &[("Range", "bytes=2-4")], 206, "234"),
    ("/open", &[("Range", "bytes=7-")], 206, "789"),
    ("/tag", &[("If-None-Match", "\"1\"")], 304, ""),
    ("/other", &[("If-None-Match", "\"2\"")], 200, BODY),
    ("/date", &[("If-Modified-Since", "Mon, 01 Jan 2024 00:00:00 GMT")], 200, BODY),
    ("/identity", &[("Accept-Encoding", "identity")], 200, BODY),
    ("/odd", &[("Accept-Encoding", "gzip,compress;q=0.5")], 200, BODY),
    ("/plain", &[], 200, BODY),
];

#[test]
fn what_is_signed_reaches_the_storage_as_it_came() {
    for control in ["max-age=60", "private", "no-cache"] {
        let never = Arc::new(AtomicBool::new(false));
        let origin = storage(control, &never);
        let weir = server(&[&origin]).start();
        for (path, fields, status, text) in ASKED {
            for _ in 0..3 {
                let answer = signed(&weir, "GET", path, fields, "field");
                assert_eq!(
                    (answer.status(), answer.text().as_str()),
                    (status, text),
                    "{path} {control}: {:?}",
                    answer.head
                );
            }
            assert_eq!(origin.count(path), 3, "{path}: none was refused and asked again");
            if !fields.is_empty() {
                let explained = weir.explain(&message(
                    "GET",
                    "localhost",
                    path,
                    &[fields, &[("Authorization", "x SignedHeaders=accept-encoding")]].concat(),
                ));
                assert_eq!((explained.verdict.word(), explained.reason), ("pass", "signed"), "{path}");
            }
        }
    }
}

/// What is for all is stored, and goes out to all. What the change makes the storage refuse is asked again.
#[test]
fn what_was_public_is_filled_and_a_refusal_of_the_change_is_asked_again() {
    for (path, fields, status, text) in ASKED {
        let never = Arc::new(AtomicBool::new(false));
        let origin = storage("public, max-age=60", &never);
        let weir = server(&[&origin]).start();
        for round in 0..6 {
            let answer = signed(&weir, "GET", path, fields, "field");
            assert_eq!(
                (answer.status(), answer.text().as_str()),
                (status, text),
                "{path} {round}: {:?}",
                answer.head
            );
        }
        // A plain GET is as it came, fills, and all are answered from it.
        assert_eq!(signed(&weir, "GET", path, &[], "field").text(), BODY);
        let asked = origin.count(path);
        for client in [fields, &[]] {
            let answer = weir.get_with(path, client);
            assert!(answer.is_hit(), "{path}: {:?}", answer.head);
        }
        assert!(signed(&weir, "GET", path, fields, "field").is_hit(), "{path}");
        assert_eq!(origin.count(path), asked, "{path}");
    }
    // An origin that looks at no signature fills from the second request on.
    let open = Arc::new(AtomicBool::new(true));
    let origin = storage("public, max-age=60", &open);
    let weir = server(&[&origin]).start();
    let ask = || signed(&weir, "GET", "/x", &[("Range", "bytes=2-4")], "field");
    assert!(!ask().is_hit());
    assert!(ask().cache_status().contains("stored"));
    assert!(ask().is_hit() && ask().text() == "234");
}

#[test]
fn a_refusal_of_a_change_is_never_stored() {
    let never = Arc::new(AtomicBool::new(false));
    let origin = storage("public, max-age=60", &never);
    let site = "ttl_override = { 403 = \"1h\", 401 = \"1h\" }\n";
    let weir = server(&[&origin]).site(site).start();
    let fields = [("Range", "bytes=2-4")];
    for by in ["field", "query"] {
        for _ in 0..4 {
            let answer = signed(&weir, "GET", "/x", &fields, by);
            assert_eq!((answer.status(), answer.text().as_str()), (206, "234"), "{by}: {:?}", answer.head);
        }
    }
}

/// The method is signed as well.
#[test]
fn a_signed_head_is_no_get_until_the_answer_was_public() {
    let never = Arc::new(AtomicBool::new(false));
    let origin = storage("max-age=60", &never);
    let weir = server(&[&origin]).site("head = \"fill\"\n").start();
    for _ in 0..3 {
        assert_eq!(signed(&weir, "HEAD", "/x", &[], "field").status(), 200);
    }
    assert!(origin.requests("/x").iter().all(|asked| asked.method == "HEAD"));
}

/// A signature that covers no such field changes nothing.
#[test]
fn a_signature_of_the_host_alone_is_filled_at_once() {
    let open = Arc::new(AtomicBool::new(true));
    let origin = storage("public, max-age=60", &open);
    let weir = server(&[&origin]).start();
    for (names, is_stored) in [("host", true), ("host%3Brange", false)] {
        let path = format!("/x?X-Amz-SignedHeaders={names}&X-Amz-Signature=1");
        let answer = weir.get_with(&path, &[("Range", "bytes=2-4")]);
        assert_eq!(answer.text(), "234");
        assert_eq!(answer.cache_status().contains("stored"), is_stored, "{names}: {:?}", answer.head);
        assert_eq!(weir.get_with(&path, &[("Range", "bytes=2-4")]).is_hit(), is_stored, "{names}");
    }
}

/// What a link opens is stored for nobody, unless its storage says that it is for all.
#[test]
fn what_a_signature_in_the_query_opens_is_not_stored() {
    let links = [
        ("X-Amz-Signature=a", true),
        ("x-goog-signature=a", true),
        ("AWSAccessKeyId=k&Expires=9&Signature=a", true),
        ("se=2026-12-01&sp=r&sig=a", true),
        ("Expires=9&Key-Pair-Id=k&Signature=a", true),
        ("signature=a", false),
        ("sig=a&size=9", false),
        ("x-amz-signature-of=a", false),
    ];
    for (control, is_for_all) in [("max-age=60", false), ("", false), ("public, max-age=60", true)] {
        let origin = Origin::start();
        origin.otherwise(move |exchange| {
            let dated = ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT");
            exchange.reply(
                200,
                &[("Cache-Control", control), dated][usize::from(control.is_empty())..],
                BODY,
            );
        });
        let weir = server(&[&origin]).start();
        for (query, opens) in links {
            let path = format!("/x?{query}");
            let first = weir.get(&path);
            let is_held = weir.get(&path).is_hit();
            assert_eq!(is_held, is_for_all || !opens, "{path} {control}: {:?}", first.head);
            if !is_held {
                assert!(first.cache_status().contains("signature"), "{path}: {:?}", first.head);
            }
        }
        // What the origin never gets opens nothing there.
        let weir = server(&[&origin]).site("key.query.drop = [\"X-Amz-*\"]").start();
        weir.get("/y?X-Amz-Signature=a");
        assert!(weir.get("/y?X-Amz-Signature=b").is_hit());
    }
}
