//! What an exchange needs to know, and how far one came that has failed. The same for each version of HTTP.

use std::sync::atomic::AtomicBool;

use crate::error::{Blame, ExchangeError};
use crate::login::LoginUse;
use crate::message::{InterimSender, OutBody, RequestHead};
use crate::settings::{Bounds, Timeouts};

/// What one exchange needs to know besides its connection.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The request without its body.
    pub request: RequestHead<'a>,
    /// The connections that belong to its client's connection.
    pub login: Option<&'a LoginUse>,
    /// Where interim responses go.
    pub interim: Option<&'a InterimSender>,
    /// How long each step may take.
    pub timeouts: &'a Timeouts,
    /// How large a head may be, and the like.
    pub bounds: &'a Bounds,
    /// Is set once a byte of a response has come.
    pub answers: Option<&'a AtomicBool>,
}

/// How far an attempt got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// No connection.
    NotConnected,
    /// A connection, but it took no byte.
    NothingSent,
    /// Bytes were sent, none came back.
    Sent,
    /// A byte of a response came.
    Answered,
}

/// Whether the connection had been used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Made for this request.
    Fresh,
    /// It had served other requests.
    Reused,
}

/// A failed attempt.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong.
    pub error: ExchangeError,
    /// How far it got.
    pub stage: Stage,
    /// What it was sent on.
    pub kind: Kind,
}

/// Why an attempt failed, and what of the body is left for another one. Boxed, so that a result stays small.
pub type Failed = Box<(Failure, Option<OutBody>)>;

impl Failure {
    /// Whether it is the origin's fault. An idle connection that the origin closed meanwhile is nobody's.
    pub fn counts(&self) -> bool {
        let raced = self.kind == Kind::Reused
            && matches!(self.stage, Stage::NothingSent | Stage::Sent)
            && matches!(self.error, ExchangeError::Terminated);
        !raced && self.error.blame() == Blame::Origin
    }
}
