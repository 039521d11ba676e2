//! Picks that administrators write: small programs in Rhai, called once for each request to an origin. Only
//! this crate names Rhai. It must not do I/O for a request, wait, or trust a script.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod asked;
mod clock;
mod condition;
mod engine;
mod frame;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod made;
mod mistake;
mod nearest;
mod phrases;
mod place;
mod program;
mod sample;
mod script;
mod state;
pub mod trial;
mod views;

pub use asked::{Asked, Row};
pub use condition::{Condition, Facts, Fault, Flag, Measure, Number, Text};
pub use engine::{CALLS_DEEP_MAX, OPERATIONS_MAX, TEXT_BYTES_MAX};
pub use frame::{Frame, TIME_MAX};
pub use made::{MadeOrigin, MadeRequest, MadeRow, Metrics, Tried};
pub use mistake::{Failure, Mistake, Source};
pub use program::{Answer, Program, SCRIPT_BYTES_MAX, Setting, Settings};
pub use sample::{usual_origins, usual_rows};
pub use script::{Asking, Script};
pub use state::{Owner, Remembered, State, StateError};
