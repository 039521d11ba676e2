//! What a mark may concern, how hard it is, and what it says of a generation. Values only.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use weir_policy::{CacheKey, Facts, StoredFlags, Tags, site_hash, tags};
use xxhash_rust::xxh3::xxh3_128;

/// The longest prefix of a URL, in bytes.
pub const PREFIX_BYTES_MAX: usize = 8 << 10;

/// A number of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub(super) u64);

impl Stamp {
    /// The stamp with that number.
    pub fn of(number: u64) -> Stamp {
        Stamp(number)
    }

    /// Its number.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// What a mark concerns. Names are kept as hashes, so that the marks of a million purges are small and of one
/// size. Two names with one hash are purged together, which costs a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everything.
    All,
    /// All of a site, by [`site_hash`].
    Site(u64),
    /// All URLs of a site that begin with a text.
    Prefix {
        /// The site, whose mark it becomes where marks are too many; 0 for all sites.
        site: u64,
        /// xxh3-128 of the text.
        digest: u128,
        /// Its length in bytes, at most [`PREFIX_BYTES_MAX`].
        length: u32,
    },
    /// All that has a tag, of one site or of all.
    Tag {
        /// The site; 0 for all sites.
        site: u64,
        /// The tag, by [`tags::tag_hash`].
        hash: u64,
    },
    /// All keys and variants of one URL.
    Url {
        /// The site whose mark it becomes where marks are too many; 0 for none.
        site: u64,
        /// xxh3-128 of the URL, as [`weir_policy::write_url`] returns it.
        digest: u128,
    },
}

impl Scope {
    /// All of the site with that name.
    pub fn site(name: &str) -> Scope {
        Scope::Site(site_hash(name))
    }

    /// All URLs that begin with a text, as URLs stand in keys; `site` is the site's hash. A text longer than
    /// [`PREFIX_BYTES_MAX`] is cut there, which widens the scope.
    pub fn prefix(site: u64, text: &str) -> Scope {
        let bytes = &text.as_bytes()[..text.len().min(PREFIX_BYTES_MAX)];
        // Invariant: the length was cut to what fits.
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Scope::Prefix { site, digest: xxh3_128(bytes), length }
    }

    /// Whether it concerns a response with that key and these tags.
    pub fn concerns(&self, key: &CacheKey, tags: &Tags) -> bool {
        match *self {
            Scope::All => true,
            Scope::Site(site) => site == key.site,
            Scope::Prefix { site, digest, length } => {
                (site == 0 || site == key.site)
                    && key.url().get(..length as usize).is_some_and(|begin| xxh3_128(begin) == digest)
            }
            Scope::Tag { site, hash } => {
                (site == 0 || site == key.site)
                    && (!tags.is_complete() || tags.hashes().binary_search(&hash).is_ok())
            }
            Scope::Url { digest, .. } => key.url_digest() == digest,
        }
    }

    /// All that has that tag, of all sites.
    pub fn tag(tag: &[u8]) -> Scope {
        Scope::tag_of(0, tag)
    }

    /// All of a site that has that tag; `site` is the site's hash.
    pub fn tag_of(site: u64, tag: &[u8]) -> Scope {
        Scope::Tag { site, hash: tags::tag_hash(tag) }
    }
}

/// What a mark does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Force {
    /// What it concerns is no longer served.
    Hard,
    /// What it concerns is stale from now on, and served by the rules for stale responses.
    Soft,
    /// What it concerns is fresh for this long from now on, at most [`LIFETIME_MAX`](super::LIFETIME_MAX), in
    /// whole milliseconds; longer or shorter than it was, and also where it was stale.
    Lifetime(Duration),
}

/// A mark to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Its scope.
    pub scope: Scope,
    /// What it does to that.
    pub force: Force,
}

impl Mark {
    /// A hard mark.
    pub fn hard(scope: Scope) -> Mark {
        Mark { scope, force: Force::Hard }
    }

    /// A soft mark.
    pub fn soft(scope: Scope) -> Mark {
        Mark { scope, force: Force::Soft }
    }

    /// A retention.
    pub fn lifetime(scope: Scope, lifetime: Duration) -> Mark {
        Mark { scope, force: Force::Lifetime(lifetime) }
    }
}

/// Marks that were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The largest.
    pub stamp: Stamp,
    /// The sites that went as wholes, since there is no room for so many marks of less: their hashes; 0 for
    /// everything.
    pub wider: BTreeSet<u64>,
}

/// What all marks together say of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// No mark concerns it.
    Alive,
    /// It is served with other facts than its head has.
    Changed(Change),
    /// It is no longer served.
    Dead,
}

impl Judged {
    /// Makes of the facts of a head what the marks say. Those of a dead one stay.
    pub fn apply(&self, facts: &mut Facts) {
        if let Judged::Changed(change) = self {
            change.apply(facts);
        }
    }

    /// Whether a response with these facts is dead, or stale because of a soft purge, now or by its head.
    pub fn is_purged(&self, facts: &Facts) -> bool {
        let mut changed = *facts;
        self.apply(&mut changed);
        *self == Judged::Dead || changed.flags.has(StoredFlags::PURGED)
    }

    /// Whether these marks themselves say that.
    pub(crate) fn purges(&self, facts: &Facts) -> bool {
        *self != Judged::Alive && self.is_purged(facts)
    }

    /// Whether a response that was asked for before these marks must not answer a request that came after
    /// them: it is dead, or they have made it stale by `now`.
    pub fn overtakes(&self, now: Instant) -> bool {
        match self {
            Judged::Alive => false,
            Judged::Dead => true,
            Judged::Changed(Change { before, until, after }) => {
                after.is_some() || until.map_or(before.is_some(), |until| until <= now)
            }
        }
    }
}

/// What soft purges and retentions make of a head. The newest retention decides over all that is older.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The earliest soft purge that is older than the retention.
    pub(super) before: Option<Instant>,
    /// The newest retention: until when it is fresh.
    pub(super) until: Option<Instant>,
    /// The earliest soft purge that is newer than the retention, or of all where there is no retention.
    pub(super) after: Option<Instant>,
}

impl Change {
    /// Makes it of the facts of a head. Again, it changes nothing more.
    pub fn apply(&self, facts: &mut Facts) {
        if let Some(since) = self.before {
            facts.outdate(since);
        }
        if let Some(until) = self.until {
            facts.retain(until);
        }
        if let Some(since) = self.after {
            facts.outdate(since);
        }
    }
}
