//! Keys of a `[pick.NAME]` with a script.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value for a constant of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ScriptValue {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Number(f64),
    /// A text.
    Text(String),
    /// Several of them.
    List(Vec<ScriptItem>),
}

/// One of several values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ScriptItem {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Number(f64),
    /// A text.
    Text(String),
}
