//! Limits on a module's figures: `whole_p99_ms <= 50`, or of one server, `weir: whole_p99_ms <= 50`. One that
//! is not kept makes the run fail.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error};

/// A figure, and what it must be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Limit {
    /// The server that it is for; all without one.
    pub(crate) server: Option<String>,
    pub(crate) figure: String,
    order: Order,
    bound: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    AtMost,
    AtLeast,
    Below,
    Above,
    Equal,
}

const ORDERS: [(&str, Order); 5] = [
    ("<=", Order::AtMost),
    (">=", Order::AtLeast),
    ("<", Order::Below),
    (">", Order::Above),
    ("=", Order::Equal),
];

impl Limit {
    fn parse(text: &str) -> Result<Self, String> {
        let whole = text;
        let bad = || format!("`{whole}` is no limit; write e.g. \"whole_p99_ms <= 50\" or \"faults = 0\"");
        let (server, text) = match text.split_once(':') {
            Some((server, text)) => (Some(server.trim().to_owned()), text),
            None => (None, text),
        };
        let found = ORDERS.iter().find_map(|(sign, order)| Some((text.split_once(sign)?, *order)));
        let ((figure, bound), order) = found.ok_or_else(bad)?;
        let figure = figure.trim();
        let bound: f64 = bound.trim().parse().map_err(|_| bad())?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if figure.is_empty() || !figure.chars().all(plain) || !bound.is_finite() {
            return Err(bad());
        }
        Ok(Self { server, figure: figure.to_owned(), order, bound })
    }

    pub(crate) fn is_for(&self, server: &str) -> bool {
        self.server.as_deref().is_none_or(|name| name == server)
    }

    /// Whether it says how large a figure is at least.
    pub(crate) fn is_from_below(&self) -> bool {
        matches!(self.order, Order::AtLeast | Order::Above)
    }

    /// Whether a value keeps the limit. No value keeps none.
    pub(crate) fn is_kept(&self, value: Option<f64>) -> bool {
        let Some(value) = value.filter(|value| !value.is_nan()) else { return false };
        match self.order {
            Order::AtMost => value <= self.bound,
            Order::AtLeast => value >= self.bound,
            Order::Below => value < self.bound,
            Order::Above => value > self.bound,
            Order::Equal => value == self.bound,
        }
    }
}

/// Without the server, which stands beside it in every report.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = ORDERS.iter().find(|(_, order)| *order == self.order).map_or("", |(sign, _)| sign);
        write!(f, "{} {sign} {}", self.figure, self.bound)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}
