//! One client's odd request, or one odd answer of the origin, among other clients' ranges: what these have
//! stays, and what they request is stored as ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_testkit::{Origin, Resource, Response, Weir, pattern, until};

use crate::counted::part;
use crate::server::before;

const LENGTH: usize = 6_000_000;
/// Another client's field, which this origin obeys although it is in no key and no `Vary`.
const ODD: &str = "X-Odd";

/// An origin of `/x` that obeys the odd field.
fn origin(body: &[u8]) -> Origin {
    let (origin, plain) = (Origin::start(), Resource::fresh(body).etag("\"1\"").ranges());
    origin.on("/x", move |exchange| match exchange.request.header(ODD).as_deref() {
        None => plain.answer(exchange),
        Some("cookie") => {
            let fields = [("Cache-Control", "max-age=3600"), ("Set-Cookie", "a=b")];
            exchange.reply(200, &fields, "yours alone");
        }
        Some("200") => drop(exchange.reply(200, &[("Cache-Control", "max-age=60")], "another page")),
        Some(status) => drop(exchange.reply(status.parse().unwrap(), &[], "not for you")),
    });
    origin
}

fn ranged(weir: &Weir, first: usize, fields: &[(&str, &str)]) -> Response {
    let range = format!("bytes={first}-{}", first + 9);
    weir.get_with("/x", &[&[("Range", &range[..])], fields].concat())
}

fn ten(weir: &Weir, body: &[u8], first: usize) -> Response {
    let found = ranged(weir, first, &[]);
    assert_eq!((found.status(), &found.body[..]), (206, &body[first..first + 10]), "{:?}", found.head);
    found
}

#[test]
fn a_response_to_one_client_alone_does_not_keep_the_ranges_of_others_out() {
    let body = pattern(1, LENGTH);
    for odd in ["403", "404", "401", "cookie"] {
        let origin = origin(&body);
        let weir = before(&origin);
        weir.get_with("/x", &[(ODD, odd)]);
        ten(&weir, &body, 2_200_000);
        // The first request may have bypassed the cache, which has shown that the response may be stored.
        ten(&weir, &body, 2_200_000);
        until("it is a hit", || ten(&weir, &body, 2_200_000).is_hit());
        weir.get_with("/x", &[(ODD, odd)]);
        assert!(ten(&weir, &body, 2_200_000).is_hit(), "{odd}");
    }
}

#[test]
fn an_authenticated_range_does_not_keep_those_of_others_out() {
    let body = pattern(2, LENGTH);
    let origin = origin(&body);
    let weir = before(&origin);
    for _ in 0..3 {
        let own = ranged(&weir, 2_200_000, &[("Authorization", "Basic YTpi")]);
        assert!(own.status() == 206 && !own.is_hit());
    }
    // Each goes past the cache as it came: no answer to it is for others.
    assert_eq!(origin.count("/x"), 3);
    ten(&weir, &body, 2_200_000);
    until("it is a hit", || ten(&weir, &body, 2_200_000).is_hit());
}

#[test]
fn an_answer_to_one_request_does_not_remove_a_part_of_others() {
    let body = pattern(3, LENGTH);
    for odd in ["404", "410", "412", "416", "200", "403"] {
        let origin = origin(&body);
        let weir = before(&origin);
        ten(&weir, &body, 0);
        ranged(&weir, 3_000_000, &[(ODD, odd)]);
        let held = ranged(&weir, 0, &[("Cache-Control", "only-if-cached")]);
        assert_eq!((held.status(), &held.body[..]), (206, &body[..10]), "{odd}: {:?}", held.head);
        ten(&weir, &body, 3_000_000);
        assert!(origin.requests("/x").iter().all(|request| request.header("range").is_some()), "{odd}");
    }
}

#[test]
fn an_object_that_is_gone_for_all_is_removed() {
    let body = pattern(3, LENGTH);
    for status in [404, 410, 416] {
        let origin = origin(&body);
        let weir = before(&origin);
        ten(&weir, &body, 0);
        origin.put("/x", Resource::new("").status(status));
        assert_eq!(ranged(&weir, 3_000_000, &[]).status(), status);
        assert_eq!(ranged(&weir, 0, &[]).status(), status);
    }
}

#[test]
fn a_part_with_contradicting_lengths_is_not_used() {
    let body: Arc<[u8]> = pattern(4, LENGTH).into();
    for (tags, is_placed_twice) in [("ETag: \"1\"\r\n", true), ("ETag: \"1\"\r\nETag: \"2\"\r\n", false)] {
        let (origin, is_odd) = (Origin::start(), Arc::new(AtomicBool::new(false)));
        let plain = Resource::fresh(&body).etag("\"1\"").ranges();
        origin.on("/x", {
            let is_odd = is_odd.clone();
            move |exchange| {
                let asked = part(&exchange.request.header("range").unwrap_or_default(), LENGTH as u64);
                let Some(asked) = asked.filter(|_| is_odd.load(Ordering::SeqCst)) else {
                    return plain.answer(exchange);
                };
                let (first, last, count) = (asked.start, asked.end - 1, asked.end - asked.start);
                let mut lines = format!("Content-Range: bytes {first}-{last}/{LENGTH}\r\n");
                if is_placed_twice {
                    lines.push_str(&format!("Content-Range: bytes 0-{}/{LENGTH}\r\n", count - 1));
                }
                exchange.send(format!(
                    "HTTP/1.1 206 Part\r\n{tags}{lines}Cache-Control: max-age=60\r\n\
                    Content-Length: {count}\r\n\r\n"
                ));
                exchange.send(vec![b'!'; count as usize]);
            }
        });
        let weir = before(&origin);
        ten(&weir, &body, 0);
        is_odd.store(true, Ordering::SeqCst);
        ranged(&weir, 3_000_000, &[]);
        is_odd.store(false, Ordering::SeqCst);
        ten(&weir, &body, 3_000_000);
    }
}
