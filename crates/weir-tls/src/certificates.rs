//! The handle on the certificates in use. Listeners hold it; who loads certificates swaps the set.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::names::lower;
use crate::{Identity, Set};

/// The certificates in use. A clone is the same handle.
#[derive(Debug, Clone, Default)]
pub struct Certificates {
    set: Arc<ArcSwap<Set>>,
}

impl Certificates {
    /// The set in use. A connection keeps what it was given.
    pub fn current(&self) -> Arc<Set> {
        self.set.load_full()
    }

    /// Puts another set in its place. Answers to challenges stay.
    pub fn replace(&self, set: &Set) {
        self.set.rcu(|held| set.with_challenges_of(held));
    }

    /// Answers challenges for `name` with `identity` (RFC 8737).
    pub fn challenge(&self, name: &str, identity: &Arc<Identity>) {
        self.set.rcu(|held| {
            held.with_challenges(|challenges| {
                challenges.insert(lower(name).into(), identity.clone());
            })
        });
    }

    /// Answers no challenge for `name` any more.
    pub fn withdraw(&self, name: &str) {
        self.set.rcu(|held| {
            held.with_challenges(|challenges| {
                challenges.remove(&*lower(name));
            })
        });
    }
}
