//! What became of questions, since the start.

use std::sync::atomic::{AtomicU64, Ordering};

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Count {
    /// A question.
    Questions,
    /// A question that was sent, perhaps once more.
    Sent,
    /// An answer with an address.
    Addresses,
    /// An answer with a denial.
    Denials,
    /// An answer that says nothing.
    Nothing,
    /// A question that nobody answered.
    Unanswered,
    /// A question that was not asked since its distributors are silent.
    Skipped,
    /// A question that was not asked since too many are open.
    Full,
    /// A question that could not be sent.
    Unsent,
    /// An answer that was used again.
    Kept,
    /// An answer after its question was given up.
    Late,
    /// A second answer to a question.
    Duplicate,
    /// An answer from a place that was not asked.
    Foreign,
    /// An answer to a question that was not asked.
    Unasked,
    /// An answer that no known key has signed.
    Forged,
    /// An answer that has not the form.
    Malformed,
    /// An answer that is neither an origin nor an address in `allow`.
    NotAllowed,
    /// A connection to a distributor that was made.
    Connected,
    /// A connection to a distributor that failed or was lost.
    Lost,
}

impl Count {
    /// All of them, in the order of their numbers.
    pub const ALL: [Count; 19] = [
        Count::Questions,
        Count::Sent,
        Count::Addresses,
        Count::Denials,
        Count::Nothing,
        Count::Unanswered,
        Count::Skipped,
        Count::Full,
        Count::Unsent,
        Count::Kept,
        Count::Late,
        Count::Duplicate,
        Count::Foreign,
        Count::Unasked,
        Count::Forged,
        Count::Malformed,
        Count::NotAllowed,
        Count::Connected,
        Count::Lost,
    ];

    /// The word for metrics and status.
    pub fn word(self) -> &'static str {
        match self {
            Count::Questions => "questions",
            Count::Sent => "sent",
            Count::Addresses => "addresses",
            Count::Denials => "denials",
            Count::Nothing => "nothing",
            Count::Unanswered => "unanswered",
            Count::Skipped => "skipped",
            Count::Full => "full",
            Count::Unsent => "unsent",
            Count::Kept => "kept",
            Count::Late => "late",
            Count::Duplicate => "duplicate",
            Count::Foreign => "foreign",
            Count::Unasked => "unasked",
            Count::Forged => "forged",
            Count::Malformed => "malformed",
            Count::NotAllowed => "not_allowed",
            Count::Connected => "connected",
            Count::Lost => "lost",
        }
    }
}

/// The counters of one asker.
#[derive(Debug, Default)]
pub struct Counts([AtomicU64; Count::ALL.len()]);

impl Counts {
    /// One more.
    pub fn add(&self, count: Count) {
        self.0[count as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many.
    pub fn get(&self, count: Count) -> u64 {
        self.0[count as usize].load(Ordering::Relaxed)
    }

    /// All of them with their words.
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        Count::ALL.iter().map(|count| (count.word(), self.get(*count))).collect()
    }
}
