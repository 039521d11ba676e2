//! Says in the log that a root is not there, and that it is there again: once each, for all routes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// So long after a line, no other one is written about the same root.
const QUIET: Duration = Duration::from_secs(1);

/// Roots of which there was a line: whether they were gone, and when that was.
static TOLD: Mutex<BTreeMap<PathBuf, (bool, Instant)>> = Mutex::new(BTreeMap::new());
/// Whether there was a line at all.
static ANY: AtomicBool = AtomicBool::new(false);

/// Notes that a root was opened, or why not.
pub(crate) fn note(root: &Path, error: Option<&str>, now: Instant) {
    if error.is_none() && !ANY.load(Ordering::Relaxed) {
        return;
    }
    let mut told = TOLD.lock();
    if !is_news(&mut told, root, error.is_some(), now) {
        return;
    }
    ANY.store(true, Ordering::Relaxed);
    drop(told);
    let root = root.display();
    match error {
        Some(error) => tracing::warn!(%root, error, "a root is not there: its files are as if not there"),
        None => tracing::warn!(%root, "a root is there again"),
    }
}

fn is_news(told: &mut BTreeMap<PathBuf, (bool, Instant)>, root: &Path, is_gone: bool, now: Instant) -> bool {
    match told.get_mut(root) {
        Some((was_gone, since)) => {
            let is_news = *was_gone != is_gone && now.saturating_duration_since(*since) >= QUIET;
            if is_news {
                (*was_gone, *since) = (is_gone, now);
            }
            is_news
        }
        None if is_gone => told.insert(root.to_owned(), (true, now)).is_none(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, Path, QUIET, is_news};

    #[test]
    fn each_change_is_said_once() {
        let mut told = BTreeMap::new();
        let (root, now) = (Path::new("/a"), weir_clock::mono());
        assert!(!is_news(&mut told, root, false, now));
        assert!(is_news(&mut told, root, true, now));
        assert!(!is_news(&mut told, root, true, now + QUIET));
        assert!(is_news(&mut told, Path::new("/b"), true, now));
        assert!(!is_news(&mut told, root, false, now), "not at once");
        assert!(is_news(&mut told, root, false, now + QUIET));
        assert!(!is_news(&mut told, root, true, now + QUIET));
        assert!(is_news(&mut told, root, true, now + 2 * QUIET));
    }
}
