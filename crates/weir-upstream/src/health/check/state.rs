//! What checks say of an origin: the state machine of rise and fall. Pure.
//!
//! States: `Assumed` (counts as up, and its first check decides), `New` (counts as down until its first
//! success), `Up` with the failures in a row, `Down` with the successes in a row.

/// What checks have said so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// Not checked since Weir's start.
    #[default]
    Assumed,
    /// Added later and without a success yet.
    New,
    /// It passes its checks.
    Up {
        /// Failures in a row.
        failures: u32,
    },
    /// It fails them.
    Down {
        /// Successes in a row.
        successes: u32,
    },
}

impl State {
    /// Whether the origin counts as up.
    pub(crate) fn is_up(self) -> bool {
        matches!(self, State::Assumed | State::Up { .. })
    }

    /// The state after a check. `rise` and `fall` of 0 count as 1.
    pub(crate) fn after(self, is_passed: bool, (rise, fall): (u32, u32)) -> State {
        match (self, is_passed) {
            (State::Assumed | State::New | State::Up { .. }, true) => State::Up { failures: 0 },
            (State::Assumed, false) => State::Down { successes: 0 },
            (State::New, false) => State::New,
            (State::Up { failures }, false) if failures + 1 >= fall => State::Down { successes: 0 },
            (State::Up { failures }, false) => State::Up { failures: failures + 1 },
            (State::Down { successes }, true) if successes + 1 >= rise => State::Up { failures: 0 },
            (State::Down { successes }, true) => State::Down { successes: successes + 1 },
            (State::Down { .. }, false) => State::Down { successes: 0 },
        }
    }

    /// The word of `weir status`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            State::Assumed | State::New => "unchecked",
            State::Up { .. } => "up",
            State::Down { .. } => "down",
        }
    }
}
