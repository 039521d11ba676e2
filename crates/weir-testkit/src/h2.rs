//! HTTP/2 (RFC 9113) from the client's side, written a second time: frames and field blocks by hand, and a
//! client that checks what it receives.
//!
//! [`H2Frames`] sends whatever it is told and shows what comes, frame by frame: for malformed and hostile
//! traffic. [`H2Client`] stands on it, keeps the rules, and accepts nothing that a careful client would
//! refuse. Neither spawns a thread: a call that waits for one stream reads the frames of all.

mod client;
mod frame;
pub mod hpack;
mod translator;

pub use client::{End, GoAway, H2Client};
pub use frame::{Frame, H2Frames, PREFACE, code, flag, kind, setting};
pub use translator::{Content, Translated, Translator, translated};

#[cfg(test)]
mod tests;
