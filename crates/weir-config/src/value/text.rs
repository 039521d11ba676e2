//! Values of the configuration: texts with placeholders (`weir_policy::value`), one type for each place
//! where they stand. Must not render: that is the edge's.

use super::fault::Fault;
use super::header::check_field_value;
use super::{nginx, text_value};
use crate::nearest::nearest;
use std::{fmt, ops::Range, str::FromStr};
use weir_policy::value::{Part, ROWS, Scope, Value, ValueError, What};

/// Parses a value, with the nearest word where a placeholder is unknown.
pub(crate) fn parse(text: &str, scope: Scope) -> Result<Value, String> {
    Value::parse(text, scope).map_err(|error| sentence(&error))
}

/// All placeholders that are wrong in a value, and variables of nginx, with their places in it.
pub(crate) fn faults(text: &str, scope: Scope) -> Vec<Fault> {
    let placeholders = Value::faults(text, scope).into_iter();
    let placeholders = placeholders.map(|(place, error)| Fault::at(place, sentence(&error)));
    let variables = nginx::variables(text).into_iter();
    let variables = variables.map(|(place, name)| Fault::at(place, nginx::in_value(name)));
    placeholders.chain(variables).collect()
}

fn sentence(error: &ValueError) -> String {
    match error {
        ValueError::Unknown(name) => match near(name) {
            Some(near) => format!("{error}: did you mean `{near}`?"),
            None => format!("{error}: all of them are in docs/guide/reference.md, under placeholders"),
        },
        _ => error.to_string(),
    }
}

/// What stands in place of nginx's word, else the nearest name, with braces.
fn near(name: &str) -> Option<String> {
    if let Some(ours) = nginx::instead_of(name).filter(|ours| ours.starts_with('{')) {
        return Some(ours);
    }
    let near = if let Some((kind, rest)) = name.split_once('.') {
        let kinds = ["query", "header", "cookie", "map"];
        let exact = ROWS.iter().map(|row| row.name).filter(|known| !known.ends_with("NAME"));
        match nearest(kind, kinds.into_iter()).filter(|_| !rest.is_empty()) {
            Some(kind) => Some(format!("{kind}.{rest}")),
            None => nearest(name, exact).map(str::to_owned),
        }
    } else {
        let whole = ROWS.iter().map(|row| row.name).filter(|known| known.len() > 1);
        nearest(name, whole).map(str::to_owned)
    };
    near.map(|near| format!("{{{near}}}"))
}

/// Placeholders and variables of nginx in a text where nothing is replaced. Captures may be anything there.
pub(super) fn faults_of_plain(text: &str) -> Vec<Fault> {
    let named = nginx::variables(text).into_iter().chain(known_placeholders(text));
    let named = named.filter(|(_, name)| !nginx::is_capture(name));
    let fault = |place: Range<usize>| {
        let title = format!("`{}` is only text here: nothing is replaced in a body", &text[place.clone()]);
        Fault::at(place, title)
    };
    named.map(|(place, _)| fault(place)).collect()
}

/// What is wrong with what a map gives: nothing is replaced there either.
pub(crate) fn faults_of_map_result(text: &str) -> Vec<Fault> {
    let named = nginx::variables(text).into_iter().chain(known_placeholders(text));
    let fault = |place: Range<usize>| {
        let title =
            format!("`{}` is only text here: nothing is replaced in what a map gives", &text[place.clone()]);
        Fault::at(place, title)
    };
    named.map(|(place, _)| fault(place)).collect()
}

/// Where a text has what a value would take for a placeholder, with its name.
fn known_placeholders(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    text.match_indices('{').filter_map(|(at, _)| {
        let length = text[at..].find('}')?;
        let inner = text[at + 1..at + length].split('|').next().unwrap_or_default().trim();
        let is_known = ROWS.iter().any(|row| match row.name.strip_suffix("NAME") {
            Some(kind) => inner.strip_prefix(kind).is_some_and(|rest| !rest.is_empty()),
            None => row.name == inner,
        });
        is_known.then_some((at..at + length + 1, inner))
    })
}

/// Refuses literal text that cannot stand in a field, and space at the ends.
fn check_field(value: &Value) -> Result<(), String> {
    let parts = value.parts();
    for (at, part) in parts.iter().enumerate() {
        let Part::Text(text) = part else { continue };
        // Between placeholders spaces may stand at its ends.
        let text = if at > 0 { text.trim_start_matches([' ', '\t']) } else { text };
        let text = if at + 1 < parts.len() { text.trim_end_matches([' ', '\t']) } else { text };
        check_field_value(text)?;
    }
    Ok(())
}

/// Parses the value of a field.
///
/// # Errors
/// What is wrong with it, or not known in this place.
pub(crate) fn field_value(text: &str, scope: Scope) -> Result<Value, String> {
    let value = parse(text, scope)?;
    check_field(&value)?;
    Ok(value)
}

/// Refuses what cannot be a part of a field's value.
pub(super) fn check_field_text(text: &str) -> Result<(), String> {
    check_field_value(text)
}

/// Refuses what cannot stand behind `map.` in a placeholder.
pub(super) fn check_map_name(text: &str) -> Result<(), String> {
    match text.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_')) {
        Some(bad) => Err(format!("{bad:?} is not allowed in the name of a map: letters, digits, `-`, `_`")),
        None if text.is_empty() => Err("the name of a map is empty".into()),
        None => Ok(()),
    }
}

/// Refuses what cannot be the name of a `[pick.NAME]`.
pub(super) fn check_pick_name(text: &str) -> Result<(), String> {
    match text.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_')) {
        Some(bad) => Err(format!("{bad:?} is not allowed in the name of a pick: letters, digits, `-`, `_`")),
        None if text.is_empty() => Err("the name of a pick is empty".into()),
        None => Ok(()),
    }
}

/// Checks the literal text of a field's value. Where its placeholders are known only the place can tell.
pub(super) fn check_any_field(text: &str) -> Result<(), String> {
    let scopes = [Scope::Request, Scope::Answer, Scope::Response];
    let value = scopes.iter().find_map(|scope| Value::parse(text, *scope).ok());
    value.map_or(Ok(()), |value| check_field(&value))
}

/// The target of a redirect: `https://{host}{uri}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target(pub Value);

text_value!(
    Target,
    "weir-target",
    "a URL with [placeholders](#placeholders) for parts of the request: `https://{host}{uri}`"
);

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        if text.is_empty() {
            return Err("the target is empty".into());
        }
        let value = parse(text, Scope::Answer)?;
        check_url(&value)?;
        let begins_well = match value.parts().first() {
            Some(Part::Text(text)) => text.starts_with(['/', '?']) || text.contains("://"),
            Some(Part::Of(first)) => matches!(first.what, What::Scheme | What::Path | What::Uri),
            None => false,
        };
        if !begins_well {
            return Err("a target is a whole URL or begins with `/`".into());
        }
        match chosen_host(&value) {
            Some(chosen) => Err(format!(
                "`{chosen}` would let a client choose the host: only `{{host}}`, `{{hostname}}`, `{{port}}` \
                 and maps may stand in it; `/`, `{{path}}` or `{{uri}}` ends it"
            )),
            None => Ok(Target(value)),
        }
    }
}

/// The first placeholder in the authority of a URL, or at its end, by which a client would choose it.
fn chosen_host(value: &Value) -> Option<String> {
    let mut begun = String::new();
    for part in value.parts() {
        let named = begun.split_once("//").filter(|(scheme, _)| scheme.is_empty() || scheme.ends_with(':'));
        let authority = named.map(|(_, rest)| rest);
        if authority.is_some_and(|authority| authority.contains(['/', '?', '#', '\\'])) {
            return None;
        }
        match part {
            Part::Text(text) => begun.push_str(text),
            Part::Of(of) if authority.is_none() && of.what != What::Scheme => return None,
            Part::Of(of) => match of.what {
                What::Scheme | What::Host | What::Hostname | What::Port | What::Map(_) => begun.push('x'),
                What::Path | What::Uri => return None,
                _ => return Some(of.to_string()),
            },
        }
    }
    None
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// Refuses what must be percent-encoded in a URL.
pub(super) fn check_url(value: &Value) -> Result<(), String> {
    let texts = value.parts().iter().filter_map(|part| match part {
        Part::Text(text) => Some(text),
        Part::Of(_) => None,
    });
    match texts.flat_map(|text| text.chars()).find(|c| !c.is_ascii_graphic()) {
        Some(bad) => Err(format!("{bad:?} is not allowed in a URL: write it percent-encoded")),
        None => Ok(()),
    }
}

/// A line of the access log, without its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogLine(pub Value);

text_value!(
    LogLine,
    "weir-log-line",
    "a line with [placeholders](#placeholders): `{client.address} {method} {uri} {status}`"
);

impl FromStr for LogLine {
    type Err = String;

    fn from_str(text: &str) -> Result<LogLine, String> {
        let value = parse(text, Scope::Log)?;
        if text.is_empty() {
            return Err("the line is empty".into());
        }
        if let Some(bad) = text.chars().find(|c| c.is_control() && *c != '\t') {
            return Err(format!("{bad:?} is not allowed in a line of the log"));
        }
        if let Some(quoted) = quoted_json(&value) {
            return Err(format!("`{quoted}` writes its own quotes: leave out those around it"));
        }
        match value.constant() {
            None => Ok(LogLine(value)),
            Some("json" | "combined") => Err(format!("did you mean `access = \"{text}\"`?")),
            Some(_) => Err(format!(
                "`{text}` would be every line: write placeholders, as `{{client.address}} {{uri}}`"
            )),
        }
    }
}

/// A placeholder with the filter `json` that stands between two quotes.
fn quoted_json(value: &Value) -> Option<String> {
    value.parts().windows(3).find_map(|parts| match parts {
        [Part::Text(before), Part::Of(of), Part::Text(after)] => {
            let is_quoted = of.is_json() && before.ends_with('"') && after.starts_with('"');
            is_quoted.then(|| of.to_string())
        }
        _ => None,
    })
}

impl fmt::Display for LogLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// Placeholders whose values tell objects apart: `{header.X-Country}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyValue(pub Value);

text_value!(
    KeyValue,
    "weir-key-value",
    "[placeholders](#placeholders) whose values count: `{header.X-Country | lower}`"
);

impl FromStr for KeyValue {
    type Err = String;

    fn from_str(text: &str) -> Result<KeyValue, String> {
        let value = parse(text, Scope::Key)?;
        match value.constant() {
            None => Ok(KeyValue(value)),
            Some(_) => {
                Err(format!("`{text}` is the same for all requests: write a placeholder, as `{{scheme}}`"))
            }
        }
    }
}

impl fmt::Display for KeyValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}
