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
        spell: Duration::from_secs(1),
        spell_max: Duration::from_secs(30),
    }
}

fn after(start: Instant, history: &[(u64, Event)]) -> Health {
    history.iter().fold(Health::new(start), |health, (at, event)| {
        health.on(*event, start + Duration::from_millis(*at), &rules())
    })
}

#[test]
fn failures_in_a_row_within_the_window_eject() {
    use Event::{Failure, Success};
    let start = clock::now();
    assert!(after(start, &[(0, Failure), (1, Failure)]).is_up());
    assert!(!after(start, &[(0, Failure), (1, Failure), (2, Failure)]).is_up());
    assert!(after(start, &[(0, Failure), (1, Failure), (2, Success), (3, Failure)]).is_up());
    assert!(after(start, &[(0, Failure), (1, Failure), (10_002, Failure)]).is_up());
}

#[test]
fn spells_double_up_to_their_limit_and_a_success_ends_them() {
    let start = clock::now();
    let mut now = start;
    let mut health = after(start, &[(0, Event::Failure); 3]);
    for expect in [1, 2, 4, 8, 16, 30, 30] {
        let Health::Ejected { until, spell } = health else { panic!("{health:?}") };
        assert_eq!(spell, Duration::from_secs(expect));
        assert!(!health.is_due(until - Duration::from_millis(1)));
        assert!(health.is_due(until));
        now = until;
        health = health.on(Event::TrialBegun, now, &rules());
        assert!(!health.is_due(now), "one trial at a time");
        assert!(health.is_due(now + spell), "a lost trial does not keep it out for good");
        health = health.on(Event::Failure, now, &rules());
    }
    health = health.on(Event::Success, now, &rules());
    assert!(health.is_up());
    assert!(!health.on(Event::Failure, now, &rules()).is_due(now));
}

#[test]
fn a_head_ends_a_trial_but_does_not_make_up_for_bodies_that_break_off() {
    use Event::{Answered, Failure, TrialBegun};
    let start = clock::now();
    let breaks = [(0, Answered), (0, Failure), (1, Answered), (1, Failure), (2, Answered), (2, Failure)];
    assert!(!after(start, &breaks).is_up());
    let eject = [(0, Failure); 3];
    let trial = [&eject[..], &[(1000, TrialBegun), (1001, Answered)]].concat();
    assert!(after(start, &trial).is_up());
}

#[test]
fn ejection_can_be_switched_off() {
    let now = clock::now();
    let off = Ejection { failures: 0, ..rules() };
    let health = (0..100).fold(Health::new(now), |health, _| health.on(Event::Failure, now, &off));
    assert!(health.is_up());
}

proptest! {
    #[test]
    fn whatever_happens_the_way_back_is_open(history in prop::collection::vec((0u64..20_000, 0u8..4), 0..60)) {
        let start = clock::now();
        let mut now = start;
        let mut health = Health::new(start);
        for (wait, event) in history {
            now += Duration::from_millis(wait);
            let event = match event { 0 => Event::Success, 1 => Event::Failure,  2 => Event::Answered, _ => Event::TrialBegun };
            let before = health;
            health = health.on(event, now, &rules());
            if event == Event::Success {
                prop_assert!(health.is_up());
            }
            if before.is_up() && !health.is_up() {
                prop_assert_eq!(event, Event::Failure);
            }
            prop_assert!(health.due(now) <= now + rules().spell_max);
            if !health.is_up() {
                prop_assert!(health.is_due(now + rules().spell_max));
            }
        }
    }
}
