//! The allowed word that is nearest to a wrong one. Must not know what the words mean.

/// The word that was probably meant; `None` where no word is near.
pub fn nearest<'a>(word: &str, legal: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase().replace('-', "_");
    legal
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
