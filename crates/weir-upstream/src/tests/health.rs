//! The ejection machine: the table of its steps, and a property of any history.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::Ejection;
use crate::clock;
use crate::health::ejection::{Cause, Event, Health, Suspect};

fn rules() -> Ejection {
    Ejection {
        failures: 3,
        window: Duration::from_secs(10),
        backoff: Duration::from_secs(1),
        backoff_max: Duration::from_secs(30),
        ..Ejection::default()
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
        let Health::Ejected { until, backoff, .. } = health else { panic!("{health:?}") };
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
    let of = |client| suspected(client, client);
    let history: Vec<_> = (0..100).map(|at| (at, of(at % 2))).collect();
    assert!(after(start, &history).is_up(), "two clients");
    assert!(!after(start, &[&history[..], &[(100, of(2))]].concat()).is_up(), "a third one");
    assert!(after(start, &[(0, of(0)), (1, of(1)), (2, Event::Success), (3, of(2))]).is_up());
    assert!(after(start, &[(0, of(0)), (1, of(0)), (2, of(0)), (3, Event::Failure(None))]).is_up());
}

#[test]
fn what_one_urls_requests_may_have_caused_ejects_for_nobody() {
    let start = clock::now();
    let history: Vec<_> = (0..1000).map(|at| (at, suspected(at, at % 2))).collect();
    assert!(after(start, &history).is_up(), "two URLs of a thousand clients");
    let third = [&history[..], &[(1000, suspected(1000, 2))]].concat();
    assert!(!after(start, &third).is_up(), "a third one");
    let one_client: Vec<_> = (0..1000).map(|at| (at, suspected(7, at))).collect();
    assert!(after(start, &one_client).is_up(), "a thousand URLs of one client");
    let nobody = |url| Event::Failure(Some(Suspect { client: None, url }));
    assert!(after(start, &[(0, nobody(1)), (1, nobody(1)), (2, nobody(1))]).is_up());
    assert!(!after(start, &[(0, nobody(1)), (1, nobody(2)), (2, nobody(3))]).is_up());
}

#[test]
fn who_fails_again_soon_is_left_out_for_longer() {
    let start = clock::now();
    let mut now = start;
    let mut health = Health::new(start);
    for expect in [1, 2, 4] {
        health = health.on(Event::Condemned(Cause::Share), now, &rules());
        let Health::Ejected { until, backoff, .. } = health else { panic!("{health:?}") };
        assert_eq!(backoff, Duration::from_secs(expect));
        now = until;
        health = health.on(Event::TrialBegun, now, &rules()).on(Event::Success, now, &rules());
        assert!(health.is_up());
        now += rules().window;
        health = health.on(Event::Success, now, &rules());
    }
    now += Duration::from_millis(1);
    let Health::Ejected { backoff, .. } = health.on(Event::Condemned(Cause::Share), now, &rules()) else {
        panic!()
    };
    assert_eq!(backoff, rules().backoff, "it was well for a window");
}

#[test]
fn one_answer_does_not_bring_back_whose_answers_are_bad_together() {
    let start = clock::now();
    let health = Health::new(start).on(Event::Condemned(Cause::Slow), start, &rules());
    let Health::Ejected { until, .. } = health else { panic!("{health:?}") };
    assert!(!health.on(Event::Success, start, &rules()).is_up(), "it was under way before");
    assert!(health.on(Event::Success, until, &rules()).is_up());
    assert!(health.on(Event::TrialBegun, until, &rules()).on(Event::Answered, until, &rules()).is_up());
    let failed = after(start, &[(0, Event::Failure(None)); 3]);
    assert!(failed.on(Event::Success, start, &rules()).is_up());
}

/// A failure that a request of this client for this URL met.
fn suspected(client: u64, url: u64) -> Event {
    Event::Failure(Some(Suspect { client: Some(client), url }))
}

proptest! {
    #[test]
    fn whatever_happens_the_way_back_is_open(
        history in prop::collection::vec((0u64..20_000, 0u8..6), 0..60),
    ) {
        let start = clock::now();
        let mut now = start;
        let mut health = Health::new(start);
        for (wait, event) in history {
            now += Duration::from_millis(wait);
            let event = match event {
                0 => Event::Success,
                1 => Event::Failure(None),
                4 => suspected(wait % 5, wait % 7),
                5 => Event::Condemned(Cause::Slow),
                2 => Event::Answered,
                _ => Event::TrialBegun,
            };
            let before = health;
            health = health.on(event, now, &rules());
            let is_held = matches!(
                before,
                Health::Ejected { until, cause: Cause::Share | Cause::Slow, .. } if now < until
            );
            if event == Event::Success {
                prop_assert_eq!(health.is_up(), !is_held);
            }
            if before.is_up() && !health.is_up() {
                prop_assert!(matches!(event, Event::Failure(_) | Event::Condemned(_)));
            }
            prop_assert!(health.due(now) <= now + rules().backoff_max);
            if !health.is_up() {
                prop_assert!(health.is_due(now + rules().backoff_max));
            }
        }
    }
}

proptest! {
    #[test]
    fn two_clients_or_two_urls_eject_nobody(
        history in prop::collection::vec((0u64..1000, 0u64..40, 0u64..40, any::<bool>()), 0..200),
        by_client in any::<bool>(),
    ) {
        let start = clock::now();
        let (mut now, mut health) = (start, Health::new(start));
        for (wait, client, url, is_success) in history {
            now += Duration::from_millis(wait);
            let (client, url) = if by_client { (client % 2, url) } else { (client, url % 2) };
            let event = if is_success && wait % 8 == 0 { Event::Success } else { suspected(client, url) };
            health = health.on(event, now, &rules());
            prop_assert!(health.is_up());
        }
    }
}

#[test]
fn who_fails_in_a_trial_does_not_keep_an_origin_out() {
    let start = clock::now();
    let s = Duration::from_secs;
    let mut health = after(start, &[(0, Event::Failure(None)); 3]);
    // It has been out for longer already.
    let mut now = start + s(1);
    health = health.on(Event::TrialBegun, now, &rules()).on(Event::Failure(None), now, &rules());
    let Health::Ejected { until, backoff, .. } = health else { panic!("{health:?}") };
    assert_eq!((until, backoff), (now + s(2), s(2)));
    now = until;
    let (hostile, other) = (Suspect { client: Some(7), url: 1 }, Suspect { client: Some(8), url: 2 });
    assert!(health.is_due(now) && health.may_try(hostile));
    health = health.on(Event::TrialBegun, now, &rules()).on(Event::Failure(Some(hostile)), now, &rules());
    let Health::Ejected { until, backoff, .. } = health else { panic!("{health:?}") };
    assert_eq!((until, backoff), (now + s(1), s(2)), "it is tried again soon");
    assert!(!health.may_try(hostile) && !health.may_try(Suspect { client: Some(9), url: 1 }));
    assert!(health.may_try(other));
    assert!(health.on(Event::TrialBegun, until, &rules()).on(Event::Answered, until, &rules()).is_up());
    // Three clients with three URLs are believed.
    for (client, url) in [(8, 2), (9, 3)] {
        let of = Event::Failure(Some(Suspect { client: Some(client), url }));
        health = health.on(Event::TrialBegun, until, &rules()).on(of, until, &rules());
    }
    let Health::Ejected { backoff, .. } = health else { panic!("{health:?}") };
    assert_eq!(backoff, s(4));
    assert!(health.may_try(hostile));
}
