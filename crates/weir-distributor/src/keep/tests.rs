//! Answers that are kept: by what, how long, and what one client costs the others.

use super::*;

fn of(last: u8) -> Whose<'static> {
    Whose::Client(IpAddr::from([192, 0, 2, last]))
}

fn there(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

/// The key of a session of this client.
fn session(kept: &Kept, at: u32, client: u32) -> Key {
    kept.key(Whose::Session(&at.to_string()), ["shop", "a", "u"], Some(IpAddr::from(client.to_be_bytes())))
}

fn held(kept: &Kept) -> usize {
    kept.shards.iter().map(|shard| shard.lock().answers.len()).sum()
}

#[test]
fn an_answer_is_for_one_client_one_route_and_a_time() {
    let (kept, now) = (Kept::new(Keep::For(Duration::from_secs(5))), crate::clock::now());
    let key = |whose: Whose<'_>, route: &str| kept.key(whose, ["shop", route, "u"], None);
    kept.put(key(of(1), "a"), there(1), now);
    assert_eq!(kept.find(&key(of(1), "a"), now + Duration::from_millis(4999)), Some(there(1)));
    assert_eq!(kept.find(&key(of(1), "a"), now + Duration::from_secs(5)), None);
    assert_eq!(kept.find(&key(of(2), "a"), now), None);
    assert_eq!(kept.find(&key(of(1), "b"), now), None);
    assert_eq!(kept.find(&key(Whose::Session("192.0.2.1"), "a"), now), None);
    kept.forget(&key(of(1), "a"));
    assert_eq!(kept.find(&key(of(1), "a"), now), None);
}

#[test]
fn host_and_target_of_a_fill_are_told_apart() {
    let (kept, now) = (Kept::new(Keep::For(Duration::from_secs(5))), crate::clock::now());
    let key = |host: &str, target: &[u8]| kept.key(Whose::Target(host, target), ["shop", "a", "u"], None);
    kept.put(key("a", b"b/"), there(1), now);
    assert_eq!(kept.find(&key("a", b"b/"), now), Some(there(1)));
    assert_eq!(kept.find(&key("ab", b"/"), now), None);
}

#[test]
fn a_session_is_kept_while_it_is_used() {
    let (kept, mut now) = (Kept::new(Keep::Session), crate::clock::now());
    let one = session(&kept, 1, 1);
    kept.put(one, there(1), now);
    for _ in 0..10 {
        now += IDLE - Duration::from_secs(1);
        assert!(kept.find(&one, now).is_some());
    }
    assert_eq!(kept.find(&one, now + IDLE), None);
}

#[test]
fn what_is_kept_is_bounded_and_the_newest_stays() {
    let (kept, now) = (Kept::new(Keep::Session), crate::clock::now());
    (0..100_000).for_each(|at| kept.put(session(&kept, at, at), there(1), now));
    assert!(held(&kept) <= SHARDS * SHARD_MAX, "{}", held(&kept));
    assert!(kept.find(&session(&kept, 99_999, 99_999), now).is_some());
    assert_eq!(kept.find(&session(&kept, 0, 0), now), None);
}

#[test]
fn one_client_with_sessions_without_end_costs_the_others_none() {
    let (kept, now) = (Kept::new(Keep::Session), crate::clock::now());
    (0..1000).for_each(|at| kept.put(session(&kept, at, at), there(1), now));
    (1000..200_000).for_each(|at| kept.put(session(&kept, at, 7_000_000), there(2), now));
    let left = (0..1000).filter(|at| kept.find(&session(&kept, *at, *at), now) == Some(there(1))).count();
    assert_eq!(left, 1000);
    assert!(held(&kept) <= SHARDS * SHARD_MAX);
}

#[test]
fn the_addresses_of_an_ipv6_network_are_one_client() {
    let of = |client: &str| Owner::of(Some(client.parse().unwrap()));
    assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
}

#[test]
fn what_is_out_of_date_goes_as_others_come_and_nothing_is_left_of_it() {
    let (kept, now) = (Kept::new(Keep::Session), crate::clock::now());
    (0..20_000).for_each(|at| kept.put(session(&kept, at, at), there(1), now));
    (0..20_000).for_each(|at| kept.put(session(&kept, 50_000 + at, 1), there(1), now + IDLE));
    assert!(held(&kept) < 20_100, "{}", held(&kept));
    for shard in &kept.shards {
        let shard = shard.lock();
        let all = shard.answers.len();
        assert_eq!((shard.order.len(), shard.of_owner.len()), (all, all));
        assert_eq!(shard.counts.values().sum::<usize>(), all);
        assert_eq!(shard.largest.len(), shard.counts.len());
    }
}

#[test]
fn an_answer_that_is_used_outlives_those_that_are_not() {
    let (kept, now) = (Kept::new(Keep::Session), crate::clock::now());
    (0..40_000).for_each(|at| kept.put(session(&kept, at, 1), there(1), now));
    kept.put(session(&kept, 0, 1), there(2), now);
    assert!(kept.find(&session(&kept, 1, 1), now).is_some());
    (40_000..70_000).for_each(|at| kept.put(session(&kept, at, 1), there(1), now));
    assert_eq!(kept.find(&session(&kept, 0, 1), now), Some(there(2)));
    assert_eq!(kept.find(&session(&kept, 1, 1), now), Some(there(1)));
}
