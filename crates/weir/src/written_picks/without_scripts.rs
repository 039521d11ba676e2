//! Stands for scripts in a build without the feature `script`. It must not let a configuration with one pass.

use std::sync::Arc;

use weir_config::model::Config;
use weir_upstream::Decider;

use crate::build::Feature;

/// No scripts.
#[derive(Debug, Default)]
pub(super) struct Scripts;

/// None of them.
pub(super) struct Prepared;

impl Scripts {
    /// Refuses scripts.
    ///
    /// # Errors
    /// There is one.
    pub(super) fn prepare(&self, config: &Config) -> Result<Prepared, String> {
        refused(config).into_iter().next().map_or(Ok(Prepared), Err)
    }
}

impl Prepared {
    /// There is nothing.
    pub(super) fn commit(self) -> Vec<(String, Arc<dyn Decider>)> {
        Vec::new()
    }
}

/// A sentence for each script.
fn refused(config: &Config) -> Vec<String> {
    let scripts = config.pick.iter().filter(|(_, pick)| pick.script.is_some());
    scripts.map(|(name, _)| format!("[pick.{name}]: {}", Feature::Script.lack())).collect()
}

/// Nothing: a configuration with scripts has been refused, with the place of each.
pub(super) fn check(_config: &Config) -> Vec<String> {
    Vec::new()
}
