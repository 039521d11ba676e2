//! The external distributor: a program that is asked, for each request to an origin, which origin gets it.
//!
//! [`Asker`] asks, as a reverse proxy does; [`serve`] answers, as a distributor does; [`mod@format`] is what
//! both say. It must not know a cache, a route's rules, or how an origin is reached. No answer is trusted: it
//! must belong to an open question, come from where that was asked, and be signed where keys are given.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod ask;
mod clock;
mod counts;
mod decide;
pub mod format;
mod hints;
mod keep;
mod place;
mod readable;
mod seldom;
pub mod serve;
mod silence;

#[cfg(test)]
mod tests;

pub use ask::{AskedFor, Asker, DISTRIBUTORS_MAX, Fits, Form, Heard, Settings};
pub use counts::{Count, Counts};
pub use decide::Distributor;
pub use keep::Keep;
pub use place::{Place, PlaceError};
pub use seldom::Seldom;

/// What fuzz targets call.
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing {
    pub use crate::format::fuzzing::{distributor_answer, distributor_plain, distributor_question};
}
