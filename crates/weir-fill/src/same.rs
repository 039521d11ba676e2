//! A generation as the key of a map: this one and no other. The key keeps it, so that no later one can lie at
//! its address meanwhile.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use weir_store::Generation;

/// A generation as a key.
#[derive(Clone)]
pub(crate) struct SameGeneration(Arc<Generation>);

impl SameGeneration {
    /// This generation.
    pub(crate) fn of(generation: &Arc<Generation>) -> SameGeneration {
        SameGeneration(generation.clone())
    }
}

impl PartialEq for SameGeneration {
    fn eq(&self, other: &SameGeneration) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SameGeneration {}

impl Hash for SameGeneration {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}
