//! The machine under random events: what its task relies on, whatever the order in which readers, the origin
//! and the store act.

use super::*;
use proptest::prelude::*;

/// What may happen to a fill of a body of `length` bytes; the test drops what cannot happen in the present
/// state.
fn event() -> impl Strategy<Value = Event> {
    let bytes = prop_oneof![1u64..100, 100_000u64..3_000_000, 5_000_000u64..20_000_000];
    let length = prop_oneof![Just(None), (0u64..200).prop_map(Some), (0u64..100_000_000).prop_map(Some)];
    prop_oneof![
        3 => length.prop_map(Event::Storable),
        1 => Just(Event::Declined(NotStored::NoStore)),
        1 => Just(Event::Unchanged),
        1 => Just(Event::Shared),
        9 => bytes.prop_map(Event::Bytes),
        2 => Just(Event::Finished),
        1 => Just(Event::Failed),
        2 => Just(Event::BrokeOff),
        1 => Just(Event::Withdrawn),
        1 => Just(Event::OnDiskOnly),
        2 => Just(Event::Outgrown),
        6 => Just(Event::Joined),
        5 => Just(Event::Left),
        6 => (0u64..60_000_000).prop_map(Event::Advanced),
    ]
}

/// Whether the task, the store or a reader can send this event now: readers come and go at any time, even
/// after the end; the origin speaks in its order.
fn can_happen(machine: &Machine, readers: u32, event: Event) -> bool {
    use Event::{Declined, Shared, Storable, Unchanged, Withdrawn};
    let is_head = matches!(event, Storable(_) | Declined(_) | Unchanged | Shared | Withdrawn);
    match (machine.state(), event) {
        (_, Event::Joined) => true,
        (_, Event::Left) => readers > 0,
        (State::Filling { written, .. }, Event::Advanced(offset)) => readers > 0 && offset <= written,
        (_, Event::Advanced(_)) => readers > 0,
        (State::Ended(_), _) => true,
        (State::Asking, event) => is_head || event == Event::Failed,
        (State::Filling { storing, .. }, Event::OnDiskOnly) => storing == Storing::Whole,
        (State::Filling { .. }, _) => !is_head,
    }
}

/// A second account of the fill, kept as simply as possible.
#[derive(Default)]
struct Account {
    readers: u32,
    front: u64,
    arrived: u64,
    length: Option<u64>,
    /// Where its bytes go, once not all into memory.
    leaves: Option<Storing>,
    sealed: u32,
    abandoned: u32,
    takeovers: u32,
}

impl Account {
    fn note(&mut self, before: State, event: Event, actions: Actions) {
        match event {
            Event::Joined => self.readers += 1,
            Event::Left => self.readers -= 1,
            Event::Advanced(offset) => self.front = self.front.max(offset),
            _ => {}
        }
        if !matches!(before, State::Ended(_)) {
            match event {
                Event::Storable(length) => self.length = length,
                Event::Bytes(bytes) => self.arrived += bytes,
                Event::Outgrown => self.leaves = Some(Storing::Window),
                Event::OnDiskOnly => self.leaves = Some(Storing::OnDisk),
                _ => {}
            }
        }
        self.takeovers += u32::from(actions.has(Actions::TAKE_OVER));
        self.sealed += u32::from(actions.has(Actions::SEAL));
        self.abandoned += u32::from(actions.has(Actions::ABANDON));
    }

    fn check(&self, before: State, machine: &Machine, event: Event, actions: Actions) {
        let after = machine.state();
        if matches!(before, State::Ended(_)) {
            assert_eq!(before, after, "the end is final");
            assert_eq!(actions, Actions::NONE, "nothing is done after the end");
        }
        // Nobody is there to be told that the last reader has left.
        if before != after && event != Event::Left {
            assert!(actions.has(Actions::WAKE), "readers are told of {event:?}");
        }
        assert!(self.takeovers <= u32::from(TAKEOVERS_MAX), "the rest is not asked for without end");
        if actions.has(Actions::TAKE_OVER) {
            assert_eq!(before, after, "a takeover goes on where the body broke off");
        }
        assert!(self.sealed + self.abandoned <= 1, "a generation is sealed or abandoned, once");
        if actions.has(Actions::ABANDON) {
            assert!(actions.has(Actions::STOP), "the transfer stops with its generation");
        }
        match after {
            State::Ended(End::Whole) => {
                assert!(self.length.is_none_or(|length| length == self.arrived), "a whole body is whole");
                assert_eq!((self.sealed, self.abandoned), (u32::from(self.leaves.is_none()), 0));
            }
            State::Ended(End::Deserted) => assert_eq!(self.abandoned, 1),
            State::Ended(End::Failed) => assert_eq!((self.sealed, self.abandoned), (0, 1)),
            State::Ended(_) => assert_eq!((self.sealed, self.abandoned), (0, 0)),
            State::Asking => {}
            State::Filling { written, length, storing } => {
                assert_eq!((written, length), (self.arrived, self.length));
                assert_eq!(storing, self.leaves.unwrap_or(Storing::Whole));
                assert!(self.length.is_none_or(|length| written <= length));
                assert!(self.readers > 0 || storing != Storing::Window, "nobody reads a window");
            }
        }
        if event == Event::Left && after == State::Ended(End::Deserted) && before != after {
            assert_eq!(self.readers, 0, "only a fill without readers is given up");
        }
        let has_all_read = self.front >= self.arrived;
        for ahead_bytes_max in [1, 300_000, u64::MAX] {
            assert!(
                !(machine.must_wait(ahead_bytes_max) && has_all_read),
                "a fill waits for readers who wait for it"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn any_events_leave_the_machine_in_order(events in prop::collection::vec(event(), 0..60)) {
        let (mut machine, mut account) = (Machine::new(), Account::default());
        for event in events {
            if !can_happen(&machine, account.readers, event) {
                continue;
            }
            let before = machine;
            let (next, actions) = machine.on(event);
            account.note(before.state(), event, actions);
            account.check(before.state(), &next, event, actions);
            machine = next;
        }
    }

    #[test]
    fn a_fill_with_readers_ends_only_by_its_origin(events in prop::collection::vec(event(), 0..60)) {
        let mut machine = Machine::new().on(Event::Joined).0;
        for event in events.into_iter().filter(|event| !matches!(event, Event::Left | Event::Joined)) {
            if can_happen(&machine, 1, event) {
                machine = machine.on(event).0;
            }
            prop_assert_ne!(machine.state(), State::Ended(End::Deserted));
        }
    }
}
