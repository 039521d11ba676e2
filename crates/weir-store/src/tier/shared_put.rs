//! A further write of a generation whose parts arrive separately.

use crate::volume::Put;

/// Writes further parts of a generation to a volume. When the last user drops it, the parts written so far
/// are kept.
#[derive(Debug)]
pub(crate) struct SharedPut(Option<Put>);

impl Drop for SharedPut {
    fn drop(&mut self) {
        if let Some(put) = self.0.take() {
            // Parts that were published stay in any case.
            let _ = put.rest();
        }
    }
}

impl SharedPut {
    pub(crate) fn new(put: Put) -> SharedPut {
        SharedPut(Some(put))
    }

    pub(crate) fn put(&self) -> Option<&Put> {
        self.0.as_ref()
    }
}
