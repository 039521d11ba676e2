//! What is wrong with a text, and where in it. Must not know a file.

use std::ops::Range;

/// One thing that is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Its bytes in the text; none: the whole text.
    pub place: Option<Range<usize>>,
    /// What is wrong.
    pub sentence: String,
}

impl Fault {
    pub fn at(place: Range<usize>, sentence: String) -> Fault {
        Fault { place: Some(place), sentence }
    }

    pub fn whole(sentence: String) -> Fault {
        Fault { place: None, sentence }
    }
}
