//! What memory and a volume must be together: one store.

mod admission;
mod parts;
mod roaming;
mod visitors;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_policy::{CacheKey, Interval, Stored};

use crate::samples::{Folder, body, fields, key, now, proof, put, read_from, url};
use crate::volume::{Clock, OsDisk, Volume, VolumeSettings, key};
use crate::{Found, Generation, Ledger, MARKS_MAX, Place, Read, Settings, Store};

const MEMORY: u64 = 4 << 20;
const DISK: u64 = 64 << 20;

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// Whether it comes in a time that is longer than anything takes.
async fn in_time(future: impl Future) -> bool {
    tokio::time::timeout(Duration::from_secs(60), future).await.is_ok()
}

/// A store over a volume in that folder, as a new process would open it.
#[allow(clippy::disallowed_methods)]
fn open_with(folder: &Folder, memory_bytes: u64, ledger: Ledger) -> Store {
    let since = Instant::now();
    let mut settings = VolumeSettings::of(DISK, Clock::new(move || since.elapsed()));
    settings.queue_bytes = memory_bytes / 4;
    let disk = Arc::new(OsDisk::take(folder.path()).unwrap());
    let (volume, _) = Volume::open(disk, &settings).unwrap();
    Store::with_volume(Settings::of(memory_bytes), ledger, volume, None, now).unwrap()
}

fn open(folder: &Folder) -> Store {
    open_with(folder, MEMORY, Ledger::new(MARKS_MAX))
}

/// What is found under a key, after the volume was asked.
fn find_key(store: &Store, key: &CacheKey, select: &dyn Fn(&Stored) -> bool) -> Option<Arc<Generation>> {
    if let Found::Ask(ask) = store.find(key.digest, &key.full, key.site, select) {
        let visitor = wait(ask.run());
        let wanted = visitor.filter(|visitor| select(&visitor.generation().head().stored));
        if let Some(visitor) = wanted.filter(|visitor| store.visit(visitor)) {
            return Some(Arc::clone(visitor.generation()));
        }
    }
    match store.find(key.digest, &key.full, key.site, select) {
        Found::Ready(found) => found.filter(|found| found.is_whole()),
        Found::Ask(_) => None,
    }
}

fn find(store: &Store, number: u64) -> Option<Arc<Generation>> {
    find_key(store, &key(number), &|_| true)
}

/// All bytes, wherever they are; `None` where something is gone.
fn bytes_of(generation: &Arc<Generation>) -> Option<Vec<u8>> {
    if !generation.is_on_disk() {
        let (bytes, end) = read_from(generation, 0, 100_000);
        return matches!(end, Read::End).then_some(bytes);
    }
    let (mut bytes, mut place) = (Vec::new(), Place::default());
    loop {
        match wait(generation.fetch(&mut place, bytes.len() as u64, 100_000)) {
            Ok(Some(piece)) => bytes.extend_from_slice(&piece),
            Ok(None) => return Some(bytes),
            Err(_) => return None,
        }
    }
}

#[test]
fn what_was_stored_is_found_by_the_next_process() {
    let folder = Folder::new("tier");
    let lengths = [0, 1, 1000, 16_000, 65_536, 65_537, 200_000, 1_000_000];
    let store = open(&folder);
    for (number, length) in lengths.iter().enumerate() {
        put(&store, number as u64, *length);
    }
    store.close();
    drop(store);
    let store = open(&folder);
    for (number, length) in lengths.iter().enumerate() {
        let found = find(&store, number as u64).unwrap_or_else(|| panic!("{length} bytes are lost"));
        assert_eq!(found.length(), Some(*length as u64));
        assert_eq!(bytes_of(&found).unwrap(), body(number as u64, 0, *length), "{length} bytes");
        assert_eq!(found.head().stored.headers["cache-control"], "max-age=600");
        assert!(wait(store.prime(&found)));
        assert_eq!(found.is_on_disk(), *length > 65_536, "{length} bytes");
    }
    assert!(find(&store, 99).is_none());
}

#[test]
fn what_comes_faster_than_the_volume_writes_waits_in_memory_and_is_kept() {
    let folder = Folder::new("tier");
    let store = open(&folder);
    // Well within memory, and more than twice what the volume lets wait.
    (0..40).for_each(|number| drop(put(&store, number, 60_000)));
    store.close();
    drop(store);
    let store = open(&folder);
    let lost: Vec<u64> = (0..40).filter(|number| find(&store, *number).is_none()).collect();
    assert!(lost.is_empty(), "{lost:?} are lost");
}

#[test]
fn a_body_beyond_memory_is_found_when_it_is_whole() {
    let folder = Folder::new("tier");
    let store = open(&folder);
    let length = 3 * MEMORY as usize;
    let (generation, mut writer) =
        store.begin(proof(&[], &[]), key(1), store.ledger().current(), None).unwrap();
    for start in (0..length).step_by(50_000) {
        writer.let_go(start as u64);
        writer.push(body(1, start as u64, 50_000.min(length - start))).unwrap();
        pause(&store);
    }
    assert!(find(&store, 1).is_none());
    writer.seal().unwrap();
    assert!(generation.is_retired());
    let found = until(|| find(&store, 1));
    assert!(found.is_on_disk() && bytes_of(&found).unwrap() == body(1, 0, length));
    assert!(store.usage().used_bytes < MEMORY);
}

/// A volume takes no more than it can write, so a busy machine only takes longer.
#[allow(clippy::disallowed_methods)]
fn pause(store: &Store) {
    assert!(store.sync_for_tests());
    std::thread::sleep(Duration::from_millis(10));
}

/// Waits for what comes in a moment.
#[allow(clippy::disallowed_methods)]
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1000 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it did not come");
}

#[test]
fn a_reader_goes_on_from_the_volume_and_leaves_the_blocks_to_others() {
    let folder = Folder::new("tier");
    let store = open(&folder);
    let whole = put(&store, 1, 1_000_000);
    let aside = until(|| whole.on_volume_alone());
    assert!(aside.is_on_disk() && aside.is_same(&whole) && aside.is_retired());
    assert_eq!((aside.length(), aside.held_bytes()), (Some(1_000_000), 0));
    assert!(whole.on_volume_alone().is_some_and(|other| Arc::ptr_eq(&other, &aside)), "readers share it");
    // It is found as before.
    assert!(find(&store, 1).is_some_and(|found| Arc::ptr_eq(&found, &whole)));
    drop(whole);
    for number in 2..12 {
        put(&store, number, 1_000_000);
        pause(&store);
    }
    assert!(store.usage().evicted > 0 && store.usage().used_bytes <= MEMORY);
    assert_eq!(bytes_of(&aside).unwrap(), body(1, 0, 1_000_000));
}

#[test]
fn what_no_volume_has_is_not_let_go() {
    let store = Store::new(MEMORY);
    assert!(put(&store, 1, 1_000_000).on_volume_alone().is_none());
}

#[test]
fn what_memory_evicts_is_loaded_again() {
    let folder = Folder::new("tier");
    let store = open(&folder);
    for number in 0..40 {
        put(&store, number, 300_000);
        pause(&store);
    }
    assert!(store.usage().evicted > 20);
    for number in 0..40 {
        let found = until(|| find(&store, number));
        assert_eq!(bytes_of(&found).unwrap(), body(number, 0, 300_000));
    }
    assert!(store.usage().used_bytes <= MEMORY);
}

#[test]
fn what_was_replaced_retired_or_abandoned_does_not_come_back() {
    let folder = Folder::new("tier");
    let store = open(&folder);
    put(&store, 1, 100_000);
    put(&store, 1, 70_000);
    let second = put(&store, 2, 1000);
    store.retire(&second);
    let (_, mut writer) =
        store.begin(proof(&[], &[]), key(3), store.ledger().current(), Some(100_000)).unwrap();
    writer.push(body(3, 0, 90_000)).unwrap();
    writer.abandon();
    put(&store, 4, 1000);
    store.invalidate(url(4), now());
    store.close();
    drop(store);
    let store = open(&folder);
    assert_eq!(find(&store, 1).unwrap().length(), Some(70_000));
    for number in 2..5 {
        assert!(find(&store, number).is_none(), "{number} came back");
    }
    assert_eq!(store.volumes()[0].usage.objects, 1);
}

#[test]
fn what_is_loaded_obeys_a_mark_that_came_later() {
    let folder = Folder::new("tier");
    let store = open(&folder);
    put(&store, 1, 1000);
    put(&store, 2, 1000);
    store.close();
    drop(store);
    let store = open(&folder);
    // Before anything was loaded.
    store.invalidate(url(1), now());
    assert!(find(&store, 1).is_none());
    assert!(find(&store, 2).is_some());
    store.invalidate(crate::Scope::All, now());
    assert!(find(&store, 2).is_none());
}

#[test]
fn variants_come_up_together_and_are_told_apart() {
    let folder = Folder::new("tier");
    let store = open(&folder);
    for (number, coding) in [(1, "gzip"), (2, "br")] {
        let proof = proof(&[("accept-encoding", coding)], &[("vary", "accept-encoding")]);
        let (_, mut writer) = store.begin(proof, key(7), store.ledger().current(), Some(100)).unwrap();
        writer.push(body(number, 0, 100)).unwrap();
        writer.seal().unwrap();
    }
    store.close();
    drop(store);
    let store = open(&folder);
    for (number, coding) in [(2, "br"), (1, "gzip")] {
        let request = fields(&[("accept-encoding", coding)]);
        let found = find_key(&store, &key(7), &|stored| weir_policy::matches(&stored.variant, &request));
        assert_eq!(bytes_of(&found.unwrap()).unwrap(), body(number, 0, 100));
    }
    let none = fields(&[("accept-encoding", "zstd")]);
    assert!(find_key(&store, &key(7), &|stored| weir_policy::matches(&stored.variant, &none)).is_none());
}

#[test]
fn a_head_that_a_304_made_is_written_down() {
    let folder = Folder::new("tier");
    let store = open(&folder);
    let generation = put(&store, 1, 1000);
    let mut stored = generation.head().stored.clone();
    stored.headers.insert("x-new", "1".parse().unwrap());
    assert!(store.freshen(&generation, stored, store.ledger().current()));
    store.close();
    drop(store);
    let found = find(&open(&folder), 1).unwrap();
    assert_eq!(found.head().stored.headers["x-new"], "1");
    assert_eq!(bytes_of(&found).unwrap(), body(1, 0, 1000));
}

#[test]
fn what_is_on_disk_belongs_to_its_site() {
    let folder = Folder::new("tier");
    let store = open(&folder);
    put(&store, 1, 1000);
    store.close();
    drop(store);
    let store = open(&folder);
    let other = CacheKey { site: 5, ..key(1) };
    assert!(find_key(&store, &other, &|_| true).is_none());
    assert!(find(&store, 1).is_some());
}

#[test]
fn bytes_that_changed_are_a_miss_and_never_come_out() {
    let folder = Folder::new("tier");
    let store = open(&folder);
    put(&store, 1, 1000);
    put(&store, 2, 500_000);
    store.close();
    drop(store);
    for entry in std::fs::read_dir(folder.path().join("segments")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        // Behind the head of the first record, in both bodies.
        for at in (6000..bytes.len()).step_by(40_000).chain([900]) {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1;
            }
        }
        std::fs::write(&path, &bytes).unwrap();
    }
    let store = open(&folder);
    for (number, length) in [(1, 1000), (2, 500_000)] {
        let Some(found) = find(&store, number) else { continue };
        let is_sound = wait(store.prime(&found));
        match bytes_of(&found) {
            Some(bytes) => assert!(is_sound && bytes == body(number, 0, length)),
            None => assert!(!found.is_whole()),
        }
    }
    assert!(find(&store, 2).is_none(), "a damaged body is whole no more");
}

/// Waits for the first checkpoint. A volume that is closed during it reads all of its segments at the next
/// opening, and finds damage by itself.
fn checkpointed(store: &Store) {
    let written = || store.volumes()[0].usage.checkpoint_bytes;
    for _ in 0..100 {
        let before = written();
        std::thread::sleep(std::time::Duration::from_millis(200));
        if before > 0 && before == written() {
            return;
        }
    }
}

#[test]
fn what_was_damaged_and_replaced_is_not_written_again() {
    for is_replaced in [false, true] {
        let folder = Folder::new("tier");
        let store = open(&folder);
        put(&store, 1, 600_000);
        checkpointed(&store);
        store.close();
        drop(store);
        for entry in std::fs::read_dir(folder.path().join("segments")).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            let mark = &body(1, 100_000, 32)[..];
            let found: Vec<usize> =
                (0..bytes.len() - 32).filter(|at| &bytes[*at..*at + 32] == mark).collect();
            found.iter().for_each(|at| bytes[*at] ^= 1);
            std::fs::write(&path, &bytes).unwrap();
        }
        let store = open(&folder);
        let found = find(&store, 1).unwrap();
        assert!(bytes_of(&found).is_none() && !found.is_whole());
        let mut writer = store.resume(&found, Interval { start: 0, end: 600_000 }).unwrap();
        writer.push(body(1, 0, 600_000)).unwrap();
        if is_replaced {
            store.retire(&found);
        }
        writer.rest();
        store.close();
        drop((found, store));
        let store = open(&folder);
        assert_eq!(find(&store, 1).is_some(), !is_replaced);
    }
}

#[test]
fn a_volume_that_takes_nothing_costs_nothing_but_the_storing() {
    let folder = Folder::new("tier");
    let store = open(&folder);
    store.close();
    let generation = put(&store, 1, 1000);
    assert!(generation.is_whole());
    assert_eq!(bytes_of(&find(&store, 1).unwrap()).unwrap(), body(1, 0, 1000));
    let (_, mut writer) = store.begin(proof(&[], &[]), key(2), store.ledger().current(), Some(10)).unwrap();
    writer.push(Bytes::from_static(b"0123456789")).unwrap();
    assert!(writer.seal().is_ok());
}

#[test]
fn the_key_on_a_volume_has_its_own_digest() {
    let key = CacheKey { site: 77, ..key(1) };
    let below = key::on_volume(&key);
    assert_eq!(below.digest, key::digest(&key.full, key.site));
    assert_ne!(below.digest, key::on_volume(&CacheKey { site: 78, ..key }).digest);
}

#[test]
fn whether_something_of_a_url_may_be_held_is_told_wherever_it_lies() {
    let may_hold = |store: &Store, number| {
        let key = key(number);
        store.may_hold(key.digest, &key.full, key.site)
    };
    let folder = Folder::new("tier");
    let store = open(&folder);
    put(&store, 1, 1000);
    assert!(may_hold(&store, 1) && !may_hold(&store, 2));
    store.close();
    drop(store);
    let store = open(&folder);
    assert!(may_hold(&store, 1) && !may_hold(&store, 2), "on the volume alone");
    // What is too long for memory is in none of its lists.
    let length = MEMORY * 3 / 4;
    let stamp = store.ledger().current();
    let (_, mut writer) = store.begin(proof(&[], &[]), key(3), stamp, Some(length)).unwrap();
    assert!(may_hold(&store, 3), "on its way");
    let mut bytes = body(3, 0, length as usize);
    let mut memory = writer.wait_for_memory();
    while let Err(full) = writer.push(bytes) {
        bytes = full.rest;
        assert!(may_hold(&store, 3));
        // The volume takes the body out of memory, and wakes the writer.
        assert!(wait(in_time(memory.over())), "it is woken");
        writer.arm(&mut memory);
    }
    drop(memory);
    writer.seal().unwrap();
    assert!(may_hold(&store, 3), "from its end on");
    store.expect_volumes();
    assert!(may_hold(&store, 2), "what will come is not known");
    store.end_expecting();
    assert!(!may_hold(&store, 2));
}
