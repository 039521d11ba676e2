//! The state machine, compared with what its words say of the whole history.

use proptest::prelude::*;

use crate::health::check::state::State;

/// Whether an origin is up after this history, said without a state machine: by looking back from the end.
fn is_up(is_new: bool, history: &[bool], (rise, fall): (usize, usize)) -> bool {
    let run = |at: usize| history[..=at].iter().rev().take_while(|passed| **passed == history[at]).count();
    // The last check that decided something: one that ended a long enough run, or the first of all.
    let mut up = !is_new;
    for at in 0..history.len() {
        let seen_success = history[..at].contains(&true);
        let decides_alone = if is_new { !seen_success } else { at == 0 };
        match history[at] {
            true if decides_alone || run(at) >= rise => up = true,
            false if (decides_alone && !is_new) || run(at) >= fall => up = false,
            _ => {}
        }
    }
    up
}

proptest! {
    #[test]
    fn it_is_up_after_rise_and_down_after_fall(
        is_new: bool,
        history in prop::collection::vec(any::<bool>(), 0..40),
        rise in 1..5_usize,
        fall in 1..5_usize,
    ) {
        let mut state = if is_new { State::New } else { State::Assumed };
        for (at, passed) in history.iter().enumerate() {
            state = state.after(*passed, (rise as u32, fall as u32));
            prop_assert_eq!(state.is_up(), is_up(is_new, &history[..=at], (rise, fall)), "check {}", at);
        }
    }

    #[test]
    fn a_new_one_is_never_up_before_its_first_success(failures in 0..100_u32, rise: u32, fall: u32) {
        let mut state = State::New;
        for _ in 0..failures {
            state = state.after(false, (rise, fall));
            prop_assert!(!state.is_up());
        }
        prop_assert!(state.after(true, (rise, fall)).is_up());
    }
}

#[test]
fn counts_of_zero_are_one() {
    let fallen = State::Up { failures: 0 }.after(false, (0, 0));
    assert_eq!(fallen, State::Down { successes: 0 });
    assert_eq!(fallen.after(true, (0, 0)), State::Up { failures: 0 });
}
