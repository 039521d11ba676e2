//! What is held of each site, by tier, compared with the test's own count.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_policy::CacheKey;

use super::{SiteStocks, Stock};
use crate::samples::{Folder, body, key, now, proof, until};
use crate::volume::{Clock, OsDisk, Volume, VolumeSettings};
use crate::{Ledger, MARKS_MAX, Scope, Settings, Store};

#[allow(clippy::disallowed_methods)]
fn open(folder: &Folder) -> Store {
    let since = Instant::now();
    let settings = VolumeSettings::of(32 << 20, Clock::new(move || since.elapsed()));
    let (volume, _) = Volume::open(Arc::new(OsDisk::take(folder.path()).unwrap()), &settings).unwrap();
    Store::with_volume(Settings::of(4 << 20), Ledger::new(MARKS_MAX), volume, None, now).unwrap()
}

fn of_site(number: u64, site: u64) -> CacheKey {
    key(number).of_site(site)
}

fn put(store: &Store, number: u64, site: u64, length: u64) {
    let stamp = store.ledger().current();
    let key = of_site(number, site);
    let (_, mut writer) = store.begin(proof(&[], &[]), key, stamp, Some(length)).unwrap();
    writer.push(body(number, 0, length as usize)).unwrap();
    writer.seal().unwrap();
}

fn of(store: &Store, site: u64) -> SiteStocks {
    store.stocks().into_iter().find(|stocks| stocks.site == site).unwrap_or_default()
}

fn stock(objects: u64, bytes: u64) -> Stock {
    Stock { objects, bytes }
}

#[allow(clippy::disallowed_methods)]
#[test]
fn without_a_volume_memory_is_all() {
    let store = Store::new(1 << 20);
    assert!(store.stocks().is_empty());
    put(&store, 1, 7, 1000);
    put(&store, 2, 7, 0);
    put(&store, 3, 8, 5);
    let seven = SiteStocks { site: 7, memory: stock(2, 1000), held: stock(2, 1000), ..SiteStocks::default() };
    assert_eq!(of(&store, 7), seven);
    assert_eq!(of(&store, 8).held, stock(1, 5));
    put(&store, 1, 7, 10);
    assert_eq!(of(&store, 7).held, stock(2, 10), "what is replaced is not held");
}

#[test]
fn what_is_in_memory_and_on_the_volume_counts_once() {
    let folder = Folder::new("stocks");
    let store = open(&folder);
    put(&store, 1, 7, 1000);
    put(&store, 2, 7, 200_000);
    put(&store, 3, 8, 70_000);
    until(|| of(&store, 7).volume == stock(2, 201_000) && of(&store, 8).volume == stock(1, 70_000));
    assert_eq!((of(&store, 7).memory, of(&store, 7).held), (stock(2, 201_000), stock(2, 201_000)));
    store.close();
    drop(store);
    let store = open(&folder);
    let eight = SiteStocks { site: 8, memory: stock(0, 0), volume: stock(1, 70_000), held: stock(1, 70_000) };
    assert_eq!(of(&store, 8), eight, "after a restart all is on the volume");
}

#[test]
fn what_was_purged_or_is_past_its_lifetime_is_held_and_does_not_live() {
    let folder = Folder::new("stocks");
    let store = open(&folder);
    put(&store, 1, 7, 1000);
    put(&store, 2, 7, 2000);
    put(&store, 3, 8, 3000);
    until(|| of(&store, 7).volume.objects == 2 && of(&store, 8).volume.objects == 1);
    let live = store.live(now()).unwrap();
    assert_eq!(live.sites, [(7, stock(2, 3000)), (8, stock(1, 3000))]);
    store.invalidate(Scope::Url { site: 7, digest: of_site(1, 7).digest }, now());
    assert_eq!(store.live(now()).unwrap().sites, [(7, stock(1, 2000)), (8, stock(1, 3000))]);
    let mut later = now();
    // The samples are fresh for ten minutes.
    later.mono += Duration::from_secs(601);
    later.wall += Duration::from_secs(601);
    assert!(store.live(later).unwrap().sites.is_empty());
}

#[test]
fn what_is_purged_is_left_out_of_memory_at_once() {
    let alone = Store::new(1 << 20);
    put(&alone, 1, 7, 1000);
    put(&alone, 2, 8, 5);
    alone.invalidate(Scope::Site(7), now());
    assert_eq!((of(&alone, 7), of(&alone, 8).held), (SiteStocks::default(), stock(1, 5)));
    assert!(!alone.is_unswept());
}

#[test]
fn scrapes_see_few_objects_as_they_are_and_many_as_they_were_counted() {
    let many = super::AT_ONCE_MAX as u64 + 10;
    let store = Store::new(many * (8 << 10));
    let held = |store: &Store| {
        let seen = store.stocks_lately(now);
        (seen.as_of.is_some(), seen.sites.first().map(|site| site.held).unwrap_or_default())
    };
    (0..3).for_each(|number| put(&store, number, 7, 3));
    assert_eq!(held(&store), (true, stock(3, 9)));
    (3..many).for_each(|number| put(&store, number, 7, 3));
    until(|| held(&store) == (true, stock(many, 3 * many)));
    put(&store, many, 7, 3);
    until(|| held(&store) == (true, stock(many + 1, 3 * many + 3)));
}
