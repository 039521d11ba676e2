//! Reloads: one at a time, and what came of them. The figures never wait for a reload.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::status::LastReload;

/// The reloads of this process.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    is_under_way: Mutex<bool>,
    ended: Condvar,
    figures: Mutex<Figures>,
}

/// What came of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) done: u64,
    pub(crate) refused: u64,
    pub(crate) last: Option<LastReload>,
}

/// A reload under way. The next begins when this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Reloads>);

impl Reloads {
    /// Waits for the one under way. `None` where that takes longer than `patience`.
    pub(crate) fn begin(self: &Arc<Reloads>, patience: Duration) -> Option<UnderWay> {
        let mut is_under_way = self.is_under_way.lock();
        self.ended.wait_while_for(&mut is_under_way, |is| *is, patience);
        let is_free = !std::mem::replace(&mut *is_under_way, true);
        is_free.then(|| UnderWay(Arc::clone(self)))
    }

    /// Notes how one has ended.
    pub(crate) fn note(&self, last: LastReload) {
        let mut figures = self.figures.lock();
        match last.refused {
            None => figures.done += 1,
            Some(_) => figures.refused += 1,
        }
        figures.last = Some(last);
    }

    pub(crate) fn figures(&self) -> Figures {
        self.figures.lock().clone()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        *self.0.is_under_way.lock() = false;
        self.0.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn figures_are_there_while_a_reload_hangs_and_the_next_one_does_not_wait_for_ever() {
        let reloads = Arc::<Reloads>::default();
        reloads.note(LastReload::at(SystemTime::UNIX_EPOCH, None));
        let under_way = reloads.begin(Duration::ZERO).unwrap();
        reloads.note(LastReload::at(SystemTime::UNIX_EPOCH, Some("no".to_owned())));
        let Figures { done, refused, last } = reloads.figures();
        assert_eq!((done, refused, last.unwrap().refused.as_deref()), (1, 1, Some("no")));
        assert!(reloads.begin(Duration::from_millis(10)).is_none());
        drop(under_way);
        assert!(reloads.begin(Duration::ZERO).is_some());
    }
}
