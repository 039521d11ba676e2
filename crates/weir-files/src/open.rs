//! Versions that are sent from the file itself: all readers of one share it, and all together hold but a part
//! of the files that the process may have open.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use weir_policy::Coding;

use crate::stamp::{Age, Stamp};

/// The part of the process's files that may be open here at a time: one in so many.
const PART: u64 = 4;
/// Where the process may open any number of files.
const UNLIMITED: u64 = 1 << 20;

/// What makes two answers from an open file the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    pub(crate) stamp: Stamp,
    pub(crate) age: Age,
    pub(crate) media_type: &'static str,
    pub(crate) coding: Option<Coding>,
    pub(crate) varies: bool,
}

/// The versions that are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opens(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    files: HashMap<Version, Weak<dyn Any + Send + Sync>>,
    /// Places that are taken: a version whose last reader is just leaving may have two.
    taken: u64,
}

/// The place of an open version.
#[derive(Debug)]
pub(crate) struct Place {
    opens: Opens,
    version: Version,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.opens.0.lock();
        inner.taken -= 1;
        if inner.files.get(&self.version).is_some_and(|file| file.strong_count() == 0) {
            inner.files.remove(&self.version);
        }
    }
}

/// How many files may be open here.
fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED) / PART
}

impl Opens {
    /// The version, if somebody reads it.
    pub(crate) fn find<T: Any + Send + Sync>(&self, version: &Version) -> Option<Arc<T>> {
        let held = self.0.lock().files.get(version)?.upgrade();
        held?.downcast().ok()
    }

    /// A place for one more; none where all are taken.
    pub(crate) fn place(&self, version: Version) -> Option<Place> {
        self.place_below(version, limit())
    }

    fn place_below(&self, version: Version, limit: u64) -> Option<Place> {
        let mut inner = self.0.lock();
        if inner.taken >= limit {
            return None;
        }
        inner.taken += 1;
        Some(Place { opens: self.clone(), version })
    }

    /// Lets others find a version that has a place.
    pub(crate) fn share<T: Any + Send + Sync>(&self, place: &Place, file: &Arc<T>) {
        let file: Weak<T> = Arc::downgrade(file);
        self.0.lock().files.insert(place.version, file);
    }
}

#[cfg(test)]
mod tests {
    use super::{Age, Opens, Stamp, Version};

    #[test]
    fn places_are_given_back() {
        let opens = Opens::default();
        let stat = rustix::fs::stat("/").unwrap();
        let version = Version {
            stamp: Stamp::of(&stat),
            age: Age::Settled,
            media_type: "text/plain",
            coding: None,
            varies: false,
        };
        let held = [opens.place_below(version, 2), opens.place_below(version, 2)];
        assert!(held.iter().all(Option::is_some));
        assert!(opens.place_below(version, 2).is_none());
        drop(held);
        assert!(opens.place_below(version, 1).is_some());
    }
}
