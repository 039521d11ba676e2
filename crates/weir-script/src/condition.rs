//! The small language of conditions and measures over origins: `where("memory < 0.9 and in_flight < 50")`,
//! `least("cpu + 0.1 * in_flight")`. It is parsed once and asked of one origin at a time. It must not loop,
//! allocate while it is asked, or know how it was called.
//!
//! What is missing (a metric without a fresh value) stays missing through sums and comparisons. A condition
//! that is missing in the end does not hold, and neither does its contrary.

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

/// The longest text of a condition, in bytes.
pub const TEXT_BYTES_MAX: usize = 1024;
/// The deepest nesting.
pub const DEPTH_MAX: usize = 32;

/// What a condition may ask of one origin.
pub trait Facts {
    /// A metric's fresh value.
    fn metric(&self, name: &str) -> Option<f64>;
    /// The age of a metric's value in seconds, fresh or not.
    fn age(&self, name: &str) -> Option<f64>;
    /// A number of its own.
    fn number(&self, of: Number) -> f64;
    /// A text of its own; empty where it has none.
    fn text(&self, of: Text) -> &str;
    /// Whether something holds of it.
    fn flag(&self, of: Flag) -> bool;
}

/// The numbers that each origin has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// Requests under way.
    InFlight,
    /// The average time to the first byte in milliseconds; 0 where it is not known.
    Latency,
    /// Its weight.
    Weight,
}

/// The texts that origins have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// Its URL.
    Name,
    /// Its name in sessions; empty where it has none.
    Id,
    /// How it stands.
    Standing,
}

/// What may hold of an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// It takes a share of the requests.
    Up,
    /// It is a backup.
    Backup,
}

/// What is wrong in a text, and at which of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The first wrong byte.
    pub at: usize,
    /// What is wrong, in one sentence.
    pub why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} (at character {})", self.why, self.at + 1)
    }
}

/// Something that holds of an origin or not.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition(Holds);

/// A number for each origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure(Sum);

#[derive(Debug, Clone, PartialEq)]
enum Holds {
    Flag(Flag),
    Known(Box<str>),
    Compared(Sum, Order, Sum),
    Texts(Word, Relation, Word),
    Not(Box<Holds>),
    Both(Box<Holds>, Box<Holds>),
    Either(Box<Holds>, Box<Holds>),
}

#[derive(Debug, Clone, PartialEq)]
enum Sum {
    Given(f64),
    Own(Number),
    Metric(Box<str>),
    Age(Box<str>),
    Minus(Box<Sum>),
    Both(Box<Sum>, Sign, Box<Sum>),
}

#[derive(Debug, Clone, PartialEq)]
enum Word {
    Given(Box<str>),
    Own(Text),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Less,
    AtMost,
    Same,
    Other,
    AtLeast,
    More,
}

/// How texts are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Same,
    Other,
    Begins,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
    Times,
    By,
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(text: &str) -> Result<Condition, Fault> {
        parse::condition(text).map(Condition)
    }

    /// Whether it holds of this origin. What is missing does not hold.
    pub fn holds(&self, of: &impl Facts) -> bool {
        self.0.holds(of) == Some(true)
    }
}

impl Measure {
    /// Reads a measure.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(text: &str) -> Result<Measure, Fault> {
        parse::measure(text).map(Measure)
    }

    /// The origin's number; `None` where a part of it is missing, or where it is not finite.
    pub fn of(&self, of: &impl Facts) -> Option<f64> {
        self.0.of(of).filter(|number| number.is_finite())
    }
}

impl Holds {
    fn holds(&self, of: &impl Facts) -> Option<bool> {
        match self {
            Holds::Flag(flag) => Some(of.flag(*flag)),
            Holds::Known(name) => Some(of.metric(name).is_some()),
            Holds::Compared(one, order, other) => Some(order.of(one.of(of)?, other.of(of)?)),
            Holds::Texts(one, relation, other) => Some(relation.of(one.of(of), other.of(of))),
            Holds::Not(inner) => inner.holds(of).map(|holds| !holds),
            Holds::Both(one, other) => match (one.holds(of), other.holds(of)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Holds::Either(one, other) => match (one.holds(of), other.holds(of)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
        }
    }
}

impl Sum {
    fn of(&self, of: &impl Facts) -> Option<f64> {
        Some(match self {
            Sum::Given(number) => *number,
            Sum::Own(number) => of.number(*number),
            Sum::Metric(name) => of.metric(name)?,
            Sum::Age(name) => of.age(name)?,
            Sum::Minus(inner) => -inner.of(of)?,
            Sum::Both(one, sign, other) => {
                let (one, other) = (one.of(of)?, other.of(of)?);
                match sign {
                    Sign::Plus => one + other,
                    Sign::Minus => one - other,
                    Sign::Times => one * other,
                    Sign::By => one / other,
                }
            }
        })
    }
}

impl Word {
    fn of<'f>(&'f self, of: &'f impl Facts) -> &'f str {
        match self {
            Word::Given(text) => text,
            Word::Own(text) => of.text(*text),
        }
    }
}

impl Relation {
    fn of(self, one: &str, other: &str) -> bool {
        match self {
            Relation::Same => one == other,
            Relation::Other => one != other,
            Relation::Begins => one.starts_with(other),
        }
    }
}

impl Order {
    fn of(self, one: f64, other: f64) -> bool {
        match self {
            Order::Less => one < other,
            Order::AtMost => one <= other,
            Order::Same => one == other,
            Order::Other => one != other,
            Order::AtLeast => one >= other,
            Order::More => one > other,
        }
    }
}
