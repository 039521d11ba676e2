//! What the fill machine does, event by event.
mod random;

use super::*;

fn run(events: &[Event]) -> (State, Actions) {
    let mut machine = Machine::new();
    let mut all = Actions::NONE;
    for event in events {
        let (next, actions) = machine.on(*event);
        machine = next;
        all = all.and(actions);
    }
    (machine.state(), all)
}

#[test]
fn a_whole_body_is_sealed() {
    let (state, actions) =
        run(&[Event::Joined, Event::Storable(Some(3)), Event::Bytes(1), Event::Bytes(2), Event::Finished]);
    assert_eq!(state, State::Ended(End::Whole));
    assert!(actions.has(Actions::SEAL.and(Actions::WAKE)) && !actions.has(Actions::ABANDON));
}

#[test]
fn a_short_body_fails() {
    let (state, actions) = run(&[Event::Joined, Event::Storable(Some(3)), Event::Bytes(1), Event::Finished]);
    assert_eq!(state, State::Ended(End::Failed));
    assert!(actions.has(Actions::ABANDON) && !actions.has(Actions::SEAL));
}

#[test]
fn a_body_that_breaks_off_is_taken_over_so_often_and_then_fails() {
    let start = [Event::Joined, Event::Storable(Some(3)), Event::Bytes(1)];
    let broken = |times| [&start[..], &vec![Event::BrokeOff; times]].concat();
    let (state, actions) = run(&broken(usize::from(TAKEOVERS_MAX)));
    assert!(matches!(state, State::Filling { written: 1, .. }) && actions.has(Actions::TAKE_OVER));
    let (state, actions) = run(&broken(usize::from(TAKEOVERS_MAX) + 1));
    assert_eq!(state, State::Ended(End::Failed));
    assert!(actions.has(Actions::ABANDON));
}

#[test]
fn the_last_reader_of_a_large_object_ends_it() {
    let (state, actions) =
        run(&[Event::Joined, Event::Storable(Some(1 << 30)), Event::Bytes(1 << 20), Event::Left]);
    assert_eq!(state, State::Ended(End::Deserted));
    assert!(actions.has(Actions::STOP.and(Actions::ABANDON)));
}

#[test]
fn the_last_reader_of_a_small_object_does_not_end_it() {
    let (state, _) = run(&[Event::Joined, Event::Storable(Some(1 << 20)), Event::Bytes(1), Event::Left]);
    assert!(matches!(state, State::Filling { .. }));
}

#[test]
fn a_window_waits_for_its_foremost_reader() {
    let mut machine = Machine::new();
    for event in [Event::Joined, Event::Storable(None), Event::Outgrown, Event::Bytes(AHEAD_BYTES_MAX)] {
        machine = machine.on(event).0;
    }
    assert!(machine.must_wait(AHEAD_BYTES_MAX));
    let (machine, _) = machine.on(Event::Advanced(1));
    assert!(!machine.must_wait(AHEAD_BYTES_MAX) && machine.must_wait(AHEAD_BYTES_MAX / 2));
}

#[test]
fn without_anybody_who_waits_for_a_head_it_is_given_up_unless_somebody_comes_back() {
    let (left, actions) = Machine::new().on(Event::Joined).0.on(Event::Left);
    assert_eq!((left.state(), actions), (State::Asking, Actions::LOOK));
    assert_eq!(left.on(Event::IdleTimeout).0.state(), State::Ended(End::Deserted));
    let back = left.on(Event::Joined).0;
    assert_eq!(back.on(Event::IdleTimeout).0.state(), State::Asking);
}
