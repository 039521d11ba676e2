//! Configurations for tests, from a text instead of a file.

use crate::{Loaded, Mistakes, load::finish, source::Source, source::Sources, tree};

/// Loads a text; `${TOKEN}` is `secret` in it.
pub(crate) fn load(text: &str) -> Result<Loaded, Mistakes> {
    let mut mistakes = Vec::new();
    let source = Source::new("weir.toml", None, text.to_owned());
    let tree = tree::parse(&source, 0, &mut mistakes);
    let environment = |name: &str| (name == "TOKEN").then(|| "secret".to_owned());
    finish(tree, Sources(vec![source]), &environment, mistakes)
}

/// Loads a text that has no mistake.
pub(crate) fn good(text: &str) -> Loaded {
    load(text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// The lines and sentences of all mistakes.
pub(crate) fn sentences(text: &str) -> Vec<(u32, String)> {
    match load(text) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes
            .sentences()
            .into_iter()
            .map(|(place, sentence)| (place.map_or(0, |place| place.line), sentence))
            .collect(),
    }
}

/// Expects exactly these mistakes.
pub(crate) fn expect(text: &str, expected: &[(u32, &str)]) {
    let found = sentences(text);
    let found: Vec<(u32, &str)> = found.iter().map(|(line, sentence)| (*line, sentence.as_str())).collect();
    assert_eq!(found, expected, "in\n{text}");
}
