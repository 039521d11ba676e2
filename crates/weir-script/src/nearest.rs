//! The name that is nearest to a wrong one.

/// The name that was probably meant; `None` where no name is near.
pub(crate) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let closeness = |name: &str| strsim::jaro_winkler(&name.to_ascii_lowercase(), &word.to_ascii_lowercase());
    let scored = names.map(|name| (name, closeness(name))).filter(|(_, closeness)| *closeness > 0.86);
    scored.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(name, _)| name)
}
