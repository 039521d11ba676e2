//! What was decided about one request, and when: the steps of its way to a response. The data plane notes
//! them only while some reader of the log wants them. A step is a few numbers and words; its texts are made
//! for lines that fit a reader's condition. It must not decide anything.

use std::sync::Arc;
use std::time::Duration;

/// The most steps of a request; those beyond are counted.
pub const STEPS_MAX: usize = 64;
/// The most attempts at origins among them.
pub const TRIES_MAX: usize = 32;
/// The longest key of a trace, in bytes.
pub const KEY_BYTES_MAX: usize = 2048;

/// What is known of a request beside its record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The key: the URL, and what else is in it, one line each. Empty where the cache was not asked.
    pub key: String,
    /// The steps, in the order of their times.
    pub steps: Vec<Moment>,
    /// Whether steps were noted while the request was under way; else there may be attempts alone.
    pub is_noted: bool,
    /// Steps that there was no room for.
    pub left_out: u32,
}

/// A step and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Since the request's head had been read, in microseconds. Below 0 for what joined requests had begun
    /// before.
    pub at_us: i64,
    /// What happened.
    pub step: Step,
}

/// What happened to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The look-up found a stored response.
    Found(Found),
    /// The look-up found none that the request selects.
    NotFound(Others),
    /// What is done with what was found, and why: the word of an outcome's detail, or empty.
    Decided(Verdict, &'static str),
    /// The request goes past the cache, for this reason.
    Passed(&'static str),
    /// The request to the origin lacks these fields of the client's, separated by `, `.
    Lost(Box<str>),
    /// The stored response is validated in the background.
    Refreshing,
    /// The request leads a fill.
    Led(Company),
    /// It reads the fill of another request.
    Joined,
    /// What the head of the fill means.
    Answered(HeadWord),
    /// What became of the question for the missing bytes of a stored part.
    Missing(&'static str),
    /// One attempt at an origin.
    Tried(Box<Tried>),
    /// The response is stored for so long, for a lifetime from there.
    Stored {
        /// The lifetime.
        ttl_s: u64,
        /// Where it came from.
        source: &'static str,
        /// The volume that it is written to, where that is known already.
        volume: Option<Arc<str>>,
    },
    /// It is not stored, for this reason.
    NotStored(&'static str),
    /// A response of this status is about to be sent.
    Ready(u16),
}

/// A stored response, as a look-up found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its status.
    pub status: u16,
    /// How old it is.
    pub age_s: u64,
    /// Seconds of freshness left; negative when stale.
    pub ttl_left_s: i64,
    /// Where the lifetime came from.
    pub source: &'static str,
    /// How much of its body there is.
    pub extent: Extent,
    /// Where its bytes are.
    pub place: Place,
}

/// How much of a body is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// Some of it.
    Part,
    /// Its first transfer is still running.
    Arriving,
}

impl Extent {
    /// The word of the log.
    pub fn word(self) -> &'static str {
        match self {
            Extent::Whole => "whole",
            Extent::Part => "part",
            Extent::Arriving => "arriving",
        }
    }
}

/// Where the bytes of a stored response are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// From memory.
    Memory,
    /// From the volume of this name.
    Volume(Arc<str>),
}

/// Whether a key has responses that the request does not select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// It has none.
    None,
    /// It has other variants.
    Variants,
}

/// What is done about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The stored response is served.
    Serve,
    /// It is served once its missing bytes are known to be had.
    Complete,
    /// The origin is asked whether it is still good.
    Revalidate,
    /// A response is fetched.
    Fetch,
    /// The client accepts only a stored response, and there is none.
    GatewayTimeout,
}

impl Verdict {
    /// The word of the log.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Serve => "serve",
            Verdict::Complete => "complete",
            Verdict::Revalidate => "revalidate",
            Verdict::Fetch => "fetch",
            Verdict::GatewayTimeout => "gateway-timeout",
        }
    }
}

/// Whether other requests may read a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// They may join it.
    Joinable,
    /// It is for its lead alone.
    Alone,
}

/// What the head of a fill means to its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadWord {
    /// A new version.
    New,
    /// The stored version is still good.
    Unchanged,
    /// A part of a version.
    Part,
    /// A response that is not stored.
    Declined,
    /// A short error response for all that wait.
    Shared,
    /// The origin gave no response.
    Failed,
    /// The fill was given up.
    Withdrawn,
    /// No head came in the time that the request may wait.
    Late,
    /// Another request has brought the response in the meantime.
    Held,
}

impl HeadWord {
    /// The word of the log.
    pub fn word(self) -> &'static str {
        match self {
            HeadWord::New => "new",
            HeadWord::Unchanged => "unchanged",
            HeadWord::Part => "part",
            HeadWord::Declined => "declined",
            HeadWord::Shared => "shared",
            HeadWord::Failed => "failed",
            HeadWord::Withdrawn => "withdrawn",
            HeadWord::Late => "late",
            HeadWord::Held => "held",
        }
    }
}

/// One attempt of a request to an origin, as far as it has come. Unknown texts are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The id of its request, as the log of requests to origins has it.
    pub asked: u64,
    /// What it is for, in the word of that log.
    pub purpose: &'static str,
    /// Which attempt it is, from 1 on.
    pub attempt: u32,
    /// Why the request was sent again, for a further attempt.
    pub retry: &'static str,
    /// The origin's name.
    pub origin: Arc<str>,
    /// The pick that chose it, and why.
    pub pick: String,
    /// Its address and port, or the path of its socket.
    pub address: String,
    /// `new`, `reused`; empty where there is no connection yet.
    pub connection: &'static str,
    /// How long connecting took, TLS included.
    pub connect: Option<Duration>,
    /// The status of the response.
    pub status: Option<u16>,
    /// From the first byte sent to the first byte received.
    pub first_byte: Option<Duration>,
    /// Bytes received.
    pub received_bytes: u64,
    /// How it ended; `None` while it is under way.
    pub ended: Option<TriedEnd>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriedEnd {
    /// From its beginning to its end.
    pub total: Duration,
    /// The word of the log of requests to origins.
    pub completion: &'static str,
    /// Why it failed; empty where it did not.
    pub error: &'static str,
}
