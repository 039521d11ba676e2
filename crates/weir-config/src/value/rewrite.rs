//! Texts of `rewrite` and `back`: targets with captures, and globs over what an origin says. Must not match.

use super::text::{check_url, parse};
use super::text_value;
use std::{fmt, str::FromStr};
use weir_policy::value::{Part, Scope, Value, What};

/// The path, and perhaps the query, that an origin is asked for: `/{1}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RewriteTarget(pub Value);

text_value!(
    RewriteTarget,
    "weir-rewrite",
    "a path with [placeholders](#placeholders), and `?` with a query where the old one is not kept: `/{1}`"
);

impl FromStr for RewriteTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<RewriteTarget, String> {
        let value = parse(text, Scope::Rewrite)?;
        check_url(&value)?;
        if !text.starts_with('/') {
            return Err(format!("a path begins with `/`: did you mean `/{text}`?"));
        }
        if text.contains('#') {
            return Err("`#` is never part of a path".into());
        }
        if makes_dots(&value) {
            return Err("the path would always have a dot segment, and be answered 400".into());
        }
        Ok(RewriteTarget(value))
    }
}

/// Whether the path has a segment `.` or `..`, whatever its placeholders stand for.
fn makes_dots(value: &Value) -> bool {
    let text = value.parts().iter().map(|part| match part {
        Part::Text(text) => text.as_str(),
        Part::Of(_) => "x",
    });
    let text: String = text.collect();
    weir_policy::has_dot_segment(text.split('?').next().unwrap_or_default())
}

impl fmt::Display for RewriteTarget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// What a client gets in place of what an origin says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BackText(pub Value);

text_value!(
    BackText,
    "weir-back",
    "a text in which `{1}` to `{9}`, `{scheme}`, `{host}`, `{hostname}` and `{port}` may stand: \
     `https://{host}/{1}`"
);

impl FromStr for BackText {
    type Err = String;

    fn from_str(text: &str) -> Result<BackText, String> {
        let value = parse(text, Scope::Rewrite)?;
        check_url(&value)?;
        let is_known = |what: &What| {
            matches!(what, What::Capture(_) | What::Scheme | What::Host | What::Hostname | What::Port)
        };
        let other = value.placeholders().find(|placeholder| !is_known(&placeholder.what));
        if let Some(other) = other.map(ToString::to_string) {
            // Stored heads are printed once for all clients of a host.
            return Err(format!(
                "`{other}` is not known here: use `{{1}}`, `{{scheme}}`, `{{host}}`, `{{hostname}}` or \
                 `{{port}}`"
            ));
        }
        match value.parts().iter().any(|part| matches!(part, Part::Text(text) if text.contains(';'))) {
            true => Err("`;` would end what stands before it".into()),
            false => Ok(BackText(value)),
        }
    }
}

impl fmt::Display for BackText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// A glob over a whole text: `http://app.internal/**`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TextGlob(pub String);

text_value!(
    TextGlob,
    "weir-text-glob",
    "a text where `*` is any text without `/`, and `**` any text: `http://app.internal/**`"
);

impl FromStr for TextGlob {
    type Err = String;

    fn from_str(text: &str) -> Result<TextGlob, String> {
        if text.is_empty() {
            return Err("the text is empty".into());
        }
        if text.contains("***") {
            return Err("more than two `*` in a row".into());
        }
        match text.chars().find(|c| !c.is_ascii_graphic()) {
            Some(bad) => Err(format!("{bad:?} is never part of a URL, path or name")),
            None => Ok(TextGlob(text.to_owned())),
        }
    }
}

impl fmt::Display for TextGlob {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
