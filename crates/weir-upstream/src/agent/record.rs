//! What is remembered of an origin's agent. It outlives reloads with its origin.

use std::time::Instant;

use super::line::Words;
use super::said::Said;
use crate::check::pace::Pace;
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
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) pace: Pace,
    pub(crate) said: Said,
    /// The last whole line, its reason, and when it came.
    last: Option<(String, String, Instant)>,
    /// Whether the last connection failed.
    is_gone: bool,
    understood: u64,
    partly: u64,
    broken: u64,
    unreachable: u64,
}

/// What is worth a line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The agent says something else.
    Says,
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
        self.said = self.said.after(words);
        let was_gone = std::mem::replace(&mut self.is_gone, false);
        let before = self.last.replace((words.line.clone(), words.reason.clone(), now));
        let is_news = was_gone || before.is_none_or(|(line, _, _)| line != words.line);
        is_news.then(|| if is_whole { News::Says } else { News::Wonders(words.unknown.clone()) })
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
