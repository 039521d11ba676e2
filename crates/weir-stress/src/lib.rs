//! `weir-stress`: a bounded load generator that verifies what it receives.
//!
//! One thread drives any number of users (connections) by `epoll` in a closed loop: each user sends a
//! request, receives the whole response, checks it and begins again. It knows just enough HTTP/1.1 for that
//! and shares no code with the server that it measures. HTTP/2 is the crate `h2`'s, on a runtime of that
//! thread's own; TLS is rustls's for both. It always ends ([`StressArgs::seconds`],
//! [`StressArgs::requests`]). It refuses targets that are not this machine unless the caller claims them.
//!
//! A scenario file ([`scenario`]) names servers, an origin of its own with seeded bodies, and modules that
//! work on them; loads of many equal requests are this same engine's.
//!
//! Flow: [`StressArgs`] → plan → load (users on an epoll) or streams (HTTP/2), which keep score → [`Report`].

#![forbid(unsafe_code)]

mod args;
mod body;
mod clock;
pub mod floor;
mod head;
mod load;
pub mod offsets;
mod perform;
mod pick;
mod plan;
mod profile;
mod ratio;
mod recorder;
mod report;
pub mod scenario;
mod score;
mod secure;
mod seeded;
mod streams;
mod tally;
mod target;
mod user;
mod versus;

pub use args::{Pick, ScenarioArgs, StressArgs};
pub use perform::perform;
pub use plan::StressError;
pub use profile::{PROFILE, version, warning};
pub use ratio::Ratio;
pub use report::{Report, Side, Summary};
pub use tally::Fault;
pub use versus::run;

#[cfg(test)]
mod tests;
