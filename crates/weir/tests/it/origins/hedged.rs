//! Hedges: a second origin is asked because the first is slow.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_testkit::{Client, Gate, Origin, Weir, pattern, until};

use super::changes::named;
use crate::server::server;

/// What goes past the cache.
const PASS: &str = "bypass = { paths = [\"/pass/**\"] }";
/// Answers before Weir hedges: few more than it needs. On a busy machine half of what comes after those has a
/// hedge as well, and hedges are bounded.
const SAMPLES: usize = 110;

/// A path at which this origin waits for the gate, and then answers as it does elsewhere.
fn held(origin: &Origin, path: &str, gate: &Gate, body: &str) {
    let (gate, body) = (gate.clone(), body.to_owned());
    origin.on(path, move |exchange| {
        exchange.body();
        gate.pass();
        exchange.reply(200, &[("Cache-Control", "max-age=600")], &body);
    });
}

fn metric(weir: &Weir, name: &str) -> f64 {
    weir.metric(name).unwrap_or_default()
}

/// So many quick answers that Weir knows how long one takes. It looks again after a tenth of a second.
fn warm(weir: &Weir) {
    let mut client = weir.client();
    let begun = Instant::now();
    for number in 0..SAMPLES {
        assert_eq!(client.get("x", &format!("/pass/{number}"), &[]).status(), 200);
    }
    until("what is known is looked at again", || begun.elapsed() > Duration::from_millis(500));
}

#[test]
fn slow_answers_are_cut_short_and_posts_are_not() {
    let origins = ["a", "b", "c", "d"].map(named);
    let gate = Gate::new();
    for path in (0..40).map(|number| format!("/pass/slow/{number}")) {
        held(&origins[3], &path, &gate, "d");
    }
    held(&origins[3], "/pass/post", &gate, "d");
    let weir = server(&origins.each_ref())
        .upstream("retry = { hedge = \"p50\", budget = \"50%\" }\nfirst_byte = \"60s\"")
        .site(PASS)
        .start();
    warm(&weir);
    let mut answers = BTreeMap::new();
    let mut client = weir.client();
    for number in 0..40 {
        let text = client.get("x", &format!("/pass/slow/{number}"), &[]).text();
        *answers.entry(text).or_insert(0) += 1;
    }
    assert!(!answers.contains_key("d"), "{answers:?}");
    let (sent, won) =
        (metric(&weir, "weir_upstream_hedges_sent_total"), metric(&weir, "weir_upstream_hedges_won_total"));
    assert!(won >= 10.0 && sent >= won, "{sent} {won}");
    let asked: usize = origins.iter().map(Origin::total).sum();
    assert!(asked <= (SAMPLES + 40) * 3 / 2, "{asked}");
    let mut posts: Vec<Client> = (0..4).map(|_| weir.client()).collect();
    for post in &mut posts {
        post.send(b"POST /pass/post HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx");
    }
    until("all are asked", || origins.iter().map(|origin| origin.count("/pass/post")).sum::<usize>() == 4);
    gate.open();
    posts.iter_mut().for_each(|post| assert_eq!(post.recv().unwrap().status(), 200));
    assert_eq!(origins.iter().map(|origin| origin.count("/pass/post")).sum::<usize>(), 4);
}

#[test]
fn a_hedged_fill_writes_the_winners_object() {
    let (a, b) = (named("a"), named("b"));
    let gate = Gate::new();
    let body = |seed: u64| {
        String::from_utf8(pattern(seed, 200_000).iter().map(|byte| b'a' + byte % 26).collect()).unwrap()
    };
    held(&a, "/x", &gate, &body(1));
    let open = Gate::new();
    open.open();
    held(&b, "/x", &open, &body(2));
    let weir = server(&[&a, &b]).upstream("pick = \"first\"\nretry = { hedge = \"p50\" }").site(PASS).start();
    warm(&weir);
    assert!(weir.get("/x").text() == body(2));
    gate.open();
    let again = weir.get("/x");
    assert!(again.is_hit() && again.text() == body(2));
    assert_eq!((a.count("/x"), b.count("/x")), (1, 1));
}
