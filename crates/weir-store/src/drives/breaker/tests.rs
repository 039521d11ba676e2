//! How volumes are treated, second by second, and at random.

use std::time::Duration;

use proptest::prelude::*;

use super::{Act, CircuitBreaker, Event};
use crate::volume::VolumeState;

fn s(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// What follows from events, each at its second.
fn after(life: CircuitBreaker, events: &[(u64, Event)]) -> (CircuitBreaker, Vec<Act>) {
    events.iter().fold((life, Vec::new()), |(life, mut acts), (at, event)| {
        let (life, act) = life.on(*event, s(*at));
        acts.extend(act);
        (life, acts)
    })
}

fn up() -> CircuitBreaker {
    CircuitBreaker::new().on(Event::Opened, s(1)).0
}

#[test]
fn a_volume_that_lags_is_passed_by_and_waited_for_again() {
    let (life, acts) = after(up(), &[(10, Event::Lags), (10, Event::Answers)]);
    assert_eq!((life.state(), acts), (VolumeState::Slow, vec![Act::Pass]));
    let (life, acts) = after(life, &[(11, Event::Lags), (11, Event::Answers), (13, Event::Answers)]);
    assert_eq!((life.state(), acts), (VolumeState::Up, vec![Act::Await]), "the pause began again");
    assert_eq!(life.on(Event::Lags, s(14)).0.rests_for(s(14)), Some(s(4)), "and doubles each time");
    assert_eq!(life.on(Event::Lags, s(1000)).0.rests_for(s(1000)), Some(s(1)), "but after a calm");
}

#[test]
fn a_volume_that_fails_is_opened_again_ever_later() {
    let (mut life, mut now) = (up(), 10);
    let mut rests = Vec::new();
    for _ in 0..10 {
        let act;
        (life, act) = life.on(Event::Fails, s(now));
        assert_eq!(act, Some(Act::Eject));
        let rest = life.rests_for(s(now)).unwrap().as_secs();
        rests.push(rest);
        assert_eq!(life.on(Event::Tick, s(now + rest - 1)).1, None);
        now += rest;
        let (probing, act) = life.on(Event::Tick, s(now));
        assert_eq!((probing.state(), act), (VolumeState::Probing, Some(Act::Open)));
        life = probing.on(Event::Opened, s(now)).0;
    }
    assert_eq!(rests, [5, 10, 20, 40, 80, 160, 320, 600, 600, 600]);
}

#[test]
fn one_that_cannot_be_opened_is_tried_ever_later() {
    let (life, acts) =
        after(CircuitBreaker::new(), &[(1, Event::NotOpened), (6, Event::Tick), (7, Event::NotOpened)]);
    assert_eq!((acts, life.rests_for(s(7))), (vec![Act::Open], Some(s(10))));
}

#[test]
fn one_that_cannot_be_written_is_tried_now_and_then() {
    let (life, acts) = after(up(), &[(2, Event::Unwritable), (11, Event::Unwritable)]);
    assert_eq!(acts, []);
    let (life, acts) = after(life, &[(12, Event::Unwritable), (31, Event::Unwritable)]);
    assert_eq!(acts, [Act::Write]);
    let (_, acts) = after(life, &[(32, Event::Unwritable), (33, Event::Answers), (34, Event::Unwritable)]);
    assert_eq!(acts, [Act::Write]);
}

proptest! {
    /// Whatever happens: it is opened only when it was let go, let go only when it was there, and never left
    /// alone for longer than ten minutes.
    #[test]
    fn acts_follow_one_another(steps in prop::collection::vec((0u64..200, 0usize..7), 0..200)) {
        let events = [
            Event::Opened, Event::NotOpened, Event::Answers, Event::Lags, Event::Unwritable,
            Event::Fails, Event::Tick,
        ];
        let (mut life, mut now) = (CircuitBreaker::new(), 0);
        for (passed, event) in steps {
            now += passed;
            let before = life.state();
            let act;
            (life, act) = life.on(events[event], s(now));
            use VolumeState::{Ejected, Probing, Slow, Up};
            let turn = (before, life.state());
            match act {
                Some(Act::Open) => prop_assert_eq!(turn, (Ejected, Probing)),
                Some(Act::Eject) => prop_assert!(matches!(turn, (Up | Slow, Ejected))),
                Some(Act::Pass) => prop_assert_eq!(turn, (Up, Slow)),
                Some(Act::Await) => prop_assert!(matches!(turn, (Slow | Probing, Up))),
                Some(Act::Write) => prop_assert_eq!(life.state(), Up),
                None => prop_assert!(life.state() == before || turn == (Probing, Ejected)),
            }
            prop_assert!(life.rests_for(s(now)).is_none_or(|rest| rest <= s(600)));
        }
    }
}
