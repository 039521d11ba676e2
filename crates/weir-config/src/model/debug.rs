//! `[debug]`: who may see how a response came about.

use serde::Deserialize;

use crate::value::TrustedProxy;

/// Who may see how a response came about.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct DebugFields {
    /// Clients whose requests with `Weir-Debug: 1` get fields that begin with `Weir-Debug-`: the key, tags,
    /// the lifetime, where the response is held, and the outcome with its reason. They are known by their
    /// address: that of the connection, or, where it comes from one of `trusted_proxies`, that of the client
    /// which the proxy names. The field of others does nothing, and no origin gets it. Default: nobody.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<TrustedProxy>,
}
