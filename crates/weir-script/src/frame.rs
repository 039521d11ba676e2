//! One call of a script, as the functions that it calls see it: reached through a scoped variable of the
//! thread, so that no request and no origin is copied for a call. It must not outlive the call.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use rhai::{Dynamic, EvalAltResult, Position};
use weir_share::Client;

use crate::asked::{Asked, Row};
use crate::clock;
use crate::state::{Owner, State};

/// So often the clock is looked at, in operations. Most scripts never get there.
const LOOK_EVERY: u64 = 64;
/// What a script may compute after that. Only operations on long values come near it.
pub const TIME_MAX: Duration = Duration::from_millis(5);
/// What a script may print in a trial: lines,
const LINES_MAX: usize = 100;
/// and bytes in each.
const LINE_BYTES_MAX: usize = 1000;

/// What a call has.
pub struct Frame<'q> {
    /// The request.
    pub asked: Asked<'q>,
    /// The origins.
    pub row: &'q dyn Row,
    /// What is remembered.
    pub state: &'q State,
    /// When it began.
    pub now: Instant,
    /// Any number, for draws.
    pub chance: Cell<u64>,
    /// The operations so far.
    pub operations: Cell<u64>,
    /// What the thread had computed when the clock was looked at first.
    computed: Cell<Option<Duration>>,
    /// What was printed, where somebody reads it.
    pub printed: Option<RefCell<Vec<String>>>,
}

/// The constants of a script by name.
pub(crate) type Constants = [(String, Dynamic)];

/// The call of this thread, and the constants of the script that is called.
#[derive(Clone, Copy)]
struct Current<'q> {
    frame: &'q Frame<'q>,
    constants: &'q Constants,
}

scoped_tls_hkt::scoped_thread_local!(static CURRENT: for<'q> Current<'q>);

impl<'q> Frame<'q> {
    /// A call that begins now.
    pub fn new(asked: Asked<'q>, row: &'q dyn Row, state: &'q State, now: Instant, chance: u64) -> Frame<'q> {
        Frame {
            asked,
            row,
            state,
            now,
            chance: Cell::new(chance),
            operations: Cell::new(0),
            computed: Cell::new(None),
            printed: None,
        }
    }

    /// Runs something with this as the current call, of a script with these constants.
    pub(crate) fn within<T>(&self, constants: &Constants, run: impl FnOnce() -> T) -> T {
        CURRENT.set(Current { frame: self, constants }, run)
    }

    /// The next number for a draw.
    pub(crate) fn draw(&self) -> u64 {
        // SplitMix64 (Steele, Lea and Flood 2014).
        let next = self.chance.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.chance.set(next);
        let mixed = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of at least 0 and less than 1.
    pub(crate) fn fraction(&self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whose entries of the state this call makes.
    pub(crate) fn owner(&self) -> Owner {
        Owner::of(self.asked.client().map(|client| client.ip()))
    }
}

/// Asks the current call.
///
/// # Errors
/// Where there is none: a script's first level runs without a request.
pub(crate) fn with<T>(ask: impl FnOnce(&Frame<'_>) -> T) -> Result<T, Box<EvalAltResult>> {
    if !CURRENT.is_set() {
        return Err(refusal("there is no request here: this belongs into `fn pick`"));
    }
    Ok(CURRENT.with(|current| ask(current.frame)))
}

/// The constant of this name, for the places where the engine did not put it when it compiled the script.
pub(crate) fn constant(name: &str) -> Option<Dynamic> {
    if !CURRENT.is_set() {
        return None;
    }
    CURRENT.with(|Current { constants, .. }| {
        constants.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone())
    })
}

/// Notes the operations so far. Something ends the script.
pub(crate) fn progress(operations: u64) -> Option<Dynamic> {
    if !CURRENT.is_set() {
        return None;
    }
    CURRENT.with(|Current { frame, .. }| {
        frame.operations.set(operations);
        if !operations.is_multiple_of(LOOK_EVERY) {
            return None;
        }
        let computed = clock::computed();
        let first = frame.computed.get().unwrap_or(computed);
        frame.computed.set(Some(first));
        let is_late = computed.saturating_sub(first) > TIME_MAX;
        is_late.then(|| Dynamic::from(format!("it computed for more than {} ms", TIME_MAX.as_millis())))
    })
}

/// Keeps what a script prints, where somebody reads it.
pub(crate) fn print(text: &str) {
    if !CURRENT.is_set() {
        return;
    }
    CURRENT.with(|Current { frame, .. }| {
        let Some(printed) = &frame.printed else { return };
        let mut printed = printed.borrow_mut();
        if printed.len() < LINES_MAX {
            let end = text.floor_char_boundary(LINE_BYTES_MAX);
            printed.push(text[..end].to_owned());
        }
    });
}

/// An error that a script has caused.
pub(crate) fn refusal(why: impl Into<String>) -> Box<EvalAltResult> {
    Box::new(EvalAltResult::ErrorRuntime(why.into().into(), Position::NONE))
}

/// An address as scripts count it: the client that it is.
pub(crate) fn network(address: IpAddr) -> String {
    Client::of(address).to_string()
}
