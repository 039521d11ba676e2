//! The allowed word that is nearest to a wrong one. Must not know what the words mean.

use std::cell::Cell;

/// The words that are compared while one configuration is loaded: a file may name thousands that are not
/// there beside thousands that are.
pub(crate) const COMPARED_MAX: usize = 200_000;

thread_local! {
    /// How many more words may be compared on this thread; `None`: any number.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Bounds what is compared until this is dropped.
pub(crate) struct Bounded(());

impl Bounded {
    pub(crate) fn begin() -> Bounded {
        LEFT.set(Some(COMPARED_MAX));
        Bounded(())
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        LEFT.set(None);
    }
}

/// Whether one more word may be compared.
fn is_left() -> bool {
    match LEFT.get() {
        None => true,
        Some(left) => {
            LEFT.set(Some(left.saturating_sub(1)));
            left > 0
        }
    }
}

/// The word that was probably meant; `None` where no word is near.
pub fn nearest<'a>(word: &str, legal: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase().replace('-', "_");
    legal
        .take_while(|_| is_left())
        .map(|known| {
            let lower = known.to_ascii_lowercase().replace('-', "_");
            let closeness = strsim::jaro_winkler(&lower, &word);
            let edits = strsim::damerau_levenshtein(&lower, &word);
            (known, closeness, edits)
        })
        .filter(|(known, closeness, edits)| {
            *closeness > 0.86 || (*edits < known.len() && *edits <= 1.max(known.len() / 4))
        })
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(known, _, _)| known)
}
