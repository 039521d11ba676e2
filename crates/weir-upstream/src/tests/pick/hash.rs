//! What a hash goes by, what it moves, and its bound.

use http::header::{COOKIE, HeaderMap, HeaderName, HeaderValue};

use super::{Group, Tried, of_path};
use crate::choice::pick::{Asked, HashOf, Pick, Picking, Reason, Whose, host_point};

const KEYS: usize = 50_000;

fn of_uri(bound: f64) -> Pick {
    Pick::Hash { of: HashOf::Uri, bound }
}

/// Where each key goes.
fn places(origins: &[(u64, u32)]) -> Vec<u64> {
    let mut group = Group::named(origins);
    let picking = Picking::default();
    let place = |key: usize| {
        let target = format!("/object/{key}");
        let picked = group.choose(&[of_uri(1.25)], &of_path(&picking, &target), &Tried::default()).unwrap();
        origins[picked.at].0
    };
    (0..KEYS).map(place).collect()
}

/// Keys that go elsewhere, and how many of them neither leave nor reach this origin.
fn moved(before: &[u64], after: &[u64], of: u64) -> (f64, usize) {
    let moved: Vec<_> = before.iter().zip(after).filter(|(one, other)| one != other).collect();
    let strangers = moved.iter().filter(|(one, other)| **one != of && **other != of).count();
    (moved.len() as f64 / KEYS as f64, strangers)
}

#[test]
fn what_comes_or_leaves_moves_its_share_alone() {
    for weights in [[1; 10], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [1, 1000, 1, 500, 20, 30, 1, 1, 7, 7]] {
        let all: Vec<(u64, u32)> =
            weights.iter().enumerate().map(|(at, weight)| (at as u64, *weight)).collect();
        let before = places(&all);
        let sum: u32 = weights.iter().sum();
        for gone in all.iter().filter(|(_, weight)| *weight * 20 >= sum) {
            let left: Vec<_> = all.iter().copied().filter(|other| other != gone).collect();
            let share = f64::from(gone.1) / f64::from(sum);
            let (moved, strangers) = moved(&before, &places(&left), gone.0);
            assert_eq!(strangers, 0, "{gone:?}");
            assert!(moved <= 1.1 * share && moved >= 0.9 * share, "{gone:?}: {moved} of {share}");
        }
    }
}

#[test]
fn a_hundred_origins_move_a_share_too() {
    let all: Vec<(u64, u32)> = (0..100).map(|name| (name, 1)).collect();
    let (before, after) = (places(&all), places(&all[..99]));
    let own = before.iter().filter(|name| **name == 99).count();
    assert_eq!(moved(&before, &after, 99), (own as f64 / KEYS as f64, 0));
}

#[test]
fn another_weight_moves_the_difference_alone() {
    let (before, after) = (places(&[(0, 1), (1, 1), (2, 1)]), places(&[(0, 1), (1, 1), (2, 2)]));
    let (moved, strangers) = moved(&before, &after, 2);
    assert_eq!(strangers, 0);
    // From a third to a half.
    assert!((moved - 1.0 / 6.0).abs() < 0.01, "{moved}");
}

/// The same on all machines and in all versions: several Weirs must agree.
#[test]
fn places_are_golden() {
    let found = &places(&[(0, 1), (1, 2), (2, 3)])[..12];
    assert_eq!(found, [1, 1, 2, 2, 0, 2, 0, 1, 2, 2, 0, 2]);
}

#[test]
fn the_bound_holds() {
    for (bound, weights) in
        [(1.0, vec![1; 8]), (1.25, vec![1; 8]), (1.25, vec![1, 2, 3, 10]), (2.0, vec![1; 100])]
    {
        let mut group = Group::new(&weights);
        let all: u32 = weights.iter().sum();
        let picking = Picking::default();
        let mut reasons = Vec::new();
        // All want the same origin.
        for under_way in 1..=5000_u32 {
            let picked =
                group.choose(&[of_uri(bound)], &of_path(&picking, "/hot"), &Tried::default()).unwrap();
            group.loads[picked.at].set_room(usize::MAX);
            group.loads[picked.at].begin();
            reasons.push(picked.reason);
            let share = f64::from(weights[picked.at]) / f64::from(all);
            let most = (bound * f64::from(under_way) * share).ceil();
            assert!(f64::from(group.loads[picked.at].requests()) <= most, "{bound} {weights:?} {under_way}");
        }
        assert!(reasons.contains(&Reason::Hash) && reasons.contains(&Reason::Bound));
    }
}

#[test]
fn the_next_is_the_same_for_all_requests_of_a_key() {
    let mut group = Group::new(&[1; 8]);
    let picking = Picking::default();
    let mut at = |tried: &Tried| group.choose(&[of_uri(1.25)], &of_path(&picking, "/a"), tried).unwrap().at;
    let first = at(&Tried::default());
    let without = Tried([first].into());
    let next = at(&without);
    assert!(next != first && (0..20).all(|_| at(&without) == next && at(&Tried::default()) == first));
}

/// Whether two requests, each a target and a cookie, go by the same hash; `None` where one lacks it.
fn check(of: HashOf, whose: Whose, [one, other]: [(&str, &str); 2], expect: Option<bool>) {
    let picking = Picking { whose, ..Picking::default() };
    let pick = Pick::Hash { of: of.clone(), bound: 1.25 };
    let point = |(target, cookie): (&str, &str)| {
        let mut headers = HeaderMap::new();
        if !cookie.is_empty() {
            headers.insert(COOKIE, HeaderValue::from_str(cookie).unwrap());
        }
        Asked { picking: &picking, target: target.as_bytes(), headers: &headers }.point(&pick)
    };
    let same = point(one).zip(point(other)).map(|(one, other)| one == other);
    assert_eq!(same, expect, "{of:?}");
}

#[test]
fn a_hash_goes_by_its_part() {
    let cookie = || HashOf::Cookie("sid".to_owned());
    let query = || HashOf::Query("id".to_owned());
    let field = || HashOf::Header(HeaderName::from_static("cookie"));
    let (nobody, client) = (Whose::Nobody, Whose::Client);
    check(HashOf::Uri, nobody, [("/a?b", ""), ("/a?b", "x=1")], Some(true));
    check(HashOf::Uri, nobody, [("/a?b", ""), ("/a?c", "")], Some(false));
    check(HashOf::Path, nobody, [("/a?b", ""), ("/a?c", "")], Some(true));
    check(query(), nobody, [("/a?id=1&x", ""), ("/b?y&id=1", "")], Some(true));
    check(query(), nobody, [("/a?id=1", ""), ("/a?id=2", "")], Some(false));
    check(query(), nobody, [("/a?id=1", ""), ("/a?id=", "")], None);
    check(query(), nobody, [("/a?id=1", ""), ("/a?aid=1", "")], None);
    check(cookie(), client, [("/a", "sid=1"), ("/b", "x=2; sid=1")], Some(true));
    check(cookie(), client, [("/a", "sid=1"), ("/a", "sid=2")], Some(false));
    check(cookie(), client, [("/a", "sid=1"), ("/a", "")], None);
    check(cookie(), nobody, [("/a", "sid=1"), ("/a", "sid=1")], None);
    check(field(), client, [("/a", "sid=1"), ("/b", "sid=1")], Some(true));
    check(field(), nobody, [("/a", "sid=1"), ("/b", "sid=1")], None);
}

#[test]
fn a_hash_of_the_host_goes_by_the_clients() {
    let pick = Pick::Hash { of: HashOf::Host, bound: 1.25 };
    let point = |host: Option<&str>| {
        let picking = Picking { host: host.map(host_point), ..Picking::default() };
        of_path(&picking, "/").point(&pick)
    };
    assert_eq!(point(Some("a.example")), point(Some("a.example")));
    assert_ne!(point(Some("a.example")), point(Some("b.example")));
    assert_eq!(point(None), None);
}

#[test]
fn neighbours_are_one_client() {
    let point = |client: &str| {
        let picking = Picking { whose: Whose::Client, client: client.parse().ok(), ..Picking::default() };
        of_path(&picking, "/").point(&Pick::ClientAddress)
    };
    assert_eq!(point("192.0.2.1"), point("192.0.2.200"));
    assert_eq!(point("192.0.2.1"), point("::ffff:192.0.2.1"));
    assert_ne!(point("192.0.2.1"), point("192.0.3.1"));
    assert_eq!(point("2001:db8::1"), point("2001:db8::2"));
    assert_ne!(point("2001:db8::1"), point("2001:db8:0:1::1"));
    assert_eq!(point("nobody"), None);
}
