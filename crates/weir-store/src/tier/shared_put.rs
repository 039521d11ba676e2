//! A further write of a generation whose parts arrive one by one.

use crate::volume::Put;

/// Brings further parts of a generation down; what has come is kept when the last one lets go.
#[derive(Debug)]
pub(crate) struct SharedPut(Option<Put>);

impl Drop for SharedPut {
    fn drop(&mut self) {
        if let Some(put) = self.0.take() {
            // What was published stays all the same.
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
