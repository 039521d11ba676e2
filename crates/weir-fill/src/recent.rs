//! What recent fills of a key came to: that its responses were not storable, that the origin gave none, that
//! it sends no parts. Only responses write here, never requests, so that no client can switch collapsing off.
//! The tables have a fixed size: a newer key may take an older one's place. It must not ask an origin.

use std::time::{Duration, Instant};

use http::StatusCode;
use parking_lot::Mutex;
use weir_policy::NotStored;

use super::OriginFailure;
use super::witness::{WITNESSED_FOR, Witness, Witnesses};

/// How long a key is known as not storable, once two responses have said so.
pub const DECLINED_FOR: Duration = Duration::from_secs(120);
/// How long after one response has said so, and after each refusal (401, 403, 404 and the like): one request
/// may have caused it.
pub const DOUBTED_FOR: Duration = Duration::from_secs(5);
/// For so long after a storable response one that is not storable says nothing of the key: one request may
/// have caused it.
pub const STORABLE_FOR: Duration = Duration::from_secs(120);
/// How long Weir's own 502 and 504 are remembered.
pub const FAILED_FOR: Duration = Duration::from_secs(1);

/// For so long a client whose request for a key was late leads no fill of it that others may join.
const LATE_FOR: Duration = Duration::from_secs(30);

const SHARDS: usize = 16;
/// Slots that are made together when the first of them is used: most tables of most processes stay empty.
const PAGE_SLOTS: usize = 64;

/// A direct-mapped table with an expiry an entry.
struct Table<T> {
    shards: Box<[Shard<T>]>,
    slots: usize,
}

type Shard<T> = Mutex<Box<[Page<T>]>>;
type Page<T> = Option<Box<[Option<Entry<T>>]>>;

struct Entry<T> {
    digest: u128,
    until: Instant,
    value: T,
}

impl<T: Clone> Table<T> {
    fn new(entries: usize) -> Table<T> {
        let slots = (entries / SHARDS).max(1);
        let shard = || Mutex::new((0..slots.div_ceil(PAGE_SLOTS)).map(|_| None).collect());
        Table { shards: (0..SHARDS).map(|_| shard()).collect(), slots }
    }

    fn place(&self, digest: u128) -> (usize, usize) {
        let low = digest as u64;
        ((low as usize) % SHARDS, ((low >> 8) as usize) % self.slots)
    }

    fn find(&self, digest: u128, now: Instant) -> Option<T> {
        let (shard, slot) = self.place(digest);
        let pages = self.shards[shard].lock();
        let entry = pages[slot / PAGE_SLOTS].as_ref()?[slot % PAGE_SLOTS].as_ref()?;
        (entry.digest == digest && now < entry.until).then(|| entry.value.clone())
    }

    fn put(&self, digest: u128, until: Instant, value: T) {
        let (shard, slot) = self.place(digest);
        let mut pages = self.shards[shard].lock();
        let page = pages[slot / PAGE_SLOTS].get_or_insert_with(|| (0..PAGE_SLOTS).map(|_| None).collect());
        page[slot % PAGE_SLOTS] = Some(Entry { digest, until, value });
    }

    fn clear(&self, digest: u128) {
        self.take(digest);
    }

    fn take(&self, digest: u128) -> Option<Entry<T>> {
        let (shard, slot) = self.place(digest);
        let mut pages = self.shards[shard].lock();
        pages[slot / PAGE_SLOTS].as_mut()?[slot % PAGE_SLOTS].take_if(|entry| entry.digest == digest)
    }
}

/// How long a [`RangeFetch`] of a key is known, once two responses have said so.
pub const RANGE_FETCH_FOR: Duration = Duration::from_secs(120);
/// An object that changes twice within this time is fetched whole for a while.
const RESTLESS: Duration = Duration::from_secs(10);

/// How the ranges of a key are fetched.
#[derive(Clone, Copy)]
struct Handled {
    fetch: RangeFetch,
    /// Valid until then. After that the next response says whether it is still so.
    until: Instant,
}

/// The digest by which is remembered what a key's responses are to requests with cookies that are not in the
/// key. Others must not pay for their cookies.
pub fn digest_of_visitors(digest: u128) -> u128 {
    digest ^ 0x5c7a_91d3_0b4e_68f2_a6d0_3f85_17c9_e24b
}

/// How missing ranges of a key are fetched, where they cannot be fetched as usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeFetch {
    /// With the whole body: the origin does not send parts, or the object changes all the time.
    Whole,
    /// Past the cache: the origin sends parts, but their version cannot be told.
    Pass,
}

/// That a key's last response was not storable.
#[derive(Clone, Copy)]
struct Declined {
    reason: NotStored,
    /// Until then its requests go past the cache. After that the next response says whether it is still so.
    until: Instant,
}

/// The tables, by the digest of a key.
pub struct RecentOutcomes {
    declined: Table<Declined>,
    storable: Table<()>,
    failed: Table<OriginFailure>,
    range_fetches: Table<Handled>,
    changed: Table<()>,
    witnesses: Table<Witnesses>,
    /// Clients whose requests for a key were late, by both.
    late: Table<()>,
}

impl RecentOutcomes {
    /// Empty tables: for 64 Ki keys that are not storable, 16 Ki that are, 16 Ki with a [`RangeFetch`], and 4
    /// Ki each that failed, changed or were late.
    pub(crate) fn new() -> RecentOutcomes {
        RecentOutcomes {
            declined: Table::new(64 << 10),
            storable: Table::new(16 << 10),
            failed: Table::new(4 << 10),
            range_fetches: Table::new(16 << 10),
            changed: Table::new(4 << 10),
            witnesses: Table::new(4 << 10),
            late: Table::new(4 << 10),
        }
    }

    /// Remembers for longer that a key's responses are not storable, where that is known: another one of
    /// status 200 that bypassed the cache for it was not. Else, once it is forgotten, one request would lead
    /// a fill, and all others would wait for its response.
    pub fn decline_on(&self, digest: u128, now: Instant, reason: NotStored) {
        let is_soon_over = |declined: &Declined| {
            let left = declined.until.saturating_duration_since(now);
            !left.is_zero() && left < DOUBTED_FOR / 2
        };
        if self.declined.find(digest, now).is_some_and(|declined| is_soon_over(&declined)) {
            self.decline(digest, now, reason, StatusCode::OK);
        }
    }

    /// Notes that a client's request for a key got no head for longer than others wait.
    pub fn note_late(&self, digest: u128, client: Witness, now: Instant) {
        self.late.put(digest ^ client.spread(), now + LATE_FOR, ());
    }

    /// Whether that was so a moment ago.
    pub fn was_late(&self, digest: u128, client: Witness, now: Instant) -> bool {
        self.late.find(digest ^ client.spread(), now).is_some()
    }

    /// Parts of the key can be fetched as usual.
    pub fn has_parts(&self, digest: u128) {
        self.range_fetches.clear(digest);
    }

    /// How the key's ranges are fetched, if not as usual.
    pub fn range_fetch(&self, digest: u128, now: Instant) -> Option<RangeFetch> {
        self.range_fetches
            .find(digest, now)
            .filter(|handled| now < handled.until)
            .map(|handled| handled.fetch)
    }

    /// Remembers how the key's ranges are fetched: not for long until another response says so, since one
    /// request may have caused it.
    pub fn note_ranges(&self, digest: u128, now: Instant, fetch: RangeFetch) {
        let is_confirmed = self.range_fetches.find(digest, now).is_some_and(|handled| handled.fetch == fetch);
        self.note_ranges_for(digest, now, fetch, if is_confirmed { RANGE_FETCH_FOR } else { DOUBTED_FOR });
    }

    fn note_ranges_for(&self, digest: u128, now: Instant, fetch: RangeFetch, span: Duration) {
        let until = now + span;
        self.range_fetches.put(digest, until + RANGE_FETCH_FOR, Handled { fetch, until });
    }

    /// Notes that the key's object has changed while parts of it were being fetched.
    pub fn changed(&self, digest: u128, now: Instant) {
        match self.changed.find(digest, now) {
            Some(()) => self.note_ranges_for(digest, now, RangeFetch::Whole, RANGE_FETCH_FOR),
            None => self.changed.put(digest, now + RESTLESS, ()),
        }
    }

    /// Why the key's last response was not storable.
    pub fn declined(&self, digest: u128, now: Instant) -> Option<NotStored> {
        self.declined
            .find(digest, now)
            .filter(|declined| now < declined.until)
            .map(|declined| declined.reason)
    }

    /// Remembers a response that was not storable. One request may have caused it, by a cookie or by another
    /// field: shortly after a storable one it is not believed, and not for long until another response says
    /// so.
    pub fn decline(&self, digest: u128, now: Instant, reason: NotStored, status: StatusCode) {
        if self.storable.take(digest).is_some_and(|entry| now < entry.until) {
            return;
        }
        let is_confirmed = !status.is_client_error() && self.declined.find(digest, now).is_some();
        let until = now + if is_confirmed { DECLINED_FOR } else { DOUBTED_FOR };
        self.declined.put(digest, until + DECLINED_FOR, Declined { reason, until });
    }

    /// Notes that a request for the key met a failure that it may have caused. True once so many clients
    /// have, with no answer in between, that it concerns all of them.
    pub fn witnessed(&self, digest: u128, client: Witness, now: Instant) -> bool {
        let mut witnesses = self.witnesses.find(digest, now).unwrap_or_else(|| Witnesses::begin(client, now));
        witnesses.add(client, now);
        let are_enough = witnesses.are_enough();
        self.witnesses.put(digest, now + WITNESSED_FOR, witnesses);
        are_enough
    }

    /// The key was answered, and not with a server error: earlier failures concerned single requests.
    pub fn answered(&self, digest: u128) {
        self.witnesses.clear(digest);
        self.failed.clear(digest);
    }

    /// A storable response clears what was remembered of earlier ones.
    pub fn accept(&self, digest: u128, now: Instant) {
        self.declined.clear(digest);
        self.failed.clear(digest);
        self.storable.put(digest, now + STORABLE_FOR, ());
    }

    /// Whether one of the key's last responses was storable, and so public.
    pub fn was_storable(&self, digest: u128, now: Instant) -> bool {
        self.storable.find(digest, now).is_some()
    }

    /// The key's recent failure.
    pub fn failed(&self, digest: u128, now: Instant) -> Option<OriginFailure> {
        self.failed.find(digest, now)
    }

    /// Remembers a failure.
    pub fn fail(&self, digest: u128, now: Instant, failure: OriginFailure) {
        self.failed.put(digest, now + FAILED_FOR, failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: StatusCode = StatusCode::OK;

    #[test]
    fn a_key_is_declined_for_long_once_it_is_said_twice_and_a_storable_response_ends_it() {
        let recent = RecentOutcomes::new();
        let now = weir_clock::mono();
        recent.decline(7, now, NotStored::NoStore, OK);
        assert_eq!(recent.declined(7, now), Some(NotStored::NoStore));
        let then = now + DOUBTED_FOR;
        assert_eq!(recent.declined(7, then), None);
        recent.decline(7, then, NotStored::NoStore, OK);
        assert!(recent.declined(7, then + DECLINED_FOR - Duration::from_secs(1)).is_some());
        let then = then + DECLINED_FOR;
        assert_eq!(recent.declined(7, then), None);
        recent.decline(7, then, NotStored::NoStore, OK);
        assert!(recent.declined(7, then + DOUBTED_FOR).is_some(), "it has been said before");
        recent.accept(7, then);
        assert_eq!(recent.declined(7, then), None);
    }

    #[test]
    fn what_bypasses_the_cache_keeps_a_key_declined_and_declines_none() {
        let recent = RecentOutcomes::new();
        let now = weir_clock::mono();
        recent.decline_on(7, now, NotStored::NoStore);
        assert_eq!(recent.declined(7, now), None, "nobody has led a fill");
        recent.decline(7, now, NotStored::NoStore, OK);
        let then = now + DOUBTED_FOR - Duration::from_secs(1);
        recent.decline_on(7, then, NotStored::NoStore);
        assert!(recent.declined(7, then + DECLINED_FOR - Duration::from_secs(1)).is_some());
        recent.decline_on(7, then + Duration::from_secs(1), NotStored::NoStore);
        assert_eq!(recent.declined(7, then + DECLINED_FOR), None, "it was not soon over");
        recent.decline_on(7, then + DECLINED_FOR, NotStored::NoStore);
        assert_eq!(recent.declined(7, then + DECLINED_FOR), None, "the next one leads a fill");
        recent.decline(7, then, NotStored::NoStore, OK);
        recent.accept(7, then);
        recent.decline_on(7, then, NotStored::NoStore);
        assert_eq!(recent.declined(7, then), None, "a storable response has ended it");
    }

    #[test]
    fn one_response_among_storable_ones_declines_nothing_and_a_refusal_never_for_long() {
        let recent = RecentOutcomes::new();
        let now = weir_clock::mono();
        for _ in 0..3 {
            recent.accept(7, now);
            recent.decline(7, now, NotStored::SetCookie, OK);
            assert_eq!(recent.declined(7, now), None);
        }
        for _ in 0..3 {
            recent.decline(7, now, NotStored::NoFreshness, StatusCode::FORBIDDEN);
            assert!(recent.declined(7, now).is_some());
            assert_eq!(recent.declined(7, now + DOUBTED_FOR), None);
        }
        recent.accept(8, now);
        recent.decline(8, now + STORABLE_FOR, NotStored::SetCookie, OK);
        assert!(recent.declined(8, now + STORABLE_FOR).is_some(), "that was long ago");
    }

    #[test]
    fn what_changes_twice_in_a_short_time_is_fetched_whole_for_a_while() {
        let recent = RecentOutcomes::new();
        let now = weir_clock::mono();
        recent.changed(7, now);
        assert_eq!(recent.range_fetch(7, now), None);
        recent.changed(7, now + RESTLESS);
        assert_eq!(recent.range_fetch(7, now + RESTLESS), None);
        recent.changed(7, now + RESTLESS);
        assert_eq!(recent.range_fetch(7, now + RESTLESS), Some(RangeFetch::Whole));
        assert_eq!(recent.range_fetch(7, now + RESTLESS + RANGE_FETCH_FOR), None);
    }

    #[test]
    fn one_client_alone_never_makes_a_keys_failure_everybodys() {
        let recent = RecentOutcomes::new();
        let now = weir_clock::mono();
        let client = Witness::V4;
        assert!((0..100).all(|_| !recent.witnessed(7, client(1), now)));
        assert!(!recent.witnessed(7, client(2), now));
        recent.answered(7);
        assert!(!recent.witnessed(7, client(3), now), "an answer came in between");
        assert!(!recent.witnessed(7, client(2), now) && recent.witnessed(7, client(1), now));
        assert!(recent.witnessed(7, client(1), now), "what is known need not be met by three again");
    }

    #[test]
    fn a_manner_holds_for_long_once_it_is_said_twice() {
        let recent = RecentOutcomes::new();
        let now = weir_clock::mono();
        recent.note_ranges(7, now, RangeFetch::Pass);
        assert_eq!(recent.range_fetch(7, now), Some(RangeFetch::Pass));
        let then = now + DOUBTED_FOR;
        assert_eq!(recent.range_fetch(7, then), None);
        recent.note_ranges(7, then, RangeFetch::Whole);
        assert_eq!(recent.range_fetch(7, then + DOUBTED_FOR), None, "that is another");
        recent.note_ranges(7, then, RangeFetch::Whole);
        assert_eq!(recent.range_fetch(7, then + DOUBTED_FOR), Some(RangeFetch::Whole));
        assert_eq!(recent.range_fetch(7, then + RANGE_FETCH_FOR), None);
    }

    #[test]
    fn keys_that_share_a_slot_are_not_taken_for_each_other() {
        let recent = RecentOutcomes::new();
        let now = weir_clock::mono();
        recent.decline(7, now, NotStored::NoStore, OK);
        assert_eq!(recent.declined(7 | 1 << 64, now), None);
    }
}
