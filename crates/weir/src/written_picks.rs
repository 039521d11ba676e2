//! Makes what `[pick.NAME]` stands for where that is asked: scripts and distributors. It must not decide
//! anything for a request.

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
        for (name, pick) in config.pick.iter().filter(|(_, pick)| !pick.is_of_metrics()) {
            let named = |why| format!("[pick.{name}]: {why}");
            // The keys are part of what it is: their file may have others than before.
            let of = (pick.clone(), distributors::keys(pick.key_file.as_ref()).map_err(named)?);
            let decider = match kept.get(name).filter(|(before, _)| *before == of) {
                Some((_, decider)) => decider.clone(),
                None => one(name, pick, &of.1).map_err(named)?,
            };
            made.insert(name.clone(), (of, decider));
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

/// Makes one.
fn one(name: &str, pick: &WrittenPick, keys: &Keys) -> Result<Arc<dyn Decider>, String> {
    if !pick.distributor.is_empty() {
        return Ok(Arc::new(distributors::one(name, pick, keys)));
    }
    Err("this build of Weir has no scripts".to_owned())
}
