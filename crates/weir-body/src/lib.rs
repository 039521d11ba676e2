//! The bytes of a message in order, wherever they are ([`Body`]), and what changes them on their way
//! ([`Stage`]): a [`Staged`] is a body around a body.
//!
//! Nothing here does I/O, reads a clock or knows what the bytes mean. A body that was [`Cut`] never ends
//! cleanly, however many bodies stand around it.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod body;
mod printed;
mod stage;
mod staged;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use body::{AnyBody, Body, Cut, Next, Ready, kept};
pub use printed::{Peers, PrintedFor, PrintedSlot};
pub use stage::{OUT_BYTES_MAX, Out, Rest, Stage};
pub use staged::Staged;
pub use weir_sealed::SealedPart;
