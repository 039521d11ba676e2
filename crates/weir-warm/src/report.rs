//! What came of the URLs of a warming, in figures and with some examples. It must not decide anything.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The most words that are told apart; what comes of more is counted as [`OTHER`].
const WORDS_MAX: usize = 64;
const OTHER: &str = "other";
/// The most URLs that are named with what they met.
const EXAMPLES_MAX: usize = 100;

/// What came of one URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was fetched and is held.
    Stored,
    /// It was held, and the origin has confirmed it.
    Confirmed,
    /// It was held and fresh: no origin was asked.
    Fresh,
    /// It was not stored, with the reason's word.
    NotStored(Cow<'static, str>),
    /// There was no response that could be stored: the reason's word, or the status.
    Failed(Cow<'static, str>),
    /// It is to be asked for later.
    GaveWay(Waits),
}

/// What a URL that gave way waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Other warmings have the places, or an upgrade is under way.
    Places,
    /// Clients leave no room at this upstream.
    Clients(String),
    /// This upstream gives no answer.
    Down(String),
}

impl Waits {
    /// In words.
    pub(crate) fn text(&self) -> String {
        match self {
            Waits::Places => "a place beside other warmings".to_owned(),
            Waits::Clients(upstream) => format!("room beside clients at the upstream {upstream}"),
            Waits::Down(upstream) => format!("an answer of the upstream {upstream}"),
        }
    }

    /// The word for a URL that has waited too long.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Waits::Down(_) => "no-answer-of-the-origin",
            Waits::Places | Waits::Clients(_) => "no-room-at-the-origin",
        }
    }
}

/// What came of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Fetched, and held since.
    pub stored: u64,
    /// Confirmed by the origin.
    pub confirmed: u64,
    /// Fresh already.
    pub fresh: u64,
    /// Not stored, by the reason's word.
    pub not_stored: BTreeMap<String, u64>,
    /// Failed, by the reason's word or the status.
    pub failed: BTreeMap<String, u64>,
    /// Some URLs that were not stored or failed, and why.
    pub examples: Vec<(String, String)>,
}

impl Report {
    /// How many URLs it speaks of.
    pub fn total(&self) -> u64 {
        let sum = |words: &BTreeMap<String, u64>| words.values().sum::<u64>();
        self.stored + self.confirmed + self.fresh + sum(&self.not_stored) + sum(&self.failed)
    }

    /// Adds what came of a URL.
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Stored => self.stored += 1,
            Outcome::Confirmed => self.confirmed += 1,
            Outcome::Fresh => self.fresh += 1,
            Outcome::NotStored(word) => count(&mut self.not_stored, word),
            Outcome::Failed(word) => count(&mut self.failed, word),
            Outcome::GaveWay(_) => {}
        }
    }

    /// Names a URL, where it met something that is worth it and there is room.
    pub(crate) fn name(&mut self, url: &str, outcome: &Outcome) {
        let (Outcome::NotStored(word) | Outcome::Failed(word)) = outcome else { return };
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push((url.to_owned(), word.clone().into_owned()));
        }
    }
}

fn count(words: &mut BTreeMap<String, u64>, word: &str) {
    let word = if words.contains_key(word) || words.len() < WORDS_MAX { word } else { OTHER };
    *words.entry(word.to_owned()).or_default() += 1;
}

impl Outcome {
    /// The line that the book keeps of it: a letter, and the word where there is one.
    pub(crate) fn line(&self) -> Option<String> {
        Some(match self {
            Outcome::Stored => "s".to_owned(),
            Outcome::Confirmed => "c".to_owned(),
            Outcome::Fresh => "f".to_owned(),
            Outcome::NotStored(word) => format!("n {word}"),
            Outcome::Failed(word) => format!("x {word}"),
            Outcome::GaveWay(_) => return None,
        })
    }

    /// What such a line says.
    pub(crate) fn of_line(line: &str) -> Option<Outcome> {
        let word = |word: &str| Cow::Owned(word.to_owned());
        Some(match line.split_once(' ') {
            None if line == "s" => Outcome::Stored,
            None if line == "c" => Outcome::Confirmed,
            None if line == "f" => Outcome::Fresh,
            Some(("n", why)) => Outcome::NotStored(word(why)),
            Some(("x", why)) => Outcome::Failed(word(why)),
            _ => return None,
        })
    }
}
