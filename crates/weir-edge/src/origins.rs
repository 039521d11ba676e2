//! The origins of the plan in force as operators list and change them. It must not know who may.

use std::collections::HashMap;

use weir_upstream::{Adjustments, CarriedOrigin, Change, ChangeError, UpstreamListed, name_of};

use crate::edge::Edge;

/// Why an origin is not changed. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// There is no such upstream.
    #[error("no upstream is named {name}")]
    NoUpstream {
        /// What was named.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The change is refused.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

impl Edge {
    /// The origins of each upstream, by the upstreams' names in order.
    pub fn origins(&self) -> Vec<UpstreamListed> {
        let running = self.shared.running.load();
        let mut all: Vec<_> = running.upstreams.values().map(|upstream| upstream.listed()).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Changes an origin for all requests that begin from now on. What is changed stays so over plans. The
    /// name of the origin, which may be meant by its name in session ids.
    ///
    /// # Errors
    /// The change makes no sense.
    pub fn change_origin(&self, upstream: &str, origin: &str, change: Change) -> Result<String, OriginError> {
        // No plan is put in force meanwhile.
        let mut state = self.state.lock();
        let running = self.shared.running.load_full();
        let Some(found) = running.upstreams.get(upstream) else {
            // What is left of an upstream that the file no longer has.
            let idle = state.adjustments.get_mut(upstream).filter(|_| change == Change::Forget);
            if let Some((name, _)) = idle.and_then(|all| all.remove_entry(&name_of(origin))) {
                return Ok(name);
            }
            let (name, mut known) = (upstream.to_owned(), Vec::from_iter(running.upstreams.keys().cloned()));
            known.sort();
            return Err(OriginError::NoUpstream { name, known });
        };
        let (name, adjustments) = found.changed(origin, change)?;
        found.adjust(adjustments).map_err(|error| ChangeError::Address(error.to_string()))?;
        Ok(name)
    }

    /// What is known of origins, by upstream, for a process that takes the place of this one.
    pub fn carried(&self) -> HashMap<String, Vec<CarriedOrigin>> {
        let running = self.shared.running.load_full();
        running.upstreams.iter().map(|(name, upstream)| (name.clone(), upstream.carried())).collect()
    }

    /// All that operators have changed, by upstream.
    pub fn adjustments(&self) -> HashMap<String, Adjustments> {
        let state = self.state.lock();
        let mut all = state.adjustments.clone();
        for (name, upstream) in &self.shared.running.load().upstreams {
            all.insert(name.clone(), upstream.adjustments());
        }
        all.retain(|_, adjustments| !adjustments.is_empty());
        all
    }

    /// What operators have changed that the plan in force contradicts or knows nothing of, a sentence each.
    pub fn origin_warnings(&self) -> Vec<String> {
        let state = self.state.lock();
        let running = self.shared.running.load_full();
        let mut said = Vec::new();
        for (name, upstream) in &running.upstreams {
            for listed in upstream.listed().origins.iter().filter(|origin| origin.snapshot.is_none()) {
                said.push(format!(
                    "upstream {name}: {} was removed at run time and stays out; `weir origins add {name} {}` \
                     brings it back",
                    listed.name, listed.name
                ));
            }
            if upstream.is_overruled() {
                said.push(format!(
                    "upstream {name}: all its origins were removed at run time; they are used all the same, \
                     as no other one is left; `weir origins add {name} ORIGIN` ends that"
                ));
            }
            for idle in upstream.idle_adjustments() {
                said.push(format!(
                    "upstream {name}: {idle} was changed at run time, and the file has no such origin now; \
                     `weir origins forget {name} {idle} --keep` ends that"
                ));
            }
        }
        for (name, adjustments) in &state.adjustments {
            if !adjustments.is_empty() && !running.upstreams.contains_key(name) {
                let origins: Vec<&str> = adjustments.keys().map(String::as_str).collect();
                said.push(format!(
                    "upstream {name}: origins were changed at run time, and the file has no such upstream \
                     now; `weir origins forget {name} ORIGIN --keep` ends that, for {}",
                    origins.join(", ")
                ));
            }
        }
        said.sort();
        said
    }
}
