//! Names and values of fields, cookies and methods (RFC 9110 §5, §9). Must not interpret a field.

use super::{nginx, text_value};
use std::{fmt, str::FromStr};

/// The name of a header field (RFC 9110 §5.1), kept in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldName(pub http::HeaderName);

text_value!(FieldName, "weir-field-name", "the name of a header field: `X-Country`");

impl FromStr for FieldName {
    type Err = String;

    fn from_str(text: &str) -> Result<FieldName, String> {
        if let Some((name, _)) = text.split_once(':') {
            return Err(format!("the name of a field has no colon: did you mean `{name}`?"));
        }
        text.parse()
            .map(FieldName)
            .map_err(|_| format!("`{text}` is not a field name: use letters, digits and `-` (RFC 9110 §5.1)"))
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0.as_str())
    }
}

/// Refuses what cannot be the value of a field (RFC 9110 §5.5): control characters, and space at the ends.
pub(super) fn check_field_value(text: &str) -> Result<(), String> {
    if text.trim_matches([' ', '\t']) != text {
        return Err("a field's value does not begin or end with space".into());
    }
    http::HeaderValue::from_str(text)
        .map(drop)
        .map_err(|_| "a field's value has visible characters and spaces only (RFC 9110 §5.5)".into())
}

/// Refuses what cannot name an upstream: the name appears in metrics and logs.
pub(super) fn check_upstream_name(text: &str) -> Result<(), String> {
    match text.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.')) {
        Some(bad) => {
            Err(format!("{bad:?} is not allowed in the name of an upstream: letters, digits, `-`, `_`, `.`"))
        }
        None if text.is_empty() => Err("the name of an upstream is empty".into()),
        None => Ok(()),
    }
}

/// Refuses what is neither an error status nor `*`.
pub(super) fn check_page_status(text: &str) -> Result<(), String> {
    match text.parse::<u16>() {
        _ if text == "*" => Ok(()),
        Ok(400..=599) if text.len() == 3 => Ok(()),
        _ => Err(format!("`{text}` is not an error status: write \"400\" to \"599\" and \"*\" for all")),
    }
}

/// Refuses a body that is rather the name of a file.
pub(super) fn check_body(text: &str) -> Result<(), String> {
    match file_named(text) {
        Some(file) => {
            Err(format!("the body would be the text `{text}`: did you mean `body_file = \"{file}\"`?"))
        }
        None => Ok(()),
    }
}

/// Refuses a page that is rather the name of a file.
pub(super) fn check_page(text: &str) -> Result<(), String> {
    match file_named(text) {
        Some(file) => {
            Err(format!("the page would be the text `{text}`: did you mean `{{ file = \"{file}\" }}`?"))
        }
        None => Ok(()),
    }
}

/// The file that a text names, relative to the file that has the text.
fn file_named(text: &str) -> Option<&str> {
    let is_word = !text.contains(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '{' | '"'));
    let endings = [".html", ".htm", ".txt", ".json", ".xml", ".svg"];
    (is_word && endings.iter().any(|ending| text.ends_with(ending))).then(|| text.trim_start_matches('/'))
}

/// A condition on a request's field: its name alone (the field is there), or `Name: pattern` (`*` matches any
/// text).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldMatch {
    /// The field.
    pub name: FieldName,
    /// What one of its values must be; `None` if the field need only be there.
    pub value: Option<String>,
}

text_value!(
    FieldMatch,
    "weir-field-match",
    "a field that must be there: `X-Preview`, or with a value where `*` is any text: `X-Mode: debug*`"
);

impl FromStr for FieldMatch {
    type Err = String;

    fn from_str(text: &str) -> Result<FieldMatch, String> {
        match text.split_once(':') {
            None => Ok(FieldMatch { name: text.parse()?, value: None }),
            Some((name, value)) => {
                let value = value.trim();
                nginx::check_glob(value)?;
                check_field_value(value)?;
                Ok(FieldMatch { name: name.parse()?, value: Some(value.to_owned()) })
            }
        }
    }
}

impl fmt::Display for FieldMatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            None => write!(out, "{}", self.name),
            Some(value) => write!(out, "{}: {value}", self.name),
        }
    }
}

/// The name of a cookie or query parameter, where `*` is any text: `session*`, `utm_*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NameGlob(pub String);

text_value!(NameGlob, "weir-name-glob", "a name where `*` is any text: `session`, `utm_*`");

impl FromStr for NameGlob {
    type Err = String;

    fn from_str(text: &str) -> Result<NameGlob, String> {
        if text.is_empty() {
            return Err("the name is empty".into());
        }
        nginx::check_glob(text)?;
        match text.chars().find(|c| c.is_whitespace() || c.is_control() || matches!(c, '=' | ';' | '&' | '?'))
        {
            Some(bad) => Err(format!("{bad:?} is not allowed in a name; `*` is any text")),
            None => Ok(NameGlob(text.to_owned())),
        }
    }
}

impl fmt::Display for NameGlob {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A condition on a cookie or a query parameter: its name alone (it is there), or `name=value`; `*` is any
/// text in both.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PairMatch {
    /// Its name.
    pub name: NameGlob,
    /// What its value must be; `None` if it need only be there.
    pub value: Option<String>,
}

text_value!(
    PairMatch,
    "weir-pair-match",
    "a cookie or query parameter that must be there: `session*`, or with a value where `*` is any text: \
     `mode=debug*`"
);

impl FromStr for PairMatch {
    type Err = String;

    fn from_str(text: &str) -> Result<PairMatch, String> {
        let Some((name, value)) = text.split_once('=') else {
            return Ok(PairMatch { name: text.parse()?, value: None });
        };
        nginx::check_glob(value)?;
        match value.chars().find(|c| c.is_control() || matches!(c, ';' | '&')) {
            Some(bad) => Err(format!("{bad:?} is not allowed in a value; `*` is any text")),
            None => Ok(PairMatch { name: name.parse()?, value: Some(value.to_owned()) }),
        }
    }
}

impl fmt::Display for PairMatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            None => write!(out, "{}", self.name),
            Some(value) => write!(out, "{}={value}", self.name),
        }
    }
}

/// The name of a cookie, taken literally.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CookieName(pub String);

text_value!(CookieName, "weir-cookie-name", "the name of a cookie, without patterns: `currency`");

impl FromStr for CookieName {
    type Err = String;

    fn from_str(text: &str) -> Result<CookieName, String> {
        if text.contains('*') {
            return Err("`*` has no meaning here: a key holds the values of named cookies".into());
        }
        text.parse::<NameGlob>().map(|name| CookieName(name.0))
    }
}

impl fmt::Display for CookieName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A request method (RFC 9110 §9): `GET`, `POST`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MethodName(pub http::Method);

text_value!(MethodName, "weir-method", "a request method, in capitals: `GET`, `POST`");

impl FromStr for MethodName {
    type Err = String;

    fn from_str(text: &str) -> Result<MethodName, String> {
        let several: Vec<&str> = text.split(['|', ',']).filter(|part| !part.is_empty()).collect();
        if several.len() > 1 {
            let list = several.iter().map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join(", ");
            return Err(format!("`{text}` is not one method: did you mean `[{list}]`?"));
        }
        let upper = text.to_ascii_uppercase();
        if upper != text {
            return Err(format!("methods are case-sensitive: did you mean `{upper}`?"));
        }
        if matches!(text, "CONNECT" | "TRACE") {
            return Err(format!("`{text}` is always refused with 405"));
        }
        text.parse().map(MethodName).map_err(|_| format!("`{text}` is not a method (RFC 9110 §9.1)"))
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0.as_str())
    }
}
