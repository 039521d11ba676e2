//! Makes what `[pick.NAME]` stands for where that is asked: scripts and distributors. It must not decide
//! anything for a request.

#[cfg(feature = "script")]
mod scripts;
#[cfg(not(feature = "script"))]
#[path = "written_picks/without_scripts.rs"]
mod scripts;

#[cfg(feature = "script")]
pub(crate) use scripts::{read as read_script, settings};

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_config::model::{Config, WrittenPick};
use weir_control::PickState;
use weir_edge::plan::WrittenPicks;
use weir_upstream::{Decider, DeciderForm, DeciderSnapshot};

use crate::distributors::{self, Keys};

/// Makes them, and keeps those whose settings stay the same, with all that they remember.
#[derive(Debug, Default)]
pub(crate) struct Maker {
    kept: Mutex<HashMap<String, Made>>,
    scripts: scripts::Scripts,
}

/// One, with what it was made of.
type Made = ((WrittenPick, Keys), Arc<dyn Decider>);

impl Maker {
    /// Those of a configuration.
    ///
    /// # Errors
    /// A sentence that names the pick, and what is wrong with it. Those of before stay.
    pub(crate) fn make(&self, config: &Config) -> Result<WrittenPicks, String> {
        let mut kept = self.kept.lock();
        let mut made = HashMap::new();
        let scripts = self.scripts.prepare(config)?;
        let is_asked = |pick: &WrittenPick| !pick.distributor.is_empty();
        for (name, pick) in config.pick.iter().filter(|(_, pick)| is_asked(pick)) {
            let named = |why| format!("[pick.{name}]: {why}");
            // The keys are part of what it is: their file may have others than before.
            let of = (pick.clone(), distributors::keys(pick.key_file.as_ref()).map_err(named)?);
            let decider = match kept.get(name).filter(|(before, _)| *before == of) {
                Some((_, decider)) => decider.clone(),
                None => one(name, pick, &of.1).map_err(named)?,
            };
            made.insert(name.clone(), (of, decider));
        }
        for (name, script) in scripts.commit() {
            let pick = config.pick.get(&name).cloned().unwrap_or_default();
            made.insert(name, ((pick, Keys::default()), script));
        }
        let picks = made.iter().map(|(name, (_, decider))| (name.clone(), decider.clone())).collect();
        *kept = made;
        Ok(WrittenPicks(picks))
    }

    /// What those in force have done.
    pub(crate) fn states(&self) -> Vec<PickState> {
        let mut states: Vec<PickState> =
            self.kept.lock().values().map(|(_, decider)| state(&**decider)).collect();
        states.sort_by(|one, two| one.name.cmp(&two.name));
        states
    }
}

fn state(decider: &dyn Decider) -> PickState {
    let DeciderSnapshot { name, outcomes, trouble } = decider.snapshot();
    let kind = match decider.form() {
        DeciderForm::Script => "script",
        DeciderForm::Distributor => "distributor",
    };
    let outcomes = outcomes.into_iter().map(|(word, count)| (word.to_owned(), count)).collect();
    PickState { name, kind: kind.to_owned(), outcomes, trouble }
}

/// Every mistake of the scripts of a configuration, a report each.
pub(crate) fn check(config: &Config) -> Vec<String> {
    scripts::check(config)
}

/// Makes one that asks a distributor.
fn one(name: &str, pick: &WrittenPick, keys: &Keys) -> Result<Arc<dyn Decider>, String> {
    Ok(Arc::new(distributors::one(name, pick, keys)))
}
