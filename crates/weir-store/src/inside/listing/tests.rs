//! All that lives is listed, once, whatever it is found by.

mod besides;
mod coming;
mod many;

mod oracle;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use weir_policy::{CacheKey, tags};

use super::{Form, Listing, Order, Page, Unlisted};
use crate::catalogue::{Rows, wanted};
use crate::samples::{Folder, body, now, proof, until};
use crate::volume::testing::CrashRows;
use crate::volume::{Clock, OsDisk, Volume, VolumeSettings};
use crate::{Ledger, MARKS_MAX, Mark, Scope, Settings, Store};

const MEMORY: u64 = 16 << 20;

#[allow(clippy::disallowed_methods)]
fn open(folder: &Folder, rows: Option<&CrashRows>) -> Store {
    let since = Instant::now();
    let mut settings = VolumeSettings::of(64 << 20, Clock::new(move || since.elapsed()));
    settings.segment_bytes = Some(1 << 20);
    let disk = Arc::new(OsDisk::take(folder.path()).unwrap());
    let (volume, _) = Volume::open(disk, &settings).unwrap();
    let rows = rows.map(|rows| {
        rows.tidy_by(Some(wanted(&volume)));
        Arc::new(rows.clone()) as Arc<dyn Rows>
    });
    Store::without_sweeper(Settings::of(MEMORY), Ledger::new(MARKS_MAX), volume, rows, now)
}

fn key(number: u64) -> CacheKey {
    let site = number % 2 + 1;
    CacheKey::new(Bytes::from(format!("http://site{site}.test/{}/{number}", number % 3))).of_site(site)
}

fn put(store: &Store, number: u64, length: usize) {
    let tag = format!("tag{}", number % 5);
    let stamp = store.ledger().current();
    let proof = proof(&[], &[("cache-tag", &tag)]);
    let (_, mut writer) = store.begin(proof, key(number), stamp, Some(length as u64)).unwrap();
    writer.push(body(number, 0, length)).unwrap();
    writer.seal().unwrap();
}

/// A listing that nobody ends.
fn list(store: &Store, listing: &Listing) -> Result<Page, Unlisted> {
    store.list(listing, &mut std::iter::empty(), now(), &|| ControlFlow::Continue(()))
}

/// All pages of a listing: keys with how often each was met, and how many pages there were.
fn all(store: &Store, listing: &Listing) -> (BTreeMap<Vec<u8>, u32>, usize) {
    let (mut found, mut pages, mut listing) = (BTreeMap::new(), 0, listing.clone());
    loop {
        let Page { objects, next, .. } = list(store, &listing).unwrap();
        assert!(objects.len() <= listing.limit);
        assert!(next.is_none() || objects.len() == listing.limit, "a page is full unless it is the last");
        pages += 1;
        for object in objects {
            assert!(object.is_in_memory || object.volume.is_some());
            assert_eq!((object.status, object.lifetime.as_secs()), (200, 600));
            *found.entry(object.key.full.to_vec()).or_default() += 1;
        }
        match next {
            Some(next) => listing.after = next,
            None => return (found, pages),
        }
    }
}

fn expected(wanted: impl Fn(u64) -> bool) -> BTreeMap<Vec<u8>, u32> {
    (0..60).filter(|number| wanted(*number)).map(|number| (key(number).full.to_vec(), 1)).collect()
}

/// Whether a listing wants the object of that number.
type Wants = fn(u64) -> bool;

fn listings() -> Vec<(Listing, Wants)> {
    let of = |listing: Listing| Listing { limit: 7, ..listing };
    let prefix = |site: u64, text: &str| vec![(site, text.to_owned())];
    vec![
        (of(Listing::default()), |_| true),
        (of(Listing { site: Some(1), ..Listing::default() }), |number| number % 2 == 0),
        (of(Listing { prefixes: prefix(2, "http://site2.test/1/"), ..Listing::default() }), |number| {
            number % 2 == 1 && number % 3 == 1
        }),
        (of(Listing { tag: Some(tags::tag_hash(b"tag3")), ..Listing::default() }), |number| number % 5 == 3),
        (
            of(Listing {
                site: Some(2),
                tag: Some(tags::tag_hash(b"tag3")),
                prefixes: prefix(2, "http://site2"),
                ..Listing::default()
            }),
            |number| number % 10 == 3,
        ),
        (of(Listing { site: Some(9), ..Listing::default() }), |_| false),
    ]
}

/// By rows and by walking over the volume: the same answers for objects in memory, on the volume, and in
/// both.
#[test]
fn all_that_lives_is_listed_once_whatever_it_is_found_by() {
    for rows in [None, Some(CrashRows::new(1))] {
        let folder = Folder::new("listing");
        let store = open(&folder, rows.as_ref());
        (0..30).for_each(|number| put(&store, number, 2000));
        store.close();
        drop(store);
        // The catalogue that answers what is wanted keeps the volume open.
        rows.iter().for_each(|rows| rows.tidy_by(None));
        let store = open(&folder, rows.as_ref());
        (30..60).for_each(|number| put(&store, number, 2000));
        assert!(store.sync_for_tests());
        store.cover_for_tests(u64::MAX);
        for (listing, wanted) in listings() {
            let (found, pages) = all(&store, &listing);
            assert_eq!(found, expected(wanted), "{listing:?}");
            assert!(pages >= found.len() / 7, "{pages} pages");
        }
        let page = list(&store, &Listing { limit: 1000, ..Listing::default() }).unwrap();
        assert!(page.objects.iter().any(|object| object.is_in_memory && object.volume.is_some()));
        assert!(page.objects.iter().any(|object| !object.is_in_memory));
        // What was purged is not listed, swept or not.
        let marks = [Mark::hard(Scope::tag(b"tag0")), Mark::hard(Scope::Site(2))];
        store.purge(&marks, now(), Box::new(|_| {}));
        let lives = |number: u64| !number.is_multiple_of(5) && number.is_multiple_of(2);
        assert_eq!(all(&store, &listings()[0].0).0, expected(lives));
        store.close();
    }
}

/// The catalogue follows what is durable: what is written and not durable yet was in no list for as long.
#[test]
fn what_is_written_and_not_durable_yet_is_listed() {
    let (folder, rows) = (Folder::new("listing-new"), CrashRows::new(1));
    let store = open(&folder, Some(&rows));
    (0..30).for_each(|number| put(&store, number, 2000));
    assert!(store.sync_for_tests());
    store.cover_for_tests(u64::MAX);
    (30..60).for_each(|number| put(&store, number, 2000));
    until(|| store.stocks().iter().map(|stocks| stocks.volume.objects).sum::<u64>() == 60);
    assert_eq!(all(&store, &listings()[0].0).0, expected(|_| true));
    store.close();
}

#[test]
fn what_is_in_memory_alone_is_listed_in_order() {
    let store = Store::new(16 << 20);
    (0..60).for_each(|number| put(&store, number, 100));
    for (listing, wanted) in listings() {
        assert_eq!(all(&store, &listing).0, expected(wanted), "{listing:?}");
    }
    let page = list(&store, &Listing { limit: 1000, ..Listing::default() }).unwrap();
    assert!(page.objects.is_sorted_by_key(|object| (object.key.site, object.key.full.clone())));
    assert!(
        page.objects
            .iter()
            .all(|object| object.body_bytes == Some(100) && !object.is_part() && object.volume.is_none())
    );
}

#[test]
fn a_page_that_never_was_has_no_next() {
    let folder = Folder::new("listing");
    let store = open(&folder, None);
    for after in [&[9][..], &[1, 1], &[0, 5]] {
        let listing = Listing { limit: 5, after: after.to_vec(), ..Listing::default() };
        assert_eq!(list(&store, &listing), Err(Unlisted::After), "{after:?}");
    }
    store.close();
}

/// A listing of many objects can be ended at any of them.
#[test]
fn a_listing_ends_where_it_is_told_to() {
    let store = Store::new(16 << 20);
    let folder = Folder::new("listing-end");
    let on_volume = open(&folder, Some(&CrashRows::new(1)));
    for store in [&store, &on_volume] {
        (0..30).for_each(|number| put(store, number, 100));
    }
    assert!(on_volume.sync_for_tests());
    on_volume.cover_for_tests(u64::MAX);
    for form in [Form::Page, Form::Sum, Form::First(Order::Size)] {
        let listing = Listing { form, limit: 10, ..Listing::default() };
        let ended = on_volume.list(&listing, &mut std::iter::empty(), now(), &|| ControlFlow::Break(()));
        assert_eq!(ended, Err(Unlisted::Ended), "{form:?}");
    }
    on_volume.close();
}
