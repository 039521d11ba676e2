//! What is acknowledged is there after any cut of the power, whole; and nothing comes back.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, UNIX_EPOCH};

use weir_disk::testing::{CrashDisk, Fault};

use super::*;
use crate::{Laid, Upload, Wanted};

const SIZE: u64 = 1 << 20;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
}

fn open(disk: &CrashDisk, now: SystemTime) -> Arc<Shelf> {
    let (shelf, troubles) = Shelf::open(Arc::new(disk.process()), SIZE, now).unwrap();
    assert_eq!(troubles, []);
    Arc::new(shelf)
}

fn wanted(url: &str) -> Wanted {
    Wanted {
        url: url.into(),
        site: "a.test".into(),
        content_type: "text/plain".into(),
        ends: None,
        body_bytes: None,
        share: Share::Whole,
    }
}

fn lay_as(shelf: &Arc<Shelf>, wanted: Wanted, bytes: &[u8]) -> Result<Laid, ShelfError> {
    let mut upload = Upload::begin(shelf, wanted)?;
    for piece in bytes.chunks(700) {
        upload.write(piece)?;
    }
    upload.sync()?;
    let laid = upload.finish(at(0));
    shelf.tidy();
    laid
}

fn lay(shelf: &Arc<Shelf>, url: &str, bytes: &[u8]) -> Result<Laid, ShelfError> {
    lay_as(shelf, wanted(url), bytes)
}

/// The bytes of what is laid over a URL, checked.
fn content(disk: &CrashDisk, shelf: &Shelf, url: &str) -> Option<Vec<u8>> {
    let entry = shelf.find(url)?;
    assert!(shelf.sums(&entry, &|| {}).unwrap().is_some(), "{url}");
    let mut bytes = disk.content(&entry.file_name()).unwrap();
    bytes.truncate(usize::try_from(entry.body_bytes).unwrap());
    Some(bytes)
}

#[test]
fn what_is_laid_is_found_replaced_and_removed() {
    let disk = CrashDisk::new(1);
    let shelf = open(&disk, at(0));
    let laid = lay(&shelf, "a/x", b"one").unwrap();
    assert_eq!((laid.entry.body_bytes, laid.replaced), (3, None));
    let laid = lay(&shelf, "a/x", b"other").unwrap();
    assert_eq!(laid.replaced.map(|old| old.body_bytes), Some(3));
    lay(&shelf, "a/empty", b"").unwrap();
    for shelf in [&shelf, &open(&disk, at(0))] {
        assert_eq!(content(&disk, shelf, "a/x").unwrap(), b"other");
        assert_eq!(content(&disk, shelf, "a/empty").unwrap(), b"");
        assert_eq!(shelf.usage().laid, Stock { objects: 2, bytes: 5 });
        assert_eq!(shelf.stocks(), [("a.test".into(), Stock { objects: 2, bytes: 5 })]);
    }
    assert_eq!(disk.paths().len(), 2, "the old file is gone");
    assert_eq!(shelf.remove("a/x").unwrap().map(|entry| entry.body_bytes), Some(5));
    assert_eq!(shelf.remove("a/x").unwrap(), None);
    assert!(shelf.find("a/x").is_none() && open(&disk, at(0)).find("a/x").is_none());
}

#[test]
fn equal_bytes_have_equal_tags_and_others_have_others() {
    let shelf = open(&CrashDisk::new(1), at(0));
    let tag = |url, bytes| lay(&shelf, url, bytes).unwrap().entry.tag();
    let one = tag("a/1", b"same");
    assert_eq!(one, tag("a/2", b"same"));
    assert_ne!(one, tag("a/1", b"another"));
    assert!(one.len() == 34 && one.starts_with('"'));
}

#[test]
fn pages_go_on_where_the_last_one_ended() {
    let shelf = open(&CrashDisk::new(1), at(0));
    for number in 0..10 {
        lay(&shelf, &format!("a/{number}"), b"x").unwrap();
    }
    let is_even = |entry: &Entry| entry.url.as_bytes()[2].is_multiple_of(2);
    let (mut urls, mut after) = (Vec::new(), None);
    loop {
        let (page, next) = shelf.page(after.as_deref(), 2, &is_even);
        assert!(page.len() <= 2);
        urls.extend(page.iter().map(|entry| entry.url.to_string()));
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(urls, ["a/0", "a/2", "a/4", "a/6", "a/8"]);
}

#[test]
fn what_has_ended_goes_and_nothing_older_comes_back() {
    let disk = CrashDisk::new(1);
    let shelf = open(&disk, at(0));
    lay(&shelf, "a/x", b"stays for ever, were it not replaced").unwrap();
    let ends = |seconds| Wanted { ends: Some(at(seconds)), ..wanted("a/x") };
    let laid = lay_as(&shelf, ends(60), b"for a minute").unwrap();
    assert!(!laid.entry.is_over(at(59)) && laid.entry.is_over(at(60)));
    assert!(shelf.end_over(at(59)).is_empty());
    assert_eq!(shelf.end_over(at(60)).len(), 1);
    assert!(shelf.find("a/x").is_none() && shelf.usage().used_bytes == 0 && disk.paths().is_empty());
    // One that ends while no process runs, with an older file beside it.
    lay(&shelf, "a/x", b"older").unwrap();
    let old = disk.paths().remove(0);
    let bytes = disk.content(&old).unwrap();
    lay_as(&shelf, ends(60), b"newer").unwrap();
    disk.put(&old, Some(&bytes));
    let shelf = open(&disk, at(61));
    assert!(shelf.find("a/x").is_none() && disk.paths().is_empty());
}

#[test]
fn a_damaged_file_is_told_of_and_left_where_it_is() {
    let disk = CrashDisk::new(1);
    let shelf = open(&disk, at(0));
    let laid = lay(&shelf, "a/x", &[7; 5000]).unwrap();
    lay(&shelf, "a/y", b"sound").unwrap();
    let (file, sound) = (laid.entry.file_name(), disk.content(&laid.entry.file_name()).unwrap());
    let damaged = |place: usize| {
        let mut bytes = sound.clone();
        bytes[place] ^= 1;
        disk.put(&file, Some(&bytes));
        Shelf::open(Arc::new(disk.process()), SIZE, at(0)).unwrap()
    };
    let (shelf, troubles) = damaged(2000);
    assert!(troubles.is_empty() && shelf.sums(&shelf.find("a/x").unwrap(), &|| {}).unwrap().is_none());
    let (shelf, troubles) = damaged(5001);
    assert_eq!(troubles, [Trouble { file: file.clone(), why: "its description is damaged".into() }]);
    assert!(shelf.find("a/x").is_none() && shelf.find("a/y").is_some() && disk.paths().contains(&file));
    // Nothing takes its name.
    let laid = lay(&Arc::new(shelf), "a/x", b"again").unwrap();
    assert_ne!(laid.entry.file_name(), file);
}

/// A file that anybody may have put there blocks nothing, takes no number from others, and loses no content.
#[test]
fn foreign_names_are_told_of_and_are_in_nobodys_way() {
    let disk = CrashDisk::new(1);
    let shelf = open(&disk, at(0));
    let first = lay(&shelf, "a/x", b"one").unwrap().entry.number;
    for name in ["ffffffffffffffff", "fffffffffffffff0", "new-foo", "new-0000000000000001"] {
        disk.put(name, Some(b"foreign"));
    }
    // Where a number would come next.
    disk.put(&file_name(first + 1), Some(b"foreign"));
    for _ in 0..2 {
        let (shelf, mut troubles) = Shelf::open(Arc::new(disk.process()), SIZE, at(0)).unwrap();
        troubles.retain(|trouble| trouble.file != file_name(first + 1));
        let told: Vec<_> = troubles.iter().map(|trouble| trouble.file.as_str()).collect();
        assert_eq!(told, ["fffffffffffffff0", "ffffffffffffffff", "new-foo"]);
        let shelf = Arc::new(shelf);
        for bytes in [b"two", b"six"] {
            let laid = lay(&shelf, "a/x", bytes).unwrap();
            assert!(laid.entry.number > first + 1 && laid.entry.number < first + 10);
        }
        assert!(shelf.remove("a/x").unwrap().is_some());
        // One that comes while it runs is not written over.
        let next = shelf.writing.lock().number_next;
        disk.put(&file_name(next), Some(b"foreign"));
        assert_eq!(lay(&shelf, "a/y", b"y").unwrap().entry.number, next + 1);
        assert_eq!(disk.content(&file_name(next)).unwrap(), b"foreign");
        disk.put(&file_name(next), None);
    }
    assert_eq!(disk.content("ffffffffffffffff").unwrap(), b"foreign");
    assert!(!disk.paths().contains(&"new-0000000000000001".to_owned()));
    let (shelf, _) = Shelf::open(Arc::new(disk.process()), SIZE, at(0)).unwrap();
    assert_eq!(content(&disk, &shelf, "a/y").unwrap(), b"y");
}

#[test]
fn without_a_number_left_nothing_is_laid_and_nothing_is_lost() {
    let disk = CrashDisk::new(1);
    let shelf = open(&disk, at(0));
    lay(&shelf, "a/x", b"one").unwrap();
    shelf.writing.lock().number_next = u64::MAX;
    let refused = lay(&shelf, "a/x", b"two").unwrap_err();
    assert!(matches!(&refused, ShelfError::NoNumber(file) if file == "ffffffffffffffff"), "{refused}");
    assert_eq!(content(&disk, &shelf, "a/x").unwrap(), b"one");
    assert_eq!(disk.paths().len(), 1);
}

#[test]
fn the_room_bounds_what_is_coming_and_refusals_leave_nothing() {
    let disk = CrashDisk::new(1);
    let shelf = open(&disk, at(0));
    let large = vec![1; 600 << 10];
    lay(&shelf, "a/x", &large).unwrap();
    assert!(matches!(lay(&shelf, "a/y", &large), Err(ShelfError::Full(_))));
    let known = Wanted { body_bytes: Some(600 << 10), ..wanted("a/y") };
    assert!(matches!(Upload::begin(&shelf, known), Err(ShelfError::Full(_))));
    let huge = Wanted { body_bytes: Some(u64::MAX), ..wanted("a/y") };
    assert!(matches!(Upload::begin(&shelf, huge), Err(ShelfError::TooLarge(_))));
    let long = Wanted { url: "u".repeat(9000).into(), ..wanted("") };
    assert!(matches!(Upload::begin(&shelf, long), Err(ShelfError::TooLong("URL"))));
    assert_eq!((disk.paths().len(), shelf.usage().laid.objects, shelf.usage().uploads), (1, 1, 0));
    shelf.limit(2 << 20);
    lay(&shelf, "a/y", &large).unwrap();
    shelf.limit(1 << 10);
    assert!(matches!(lay(&shelf, "a/z", b"x"), Err(ShelfError::TooLarge(_))));
    assert_eq!(shelf.usage().laid.objects, 2, "what is laid stays");
}

#[test]
fn a_released_folder_is_only_read() {
    let disk = CrashDisk::new(1);
    let shelf = open(&disk, at(0));
    lay(&shelf, "a/x", b"old").unwrap();
    let mut under_way = Upload::begin(&shelf, wanted("a/x")).unwrap();
    under_way.write(b"late").unwrap();
    shelf.release().unwrap();
    let new = open(&disk, at(0));
    lay(&new, "a/x", b"new").unwrap();
    assert!(matches!(under_way.finish(at(0)), Err(ShelfError::Released)));
    assert!(matches!(lay(&shelf, "a/y", b""), Err(ShelfError::Released)));
    assert!(matches!(shelf.remove("a/x"), Err(ShelfError::Released)));
    assert!(shelf.end_over(at(u32::MAX.into())).is_empty());
    assert_eq!(content(&disk, &new, "a/x").unwrap(), b"new");
    shelf.resume();
    lay(&shelf, "a/y", b"").unwrap();
}

/// What each URL has, as far as it was acknowledged, and what else it may have.
#[derive(Default)]
struct Model {
    acknowledged: HashMap<String, Vec<u8>>,
    /// What was not acknowledged since.
    possible: HashMap<String, Vec<Option<Vec<u8>>>>,
}

impl Model {
    fn note(&mut self, url: &str, bytes: Option<Vec<u8>>, is_acknowledged: bool) {
        if !is_acknowledged {
            return self.possible.entry(url.to_owned()).or_default().push(bytes);
        }
        self.possible.remove(url);
        match bytes {
            Some(bytes) => drop(self.acknowledged.insert(url.to_owned(), bytes)),
            None => drop(self.acknowledged.remove(url)),
        }
    }

    /// Checks what is there after a restart, and takes it for acknowledged.
    fn check(&mut self, disk: &CrashDisk, shelf: &Shelf, story: &str) {
        for number in 0..URLS {
            let url = format!("a/{number}");
            let found = content(disk, shelf, &url);
            let acknowledged = self.acknowledged.get(&url).cloned();
            let is_possible = self.possible.get(&url).is_some_and(|all| all.contains(&found));
            assert!(found == acknowledged || is_possible, "{story}: {url}");
            self.note(&url, found, true);
        }
    }
}

const URLS: u64 = 3;

/// One random act. Returns whether it was acknowledged.
fn act(shelf: &Arc<Shelf>, random: &mut fastrand::Rng, model: &mut Model) -> bool {
    let url = format!("a/{}", random.u64(..URLS));
    if random.u32(..4) == 0 {
        let removed = shelf.remove(&url).is_ok();
        model.note(&url, None, removed);
        return removed;
    }
    let bytes = vec![random.u8(..); random.usize(..3000)];
    let laid = lay(shelf, &url, &bytes).is_ok();
    model.note(&url, Some(bytes), laid);
    laid
}

/// The power goes at any operation of any act, in several lives.
#[test]
fn whatever_the_power_does_what_was_acknowledged_is_there_and_whole() {
    let mut cuts = 0;
    for seed in 0..1500 {
        let mut random = fastrand::Rng::with_seed(seed);
        let disk = CrashDisk::new(seed);
        let mut model = Model::default();
        for life in 0..3 {
            let shelf = open(&disk, at(0));
            model.check(&disk, &shelf, &format!("seed {seed}, life {life}"));
            disk.fail_at(random.u64(..60), Fault::PowerCut);
            if (0..12).any(|_| !act(&shelf, &mut random, &mut model)) {
                cuts += 1;
            }
            drop(shelf);
            disk.fail_no_more();
            disk.restart();
        }
    }
    assert!(cuts > 1000, "{cuts}");
}

/// Single operations fail, as on a full or failing drive: nothing that was acknowledged is lost, and a failed
/// act leaves what was there.
#[test]
fn a_failing_drive_loses_nothing() {
    let mut failed = 0;
    for seed in 0..600 {
        let mut random = fastrand::Rng::with_seed(seed);
        let disk = CrashDisk::new(seed);
        let (mut model, shelf) = (Model::default(), open(&disk, at(0)));
        for _ in 0..15 {
            let fault = if random.bool() { Fault::Full } else { Fault::Io };
            disk.fail_at(random.u64(..12), fault);
            let before: BTreeMap<_, _> =
                shelf.all().into_iter().map(|entry| (Arc::clone(&entry.url), entry)).collect();
            if !act(&shelf, &mut random, &mut model) {
                failed += 1;
                let now = shelf.all().into_iter().map(|entry| (Arc::clone(&entry.url), entry)).collect();
                assert_eq!(before, now, "seed {seed}");
            }
            disk.fail_no_more();
            assert_eq!(shelf.usage().uploads, 0);
        }
        drop(shelf);
        disk.restart();
        model.check(&disk, &open(&disk, at(0)), &format!("seed {seed}"));
    }
    assert!(failed > 500, "{failed}");
}

#[test]
fn what_is_replaced_stays_for_a_process_that_still_reads() {
    let disk = CrashDisk::new(1);
    let old = open(&disk, at(0));
    lay(&old, "a.test/x", b"one").unwrap();
    lay(&old, "a.test/y", b"one").unwrap();
    old.release().unwrap();
    let (shelf, _) = Shelf::open_beside(Arc::new(disk.process()), SIZE, at(0)).unwrap();
    let shelf = Arc::new(shelf);
    lay(&shelf, "a.test/x", b"two").unwrap();
    lay(&shelf, "a.test/x", b"three").unwrap();
    assert_eq!(content(&disk, &old, "a.test/x").as_deref(), Some(&b"one"[..]));
    assert_eq!(content(&disk, &shelf, "a.test/x").as_deref(), Some(&b"three"[..]));
    // More than stay for it are not kept.
    for number in 0..STAY_MAX + 2 {
        lay(&shelf, "a.test/y", number.to_string().as_bytes()).unwrap();
    }
    assert!(disk.content(&old.find("a.test/x").unwrap().file_name()).is_none());
    shelf.be_alone();
    assert_eq!(disk.process().list("").unwrap().len(), 2);
    // A removal takes the older files with it.
    assert!(shelf.remove("a.test/x").unwrap().is_some());
    assert_eq!(open(&disk, at(0)).find("a.test/x"), None);
}
