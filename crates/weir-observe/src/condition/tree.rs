//! A condition, read: what it is made of. It must not decide anything.

use regex::bytes::Regex;

use super::names::Field;
use crate::site::SiteId;

/// The longest condition, in bytes.
pub const CONDITION_BYTES_MAX: usize = 4096;

/// Why a text is no condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    /// What is wrong, in a sentence.
    pub message: String,
    /// Where, in bytes of the text.
    pub at: usize,
    /// What to write instead; empty where the message says it.
    pub help: String,
    /// The word that is unknown, where that is the mistake.
    pub unknown: Option<Unknown>,
}

/// A word that is unknown, and those that are known in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The word.
    pub word: String,
    /// Those that could stand there.
    pub known: Vec<&'static str>,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Any of them.
    Or(Vec<Node>),
    /// All of them.
    And(Vec<Node>),
    Not(Box<Node>),
    Test(Test),
}

/// A name, and what its value is compared with.
#[derive(Clone, Debug)]
pub(super) struct Test {
    pub(super) field: Field,
    pub(super) check: Check,
    /// For the name of a site: the numbers of the sites that are named, where all are known.
    pub(super) sites: Option<Vec<SiteId>>,
}

#[derive(Clone, Debug)]
pub(super) enum Check {
    /// A number, in units of its field.
    Number(Op, Span),
    /// One of several numbers.
    Numbers(Vec<Span>),
    /// The same text as one of these.
    Is(Vec<String>),
    /// A text with a match.
    Matches(Regex),
    /// Yes or no.
    Yes(bool),
}

/// How numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Is,
    Below,
    AtMost,
    Above,
    AtLeast,
}

/// A number, or those from the first to the last, as `5xx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: i64,
    pub(super) last: i64,
}
