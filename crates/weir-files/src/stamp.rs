//! Which version of a file it is: what the kernel says of it, and the entity tag made of that (RFC 9110
//! §8.8.1). Pure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;
use xxhash_rust::xxh3::xxh3_64;

/// So long after a change, another one may leave the same times: older kernels count them by clock ticks, and
/// a write notes its time before it copies its bytes.
pub(crate) const GRAIN: Duration = Duration::from_millis(25);
/// So long after a change, a long write may still go on whose time is noted already.
const SETTLED: Duration = Duration::from_secs(2);

/// What tells two versions of a file apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    pub(crate) device: u64,
    inode: u64,
    /// In bytes.
    pub(crate) length: u64,
    /// Since 1970, in nanoseconds.
    modified_ns: i128,
    /// When anything of it changed last. Nobody can set it.
    changed_ns: i128,
}

/// How long ago a version came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Age {
    /// So short that its next version may look the same; after this time it cannot.
    Young(Duration),
    /// So short that a long write may still be going on.
    Fresh,
    /// Long enough.
    Settled,
}

/// The year 10000, in seconds since 1970.
const YEAR_10000_S: u64 = 253_402_300_800;

impl Stamp {
    /// The version that `stat` tells of.
    pub(crate) fn of(stat: &Stat) -> Stamp {
        let ns = |seconds: i64, ns: i128| i128::from(seconds) * 1_000_000_000 + ns;
        Stamp {
            device: stat.st_dev,
            inode: stat.st_ino,
            length: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: ns(stat.st_mtime, i128::from(stat.st_mtime_nsec)),
            changed_ns: ns(stat.st_ctime, i128::from(stat.st_ctime_nsec)),
        }
    }

    /// How old the version is. A time that lies in the future says nothing: the clock was set.
    pub(crate) fn age(&self, wall: SystemTime) -> Age {
        let now = wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let age = i128::try_from(now).unwrap_or(i128::MAX) - self.changed_ns;
        let ns = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
        match age {
            age if age < -ns(GRAIN) => Age::Fresh,
            age if age < ns(GRAIN) => Age::Young(GRAIN),
            age if age < ns(SETTLED) => Age::Fresh,
            _ => Age::Settled,
        }
    }

    /// Whether the file, which stayed open, has the same bytes as in `other`. When it changed last does not
    /// count: another name changes that as well, and a replacement takes one away.
    pub(crate) fn has_bytes_of(&self, other: &Stamp) -> bool {
        (self.length, self.modified_ns) == (other.length, other.modified_ns)
    }

    /// When its bytes changed last; none where that lies before 1970 or after `wall` (RFC 9110 §8.8.2.1).
    pub(crate) fn modified(&self, wall: SystemTime) -> Option<SystemTime> {
        let modified = time(i64::try_from(self.modified_ns.div_euclid(1_000_000_000)).ok()?)?;
        (modified <= wall).then_some(modified)
    }

    /// Whether it was modified before `other`.
    pub(crate) fn is_older_than(&self, other: &Stamp) -> bool {
        self.modified_ns < other.modified_ns
    }

    /// The entity tag: weak as long as its next version might get the same one.
    pub(crate) fn tag(&self, age: Age) -> String {
        let mut bytes = Vec::with_capacity(64);
        for number in [self.device, self.inode] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.modified_ns, self.changed_ns] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let weak = if age == Age::Settled { "" } else { "W/" };
        format!("{weak}\"{:x}-{:016x}\"", self.length, xxh3_64(&bytes))
    }
}

/// The time so many seconds after 1970, where a field can say it (RFC 9110 §5.6.7: four digits of a year).
pub(crate) fn time(seconds: i64) -> Option<SystemTime> {
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds < YEAR_10000_S)?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{Age, GRAIN, Stamp};

    fn stamp() -> Stamp {
        let ns = 1_000_000_000_000;
        Stamp { device: 1, inode: 2, length: 10, modified_ns: ns, changed_ns: ns }
    }

    #[test]
    fn each_part_of_a_stamp_changes_the_tag() {
        let one = stamp();
        let others = [
            Stamp { device: 9, ..one },
            Stamp { inode: 9, ..one },
            Stamp { length: 9, ..one },
            Stamp { modified_ns: 9, ..one },
            Stamp { changed_ns: 9, ..one },
        ];
        for other in others {
            assert_ne!(one.tag(Age::Settled), other.tag(Age::Settled), "{other:?}");
        }
        assert!(one.tag(Age::Fresh).starts_with("W/\"a-"));
        assert!(one.tag(Age::Settled).starts_with("\"a-"));
    }

    #[test]
    fn a_version_is_young_then_fresh_then_settled() {
        let at = |ms: u64| UNIX_EPOCH + Duration::from_secs(1000) + Duration::from_millis(ms);
        assert_eq!(stamp().age(at(0)), Age::Young(GRAIN));
        assert_eq!(stamp().age(at(30)), Age::Fresh);
        assert_eq!(stamp().age(at(3000)), Age::Settled);
        assert_eq!(stamp().age(UNIX_EPOCH), Age::Fresh, "the clock was set back");
    }

    #[test]
    fn a_file_of_the_future_has_no_date() {
        let at = UNIX_EPOCH + Duration::from_secs(1000);
        assert_eq!(stamp().modified(at), Some(at));
        assert_eq!(stamp().modified(UNIX_EPOCH), None);
        assert_eq!(Stamp { modified_ns: -5_000_000_000, ..stamp() }.modified(at), None);
    }
}
