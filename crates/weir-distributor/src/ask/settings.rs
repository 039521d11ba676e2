//! How distributors are asked.

use std::time::Duration;

use http::HeaderName;

use crate::format::Keys;
use crate::place::Place;

/// The most distributors of one pick.
pub const DISTRIBUTORS_MAX: usize = 16;

/// What questions look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// With numbers, versions and signatures.
    #[default]
    Full,
    /// Bare text, for simple programs; over UDP alone.
    Plain,
}

/// How distributors are asked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the pick, for the log.
    pub pick: String,
    /// Where they are, at most [`DISTRIBUTORS_MAX`]. The first is asked first.
    pub distributors: Vec<Place>,
    /// The policy that decides.
    pub policy: String,
    /// How long one try waits.
    pub timeout: Duration,
    /// How often a question is sent.
    pub tries: u8,
    /// Fields that are sent although they are secret, and that are kept when a head is reduced.
    pub send: Vec<HeaderName>,
    /// What signs.
    pub keys: Keys,
    /// What questions look like.
    pub form: Form,
}
