//! Values from their text, and what may be wrong with it.

use super::table::{ROWS, Row, Scope, What};
use super::{Filter, Part, Placeholder, Value};
use std::ops::Range;

/// What is wrong with the text of a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// A `{` without its `}`.
    #[error("missing `}}`; a literal brace is written `{{{{`")]
    Unclosed,
    /// A `}` without `{`.
    #[error("`}}` without `{{`; a literal brace is written `}}}}`")]
    Stray,
    /// What stands between the braces is not a name.
    #[error("`{{{0}}}` names nothing; a literal brace is written `{{{{`")]
    NotAName(String),
    /// There is no such placeholder.
    #[error("unknown placeholder `{{{0}}}`")]
    Unknown(String),
    /// The name after the dot is not one of its kind.
    #[error("`{{{placeholder}}}`: `{name}` is not a name")]
    Name {
        /// The whole placeholder.
        placeholder: String,
        /// What follows the first dot.
        name: String,
    },
    /// It is known elsewhere.
    #[error("`{{{name}}}` is not known in {scope}; known in: {known}")]
    NotHere {
        /// The placeholder.
        name: String,
        /// Where the value stands.
        scope: &'static str,
        /// Where it is known.
        known: String,
    },
    /// There is no such filter.
    #[error("unknown filter `{0}`: use `default \"…\"`, `lower` or `json`")]
    UnknownFilter(String),
    /// `default` without its text.
    #[error("`default` needs a text in quotes: `| default \"-\"`")]
    Default,
}

impl Value {
    /// Parses a value for a place of the configuration.
    ///
    /// # Errors
    /// What is wrong first.
    pub fn parse(text: &str, scope: Scope) -> Result<Value, ValueError> {
        let mut first = None;
        let value = read(text, scope, &mut |_, error| {
            first.get_or_insert(error);
        });
        first.map_or(Ok(value), Err)
    }

    /// All that is wrong with the text of a value, in order, each with its bytes in the text.
    pub fn faults(text: &str, scope: Scope) -> Vec<(Range<usize>, ValueError)> {
        let mut found = Vec::new();
        read(text, scope, &mut |place, error| found.push((place, error)));
        found
    }
}

/// Reads a value as far as it can be read, and reports what cannot.
fn read(text: &str, scope: Scope, report: &mut dyn FnMut(Range<usize>, ValueError)) -> Value {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(['{', '}']).map(|at| from + at) {
        plain.push_str(&text[from..at]);
        let (brace, after) = text[at..].split_at(1);
        if after.starts_with(brace) {
            plain.push_str(brace);
            from = at + 2;
            continue;
        }
        if brace == "}" {
            report(at..at + 1, ValueError::Stray);
            from = at + 1;
            continue;
        }
        let Some(end) = closing(after) else {
            report(at..text.len(), ValueError::Unclosed);
            from = text.len();
            break;
        };
        if !plain.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut plain)));
        }
        from = at + end + 2;
        match placeholder(&after[..end], scope) {
            Ok(placeholder) => parts.push(Part::Of(placeholder)),
            Err(error) => report(at..from, error),
        }
    }
    plain.push_str(&text[from..]);
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    Value(parts)
}

/// Where the `}` of a placeholder is: behind its texts in quotes.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    text.char_indices().find_map(|(at, c)| {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c == '}' => return Some(at),
            None => {}
        }
        None
    })
}

fn placeholder(text: &str, scope: Scope) -> Result<Placeholder, ValueError> {
    let mut pieces = pieces(text).into_iter();
    let name = pieces.next().unwrap_or_default().trim();
    let what = what(name, scope)?;
    let filters = pieces.map(|piece| filter(piece.trim())).collect::<Result<_, _>>()?;
    Ok(Placeholder { what, filters })
}

/// The text between the bars, which are no bars in quotes.
fn pieces(text: &str) -> Vec<&str> {
    let (mut quote, mut from, mut out) = (None, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c == '|' => {
                out.push(&text[from..at]);
                from = at + 1;
            }
            None => {}
        }
    }
    out.push(&text[from..]);
    out
}

fn what(name: &str, scope: Scope) -> Result<What, ValueError> {
    let is_name = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\'');
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(ValueError::NotAName(name.to_owned()));
    }
    let (row, rest) = row_of(name).ok_or_else(|| ValueError::Unknown(name.to_owned()))?;
    let named = (row.make)(rest);
    let what =
        named.ok_or_else(|| ValueError::Name { placeholder: name.to_owned(), name: rest.to_owned() })?;
    if row.is_known_in(scope) {
        return Ok(what);
    }
    let known: Vec<&str> = row.known_in().map(Scope::word).collect();
    Err(ValueError::NotHere { name: name.to_owned(), scope: scope.words(), known: known.join(", ") })
}

/// The row of a name, and what stands in place of its `NAME`; for others the name itself.
fn row_of(name: &str) -> Option<(&'static Row, &str)> {
    let many = |row: &&'static Row| {
        let rest = name.strip_prefix(row.name.strip_suffix("NAME")?)?;
        Some((*row, rest))
    };
    let whole = ROWS.iter().find(|row| row.name == name).map(|row| (row, name));
    whole.or_else(|| ROWS.iter().find_map(|row| many(&row)))
}

fn filter(text: &str) -> Result<Filter, ValueError> {
    let (name, argument) = match text.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')) {
        Some(at) => (&text[..at], text[at..].trim()),
        None => (text, ""),
    };
    match (name, argument) {
        ("lower", "") => Ok(Filter::Lower),
        ("json", "") => Ok(Filter::Json),
        ("default", quoted) => {
            let inner =
                ['"', '\''].iter().find_map(|quote| quoted.strip_prefix(*quote)?.strip_suffix(*quote));
            let inner = inner.filter(|inner| quoted.len() >= 2 && inner.chars().all(|c| !c.is_control()));
            inner.map(|inner| Filter::Default(inner.to_owned())).ok_or(ValueError::Default)
        }
        _ => Err(ValueError::UnknownFilter(text.to_owned())),
    }
}
