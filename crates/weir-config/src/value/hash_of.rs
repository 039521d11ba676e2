//! What a hash is of, as a configuration writes it. Must not read a request.

use super::{CookieName, FieldName, text_value};
use crate::nearest::nearest;
use std::{fmt, str::FromStr};

/// What a hash is of: a part of the request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HashOf {
    /// `uri`: path and query.
    Uri,
    /// `path`.
    Path,
    /// `host`.
    Host,
    /// `header:NAME`.
    Header(FieldName),
    /// `cookie:NAME`.
    Cookie(CookieName),
    /// `query:NAME`.
    Query(String),
}

text_value!(
    HashOf,
    "weir-hash-of",
    "a part of the request: `uri`, `path`, `host`, `header:NAME`, `cookie:NAME` or `query:NAME`"
);

/// The words, those that need a name first.
const WORDS: [&str; 6] = ["header", "cookie", "query", "uri", "path", "host"];

impl FromStr for HashOf {
    type Err = String;

    fn from_str(text: &str) -> Result<HashOf, String> {
        if text.is_empty() {
            return Err(
                "a hash of nothing: write `uri`, `path`, `host`, `header:NAME`, `cookie:NAME` or `query:NAME`"
                    .to_owned(),
            );
        }
        match text.split_once(':') {
            None => match text {
                "uri" => Ok(HashOf::Uri),
                "path" => Ok(HashOf::Path),
                "host" => Ok(HashOf::Host),
                "header" | "cookie" | "query" => Err(format!("a hash of no {text}: write `{text}:NAME`")),
                other => Err(unknown(other)),
            },
            Some((word @ ("header" | "cookie" | "query"), "")) => {
                Err(format!("a hash of no {word}: write `{word}:NAME`"))
            }
            Some(("header", name)) => name.parse().map(HashOf::Header),
            Some(("cookie", name)) => name.parse().map(HashOf::Cookie),
            Some(("query", name)) => Ok(HashOf::Query(name.to_owned())),
            Some((word @ ("uri" | "path" | "host"), _)) => {
                Err(format!("`{word}` has no name: write `{word}`"))
            }
            Some((other, _)) => Err(unknown(other)),
        }
    }
}

fn unknown(word: &str) -> String {
    match nearest(word, WORDS.into_iter()) {
        Some(meant) if WORDS[..3].contains(&meant) => {
            format!("a hash of `{word}` is not known: did you mean `{meant}:NAME`?")
        }
        Some(meant) => format!("a hash of `{word}` is not known: did you mean `{meant}`?"),
        None => format!(
            "a hash of `{word}` is not known: write `uri`, `path`, `host`, `header:NAME`, `cookie:NAME` or \
             `query:NAME`"
        ),
    }
}

impl fmt::Display for HashOf {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HashOf::Uri => out.write_str("uri"),
            HashOf::Path => out.write_str("path"),
            HashOf::Host => out.write_str("host"),
            HashOf::Header(name) => write!(out, "header:{name}"),
            HashOf::Cookie(name) => write!(out, "cookie:{name}"),
            HashOf::Query(name) => write!(out, "query:{name}"),
        }
    }
}
