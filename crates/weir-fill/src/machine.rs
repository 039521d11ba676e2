//! The life of one transfer, a fill or that of a gap, as a pure state machine (elsewhere: *sans-IO*): what a
//! head, bytes, an end, an error, and readers that join and leave mean. It must not touch a socket, a clock
//! or the store; the task does what the returned [`Actions`] say.
//!
//! States: `Asking` (request sent, no head) → `Filling` (body arrives) → `Ended`; `Asking` → `Ended` where
//! the response has no body to load (declined, unchanged, shared, failed) or nobody waits for it any more.
//! `Ended` is final.

use weir_policy::NotStored;

/// A fill without readers goes on where at most so many bytes are missing: 16 MiB.
pub const REST_BYTES_MAX: u64 = 16 << 20;
/// How far a windowed fill may be ahead of its foremost reader: 4 MiB.
pub const AHEAD_BYTES_MAX: u64 = 4 << 20;
/// How often the rest of a body that broke off is asked for.
pub const TAKEOVERS_MAX: u8 = 2;

/// Where the bytes of a running fill go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storing {
    /// Into a generation that will be published.
    Whole,
    /// Into a window and to the volume. Readers that fall behind the window read from the volume.
    OnDisk,
    /// Only into the window: the object outgrew what may be stored.
    Window,
}

/// How a fill ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All bytes arrived.
    Whole,
    /// The response may not be stored: the lead keeps its stream, and requests that joined go past the cache.
    Declined(NotStored),
    /// A 304: the stored generation was freshened.
    Unchanged,
    /// A short error response went to all waiting requests.
    Shared,
    /// No head, or the body broke off.
    Failed,
    /// It had no readers any more.
    Deserted,
    /// Other transfers load what is missing.
    Stopped,
    /// A part has come. The transfer of a gap goes on with it.
    HandedToGaps,
    /// It was never begun: the waiting requests plan again.
    Withdrawn,
    /// All has come that the origin had to send of a gap.
    Fetched,
    /// The origin has another version by now.
    Changed,
    /// The origin does not send parts: gaps of this generation cannot be loaded.
    Unable,
}

/// The state of one fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The request is sent, no final head has come.
    Asking,
    /// The head has come and the body is arriving.
    Filling {
        /// Body bytes that have arrived.
        written: u64,
        /// The declared length, if there is one.
        length: Option<u64>,
        /// Where the bytes go.
        storing: Storing,
    },
    /// Final.
    Ended(End),
}

/// What can happen to a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A head that may be stored, with its declared length.
    Storable(Option<u64>),
    /// A head that may not be stored.
    Declined(NotStored),
    /// A 304 to the fill's own conditional request.
    Unchanged,
    /// A whole short error response that others get, too.
    Shared,
    /// A part of a new generation: the fill is over, and the transfer of a gap goes on.
    HandedToGaps,
    /// It has reached what other transfers load.
    Stopped,
    /// Body bytes arrived.
    Bytes(u64),
    /// The body's clean end; the generation is sealed.
    Finished,
    /// No head, or the body broke off for good.
    Failed,
    /// The body broke off, and the rest of this version may be asked for.
    BrokeOff,
    /// Its lead gave it up before it was begun.
    Withdrawn,
    /// Memory keeps only a window from here on, and the volume all.
    OnDiskOnly,
    /// Only a window is kept from here on.
    Outgrown,
    /// A reader joined.
    Joined,
    /// A reader left.
    Left,
    /// Nobody has waited for the head for some time.
    IdleTimeout,
    /// A reader has read up to this offset.
    Advanced(u64),
    /// The transfer of a gap is over.
    Over(End),
}

/// What the task has to do after an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions(u8);

impl Actions {
    /// Nothing.
    pub const NONE: Actions = Actions(0);
    /// Wake the readers.
    pub const WAKE: Actions = Actions(1);
    /// The generation is whole.
    pub const SEAL: Actions = Actions(2);
    /// Abandon the generation.
    pub const ABANDON: Actions = Actions(4);
    /// Stop the origin transfer, if it still runs.
    pub const STOP: Actions = Actions(8);
    /// Ask for the rest of the body.
    pub const TAKE_OVER: Actions = Actions(16);

    /// Nobody waits for the head: give the transfer up, unless a reader joins soon.
    pub const LOOK: Actions = Actions(32);

    /// Both sets.
    pub const fn and(self, other: Actions) -> Actions {
        Actions(self.0 | other.0)
    }

    /// Whether every action of `other` is in this set.
    pub const fn has(self, other: Actions) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What a transfer brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A response from its first byte on.
    Fill,
    /// What is missing of a generation. Its task knows how far it goes on without readers.
    Gap,
}

/// One transfer: its state, its readers, how far the foremost of them is, how often its rest was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    purpose: Purpose,
    state: State,
    readers: u32,
    front: u64,
    takeovers: u8,
}

impl Machine {
    /// A fill whose request is being sent, without readers.
    pub(crate) fn new() -> Machine {
        Machine { purpose: Purpose::Fill, state: State::Asking, readers: 0, front: 0, takeovers: 0 }
    }

    /// The transfer of a gap whose request is being sent, without readers.
    pub fn of_gap() -> Machine {
        Machine { purpose: Purpose::Gap, ..Machine::new() }
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// How many read it.
    pub fn readers(&self) -> u32 {
        self.readers
    }

    /// Whether a windowed fill waits for its foremost reader: the back-pressure towards the origin.
    pub fn must_wait(&self, ahead_bytes_max: u64) -> bool {
        match self.state {
            State::Filling { written, storing: Storing::Window, .. } => {
                written.saturating_sub(self.front) >= ahead_bytes_max.min(AHEAD_BYTES_MAX)
            }
            _ => false,
        }
    }

    /// Applies one event.
    pub fn on(self, event: Event) -> (Machine, Actions) {
        match event {
            Event::Joined => (Machine { readers: self.readers + 1, ..self }, Actions::NONE),
            Event::Left => {
                let left = Machine { readers: self.readers.saturating_sub(1), ..self };
                let is_looking = match left.state {
                    State::Asking => true,
                    State::Filling { .. } => left.purpose == Purpose::Gap,
                    State::Ended(_) => false,
                };
                let is_alone = is_looking && left.readers == 0;
                left.unless_deserted(if is_alone { Actions::LOOK } else { Actions::NONE })
            }
            Event::Advanced(offset) => (Machine { front: self.front.max(offset), ..self }, Actions::NONE),
            event => self.advance(event),
        }
    }

    fn advance(self, event: Event) -> (Machine, Actions) {
        match (self.state, event) {
            (State::Ended(_), _) => (self, Actions::NONE),
            (State::Asking, Event::Storable(length)) => {
                let state = State::Filling { written: 0, length, storing: Storing::Whole };
                Machine { state, ..self }.unless_deserted(Actions::WAKE)
            }
            (State::Asking, Event::Declined(reason)) => self.ended(End::Declined(reason), Actions::WAKE),
            (State::Asking, Event::Unchanged) => self.ended(End::Unchanged, Actions::WAKE),
            (State::Asking, Event::Withdrawn) => self.ended(End::Withdrawn, Actions::WAKE),
            (State::Asking, Event::Shared) => self.ended(End::Shared, Actions::WAKE),
            (State::Asking, Event::IdleTimeout) if self.readers == 0 => {
                self.ended(End::Deserted, Actions::NONE)
            }
            (State::Asking, Event::IdleTimeout) => (self, Actions::NONE),
            (_, Event::Over(end)) => self.ended(end, Actions::WAKE),
            (State::Asking, Event::HandedToGaps) => self.ended(End::HandedToGaps, Actions::WAKE),
            (State::Filling { .. }, Event::Stopped) => {
                self.ended(End::Stopped, Actions::WAKE.and(Actions::STOP))
            }
            (State::Filling { written, length, storing }, Event::Bytes(bytes)) => {
                let written = written + bytes;
                if length.is_some_and(|length| written > length) {
                    return self.failed();
                }
                let state = State::Filling { written, length, storing };
                Machine { state, ..self }.unless_deserted(Actions::WAKE)
            }
            (State::Filling { written, length, storing }, Event::Finished) => {
                if length.is_some_and(|length| written != length) {
                    return self.failed();
                }
                let seal = match storing {
                    Storing::Whole => Actions::SEAL,
                    Storing::OnDisk | Storing::Window => Actions::NONE,
                };
                self.ended(End::Whole, Actions::WAKE.and(seal))
            }
            (State::Filling { written, length, .. }, Event::OnDiskOnly | Event::Outgrown) => {
                let storing = if event == Event::OnDiskOnly { Storing::OnDisk } else { Storing::Window };
                let state = State::Filling { written, length, storing };
                Machine { state, ..self }.unless_deserted(Actions::WAKE)
            }
            (State::Filling { .. }, Event::BrokeOff) if self.takeovers < TAKEOVERS_MAX => {
                (Machine { takeovers: self.takeovers + 1, ..self }, Actions::TAKE_OVER)
            }
            (State::Filling { .. }, Event::BrokeOff) | (_, Event::Failed) => self.failed(),
            (state, event) => unreachable!("fill event {event:?} in state {state:?}"),
        }
    }

    fn failed(self) -> (Machine, Actions) {
        self.ended(End::Failed, Actions::WAKE.and(Actions::ABANDON).and(Actions::STOP))
    }

    fn ended(self, end: End, actions: Actions) -> (Machine, Actions) {
        (Machine { state: State::Ended(end), ..self }, actions)
    }

    /// Without readers a fill goes on only while it is stored and what is missing is small.
    fn unless_deserted(self, actions: Actions) -> (Machine, Actions) {
        let State::Filling { written, length, storing } = self.state else { return (self, actions) };
        if self.readers > 0 || self.purpose == Purpose::Gap {
            return (self, actions);
        }
        let worth = match (storing, length) {
            (Storing::Window, _) => false,
            (Storing::Whole | Storing::OnDisk, Some(length)) => {
                let rest = length.saturating_sub(written);
                rest <= REST_BYTES_MAX || rest.saturating_mul(5) <= length
            }
            (Storing::Whole | Storing::OnDisk, None) => written <= REST_BYTES_MAX,
        };
        if worth {
            return (self, actions);
        }
        self.ended(End::Deserted, actions.and(Actions::ABANDON).and(Actions::STOP))
    }
}

#[cfg(test)]
mod tests;
