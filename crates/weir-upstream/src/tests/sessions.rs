//! Where sessions are among the origins: by their numbers and by rank, while origins come, go and drain.

use std::collections::HashMap;
use std::sync::Arc;

use crate::choice::adjust::Change;
use crate::health::standing::Order;
use crate::sessions::affinity::{Affinity, By, OriginId, Place, Reading, Session, SessionOf};
use crate::sessions::session_end::SessionEnd;
use crate::settings::{OriginAddress, OriginSettings, Role, UpstreamSettings};
use crate::upstream::Upstream;

fn origin(number: usize) -> OriginSettings {
    OriginSettings::new(OriginAddress::Http { host: format!("10.0.0.{number}"), port: 80 })
}

fn settings(origins: Vec<OriginSettings>) -> UpstreamSettings {
    let affinity = Affinity { by: By::Hash(SessionOf::Cookie("sid".into())), bypass: false };
    let first = origins[0].address.clone();
    UpstreamSettings { origins, affinity: Some(affinity), ..UpstreamSettings::single("app", first) }
}

fn upstream(count: usize) -> Arc<Upstream> {
    Upstream::new(settings((1..=count).map(origin).collect())).unwrap()
}

fn name(number: usize) -> String {
    format!("http://10.0.0.{number}:80")
}

fn at(number: usize) -> Session {
    Session::At(OriginId::of_address(&name(number)))
}

fn place(upstream: &Upstream, session: Session) -> Option<String> {
    upstream.origin_of(&session).map(|origin| origin.name().to_owned())
}

fn order(upstream: &Upstream, origin: &str, order: Order) {
    upstream.adjust(upstream.changed(origin, Change::Order(order)).unwrap().1).unwrap();
}

fn of(session: Session) -> Reading {
    Reading::Session { session, place: Place::Field }
}

#[test]
fn a_session_keeps_an_origin_that_drains_and_leaves_one_that_is_gone() {
    let upstream = upstream(3);
    assert_eq!(place(&upstream, at(2)), Some(name(2)));
    order(&upstream, &name(2), Order::Drain);
    assert_eq!(place(&upstream, at(2)), Some(name(2)));
    order(&upstream, &name(2), Order::Maintenance);
    assert_eq!(place(&upstream, at(2)), None);
    order(&upstream, &name(2), Order::Ready);
    assert_eq!(place(&upstream, at(2)), Some(name(2)));
    assert_eq!(place(&upstream, at(9)), None);
    assert_eq!(place(&upstream, Session::At(OriginId::default())), None);
}

#[test]
fn a_reload_finds_the_origins_of_sessions_again() {
    let one = upstream(2);
    let next = Upstream::succeed(&one, settings(vec![origin(7), origin(2), origin(1)])).unwrap();
    assert_eq!(
        [at(1), at(2), at(7)].map(|session| place(&next, session)),
        [1, 2, 7].map(|at| Some(name(at)))
    );
    // An origin that has a name is found by that, wherever it is.
    let moved = OriginSettings { node: Some("a".into()), ..origin(8) };
    let named = Upstream::succeed(&next, settings(vec![origin(1), moved])).unwrap();
    assert_eq!(place(&named, Session::At(OriginId::of_node("a"))), Some(name(8)));
    assert_eq!(place(&named, at(8)), None);
}

#[test]
fn hashed_sessions_move_with_their_own_origin_only() {
    const SESSIONS: u64 = 20_000;
    let upstream = upstream(10);
    let places = || -> Vec<String> {
        (0..SESSIONS).map(|number| place(&upstream, Session::Hashed(number)).unwrap()).collect()
    };
    let before = places();
    let mut shares: HashMap<&str, usize> = HashMap::new();
    before.iter().for_each(|name| *shares.entry(name).or_default() += 1);
    // Six standard deviations of a share of a tenth.
    assert!(shares.len() == 10 && shares.values().all(|share| share.abs_diff(2000) < 260), "{shares:?}");
    order(&upstream, &name(4), Order::Drain);
    assert_eq!(places(), before);
    order(&upstream, &name(4), Order::Maintenance);
    for (then, now) in before.iter().zip(places()) {
        assert!(if *then == name(4) { now != *then } else { now == *then }, "{then} {now}");
    }
    order(&upstream, &name(4), Order::Ready);
    assert_eq!(places(), before);
}

#[test]
fn hashed_sessions_follow_weights_and_spare_backups() {
    let mut origins: Vec<OriginSettings> = (1..=4).map(origin).collect();
    origins[1].weight = 3;
    origins[3].role = Role::Backup;
    let upstream = Upstream::new(settings(origins)).unwrap();
    let mut shares: HashMap<String, usize> = HashMap::new();
    for number in 0..20_000 {
        *shares.entry(place(&upstream, Session::Hashed(number)).unwrap()).or_default() += 1;
    }
    let share = |number: usize| shares.get(&name(number)).copied().unwrap_or_default();
    assert!(share(1).abs_diff(4000) < 350 && share(2).abs_diff(12_000) < 420, "{shares:?}");
    assert_eq!(share(4), 0);
    (1..=3).for_each(|number| order(&upstream, &name(number), Order::Maintenance));
    assert_eq!(place(&upstream, Session::Hashed(7)), Some(name(4)));
}

#[test]
fn what_becomes_of_sessions_is_counted_over_reloads() {
    let one = upstream(3);
    let id = |number: usize| OriginId::of_address(&name(number));
    let settle = |upstream: &Upstream, reading, answered, begins, expect| {
        assert_eq!(upstream.settle(&reading, answered, begins), expect, "{reading:?}");
    };
    settle(&one, Reading::Nothing, id(1), true, Some(SessionEnd::Created));
    settle(&one, Reading::Nothing, id(1), false, None);
    settle(&one, Reading::Refused, id(1), true, Some(SessionEnd::Created));
    settle(&one, of(at(2)), id(2), false, Some(SessionEnd::Kept));
    let next = Upstream::succeed(&one, settings(vec![origin(1)])).unwrap();
    settle(&next, of(at(2)), id(1), true, Some(SessionEnd::Moved));
    settle(&next, of(Session::Hashed(5)), id(1), false, Some(SessionEnd::Kept));
    let counted = next.snapshot().sessions.unwrap();
    assert_eq!((counted.created, counted.kept, counted.moved, counted.refused), (2, 2, 1, 1));
}
