//! What values of an origin promise: ages, the order of sources, bounds, and readers beside a writer.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn source(name: &str) -> Arc<str> {
    name.into()
}

#[test]
fn a_value_counts_until_its_time_is_over() {
    let (gauges, now) = (Gauges::default(), clock::now());
    assert_eq!(gauges.get("cpu", now), Gauge::Missing);
    gauges.set("cpu", &source("g"), 0.25, (now, Some(now + 3 * SECOND))).unwrap();
    gauges.set("load", &source("g"), 7.0, (now, None)).unwrap();
    assert_eq!(gauges.get("cpu", now + 2 * SECOND), Gauge::Fresh(0.25));
    assert_eq!(gauges.get("cpu", now + 3 * SECOND), Gauge::Stale(0.25));
    assert_eq!(gauges.get("cpu", now + 3 * SECOND).fresh(), None);
    assert_eq!(gauges.get("load", now + 3000 * SECOND), Gauge::Fresh(7.0));
    let reading = gauges.read("cpu", now + 2 * SECOND).unwrap();
    assert_eq!((reading.age, reading.left), (2 * SECOND, Some(SECOND)));
    assert_eq!(reading.measured, now);
    let changes = gauges.changes();
    gauges.set("cpu", &source("g"), 0.5, (now + SECOND, None)).unwrap();
    assert_ne!(gauges.changes(), changes);
    assert_eq!(gauges.get("cpu", now + 9 * SECOND), Gauge::Fresh(0.5));
    // Measured before there were gauges, on a machine that may have started just now.
    let past = now.checked_sub(SECOND).unwrap();
    gauges.set("cpu", &source("g"), 0.75, (past, Some(past + 2 * SECOND))).unwrap();
    assert_eq!(gauges.read("cpu", now).unwrap().age, SECOND);
    assert_eq!(gauges.get("cpu", now + SECOND), Gauge::Stale(0.75));
}

#[test]
fn the_first_source_with_a_fresh_value_counts() {
    let (gauges, now) = (Gauges::default(), clock::now());
    let (first, second, push) = (source("first"), source("second"), source(PUSHED));
    gauges.follow(&[first.clone(), second.clone()]);
    gauges.set("cpu", &second, 2.0, (now, None)).unwrap();
    gauges.set("cpu", &first, 1.0, (now, Some(now + 2 * SECOND))).unwrap();
    gauges.set("cpu", &push, 0.0, (now, Some(now + SECOND))).unwrap();
    let seen = [0, 1, 2].map(|s| gauges.get("cpu", now + s * SECOND).fresh().unwrap());
    assert_eq!(seen, [0.0, 1.0, 2.0]);
    let sources = |now| gauges.all(now).into_iter().map(|one| one.source.to_string()).collect::<Vec<_>>();
    assert_eq!(sources(now), ["push", "first", "second"]);
    gauges.follow(std::slice::from_ref(&second));
    assert_eq!(sources(now), ["push", "second"]);
    assert!(gauges.forget(PUSHED, Some("cpu")));
    assert!(!gauges.forget(PUSHED, None));
    assert_eq!(sources(now), ["second"]);
}

#[test]
fn names_and_their_number_are_bounded() {
    let (gauges, now) = (Gauges::default(), clock::now());
    let (one, other) = (source("one"), source("other"));
    for at in 0..NAMES_MAX {
        gauges.set(&format!("m{at}"), &one, at as f64, (now, None)).unwrap();
    }
    assert_eq!(gauges.set("more", &one, 1.0, (now, None)), Err(GaugeError::Full));
    gauges.set("more", &other, 1.0, (now, None)).unwrap();
    gauges.set("m7", &one, 1.0, (now, Some(now))).unwrap();
    gauges.set("room", &one, 1.0, (now, None)).unwrap();
    assert_eq!(gauges.get("m7", now), Gauge::Missing);
    assert_eq!(gauges.all(now).len(), NAMES_MAX + 1);
    for name in ["", "a b", "ü", "a\n", &"n".repeat(NAME_BYTES_MAX + 1)] {
        assert_eq!(gauges.set(name, &other, 1.0, (now, None)), Err(GaugeError::Name), "{name}");
    }
    for value in [f64::NAN, f64::INFINITY] {
        assert_eq!(gauges.set("cpu", &other, value, (now, None)), Err(GaugeError::Value));
    }
    for at in 2..SOURCES_MAX {
        gauges.set("cpu", &source(&at.to_string()), 1.0, (now, None)).unwrap();
    }
    assert_eq!(gauges.set("cpu", &source("last"), 1.0, (now, None)), Err(GaugeError::Full));
}

#[test]
fn many_values_are_one_change_and_those_without_room_none() {
    let (gauges, now, one) = (Gauges::default(), clock::now(), source("one"));
    let names: Vec<String> = (0..NAMES_MAX + 9).map(|at| format!("m{at}")).collect();
    let set = |from: usize, to: usize, value: f64, good_until| {
        let settings = names[from..to].iter();
        gauges.set_all(&one, settings.map(|name| Setting { name, value, measured: now, good_until }))
    };
    assert_eq!(set(0, NAMES_MAX - 1, 1.0, None), Ok(()));
    assert_eq!(gauges.changes(), 1);
    assert_eq!(set(0, NAMES_MAX - 1, 2.0, None), Ok(()));
    assert_eq!((gauges.changes(), gauges.get("m7", now)), (2, Gauge::Fresh(2.0)));
    // There is room for one.
    assert_eq!(set(0, NAMES_MAX + 9, 3.0, None), Err(GaugeError::Full));
    assert_eq!((gauges.all(now).len(), gauges.get("m511", now)), (NAMES_MAX, Gauge::Fresh(3.0)));
    let before = gauges.cells.load_full();
    assert_eq!(set(NAMES_MAX, NAMES_MAX + 9, 4.0, None), Err(GaugeError::Full));
    assert!(Arc::ptr_eq(&before, &gauges.cells.load_full()), "nothing is copied for nothing");
    // The oldest of those that no longer count make room, no more of them than must.
    gauges.set("m5", &one, 1.0, (now - 2 * SECOND, Some(now - SECOND))).unwrap();
    gauges.set("m6", &one, 1.0, (now - 2 * SECOND, Some(now - 2 * SECOND))).unwrap();
    gauges.set("more", &one, 1.0, (now, None)).unwrap();
    assert_eq!([gauges.get("m6", now), gauges.get("m5", now)], [Gauge::Missing, Gauge::Stale(1.0)]);
    let twice = [1.0, 2.0].map(|value| Setting { name: "twice", value, measured: now, good_until: None });
    gauges.set_all(&one, twice).unwrap();
    assert_eq!((gauges.get("twice", now), gauges.all(now).len()), (Gauge::Fresh(2.0), NAMES_MAX));
}

#[test]
fn readers_see_no_new_time_with_an_old_value() {
    let (gauges, now) = (Arc::new(Gauges::default()), clock::now());
    let source = source("g");
    gauges.set("n", &source, 0.0, (now, None)).unwrap();
    let writer = std::thread::spawn({
        let gauges = gauges.clone();
        move || {
            for at in 1..=20_000_u32 {
                gauges.set("n", &source, at.into(), (now + at * SECOND, None)).unwrap();
            }
        }
    });
    let mut last = 0.0;
    while last < 20_000.0 {
        let reading = gauges.read("n", now + 50_000 * SECOND).unwrap();
        let measured = reading.measured.duration_since(now).as_secs_f64();
        assert!(reading.value >= measured, "{reading:?} at {measured}");
        last = reading.value.max(last);
    }
    writer.join().unwrap();
}
