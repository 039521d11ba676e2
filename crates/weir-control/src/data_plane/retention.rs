//! Retentions as they are ordered, answered and listed.

use serde::{Deserialize, Serialize};

use super::PurgeScope;

/// The longest lifetime that is ordered, in seconds: ten years.
pub const LIFETIME_S_MAX: u64 = 10 * 366 * 86_400;

/// A lifetime that is ordered, for all that is held of what it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RetentionOrder {
    /// What is meant, where that is one thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<PurgeScope>,
    /// What is meant, where that is several: at most 1000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<PurgeScope>,
    /// How long it stays fresh from now on, in seconds: at most ten years; 0: it is stale at once.
    pub lifetime_s: u64,
}

/// A lifetime that was ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Retained {
    /// The number of its mark in the ledger; the largest, where there are several.
    #[serde(with = "crate::digits")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub mark: u64,
    /// What it concerns.
    pub scopes: Vec<PurgeScope>,
    /// How long that stays fresh, in seconds.
    pub lifetime_s: u64,
    /// Until when, RFC 3339.
    pub until: String,
}

/// Why a retention is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetentionRefusal {
    /// It makes no sense.
    Unfit(String),
    /// The ledger has no room for it.
    NoRoom(String),
}

/// The retentions in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Retentions {
    /// The newest first. Of several for the same scope the newest, which decides.
    pub retentions: Vec<RetentionShown>,
    /// Whether there may be more than are listed: the history keeps the beginning of a long order, and a list
    /// has at most 1000 rows.
    #[serde(default)]
    pub more: bool,
}

/// A retention in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RetentionShown {
    /// What it concerns: what was held then, or asked for.
    pub scope: PurgeScope,
    /// How long that stays fresh from `given` on, in seconds.
    pub lifetime_s: u64,
    /// When it was given, RFC 3339.
    pub given: String,
    /// Until when what it concerns is fresh, RFC 3339.
    pub until: String,
    /// For how many seconds that is.
    pub left_s: u64,
    /// By whom, as in the history.
    pub actor: String,
    /// The number of its mark in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// The sites that it concerns; absent: the whole Weir.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<String>,
}

/// What gave a stored response its lifetime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RetainedUntil {
    /// Until when it is fresh, RFC 3339.
    pub until: String,
    /// The order, as the history has it; absent where it has it no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<RetentionShown>,
}

impl RetentionOrder {
    /// All that is meant.
    pub fn all(&self) -> impl Iterator<Item = &PurgeScope> {
        self.scope.iter().chain(&self.scopes)
    }

    /// Refuses a lifetime that is too long.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.lifetime_s > LIFETIME_S_MAX {
            return Err(format!("a lifetime has at most {LIFETIME_S_MAX} seconds, which are ten years"));
        }
        Ok(())
    }
}
