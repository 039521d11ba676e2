//! Counting, lifetimes, bounds, and who loses entries.

use super::*;

fn client(number: u32) -> Owner {
    Owner::of(Some(IpAddr::from(number.to_be_bytes())))
}

fn at(begun: Instant, ms: u64) -> Instant {
    begun + Duration::from_millis(ms)
}

#[test]
fn a_key_is_counted_within_its_window() {
    let begun = crate::clock::now();
    let state = State::new(begun);
    let count = |ms| state.count("a", 8, client(1), at(begun, ms)).unwrap();
    assert_eq!([count(0), count(10), count(900), count(7900)], [1, 2, 3, 4]);
    // The first slot is the oldest one: half of it has left the window.
    assert_eq!(count(8500), 4, "4 were counted, 3 in a slot of which half is left; this is one more");
    assert_eq!(count(9001), 3);
    assert_eq!(count(60_000), 1);
    assert_eq!(state.counted("a", 8, at(begun, 60_001)), Ok(1));
    assert_eq!(state.counted("a", 9, at(begun, 60_001)), Ok(0), "another window counts by itself");
    assert_eq!(state.counted("b", 8, at(begun, 60_001)), Ok(0));
}

#[test]
fn many_uses_are_counted_exactly_within_a_window() {
    let begun = crate::clock::now();
    let state = State::new(begun);
    for expected in 1..=1000 {
        assert_eq!(state.count("k", 10, client(1), at(begun, expected as u64 * 9)), Ok(expected));
    }
}

#[test]
fn a_value_ends_with_its_time() {
    let begun = crate::clock::now();
    let state = State::new(begun);
    let set = |key: &str, value: Dynamic| state.set(key, &value, 5, (client(1), begun));
    set("flag", true.into()).unwrap();
    set("integer", 7_i64.into()).unwrap();
    set("number", 0.5_f64.into()).unwrap();
    set("text", "abc".into()).unwrap();
    let value = |key, ms| state.value(key, at(begun, ms));
    assert!(value("flag", 0).as_bool().unwrap());
    assert_eq!(value("integer", 4999).as_int(), Ok(7));
    assert_eq!(value("number", 0).as_float(), Ok(0.5));
    assert_eq!(value("text", 0).into_string().unwrap(), "abc");
    assert!(value("text", 5000).is_unit());
    state.remove("flag");
    assert!(value("flag", 0).is_unit());
    assert!(value("never", 0).is_unit());
}

#[test]
fn long_keys_are_told_apart_and_take_little() {
    let begun = crate::clock::now();
    let state = State::new(begun);
    let (one, other) = (format!("{}1", "k".repeat(60_000)), format!("{}2", "k".repeat(60_000)));
    state.set(&one, &1_i64.into(), 5, (client(1), begun)).unwrap();
    assert_eq!(state.value(&one, begun).as_int(), Ok(1));
    assert!(state.value(&other, begun).is_unit());
    assert_eq!(state.count(&other, 5, client(1), begun), Ok(1));
    assert_eq!(state.count(&other, 5, client(1), begun), Ok(2));
    assert_eq!(state.counted(&one, 5, begun), Ok(0));
    assert!(state.remembered().bytes < 1000, "{:?}", state.remembered());
    state.remove(&one);
    assert!(state.value(&one, begun).is_unit());
}

#[test]
fn values_and_times_are_bounded() {
    let begun = crate::clock::now();
    let state = State::new(begun);
    let mine = (client(1), begun);
    assert_eq!(state.set("a", &"v".repeat(VALUE_BYTES_MAX + 1).into(), 5, mine), Err(StateError::Value));
    assert_eq!(state.set("a", &Dynamic::from_array(vec![]), 5, mine), Err(StateError::Value));
    assert_eq!(state.set("a", &Dynamic::UNIT, 5, mine), Err(StateError::Value));
    for seconds in [0, -1, SECONDS_MAX + 1, i64::MIN, i64::MAX] {
        assert_eq!(state.set("a", &1_i64.into(), seconds, mine), Err(StateError::Seconds));
        assert_eq!(state.count("a", seconds, client(1), begun), Err(StateError::Seconds));
    }
    assert_eq!(state.remembered().entries, 0);
}

#[test]
fn entries_and_bytes_stay_within_their_bounds() {
    let begun = crate::clock::now();
    let state = State::of(640, 640 << 10, begun);
    for number in 0..20_000_u32 {
        let value = Dynamic::from("v".repeat(number as usize % VALUE_BYTES_MAX));
        state.set(&format!("{number}"), &value, 60, (client(number), begun)).unwrap();
        let remembered = state.remembered();
        assert!(remembered.entries <= 640 && remembered.bytes <= 640 << 10, "{remembered:?}");
    }
    assert!(state.remembered().evicted > 19_000);
}

#[test]
fn one_client_pushes_out_its_own() {
    let begun = crate::clock::now();
    let state = State::of(6400, BYTES_MAX, begun);
    for number in 1..=1000 {
        state.set(&format!("of {number}"), &1_i64.into(), 60, (client(number), begun)).unwrap();
    }
    for number in 0..200_000 {
        state.count(&format!("spam {number}"), 3600, client(0), begun).unwrap();
    }
    let left = (1..=1000).filter(|number| !state.value(&format!("of {number}"), begun).is_unit()).count();
    assert_eq!(left, 1000, "of the other clients' entries");
}

#[test]
fn expired_entries_go_before_living_ones() {
    let begun = crate::clock::now();
    let state = State::of(SHARDS * 16, BYTES_MAX, begun);
    for number in 0..10_000 {
        state.set(&format!("old {number}"), &1_i64.into(), 1, (client(number), begun)).unwrap();
    }
    let later = at(begun, 2000);
    let before = state.remembered().evicted;
    for number in 0..200 {
        state.set(&format!("new {number}"), &1_i64.into(), 60, (client(number), later)).unwrap();
    }
    let left = (0..200).filter(|number| !state.value(&format!("new {number}"), later).is_unit()).count();
    assert_eq!((left, state.remembered().evicted - before), (200, 0));
}

#[test]
fn an_address_is_one_owner_and_so_is_a_network() {
    let of = |address: &str| Owner::of(Some(address.parse().unwrap()));
    assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
    assert_ne!(Owner::of(None), of("0.0.0.0"));
}

#[test]
fn all_threads_count_together() {
    let begun = crate::clock::now();
    let state = State::new(begun);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).all(|_| state.count("k", 60, client(1), begun).is_ok()));
        }
    });
    assert_eq!(state.counted("k", 60, begun), Ok(4000));
}
