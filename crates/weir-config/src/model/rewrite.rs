//! `rewrite` and `back`: which path the origin is asked for, and how what it says of its own paths and names
//! is mapped back.

use crate::value::{BackText, PathGlob, PathRegex, RewriteTarget, TextGlob};
use serde::Deserialize;

/// A rule that gives the origin another path. Exactly one of `from` and `regex` is given.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Rewrite {
    /// The path matches this glob. `{1}` in `to` is what its first star has matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PathGlob>,
    /// This expression is found in the path. `{1}` in `to` is what its first group has matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<PathRegex>,
    /// The path for the origin. Without `?` the query is kept; with one, what follows is the new query, and
    /// `{query}` in it the old one.
    pub to: RewriteTarget,
}

/// How what an origin says of its own paths and names is mapped back to those of the client.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Back {
    /// The URLs in `Location`, `Content-Location` and `Refresh`. Default: `rewrite`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<BackRule>,
    /// `Path` in `Set-Cookie`. Default: `rewrite`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie_path: Option<BackRule>,
    /// `Domain` in `Set-Cookie`. Default: `rewrite`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie_domain: Option<BackRule>,
}

/// How one thing is mapped back.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum BackRule {
    /// In a word.
    Word(BackWord),
    /// By hand: the first rule that fits.
    Rules(Vec<BackPattern>),
}

/// How one thing is mapped back, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BackWord {
    /// By the rule of `rewrite` that the request's path was rewritten by, read backwards, and from the name
    /// that the origin was sent to the one that the client used.
    Rewrite,
    /// It goes out as the origin sent it.
    Off,
}

/// A rule by hand.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BackPattern {
    /// What the origin says, as a whole; `*` is any text without `/`, `**` any text.
    pub from: TextGlob,
    /// What the client gets. `{1}` is what the first star has matched; `{scheme}`, `{host}`, `{hostname}`
    /// and `{port}` are those that the client used.
    pub to: BackText,
}

/// Which path is in the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum KeyPath {
    /// The one that the client asked for.
    Received,
    /// The one that the origin is asked for, by `rewrite`: paths that are rewritten to the same one share
    /// what is stored.
    Rewritten,
}
