//! What becomes of requests where most origins, or all of them, are ill; and how one comes back to its share.

use std::time::Instant;

use weir_testkit::{Resource, until};

use super::kit::{Crowd, Moody, before, events, metric};
use crate::origins::changes::{origins, shown};
use crate::server::server;

const EJECT: &str = "eject = { failures = 3, status = \"500-599\", time = \"100ms\", time_max = \"200ms\" }";
const USED: &str = "too many origins are ejected";

#[test]
fn where_all_answer_503_all_are_used_until_they_recover() {
    let all = [Moody::new("a"), Moody::new("b"), Moody::new("c")];
    let weir = before(&[&all[0], &all[1], &all[2]], EJECT);
    all[0].await_events(&weir);
    let mut crowd = Crowd::of(&weir);
    assert_eq!(metric(&weir, "weir_upstream_panic"), 0.0);
    assert!(!origins(&weir, &[]).contains(USED));
    all.iter().for_each(|origin| origin.says(503));
    until("all are ejected", || {
        assert_eq!(crowd.ask().status(), 503);
        all.iter().all(|origin| origin.state(&weir) == "ejected")
    });
    until("the metric says so", || metric(&weir, "weir_upstream_panic") == 1.0);
    assert!(origins(&weir, &[]).contains("too many origins are ejected: all are used"));
    assert_eq!(all[0].reason(&weir), "bad statuses; used all the same");
    let asked: Vec<usize> = all.iter().map(Moody::total).collect();
    crowd.answers(30);
    for (origin, asked) in all.iter().zip(asked) {
        assert!(origin.total() - asked >= 8, "{}", origin.total() - asked);
    }
    let told = |state: &str| {
        let is_it = |event: &serde_json::Value| event["origin"].is_null() && event["state"] == state;
        events(&weir).into_iter().find(is_it)
    };
    until("an event tells it", || told("panic").is_some());
    let event = told("panic").unwrap();
    assert_eq!((&event["upstream"], &event["was"]), (&"main".into(), &"calm".into()), "{event}");
    assert!(event["reason"].as_str().unwrap().contains(USED), "{event}");
    assert!(told("calm").is_none());
    all.iter().for_each(|origin| origin.says(200));
    until("all are back", || {
        crowd.ask();
        all.iter().all(|origin| origin.state(&weir) == "ready")
    });
    until("the metric says so", || metric(&weir, "weir_upstream_panic") == 0.0);
    until("an event tells that", || told("calm").is_some_and(|event| event["was"] == "panic"));
    assert!(!origins(&weir, &[]).contains(USED));
    assert_eq!(crowd.answers(9), "aaabbbccc");
    assert_eq!(metric(&weir, "weir_upstream_panics_total"), 1.0);
}

#[test]
fn a_503_is_sent_to_another_origin() {
    let (a, b) = (Moody::new("a"), Moody::new("b"));
    let weir = before(&[&a, &b], "retry = { on = [\"503\"], times = 1 }");
    let mut crowd = Crowd::of(&weir);
    a.says(503);
    assert_eq!(crowd.answers(20), "b".repeat(20));
    let sent = weir.metric("weir_upstream_retries_total{upstream=\"main\",reason=\"503\"}");
    assert_eq!(sent, Some(a.total() as f64));
    assert!(a.total() >= 8, "{}", a.total());
    assert_eq!(b.total(), 20);
}

#[test]
fn the_budget_bounds_what_is_sent_again_where_all_answer_503() {
    let (a, b) = (Moody::new("a"), Moody::new("b"));
    let weir = before(&[&a, &b], "retry = { on = [\"503\"], times = 2, budget = \"10%\" }");
    let mut crowd = Crowd::of(&weir);
    [&a, &b].iter().for_each(|origin| origin.says(503));
    let (begun, asked) = (Instant::now(), 1000);
    for _ in 0..asked {
        assert_eq!(crowd.ask().status(), 503);
    }
    // Thirty in each ten seconds are let through however few requests there are.
    let floors = 30 * (1 + begun.elapsed().as_secs() as usize / 10);
    let sent = a.total() + b.total();
    assert!(sent > asked, "some are sent again");
    assert!(sent <= asked + asked / 10 + floors, "{sent} of {asked}");
    assert!(metric(&weir, "weir_upstream_retries_refused_total") > 0.0);
}

#[test]
fn one_that_is_back_begins_with_a_small_share() {
    let (a, b) = (Moody::new("a"), Moody::new("b"));
    let weir = before(&[&a, &b], &format!("{EJECT}\nslow_start = \"6s\""));
    let share = || shown(&weir, &a.url())["share"].as_f64().unwrap();
    assert_eq!(share(), 0.5, "all begin with their whole share");
    let mut crowd = Crowd::of(&weir);
    a.says(500);
    until("it is ejected", || {
        crowd.ask();
        share() == 0.0
    });
    a.says(200);
    until("it has a share again", || {
        crowd.ask();
        share() > 0.0
    });
    assert!(share() < 0.5, "{}", share());
    until("it has the whole", || share() == 0.5);
    assert_eq!(crowd.answers(8), "aaaabbbb");
}

#[test]
fn where_all_are_gone_clients_learn_it_and_get_what_is_held() {
    let (a, b) = (Moody::new("a"), Moody::new("b"));
    for origin in [&a.origin, &b.origin] {
        origin.put("/held", Resource::new("held").header("Cache-Control", "max-age=1"));
    }
    let weir = server(&[&a.origin, &b.origin]).upstream(EJECT).site("stale = { if_error = \"1h\" }").start();
    assert_eq!(weir.get("/held").text(), "held");
    let urls = [a.url(), b.url()];
    drop((a, b));
    let mut crowd = Crowd::of(&weir);
    until("all are ejected", || {
        let status = crowd.ask().status();
        assert!(matches!(status, 502 | 503), "{status}");
        urls.iter().all(|url| shown(&weir, url)["state"] == "ejected")
    });
    for _ in 0..20 {
        let status = crowd.ask().status();
        assert!(matches!(status, 502 | 503), "{status}");
    }
    until("what is held is stale", || weir.get("/held").cache_status().contains("stale"));
    for _ in 0..20 {
        let answer = weir.get("/held");
        assert_eq!((answer.status(), answer.text()), (200, "held".to_owned()));
    }
}
