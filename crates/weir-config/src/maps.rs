//! What the maps of a configuration can give, and the mistake of naming one that is not there. Must not look
//! at a request.

use crate::{
    check::suggest,
    mistake::Mistake,
    model::{Config, Map},
    source::Span,
    value::MapValue,
};
use std::collections::BTreeSet;

/// There is no such map.
pub(crate) fn no_map(span: Span, name: &str, config: &Config) -> Mistake {
    let mistake = Mistake::at(span, format!("there is no map `{name}`"));
    match config.map.is_empty() {
        true => mistake.help(format!("add one: [map.{name}] with of = \"{{header.User-Agent}}\"")),
        false => suggest(mistake, name, config.map.keys().map(String::as_str)),
    }
}

/// All that a map can give.
pub(crate) fn results(map: &Map) -> BTreeSet<&str> {
    let of_rules = map.rules.iter().filter_map(|rule| rule.get(1));
    of_rules.chain(&map.default).map(String::as_str).collect()
}

/// All that a text which a map chooses can become, each with the result that it comes from; `None` where the
/// map says nothing. Empty where that is not known.
pub(crate) fn chosen<'c>(by: &MapValue, config: &'c Config) -> Vec<(Option<&'c str>, String)> {
    let Some(map) = config.map.get(by.map()).filter(|map| !map.has_mistakes()) else { return Vec::new() };
    let said = results(map).into_iter().map(Some).chain(map.default.is_none().then_some(None));
    said.map(|result| (result, by.text(result))).collect()
}
