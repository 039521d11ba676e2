//! What is remembered of an origin's agent. It outlives reloads with its origin.

use std::time::Instant;

use super::line::Words;
use super::said::Said;
use crate::health::check::pace::Pace;
use crate::snapshot::AgentSnapshot;

/// What came of a connection to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// There is none.
    Unreachable,
    /// No line came whole: it never ended, or was too long or too late.
    Broken,
    /// A line.
    Line(Words),
}

/// The agent of an origin.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) pace: Pace,
    pub(crate) said: Said,
    /// The last whole line, its reason, and when it came.
    last: Option<(String, String, Instant)>,
    /// Whether the last connection failed.
    is_gone: bool,
    /// Whether every word of the last line meant something.
    is_whole: bool,
    understood: u64,
    partly: u64,
    broken: u64,
    unreachable: u64,
}

impl Default for Record {
    fn default() -> Record {
        Record {
            pace: Pace::default(),
            said: Said::default(),
            last: None,
            is_gone: false,
            is_whole: true,
            understood: 0,
            partly: 0,
            broken: 0,
            unreachable: 0,
        }
    }
}

/// What is worth a line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The agent wants something else of the origin, or is back.
    Says,
    /// It says something else, which changes no more than a share.
    Scales,
    /// It says something else, and a word of that means nothing.
    Wonders(String),
    /// It cannot be reached any more, or says nothing whole.
    Gone,
}

impl Record {
    /// Takes in what came of a connection.
    pub(crate) fn hear(&mut self, heard: &Heard, now: Instant) -> Option<News> {
        let Heard::Line(words) = heard else {
            let counter = if *heard == Heard::Broken { &mut self.broken } else { &mut self.unreachable };
            *counter += 1;
            return (!std::mem::replace(&mut self.is_gone, true)).then_some(News::Gone);
        };
        let is_whole = words.unknown.is_empty();
        *(if is_whole { &mut self.understood } else { &mut self.partly }) += 1;
        let said = self.said.after(words);
        let before = std::mem::replace(&mut self.said, said);
        let was_gone = std::mem::replace(&mut self.is_gone, false);
        let was_whole = std::mem::replace(&mut self.is_whole, is_whole);
        let last = self.last.replace((words.line.clone(), words.reason.clone(), now));
        if last.as_ref().is_some_and(|(line, _, _)| *line == words.line) && !was_gone {
            return None;
        }
        Some(match is_whole {
            // Garbage that goes on is counted.
            false if was_whole || was_gone => News::Wonders(words.unknown.clone()),
            _ if was_gone || last.is_none() || said.stands_other_than(before) => News::Says,
            _ => News::Scales,
        })
    }

    /// Begins with what another process heard, and how it ended.
    pub(crate) fn carry(&mut self, said: Said, (line, reason): (&str, &str), now: Instant) {
        self.said = said;
        self.last = Some((line.to_owned(), reason.to_owned(), now));
    }

    /// The last reason; empty where there is none.
    pub(crate) fn reason(&self) -> &str {
        self.last.as_ref().map_or("", |(_, reason, _)| reason)
    }

    /// The last whole line.
    pub(crate) fn line(&self) -> &str {
        self.last.as_ref().map_or("", |(line, _, _)| line)
    }

    /// For metrics and `weir status`.
    pub(crate) fn snapshot(&self, now: Instant) -> AgentSnapshot {
        AgentSnapshot {
            line: self.line().to_owned(),
            ago: self.last.as_ref().map(|(_, _, at)| now.saturating_duration_since(*at)),
            percent: self.said.percent,
            connections: self.said.connections,
            is_gone: self.is_gone,
            understood: self.understood,
            partly: self.partly,
            broken: self.broken,
            unreachable: self.unreachable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::health::agent::line::{Reading, read};

    #[test]
    fn only_what_changes_how_the_origin_stands_is_news() {
        let mut record = Record::default();
        let (wonders, garbage) = (News::Wonders("wat".to_owned()), News::Wonders("eh".to_owned()));
        let rows = [
            ("up 50%", Some(News::Says)),
            ("up 50%", None),
            ("up 51%", Some(News::Scales)),
            ("up 52% maxconn:9", Some(News::Scales)),
            ("up 0%", Some(News::Says)),
            ("up 1%", Some(News::Says)),
            ("down # load", Some(News::Says)),
            ("down # more load", Some(News::Scales)),
            ("up wat", Some(wonders)),
            ("up wut", Some(News::Scales)),
            ("", Some(News::Gone)),
            ("", None),
            ("up eh", Some(garbage)),
            ("drain", Some(News::Says)),
        ];
        for (number, (line, expect)) in rows.into_iter().enumerate() {
            let heard = match read(format!("{line}\n").as_bytes(), true) {
                Reading::Line(words) if !line.is_empty() => Heard::Line(words),
                _ => Heard::Unreachable,
            };
            assert_eq!(record.hear(&heard, clock::now()), expect, "{number}: {line}");
        }
    }
}
