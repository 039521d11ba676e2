//! The ejection machine: the table of its steps, and a property of any history.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::Ejection;
use crate::clock;
use crate::health::{Event, Health};

fn rules() -> Ejection {
    Ejection {
        failures: 3,
        window: Duration::from_secs(10),
        backoff: Duration::from_secs(1),
        backoff_max: Duration::from_secs(30),
    }
}

fn after(start: Instant, history: &[(u64, Event)]) -> Health {
    history.iter().fold(Health::new(start), |health, (at, event)| {
        health.on(*event, start + Duration::from_millis(*at), &rules())
    })
}

#[test]
fn failures_in_a_row_within_the_window_eject() {
    use Event::Success;
    const FAILURE: Event = Event::Failure(None);
    let start = clock::now();
    assert!(after(start, &[(0, FAILURE), (1, FAILURE)]).is_up());
    assert!(!after(start, &[(0, FAILURE), (1, FAILURE), (2, FAILURE)]).is_up());
    assert!(after(start, &[(0, FAILURE), (1, FAILURE), (2, Success), (3, FAILURE)]).is_up());
    assert!(after(start, &[(0, FAILURE), (1, FAILURE), (10_002, FAILURE)]).is_up());
}

#[test]
fn backoffs_double_up_to_their_limit_and_a_success_ends_them() {
    let start = clock::now();
    let mut now = start;
    let mut health = after(start, &[(0, Event::Failure(None)); 3]);
    for expect in [1, 2, 4, 8, 16, 30, 30] {
        let Health::Ejected { until, backoff } = health else { panic!("{health:?}") };
        assert_eq!(backoff, Duration::from_secs(expect));
        assert!(!health.is_due(until - Duration::from_millis(1)));
        assert!(health.is_due(until));
        now = until;
        health = health.on(Event::TrialBegun, now, &rules());
        assert!(!health.is_due(now), "one trial at a time");
        assert!(health.is_due(now + backoff), "a lost trial does not keep it out for good");
        health = health.on(Event::Failure(None), now, &rules());
    }
    health = health.on(Event::Success, now, &rules());
    assert!(health.is_up());
    assert!(!health.on(Event::Failure(None), now, &rules()).is_due(now));
}

#[test]
fn a_head_ends_a_trial_but_does_not_make_up_for_bodies_that_break_off() {
    use Event::{Answered, TrialBegun};
    const FAILURE: Event = Event::Failure(None);
    let start = clock::now();
    let breaks = [(0, Answered), (0, FAILURE), (1, Answered), (1, FAILURE), (2, Answered), (2, FAILURE)];
    assert!(!after(start, &breaks).is_up());
    let eject = [(0, FAILURE); 3];
    let trial = [&eject[..], &[(1000, TrialBegun), (1001, Answered)]].concat();
    assert!(after(start, &trial).is_up());
}

#[test]
fn ejection_can_be_switched_off() {
    let now = clock::now();
    let off = Ejection { failures: 0, ..rules() };
    let health = (0..100).fold(Health::new(now), |health, _| health.on(Event::Failure(None), now, &off));
    assert!(health.is_up());
}

#[test]
fn what_one_clients_requests_may_have_caused_ejects_for_nobody() {
    let start = clock::now();
    let of = |client| Event::Failure(Some(client));
    let history: Vec<_> = (0..100).map(|at| (at, of(at % 2))).collect();
    assert!(after(start, &history).is_up(), "two clients");
    assert!(!after(start, &[&history[..], &[(100, of(2))]].concat()).is_up(), "a third one");
    assert!(after(start, &[(0, of(0)), (1, of(1)), (2, Event::Success), (3, of(2))]).is_up());
    assert!(after(start, &[(0, of(0)), (1, of(0)), (2, of(0)), (3, Event::Failure(None))]).is_up());
}

proptest! {
    #[test]
    fn whatever_happens_the_way_back_is_open(
        history in prop::collection::vec((0u64..20_000, 0u8..5), 0..60),
    ) {
        let start = clock::now();
        let mut now = start;
        let mut health = Health::new(start);
        for (wait, event) in history {
            now += Duration::from_millis(wait);
            let event = match event {
                0 => Event::Success,
                1 => Event::Failure(None),
                4 => Event::Failure(Some(wait % 5)),
                2 => Event::Answered,
                _ => Event::TrialBegun,
            };
            let before = health;
            health = health.on(event, now, &rules());
            if event == Event::Success {
                prop_assert!(health.is_up());
            }
            if before.is_up() && !health.is_up() {
                prop_assert!(matches!(event, Event::Failure(_)));
            }
            prop_assert!(health.due(now) <= now + rules().backoff_max);
            if !health.is_up() {
                prop_assert!(health.is_due(now + rules().backoff_max));
            }
        }
    }
}
