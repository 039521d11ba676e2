//! Distributors that lie, forge, repeat themselves and answer in another order, at whatever time: no request
//! goes to an origin that was not answered for it, and none is lost, also while the configuration is loaded
//! again and the program replaced.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_testkit::{Origin, Weir, until};

use super::asked::{answer, asking};
use super::played::{Asked, Played};
use crate::origins::changes::named;

/// The number at the end of a question's path.
fn number(asked: &Asked) -> usize {
    let target = asked.head.split(' ').nth(1).unwrap();
    target.rsplit('/').next().unwrap().parse().unwrap()
}

fn addresses(origins: &[Origin; 2]) -> [SocketAddr; 2] {
    origins.each_ref().map(Origin::addr)
}

fn outcome(weir: &Weir, outcome: &str) -> f64 {
    let series =
        format!("weir_pick_outcomes_total{{pick=\"asked\",kind=\"distributor\",outcome=\"{outcome}\"}}");
    weir.metric(&series).unwrap_or_else(|| panic!("{}", weir.admin_get("/metrics").text()))
}

#[test]
fn what_is_no_origin_is_never_asked() {
    let origins = ["a", "b"].map(named);
    let stranger = named("stranger");
    let lie = stranger.addr();
    let distributor = Played::start(move |asked| vec![asked.address(lie)]);
    let weir = asking(&origins.each_ref(), &[distributor.url()], "timeout = \"1s\"").start();
    let who = answer(&weir, "/pass/1");
    assert!(["a", "b"].contains(&&*who), "{who}");
    assert_eq!(stranger.total(), 0);
    assert_eq!(distributor.count(), 3, "three datagrams");
    assert_eq!(outcome(&weir, "not_allowed"), 3.0);
}

#[test]
fn a_distributor_that_goes_and_comes_back_is_in_the_log() {
    let origins = ["a", "b"].map(named);
    let (to, is_gone) = (origins[0].addr(), Arc::new(AtomicBool::new(true)));
    let gone = is_gone.clone();
    let distributor = Played::start(move |asked| match gone.load(Ordering::Relaxed) {
        true => Vec::new(),
        false => vec![asked.address(to)],
    });
    let weir = asking(&origins.each_ref(), &[distributor.url()], "timeout = \"5ms\"").start();
    (0..10).for_each(|at| drop(answer(&weir, &format!("/pass/{at}"))));
    until("its silence is said", || weir.stderr().contains("the distributor is silent"));
    let line = weir.stderr().lines().find(|line| line.contains("is silent")).unwrap().to_owned();
    assert!(line.contains("WARN") && line.contains("asked") && line.contains(&distributor.url()), "{line}");
    assert!(weir.command(&["status"]).stdout.contains("is silent"));
    is_gone.store(false, Ordering::Relaxed);
    until("its return is said", || {
        answer(&weir, "/pass/1");
        weir.stderr().contains("the distributor answers again")
    });
    assert_eq!(weir.stderr().lines().filter(|line| line.contains("is silent")).count(), 1);
}

#[test]
fn answers_that_are_of_no_use_have_their_cause_in_the_log() {
    let origins = ["a", "b"].map(named);
    let distributor = Played::start(|_| vec![b"localhost:80".to_vec()]);
    let weir = asking(&origins.each_ref(), &[distributor.url()], "timeout = \"5ms\"").start();
    (0..5).for_each(|at| drop(answer(&weir, &format!("/pass/{at}"))));
    until("the cause is said", || weir.stderr().contains("answers have not the form"));
    assert_eq!(weir.stderr().lines().filter(|line| line.contains("no answer is of use")).count(), 1);
}

#[test]
fn an_address_that_is_allowed_is_asked_though_it_is_no_origin() {
    let origins = ["a", "b"].map(named);
    let (guest, other) = (named("guest"), named("other"));
    let to = guest.addr();
    let distributor = Played::start(move |asked| vec![asked.address(to)]);
    let lines = "timeout = \"1s\"\nallow = [\"127.0.0.0/8\"]";
    let weir = asking(&origins.each_ref(), &[distributor.url()], lines).start();
    (0..4).for_each(|at| assert_eq!(answer(&weir, &format!("/pass/{at}")), "guest"));
    assert_eq!(guest.connections(), 1, "its connection is used again");
    assert_eq!(outcome(&weir, "not_allowed"), 0.0);
    // It takes no share of what is not answered with it, and is no origin of the upstream.
    let listed = weir.command(&["origins"]).stdout;
    assert!(!listed.contains(&guest.addr().port().to_string()), "{listed}");
    // Once it is gone, the request goes elsewhere.
    drop(guest);
    assert!(["a", "b"].contains(&&*answer(&weir, "/pass/9")));
    assert_eq!(other.total(), 0);
}

#[test]
fn each_request_goes_where_its_own_answer_says() {
    let origins = ["a", "b"].map(named);
    let to = addresses(&origins);
    let mut held: Vec<Vec<u8>> = Vec::new();
    let mut first: HashMap<[u8; 8], ()> = HashMap::new();
    let distributor = Played::start(move |asked| {
        // The right one twice, then what was answered to others before, then bytes that are none.
        let right = asked.address(to[number(asked) % 2]);
        let mut wrong = asked.address(to[(number(asked) + 1) % 2]);
        wrong[4] ^= 0x55;
        let mut all = vec![wrong, right.clone(), right.clone(), b"WA\x01\x01".to_vec()];
        all.extend(held.iter().rev().take(3).cloned());
        held.push(right);
        first.insert(asked.id, ());
        all
    });
    let weir = asking(&origins.each_ref(), &[distributor.url()], "timeout = \"1s\"").start();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let weir = &weir;
            scope.spawn(move || {
                let mut client = weir.client();
                for at in 0..100 {
                    let number = thread * 100 + at;
                    let response = client.get("a.example", &format!("/pass/{number}"), &[]);
                    assert_eq!(response.text(), ["a", "b"][number % 2], "{number}");
                }
            });
        }
    });
    assert_eq!(outcome(&weir, "addresses"), 400.0);
    // What was answered to another worker is not asked by this one.
    assert!(outcome(&weir, "unasked") >= 400.0);
    assert_eq!(outcome(&weir, "malformed"), 400.0);
    assert!(outcome(&weir, "duplicate") >= 400.0);
}

#[test]
fn reloads_and_an_upgrade_lose_no_question() {
    let origins = ["a", "b"].map(named);
    let to = addresses(&origins);
    let distributor = Played::start(move |asked| vec![asked.address(to[number(asked) % 2])]);
    let server = |queue: u32| {
        asking(&origins.each_ref(), &[distributor.url()], "timeout = \"1s\"")
            .upstream(&format!("queue = {queue}"))
    };
    let mut weir = server(100).start();
    let (ends, address) = (Arc::new(AtomicBool::new(false)), weir.addr());
    let asking: Vec<_> = (0..3)
        .map(|thread| {
            let ends = ends.clone();
            std::thread::spawn(move || {
                let mut count = 0_usize;
                while !ends.load(Ordering::Relaxed) {
                    let number = thread * 100_000 + count;
                    let response = weir_testkit::get(address, &format!("/pass/{number}"));
                    assert_eq!(response.text(), ["a", "b"][number % 2], "{number}");
                    count += 1;
                }
                count
            })
        })
        .collect();
    for queue in 101..104 {
        weir.rewrite_config(&server(queue).text());
        assert_eq!(weir.reload().code, Some(0));
    }
    assert_eq!(weir.upgrade(&[]).code, Some(0));
    let so_far = distributor.count();
    until("the new program asks", || distributor.count() > so_far + 20);
    ends.store(true, Ordering::Relaxed);
    let all: usize = asking.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(distributor.count() >= all, "each request was asked for");
}
