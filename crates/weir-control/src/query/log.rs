//! The queries of the log: of a stream of it, and of what was kept of the past.

use weir_config::nearest;
use weir_observe::{Condition, ConditionError, Detail, LogOf};

use super::{encode, fields};

/// The path of the log.
pub const LOG: &str = "/v1/log";
/// The path of what was kept of the past.
pub const PAST: &str = "/v1/log/past";

/// What is wanted of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOrder {
    /// Only of this site.
    pub site: Option<String>,
    /// Whose requests.
    pub kind: LogKind,
    /// Only lines that fit this condition.
    pub condition: Option<String>,
    /// How much of each line.
    pub detail: Detail,
}

/// Whose requests a line of the log is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogKind {
    /// Clients'.
    #[default]
    Access,
    /// Those to origins.
    Origin,
}

impl LogKind {
    fn word(self) -> &'static str {
        match self {
            LogKind::Access => "access",
            LogKind::Origin => "origin",
        }
    }

    /// The log of its lines.
    pub(crate) fn log(self) -> LogOf {
        match self {
            LogKind::Access => LogOf::Clients,
            LogKind::Origin => LogOf::Origins,
        }
    }
}

impl LogOrder {
    /// The path of the stream, with the query.
    pub fn write(&self) -> String {
        self.write_to(LOG)
    }

    /// The path of the past, with the query.
    pub fn write_past(&self) -> String {
        self.write_to(PAST)
    }

    fn write_to(&self, path: &str) -> String {
        let full = u8::from(self.detail == Detail::Full);
        let mut text = format!("{path}?kind={}&full={full}", self.kind.word());
        for (name, value) in [("site", &self.site), ("q", &self.condition)] {
            if let Some(value) = value {
                text += &format!("&{name}=");
                encode(&mut text, value);
            }
        }
        text
    }

    /// Its condition, where it has one.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub(crate) fn read_condition(&self) -> Result<Option<Condition>, String> {
        let Some(text) = &self.condition else { return Ok(None) };
        if text.trim().is_empty() {
            return Err("the condition is empty: write one, as status >= 500, or leave it out".to_owned());
        }
        Condition::read(text, self.kind.log()).map(Some).map_err(|error| said(text, &error))
    }
}

/// What a query asks for of the log.
///
/// # Errors
/// A sentence.
pub(crate) fn read_log(query: &str) -> Result<LogOrder, String> {
    let mut order = LogOrder::default();
    for field in fields(query) {
        let (name, value) = field?;
        match (name, value.as_str()) {
            ("site", _) => order.site = Some(value),
            ("q", _) => order.condition = Some(value),
            ("kind", "access") => order.kind = LogKind::Access,
            // The name of that log in the configuration.
            ("kind", "origin" | "upstream") => order.kind = LogKind::Origin,
            ("full", "0") => order.detail = Detail::Line,
            ("full", "1") => order.detail = Detail::Full,
            ("full", _) => return Err("full is 0 or 1".to_owned()),
            ("kind", _) => return Err(format!("{value} is no kind; there are access and origin")),
            _ => return Err(format!("{name} is not known; there are q, site, kind and full")),
        }
    }
    Ok(order)
}

/// A mistake in a condition: what is wrong, where, and what was probably meant.
fn said(text: &str, error: &ConditionError) -> String {
    let before = text.get(..error.at).unwrap_or_default().chars().count();
    let mut said = error.message.clone();
    match &error.unknown {
        Some(unknown) => match nearest(&unknown.word, unknown.known.iter().copied()) {
            Some(known) => said += &format!("; did you mean {known}?"),
            None => said += &format!("; there are {}", unknown.known.join(", ")),
        },
        None if !error.help.is_empty() => said += &format!("; {}", error.help),
        None => {}
    }
    format!("{said}\n  {text}\n  {}^", " ".repeat(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let condition = Some("url ~ \"^/ö &?\" and status >= 500".to_owned());
        let order =
            LogOrder { site: Some("ö".to_owned()), kind: LogKind::Origin, condition, detail: Detail::Full };
        let written = order.write();
        let (path, query) = written.split_once('?').unwrap();
        assert!(path == LOG && written.parse::<http::Uri>().is_ok(), "{written}");
        assert_eq!(read_log(query), Ok(order));
        assert_eq!(read_log("kind=upstream").map(|order| order.kind), Ok(LogKind::Origin));
        for query in ["kind=none", "condition=a", "site=%", "full=yes"] {
            assert!(read_log(query).is_err(), "{query}");
        }
    }

    #[test]
    fn mistakes_are_drawn_and_the_nearest_word_is_named() {
        let said = |text: &str| {
            let order = LogOrder { condition: Some(text.to_owned()), ..LogOrder::default() };
            order.read_condition().unwrap_err()
        };
        for (text, expect) in [
            (
                "site == ö and statsu >= 500",
                "statsu is no name of this log; did you mean status?\n  \
                 site == ö and statsu >= 500\n                ^",
            ),
            ("outcome == mis", "outcome is never mis; did you mean miss?\n  outcome == mis\n             ^"),
            (
                "first_byte > 5",
                "5 is no value of first_byte_ms; write its unit, as 200ms, 1.5s or 2m\n  \
                 first_byte > 5\n               ^",
            ),
        ] {
            assert_eq!(said(text), expect);
        }
        for kind in [LogKind::Access, LogKind::Origin] {
            for name in kind.log().names() {
                let condition = Some(format!("{name}x == 1"));
                let said = LogOrder { condition, kind, ..LogOrder::default() }.read_condition().unwrap_err();
                assert!(said.contains(&format!("did you mean {name}?")), "{said}");
            }
        }
        assert!(said("zzz == 1").starts_with("zzz is no name of this log; there are client, method, "));
    }
}
