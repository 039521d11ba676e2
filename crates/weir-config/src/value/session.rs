//! What a session is told by: a cookie or a field. Must not read a request.

use super::header::{CookieName, FieldName};
use super::text_value;
use crate::nearest::nearest;
use std::{fmt, str::FromStr};

/// The part of a request that chooses a session's origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SessionOf {
    /// The value of a cookie.
    Cookie(CookieName),
    /// The value of a field.
    Header(FieldName),
}

text_value!(SessionOf, "weir-session-of", "a cookie or a field: `cookie:sid`, `header:X-Session`");

impl FromStr for SessionOf {
    type Err = String;

    fn from_str(text: &str) -> Result<SessionOf, String> {
        let example = "write `cookie:NAME` or `header:NAME`";
        let Some((kind, name)) = text.split_once(':') else {
            return Err(format!("`{text}` does not say what is hashed: {example}"));
        };
        match (kind, name) {
            ("cookie" | "header", "") => Err(format!("`{text}` names nothing: {example}")),
            ("cookie", name) => name.parse().map(SessionOf::Cookie),
            ("header", name) => name.parse().map(SessionOf::Header),
            (kind, name) => Err(match nearest(kind, ["cookie", "header"].into_iter()) {
                Some(near) => format!("unknown part `{kind}`: did you mean `{near}:{name}`?"),
                None => format!("unknown part `{kind}`: {example}"),
            }),
        }
    }
}

impl fmt::Display for SessionOf {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionOf::Cookie(name) => write!(out, "cookie:{name}"),
            SessionOf::Header(name) => write!(out, "header:{name}"),
        }
    }
}

/// Refuses what cannot be an origin's name in session ids.
pub(super) fn check_node(text: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match text.len() {
        1..=64 if text.bytes().all(is_plain) => Ok(()),
        _ => Err(format!("`{text}` is no `id`: 1 to 64 letters, digits, `-` and `_`")),
    }
}

/// Refuses what cannot be the path of a cookie (RFC 6265 §4.1.1).
pub(super) fn check_cookie_path(text: &str) -> Result<(), String> {
    match text.starts_with('/') && text.bytes().all(|byte| (0x21..0x7f).contains(&byte) && byte != b';') {
        true => Ok(()),
        false => Err(format!("`{text}` is not the path of a cookie: it begins with `/` and has no `;`")),
    }
}
