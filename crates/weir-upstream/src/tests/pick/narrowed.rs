//! What one pick leaves open the next one decides; what each takes account of.

use super::{Group, Tried, of_path};
use crate::choice::pick::{HashOf, Pick, PickWord, Picking, Reason, Whose};

fn choose(group: &mut Group, picks: &[Pick]) -> (usize, PickWord, Reason) {
    let picking = Picking::default();
    let picked = group.choose(picks, &of_path(&picking, "/"), &Tried::default()).unwrap();
    (picked.at, picked.pick, picked.reason)
}

/// Origins with so many requests under way.
fn busy(requests: &[u32]) -> Group {
    let group = Group::new(&vec![1; requests.len()]);
    for (load, requests) in group.loads.iter().zip(requests) {
        (0..*requests).for_each(|_| load.begin());
    }
    group
}

#[test]
fn the_least_busy_is_picked() {
    for pick in [Pick::LeastRequests, Pick::Latency, Pick::ByBusyness] {
        let mut group = busy(&[3, 2, 1, 2]);
        assert_eq!(choose(&mut group, std::slice::from_ref(&pick)), (2, pick.word(), Reason::Least));
    }
}

#[test]
fn ties_are_decided_by_the_next_pick_and_at_last_by_turns() {
    let mut group = busy(&[0, 1, 0, 1]);
    let first = [Pick::LeastRequests, Pick::First];
    assert!((0..9).all(|_| choose(&mut group, &first) == (0, PickWord::First, Reason::First)));
    let found: Vec<usize> = (0..20).map(|_| choose(&mut group, &[Pick::LeastRequests]).0).collect();
    assert!([0, 2].iter().all(|at| found.contains(at)) && ![1, 3].iter().any(|at| found.contains(at)));
    assert_eq!(choose(&mut group, &[Pick::LeastRequests]).2, Reason::Turn);
}

#[test]
fn two_choices_prefer_the_less_busy() {
    let mut group = busy(&[9, 0, 0, 0, 0, 0, 0, 0]);
    assert!((0..1000).all(|_| choose(&mut group, &[Pick::TwoChoices]).0 != 0));
    let mut group = busy(&[9, 8, 8, 8, 8, 8, 8, 0]);
    let least = (0..1000).filter(|_| choose(&mut group, &[Pick::TwoChoices]).0 == 7).count();
    // It is among two of eight in a quarter of the draws.
    assert!((180..320).contains(&least), "{least}");
}

#[test]
fn the_slow_are_picked_less_and_are_tried_again() {
    let mut group = Group::new(&[1; 3]);
    let all_asked: Vec<usize> = (0..3)
        .map(|_| {
            let at = choose(&mut group, &[Pick::Latency]).0;
            group.loads[at].begin();
            at
        })
        .collect();
    assert!([0, 1, 2].iter().all(|at| all_asked.contains(at)), "{all_asked:?}");
    for (at, load) in group.loads.iter().enumerate() {
        load.end();
        load.measure([1000, 40_000, 2000][at], 0);
    }
    let latency = |group: &Group, at: usize, now_ms| group.loads[at].latency_us(now_ms);
    assert_eq!([0, 1, 2].map(|at| latency(&group, at, 0)), [1000, 40_000, 2000]);
    assert_eq!(choose(&mut group, &[Pick::Latency]).0, 0);
    (0..2).for_each(|_| group.loads[0].begin());
    assert_eq!(choose(&mut group, &[Pick::Latency]).0, 2);
    // What is not measured fades by halves; a peak counts at once, what is better slowly.
    assert_eq!([8192, 16_384].map(|now_ms| latency(&group, 1, now_ms)), [20_000, 10_000]);
    group.loads[1].measure(1000, 8192);
    assert_eq!(latency(&group, 1, 8192), 20_500);
    // One slow answer may be the fault of its URL: it doubles at most.
    group.loads[1].measure(50_000, 8192);
    assert_eq!(latency(&group, 1, 8192), 41_000);
    group.loads[1].measure(50_000, 8192);
    assert_eq!(latency(&group, 1, 8192), 50_000);
    group.loads[1].measure_failure(60_000_000, 8192);
    assert_eq!(latency(&group, 1, 8192), 100_000);
    // A clock that is behind changes nothing.
    assert_eq!(latency(&group, 1, 8191), 100_000);
    assert_eq!(latency(&group, 1, 8192 + 40 * 8192), 0);
}

#[test]
fn the_first_with_room_is_picked() {
    let mut group = Group::new(&[1; 3]);
    assert_eq!(choose(&mut group, &[Pick::First]).0, 0);
    group.loads[0].set_room(0);
    assert_eq!(choose(&mut group, &[Pick::First]), (1, PickWord::First, Reason::First));
}

/// Where a request lacks what a pick goes by, the next one decides, and at last the less busy of two.
#[test]
fn what_is_lacking_leaves_all_open() {
    let of_cookie = Pick::Hash { of: HashOf::Cookie("sid".to_owned()), bound: 1.25 };
    for pick in [Pick::ClientAddress, of_cookie] {
        let mut group = busy(&[9, 0, 0, 0]);
        let found: Vec<_> = (0..100).map(|_| choose(&mut group, std::slice::from_ref(&pick))).collect();
        assert!(found.iter().all(|found| found.0 != 0 && found.2 == Reason::Fallback), "{found:?}");
        assert!((1..4).all(|at| found.iter().any(|found| found.0 == at)));
        let picks = [pick.clone(), Pick::First];
        assert_eq!(choose(&mut group, &picks), (0, PickWord::First, Reason::First));
        let picks = [pick, Pick::LeastRequests];
        assert!((0..100).all(|_| choose(&mut group, &picks).2 == Reason::Fallback));
    }
}

#[test]
fn a_client_stays_where_it_is_while_others_leave() {
    let picking = Picking { whose: Whose::Client, client: "192.0.2.1".parse().ok(), ..Picking::default() };
    let mut group = Group::new(&[1; 8]);
    let mut at =
        |tried: &Tried| group.choose(&[Pick::ClientAddress], &of_path(&picking, "/"), tried).unwrap().at;
    let home = at(&Tried::default());
    for gone in (0..8).filter(|gone| *gone != home) {
        assert_eq!(at(&Tried([gone].into())), home);
    }
}
