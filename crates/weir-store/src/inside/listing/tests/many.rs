//! Many objects on a volume, made without a store: each search, order and sum is that of a plain count.
//! There are a million (two to three minutes of a debug build, 1 GB of drive); `WEIR_LISTED` takes another
//! number.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use parking_lot::Mutex;
use weir_policy::Stored;

use super::super::{MediaRange, Sum, Wanted};
use super::*;
use crate::catalogue::{Change, RowsError, RowsUsage, Visit};
use crate::volume::{PutError, codec, key as volume_key};

const OBJECTS: u64 = 1_000_000;
const SITES: u64 = 10;
const TAGS: u64 = 500;

/// Rows in memory that do nothing but hold them.
#[derive(Debug, Default)]
struct PlainRows(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>);

impl Rows for PlainRows {
    fn apply(&self, changes: &[Change<'_>]) -> Result<(), RowsError> {
        let mut rows = self.0.lock();
        for change in changes {
            match *change {
                Change::Put { key, value } => drop(rows.insert(key.to_vec(), value.to_vec())),
                Change::Remove { key } => drop(rows.remove(key)),
            }
        }
        Ok(())
    }

    fn scan(&self, from: &[u8], visit: &mut Visit<'_>) -> Result<(), RowsError> {
        for (key, value) in self.0.lock().range(from.to_vec()..) {
            if let ControlFlow::Break(()) = visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), RowsError> {
        Ok(())
    }

    fn usage(&self) -> RowsUsage {
        RowsUsage::default()
    }
}

fn key_of(number: u64) -> CacheKey {
    let site = number % SITES + 1;
    CacheKey::new(Bytes::from(format!("http://s{site}.test/{}/{number:09}", number % 7))).of_site(site)
}

fn length_of(number: u64) -> u64 {
    number * 7919 % 251
}

fn head_of(tag: u64, is_image: bool) -> Stored {
    let kind = if is_image { "image/png" } else { "text/html" };
    proof(&[], &[("cache-tag", &format!("tag{tag}")), ("content-type", kind)]).into_stored()
}

fn is_image(number: u64) -> bool {
    number.is_multiple_of(4)
}

/// Writes all objects to the volume.
fn fill(volume: &Arc<Volume>, count: u64) {
    let bytes = body(1, 0, 256);
    // A head for each tag, which says whether it is an image as well. To make a million takes a fifth of the
    // test.
    const { assert!(TAGS.is_multiple_of(4)) };
    let heads: Vec<Vec<u8>> =
        (0..TAGS).map(|tag| codec::encode(&head_of(tag, is_image(tag)), now())).collect();
    for number in 0..count {
        let head = &heads[(number % TAGS) as usize];
        let body = [bytes.slice(..length_of(number) as usize)];
        let key = volume_key::on_volume(&key_of(number));
        while let Err(error) = volume.store(&key, head.clone().into(), 1, &body) {
            assert_eq!(error, PutError::QueueFull);
            volume.sync();
        }
    }
    volume.sync();
}

#[test]
#[allow(clippy::disallowed_methods)]
fn many_objects_are_searched_sorted_and_summed_up_as_by_a_plain_count() {
    let count = std::env::var("WEIR_LISTED").map_or(OBJECTS, |count| count.parse().unwrap());
    let folder = Folder::new("listing-many");
    let since = Instant::now();
    let mut settings = VolumeSettings::of(4 << 30, Clock::new(move || since.elapsed()));
    settings.segment_bytes = Some(16 << 20);
    {
        let disk = Arc::new(OsDisk::take(folder.path()).unwrap());
        let volume = Arc::new(Volume::open(disk, &settings).unwrap().0);
        fill(&volume, count);
        volume.close();
    }
    let disk = Arc::new(OsDisk::take(folder.path()).unwrap());
    let (volume, _) = Volume::open(disk, &settings).unwrap();
    let rows: Arc<dyn Rows> = Arc::<PlainRows>::default();
    let (settings, ledger) = (Settings::of(MEMORY), Ledger::new(MARKS_MAX));
    let store = Store::without_sweeper(settings, ledger, volume, Some(rows), now);
    store.cover_for_tests(u64::MAX);

    let find = |listing: Listing| {
        let page = list(&store, &listing).unwrap();
        assert!(page.walked.is_empty());
        page
    };
    let sum_of = |fits: &dyn Fn(u64) -> bool| {
        let fitting = (0..count).filter(|number| fits(*number));
        Some(Sum { objects: fitting.clone().count() as u64, held_bytes: fitting.map(length_of).sum() })
    };
    let images = Wanted { media_types: vec![MediaRange::Of("image/".to_owned())], ..Wanted::default() };
    let form = Form::First(Order::Size);
    let largest = find(Listing { wanted: images, form, limit: 100, ..Listing::default() });
    assert_eq!(largest.sum, sum_of(&is_image));
    let mut lengths: Vec<u64> = (0..count).filter(|number| is_image(*number)).map(length_of).collect();
    lengths.sort_unstable_by(|left, right| right.cmp(left));
    let held: Vec<u64> = largest.objects.iter().map(|object| object.held_bytes).collect();
    assert_eq!(held, lengths[..100]);

    let tag = Some(tags::tag_hash(b"tag77"));
    assert_eq!(
        find(Listing { tag, form: Form::Sum, ..Listing::default() }).sum,
        sum_of(&|of| of % TAGS == 77)
    );
    let prefixes = vec![(3, "http://s3.test/5/".to_owned())];
    let fits = |number: u64| number % SITES == 2 && number % 7 == 5;
    let (mut listing, mut met) = (Listing { prefixes, limit: 100, ..Listing::default() }, BTreeSet::new());
    loop {
        let page = find(listing.clone());
        for object in page.objects {
            assert!(met.insert(object.key.full.to_vec()), "twice");
        }
        match page.next {
            Some(next) => listing.after = next,
            None => break,
        }
    }
    assert!(
        met.into_iter()
            .eq((0..count).filter(|number| fits(*number)).map(|number| key_of(number).full.to_vec()))
    );

    // What is purged is gone, swept or not.
    store.purge(&[Mark::hard(Scope::Site(4)), Mark::hard(Scope::tag(b"tag5"))], now(), Box::new(|_| {}));
    let lives = |number: u64| number % SITES != 3 && number % TAGS != 5;
    assert_eq!(find(Listing { form: Form::Sum, ..Listing::default() }).sum, sum_of(&lives));
    store.close();
}
