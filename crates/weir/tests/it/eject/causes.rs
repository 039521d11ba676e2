//! Origins are left out for what they answer, by several clients' requests and by no one client's.

use weir_testkit::until;

use super::kit::{Crowd, Moody, before, metric};

/// Left out for a short time, so that it ends within a scenario.
const TIMES: &str = "within = \"60s\", time = \"100ms\", time_max = \"200ms\"";

#[test]
fn bad_statuses_for_three_clients_leave_an_origin_out_until_it_is_well() {
    let (a, b) = (Moody::new("a"), Moody::new("b"));
    let weir = before(&[&a, &b], &format!("eject = {{ failures = 3, status = \"500-599\", {TIMES} }}"));
    a.await_events(&weir);
    let mut crowd = Crowd::of(&weir);
    a.says(500);
    while a.total() < 2 {
        crowd.ask();
    }
    assert_eq!(crowd.answers(1), "b");
    assert_eq!(a.ejections(&weir, "status"), 0.0);
    assert_eq!(a.state(&weir), "ready");
    crowd.ask();
    assert_eq!(a.total(), 3);
    until("it is ejected", || a.ejections(&weir, "status") == 1.0);
    assert!(a.reason(&weir).starts_with("bad statuses; "), "{}", a.reason(&weir));
    until("an event tells that", || a.is_told_ejected(&weir));
    let before = a.total();
    until("it is tried now and then", || {
        crowd.ask();
        a.total() > before + 1
    });
    assert_eq!(a.state(&weir), "ejected");
    a.says(200);
    until("it is back", || {
        crowd.ask();
        a.is_told_back(&weir)
    });
    assert_eq!(crowd.answers(8), "aaaabbbb");
    assert_eq!((b.ejections(&weir, "status"), a.ejections(&weir, "failures")), (0.0, 0.0));
}

#[test]
fn neither_one_broken_url_nor_one_client_leaves_an_origin_out() {
    let (a, b) = (Moody::new("a"), Moody::new("b"));
    let retry = "retry = { on = [\"connect\", \"closed\", \"503\"], times = 1 }";
    let weir =
        before(&[&a, &b], &format!("eject = {{ failures = 3, status = \"500-599\", {TIMES} }}\n{retry}"));
    let mut crowd = Crowd::of(&weir);
    for number in 0..60 {
        assert_eq!(crowd.ask_as(&format!("10.8.0.{number}"), "/bad/page").status(), 500);
    }
    for number in 0..60 {
        assert_eq!(crowd.ask_as("10.9.0.1", &format!("/bad/{number}")).status(), 500);
    }
    // All of that together, and one client more, would be enough: what is answered well ends it.
    assert_eq!(crowd.answers(4), "aabb");
    // One client's requests that another origin answers well: it may be refused for asking too often.
    a.says(503);
    let asked = a.total();
    for number in 0..20 {
        assert_eq!(crowd.ask_as("10.9.0.2", &format!("/{number}")).text(), "b");
    }
    assert!(a.total() - asked >= 8, "{}", a.total() - asked);
    for origin in [&a, &b] {
        assert_eq!((origin.ejections(&weir, "status"), origin.state(&weir)), (0.0, "ready".to_owned()));
    }
    // Two more clients, whose requests were answered in the end: there are three now.
    until("three clients are believed", || {
        assert_eq!(crowd.ask().text(), "b");
        a.ejections(&weir, "status") == 1.0
    });
}

#[test]
fn a_share_of_failures_leaves_an_origin_out_but_not_that_of_one_client() {
    let all = [Moody::new("a"), Moody::new("b"), Moody::new("c")];
    let [a, b, c] = &all;
    let rules = format!("failures = 0, status = \"500-599\", share = \"50%\", least = 20, {TIMES}");
    let weir = before(&[a, b, c], &format!("eject = {{ {rules} }}"));
    c.await_events(&weir);
    let mut crowd = Crowd::of(&weir);
    for number in 0..150 {
        crowd.ask_as("10.9.0.1", &format!("/bad/{number}"));
    }
    // It answers one of three requests well.
    let mut asked = 0;
    until("one is ejected", || {
        asked += 1;
        c.says(if asked % 9 < 6 { 503 } else { 200 });
        crowd.ask();
        c.ejections(&weir, "share") >= 1.0
    });
    c.says(503);
    until("an event tells that", || c.is_told_ejected(&weir));
    let reason = c.reason(&weir);
    assert!(reason.starts_with("share of failures; ") || reason.starts_with("bad statuses; "), "{reason}");
    for origin in [a, b] {
        assert_eq!((origin.ejections(&weir, "share"), origin.state(&weir)), (0.0, "ready".to_owned()));
    }
    c.says(200);
    until("it is back", || {
        crowd.ask();
        c.is_told_back(&weir)
    });
}

#[test]
fn an_origin_slower_than_the_others_is_left_out() {
    let all = [Moody::new("a"), Moody::new("b"), Moody::new("c")];
    let [a, b, c] = &all;
    let rules = format!("failures = 0, slow = 3, least = 10, {TIMES}");
    let weir = before(&[a, b, c], &format!("eject = {{ {rules} }}"));
    let mut crowd = Crowd::of(&weir);
    // One client that finds slow pages leaves nobody out.
    all.iter().for_each(|origin| origin.pauses(60));
    for number in 0..45 {
        crowd.ask_as("10.9.0.1", &format!("/slow/{number}"));
    }
    all.iter().for_each(|origin| origin.pauses(0));
    c.pauses(150);
    until("the slow one is ejected", || {
        crowd.ask();
        c.ejections(&weir, "slow") >= 1.0
    });
    assert_eq!((a.ejections(&weir, "slow"), b.ejections(&weir, "slow")), (0.0, 0.0));
    c.pauses(0);
    until("it is back", || {
        crowd.ask();
        c.state(&weir) == "ready"
    });
    assert_eq!(metric(&weir, "weir_upstream_panic"), 0.0);
}
