//! A further write of a generation whose parts arrive separately.

use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::volume::{Put, PutError};

/// Writes further parts of a generation to a volume, for several transfers at once. When the last one drops
/// it, the parts written so far are kept.
#[derive(Debug)]
pub(crate) struct SharedPut {
    open: Option<Arc<Open>>,
    of: Arc<Mutex<Weak<Open>>>,
}

/// Where a generation keeps its further write, if one is open.
#[derive(Debug, Default)]
pub(crate) struct SharedPuts(OnceLock<Arc<Mutex<Weak<Open>>>>);

/// A write that goes on.
#[derive(Debug)]
pub(crate) struct Open(Option<Put>);

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(put) = self.0.take() {
            // Parts that were published stay in any case.
            let _ = put.rest();
        }
    }
}

impl Drop for SharedPut {
    fn drop(&mut self) {
        // The volume takes one write of an object at a time. Who wants to go on while the last user leaves
        // waits here until the write has ended, and then begins another.
        let _of = self.of.lock();
        drop(self.open.take());
    }
}

impl SharedPut {
    pub(crate) fn put(&self) -> Option<&Put> {
        self.open.as_ref()?.0.as_ref()
    }
}

impl SharedPuts {
    /// The write that is open, or a new one.
    ///
    /// # Errors
    /// Those of `begin`.
    pub(crate) fn join(&self, begin: impl FnOnce() -> Result<Put, PutError>) -> Result<SharedPut, PutError> {
        let of = self.0.get_or_init(Arc::default);
        let mut newest = of.lock();
        let open = match newest.upgrade() {
            Some(open) => open,
            None => {
                let open = Arc::new(Open(Some(begin()?)));
                *newest = Arc::downgrade(&open);
                open
            }
        };
        Ok(SharedPut { open: Some(open), of: Arc::clone(of) })
    }
}
