//! The labels of sites as they stand in the text.
//!
//! Ten thousand sites have a hundred thousand rows. Their labels are written once for each site, not for each
//! row, and the library copies them: writing them takes 5.5 ms then in place of 8.

use std::iter;

use weir_observe::Outcome;

use super::family::Seen;

/// The labels of each site, and what outcomes add to them.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    /// Of the sites of the snapshot, in their order.
    pub(super) counted: LabelTexts,
    /// Of the sites of what is held, in their order.
    pub(super) held: LabelTexts,
    /// In the order of [`Outcome::ALL`].
    pub(super) outcomes: Vec<String>,
}

impl Written {
    pub(super) fn of(seen: &Seen) -> Written {
        let outcomes = Outcome::ALL.iter().map(|outcome| format!(",outcome=\"{}\"", outcome.word()));
        Written {
            counted: LabelTexts::of(seen.snapshot.sites.iter().map(|site| &*site.name)),
            held: LabelTexts::of(seen.held.sites.iter().map(|(site, _)| &**site)),
            outcomes: outcomes.collect(),
        }
    }
}

/// Labels one behind the other, and where each ends.
#[derive(Clone, Debug, Default)]
pub(super) struct LabelTexts {
    text: String,
    ends: Vec<usize>,
}

impl LabelTexts {
    fn of<'n>(sites: impl Iterator<Item = &'n str>) -> LabelTexts {
        let mut labels = LabelTexts::default();
        for site in sites {
            labels.text.push_str("site=\"");
            site.chars().for_each(|char| match char {
                '\\' | '"' => labels.text.extend(['\\', char]),
                '\n' => labels.text.push_str("\\n"),
                _ => labels.text.push(char),
            });
            labels.text.push('"');
            labels.ends.push(labels.text.len());
        }
        labels
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &str> {
        let starts = iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
    }
}
