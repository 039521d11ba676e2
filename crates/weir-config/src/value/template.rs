//! The target of a redirect, with places for parts of the request. Must not render: that is the edge's.

use super::text_value;
use crate::nearest::nearest;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// One piece of a template.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Part {
    /// Text that is used as it is.
    Text(String),
    /// `{scheme}`: `http` or `https`.
    Scheme,
    /// `{host}`: the client's authority, with its port where it is not the default.
    Host,
    /// `{path}`: the path as it was received.
    Path,
    /// `{query}`: the query without its `?`, or nothing.
    Query,
    /// `{uri}`: the path with `?` and the query.
    Uri,
}

const NAMES: [(&str, Part); 5] = [
    ("scheme", Part::Scheme),
    ("host", Part::Host),
    ("path", Part::Path),
    ("query", Part::Query),
    ("uri", Part::Uri),
];

/// The target of a redirect: `https://{host}{uri}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Template(pub Vec<Part>);

text_value!(
    Template,
    "weir-template",
    "a URL in which `{scheme}`, `{host}`, `{path}`, `{query}` and `{uri}` stand for parts of the request: \
     `https://{host}{uri}`"
);

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Template, String> {
        if text.is_empty() {
            return Err("the target is empty".into());
        }
        if let Some(bad) = text.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(format!("{bad:?} is not allowed in a URL: write it percent-encoded"));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find(['{', '}']) {
            if rest.as_bytes()[open] == b'}' {
                return Err("`}` without `{`".into());
            }
            if open > 0 {
                parts.push(Part::Text(rest[..open].to_owned()));
            }
            let (name, after) = rest[open + 1..].split_once('}').ok_or("missing `}`")?;
            let part = NAMES.iter().find(|(known, _)| *known == name);
            let (_, part) = part.ok_or_else(|| unknown_part(name))?;
            parts.push(part.clone());
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        let begins_well = match parts.first() {
            Some(Part::Text(text)) => text.starts_with(['/', '?']) || text.contains("://"),
            Some(Part::Query | Part::Host) | None => false,
            Some(_) => true,
        };
        if !begins_well {
            return Err("a target is a whole URL or begins with `/`".into());
        }
        Ok(Template(parts))
    }
}

fn unknown_part(name: &str) -> String {
    match nearest(name, NAMES.iter().map(|(known, _)| *known)) {
        Some(near) => format!("unknown part `{{{name}}}`: did you mean `{{{near}}}`?"),
        None => format!(
            "unknown part `{{{name}}}`: use one of `{{scheme}}`, `{{host}}`, `{{path}}`, `{{query}}`, \
             `{{uri}}`"
        ),
    }
}

impl fmt::Display for Template {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.0 {
            if let Part::Text(text) = part {
                out.write_str(text)?;
                continue;
            }
            let name = NAMES.iter().find(|(_, known)| known == part).map_or("", |(name, _)| name);
            write!(out, "{{{name}}}")?;
        }
        Ok(())
    }
}
