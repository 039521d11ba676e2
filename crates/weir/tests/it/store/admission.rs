//! What is written to the drive on the real binary, by mode and by budget.

use std::time::Duration;

use weir_testkit::{Origin, Resource, Weir, until};

use crate::durable::settle;
use crate::server::{Server, server};

fn over(origin: &Origin, cache: &str, volume: &str) -> Server {
    server(&[origin]).more(&format!(
        "[cache]\nmemory = \"32MiB\"\n{cache}\n[[cache.volume]]\npath = \"{{folder}}/volume\"\n\
        size = \"256MiB\"\n{volume}"
    ))
}

/// Puts `/0` and so on at the origin, each with its own bytes.
fn put(origin: &Origin, count: usize, length: usize) {
    for number in 0..count {
        let body = format!("{number:08}").repeat(length / 8);
        origin.put(&format!("/{number}"), Resource::fresh(body).header("Cache-Control", "max-age=6000"));
    }
}

fn ask(weir: &Weir, numbers: impl Iterator<Item = usize>, length: usize) {
    let mut client = weir.client();
    for number in numbers {
        let answer = client.get("here.test", &format!("/{number}"), &[]);
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.body, format!("{number:08}").repeat(length / 8).into_bytes(), "/{number}");
    }
}

fn volume(weir: &Weir, name: &str) -> u64 {
    weir.metric(&format!("weir_volume_{name}")).unwrap() as u64
}

fn not_admitted(weir: &Weir) -> u64 {
    weir.metric("weir_cache_not_admitted_total").unwrap() as u64
}

fn start_again(weir: &mut Weir, signal: &str) {
    weir.signal(signal);
    weir.start_again();
}

#[test]
fn admission_second_keeps_objects_of_two_requests() {
    let origin = Origin::start();
    put(&origin, 40, 10_000);
    let mut weir = over(&origin, "admission = \"second\"", "").start();
    ask(&weir, 0..40, 10_000);
    assert_eq!((volume(&weir, "objects"), not_admitted(&weir)), (0, 40));
    ask(&weir, 0..20, 10_000);
    until("they have gone down", || volume(&weir, "written_later_total") == 20);
    until("they are there", || volume(&weir, "objects") == 20);
    assert_eq!(origin.total(), 40);
    start_again(&mut weir, "TERM");
    ask(&weir, 0..20, 10_000);
    assert_eq!(origin.total(), 40, "what went down from memory is there");
    // A second request is remembered: the object is written at once.
    ask(&weir, 20..40, 10_000);
    assert_eq!((origin.total(), volume(&weir, "admitted_total")), (60, 20));
    start_again(&mut weir, "TERM");
    ask(&weir, 0..40, 10_000);
    assert_eq!(origin.total(), 60);
}

#[test]
fn a_reload_changes_admission() {
    let origin = Origin::start();
    put(&origin, 30, 10_000);
    let always = over(&origin, "admission = \"always\"", "");
    let weir = always.start();
    ask(&weir, 0..10, 10_000);
    until("all went down", || volume(&weir, "objects") == 10);
    weir.rewrite_config(&over(&origin, "admission = \"second\"", "").text());
    assert_eq!(weir.reload().code, Some(0));
    ask(&weir, 10..20, 10_000);
    assert_eq!((volume(&weir, "admitted_total"), not_admitted(&weir)), (10, 10));
    weir.rewrite_config(&always.text());
    assert_eq!(weir.reload().code, Some(0));
    ask(&weir, 20..30, 10_000);
    assert_eq!(volume(&weir, "admitted_total"), 20);
}

#[test]
fn admission_auto_writes_everything_while_there_is_room() {
    let origin = Origin::start();
    put(&origin, 100, 10_000);
    let weir = over(&origin, "", "").start();
    ask(&weir, 0..100, 10_000);
    until("all went down", || volume(&weir, "objects") == 100);
    assert_eq!(not_admitted(&weir), 0);
}

#[test]
fn a_used_up_budget_stops_storing_and_neither_service_nor_purges() {
    const BUDGET: u64 = 4 << 20;
    let origin = Origin::start();
    put(&origin, 400, 20_000);
    let mut weir = over(&origin, "admission = \"always\"", "write_budget = \"4MiB\"").start();
    ask(&weir, 0..400, 20_000);
    ask(&weir, 0..400, 20_000);
    assert_eq!(origin.total(), 400, "all of it is served from memory");
    until("it is written", || volume(&weir, "written_body_bytes_total") > BUDGET / 2);
    settle(&weir);
    let all = || {
        // Without a catalogue in the build it writes nothing.
        let beside = weir.metric("weir_catalogue_written_bytes_total").unwrap_or(0.0) as u64;
        volume(&weir, "written_body_bytes_total") + volume(&weir, "written_overhead_bytes_total") + beside
    };
    until("all that is written counts", || volume(&weir, "written_today_bytes") == all());
    let written = volume(&weir, "written_today_bytes");
    assert!(written > BUDGET / 10 * 8 && written <= BUDGET, "{written}");
    assert!(volume(&weir, "budget_refused_total") > 0);
    assert_eq!(volume(&weir, "write_budget_bytes"), BUDGET);
    let status = weir.command(&["status"]).stdout;
    assert!(status.contains("of 4.2 MB written today") || status.contains("written today"), "{status}");
    let stored = volume(&weir, "objects");
    assert!(stored > 100, "{stored}");
    assert_eq!(weir.command(&["purge", &format!("http://{}/3", weir.addr())]).code, Some(0));
    // After kill -9 today's count lacks at most a second, and nothing was written in the last one.
    settle(&weir);
    start_again(&mut weir, "KILL");
    assert!(volume(&weir, "written_today_bytes") >= written);
    let before = origin.total();
    ask(&weir, 0..50, 20_000);
    let fetched = origin.total() - before;
    assert!(fetched < 10, "{fetched} of 50 are gone");
    // Nothing is stored, but everything is served.
    ask(&weir, 300..400, 20_000);
    ask(&weir, 300..400, 20_000);
    assert_eq!(volume(&weir, "written_body_bytes_total"), 0, "since the restart");
    // A reload raises the budget.
    let more = over(&origin, "admission = \"always\"", "write_budget = \"40MiB\"");
    weir.rewrite_config(&more.text());
    assert_eq!(weir.reload().code, Some(0));
    assert_eq!(volume(&weir, "write_budget_bytes"), 40 << 20);
    put(&origin, 420, 20_000);
    ask(&weir, 400..420, 20_000);
    until("they are stored", || volume(&weir, "written_body_bytes_total") >= 20 * 20_000);
    assert!(volume(&weir, "written_today_bytes") >= written + 20 * 20_000);
}

#[test]
fn short_lives_share_the_budget_of_a_day() {
    const BUDGET: u64 = 4 << 20;
    let origin = Origin::start();
    put(&origin, 320, 100_000);
    let mut weir = over(&origin, "admission = \"always\"", "write_budget = \"4MiB\"").start();
    let mut written = 0;
    for life in 0..8 {
        ask(&weir, 40 * life..40 * (life + 1), 100_000);
        // If nothing of the budget is left, nothing is written.
        std::thread::sleep(Duration::from_millis(300));
        written += volume(&weir, "written_body_bytes_total") + volume(&weir, "written_overhead_bytes_total");
        start_again(&mut weir, if life % 2 == 0 { "KILL" } else { "TERM" });
    }
    assert!(written > BUDGET / 2 && written <= BUDGET, "{written}");
}

#[test]
fn a_route_says_from_which_request_on_its_objects_go_to_the_drive() {
    let origin = Origin::start();
    put(&origin, 40, 10_000);
    let cache = "admission = \"always\"";
    let weir = over(&origin, cache, "").site("min_uses = { memory = 2, volume = 3 }").start();
    ask(&weir, 0..40, 10_000);
    assert_eq!(volume(&weir, "objects"), 0);
    ask(&weir, 0..40, 10_000);
    assert_eq!((origin.total(), volume(&weir, "objects"), not_admitted(&weir)), (80, 0, 40));
    ask(&weir, 0..20, 10_000);
    until("those of three requests are on the drive", || volume(&weir, "objects") == 20);
    assert_eq!(origin.total(), 80, "the third request was a hit");
}
