//! What is found below a root, from wherever its bytes are: memory, a sealed file, the file itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use weir_body::{Body, Cut};

use super::{Failed, Files, Finding, ListingForm};
use crate::file::{Content, Found};
use crate::hot::HotLimits;
use crate::reading::{CHANGED, Reading};
use crate::root::{Hidden, Root, RootRules, Siblings, Symlinks};
use crate::way::Way;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A root with files of its own.
struct Room {
    path: PathBuf,
    files: Files,
    root: Arc<Root>,
}

impl Room {
    fn new(memory_bytes: u64) -> Room {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-files-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let rules = RootRules {
            index: vec!["index.html".into()],
            hidden: Hidden::NotServed,
            symlinks: Symlinks::Beneath,
            siblings: Siblings::Used,
            lists: false,
        };
        let files = Files::new(HotLimits { memory_bytes, file_bytes_max: 4 << 20 });
        Room { root: Arc::new(Root::new(path.clone(), rules)), files, path }
    }

    fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.path.join(name), content).unwrap();
    }

    async fn find(&self, path: &str) -> Result<Finding, Failed> {
        self.files.find(&self.root, &Way::read(path, Hidden::NotServed).unwrap(), None).await
    }

    async fn file(&self, path: &str) -> Arc<Found> {
        match self.find(path).await {
            Ok(Finding::File(found)) => found,
            other => panic!("{path}: {other:?}"),
        }
    }

    async fn read(&self, found: &Found) -> Result<Vec<u8>, Cut> {
        let length = found.plain().length();
        let mut reading = Reading::new(Arc::clone(found.plain()), self.files.clone(), (0, length));
        let mut bytes = Vec::new();
        while let Some(piece) = reading.next(1 << 20).await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

#[tokio::test(flavor = "current_thread")]
async fn files_of_all_lengths_are_read_from_wherever_they_are() {
    for memory in [0, 64 << 20] {
        let room = Room::new(memory);
        for length in [0, 1, 1000, 100 << 10, 300 << 10, 5 << 20] {
            let content = pattern(length);
            room.write("a.bin", &content);
            for _ in 0..3 {
                let found = room.file("/a.bin").await;
                assert_eq!(room.read(&found).await.unwrap(), content, "{length} with {memory}");
            }
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn where_the_system_seals_nothing_large_files_are_sent_as_they_lie_and_nothing_leaves_for_them() {
    let room = Room::new(64 << 20);
    room.write("large", &pattern(1 << 20));
    let now = weir_clock::mono();
    room.files.0.hot.pause_sealing(now);
    for _ in 0..3 {
        assert!(matches!(room.file("/large").await.plain().content, Content::Open(_)));
        assert_eq!(room.files.used_bytes(), 0);
    }
    assert!(room.files.0.hot.draft(now + Duration::from_secs(9)).is_none());
    assert!(room.files.0.hot.draft(now + Duration::from_secs(10)).is_some(), "it is tried again");
}

#[tokio::test(flavor = "current_thread")]
async fn small_files_are_held_at_once_and_large_ones_when_asked_for_again() {
    let room = Room::new(64 << 20);
    room.write("small", b"small");
    room.write("large", &pattern(1 << 20));
    assert!(matches!(room.file("/small").await.plain().content, Content::Memory(_)));
    assert!(matches!(room.file("/large").await.plain().content, Content::Open(_)));
    assert!(matches!(room.file("/large").await.plain().content, Content::Sealed(_)));
    let way = Way::read("/large", Hidden::NotServed).unwrap();
    assert!(room.files.at_hand(&room.root, &way, weir_clock::mono()).is_some());
    let later = weir_clock::mono() + Duration::from_secs(1);
    assert!(room.files.at_hand(&room.root, &way, later).is_none(), "it is looked at again");
    assert!(room.files.used_bytes() > 1 << 20);
}

#[tokio::test(flavor = "current_thread")]
async fn memory_has_a_limit_and_what_is_used_stays() {
    let room = Room::new(1 << 20);
    let used = Way::read("/used", Hidden::NotServed).unwrap();
    room.write("used", &pattern(10_000));
    room.file("/used").await;
    for number in 0..200 {
        let name = format!("n{number}");
        room.write(&name, &pattern(50_000));
        room.file(&format!("/{name}")).await;
        assert!(room.files.used_bytes() <= 1 << 20);
        let at_hand = room.files.at_hand(&room.root, &used, weir_clock::mono());
        if at_hand.is_none() {
            // A second has gone by.
            room.file("/used").await;
        }
    }
    let first = Way::read("/n0", Hidden::NotServed).unwrap();
    let began = weir_clock::mono();
    assert!(room.files.at_hand(&room.root, &first, began - Duration::from_secs(0)).is_none(), "it went");
    room.files.limit(HotLimits { memory_bytes: 0, file_bytes_max: 1 << 20 });
    assert_eq!(room.files.used_bytes(), 0);
}

#[tokio::test(flavor = "current_thread")]
async fn a_body_in_memory_outlives_its_file_and_an_open_one_breaks_off() {
    let room = Room::new(64 << 20);
    let content = pattern(400 << 10);
    room.write("file", &content);
    let opened = room.file("/file").await;
    let held = room.file("/file").await;
    let length = opened.plain().length();
    let mut reading = Reading::new(Arc::clone(opened.plain()), room.files.clone(), (0, length));
    assert!(reading.next(1000).await.unwrap().is_some());
    room.write("file", &pattern(400 << 10));
    assert_eq!(reading.next(1000).await, Err(CHANGED));
    assert_eq!(room.read(&held).await.unwrap(), content);
    let new = room.file("/file").await;
    assert_ne!(new.plain().stamp, held.plain().stamp);
}

#[tokio::test(flavor = "current_thread")]
async fn a_truncated_file_breaks_off_and_a_replaced_one_does_not() {
    let room = Room::new(0);
    let content = pattern(400 << 10);
    for (is_replaced, expect) in [(true, Ok(())), (false, Err(CHANGED))] {
        room.write("file", &content);
        let found = room.file("/file").await;
        let length = found.plain().length();
        let mut reading = Reading::new(Arc::clone(found.plain()), room.files.clone(), (0, length));
        reading.next(1000).await.unwrap();
        match is_replaced {
            true => {
                room.write("other", b"short");
                // A name that is taken away changes when the file was changed last, and not its bytes; a
                // second name keeps that.
                std::fs::rename(room.path.join("other"), room.path.join("file")).unwrap();
            }
            false => {
                let file = std::fs::OpenOptions::new().write(true).open(room.path.join("file")).unwrap();
                file.set_len(2000).unwrap();
            }
        }
        let rest = async {
            while reading.next(100_000).await?.is_some() {}
            Ok(())
        };
        assert_eq!(rest.await, expect, "replaced: {is_replaced}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn siblings_are_found_unless_they_are_older() {
    let room = Room::new(1 << 20);
    room.write("a.css.gz", b"old");
    tokio::time::sleep(Duration::from_millis(30)).await;
    room.write("a.css", b"plain");
    room.write("a.css.br", b"br");
    let found = room.file("/a.css").await;
    let codings: Vec<_> = found.siblings.iter().map(|(coding, _)| *coding).collect();
    assert_eq!(codings, [weir_policy::Coding::Br]);
}

#[tokio::test(flavor = "current_thread")]
async fn folders_lead_to_their_index_or_to_nothing() {
    let room = Room::new(1 << 20);
    std::fs::create_dir_all(room.path.join("empty")).unwrap();
    std::fs::create_dir_all(room.path.join("full")).unwrap();
    room.write("full/index.html", b"index");
    assert!(matches!(room.find("/full").await, Ok(Finding::Slash)));
    assert!(matches!(room.find("/full/").await, Ok(Finding::File(_))));
    assert!(matches!(room.find("/empty").await, Ok(Finding::NotThere)));
    assert!(matches!(room.find("/empty/").await, Ok(Finding::NotThere)));
    assert!(matches!(room.find("/full/index.html/").await, Ok(Finding::NotThere)));
    assert!(matches!(room.find("/").await, Ok(Finding::NotThere)));
}

#[tokio::test(flavor = "current_thread")]
async fn all_readers_of_a_version_share_one_open_file() {
    let room = Room::new(64 << 20);
    room.write("long.bin", &pattern(5 << 20));
    let mut held = vec![room.file("/long.bin").await.plain().clone()];
    // The version is settled after a while, and then stays as it is.
    while held[0].age != crate::stamp::Age::Settled {
        tokio::time::sleep(Duration::from_millis(50)).await;
        held = vec![room.file("/long.bin").await.plain().clone()];
    }
    for _ in 0..100 {
        held.push(room.file("/long.bin").await.plain().clone());
    }
    assert!(held.iter().all(|file| Arc::ptr_eq(file, &held[0])));
    let before = Arc::downgrade(&held[0]);
    drop(held);
    assert_eq!(before.strong_count(), 0, "nobody keeps it open");
    room.write("long.bin", &pattern(6 << 20));
    assert_eq!(room.file("/long.bin").await.plain().length(), 6 << 20);
}

#[tokio::test(flavor = "current_thread")]
async fn a_file_of_the_far_future_has_no_date_and_ends_no_thread() {
    // A file system that keeps such a time: most do not.
    let path = PathBuf::from(format!("/dev/shm/weir-files-far-{}", std::process::id()));
    if std::fs::create_dir_all(&path).is_err() {
        eprintln!("skipped: there is no file system in memory here");
        return;
    }
    let file = std::fs::File::create(path.join("far.txt")).unwrap();
    let year_10000 = std::time::UNIX_EPOCH + Duration::from_secs(253_402_300_800);
    file.set_modified(year_10000).unwrap();
    assert_eq!(file.metadata().unwrap().modified().unwrap(), year_10000);
    let rules = RootRules { lists: true, ..Room::new(0).root.rules.clone() };
    let (files, root) = (
        Files::new(HotLimits { memory_bytes: 0, file_bytes_max: 0 }),
        Arc::new(Root::new(path.clone(), rules)),
    );
    let find = async |way: &str| files.find(&root, &Way::read(way, Hidden::NotServed).unwrap(), None).await;
    for form in [ListingForm::Html, ListingForm::Json] {
        // More of them than there are threads.
        for _ in 0..20 {
            let Ok(Finding::Listing(listing)) = find("/").await else { panic!("no list") };
            let mut text = files.written(listing, form, "/").await.unwrap();
            let text = String::from_utf8(text.next(usize::MAX).await.unwrap().unwrap().to_vec()).unwrap();
            assert!(text.contains("far.txt") && !text.contains("GMT"), "{text}");
        }
    }
    let Ok(Finding::File(found)) = find("/far.txt").await else { panic!("no file") };
    assert!(!found.plain().stored.headers.contains_key(http::header::LAST_MODIFIED));
    std::fs::remove_dir_all(path).unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn what_panics_for_a_file_is_told_and_others_go_on() {
    let room = Room::new(0);
    room.write("a.txt", b"a");
    for _ in 0..20 {
        assert_eq!(room.files.apart(&room.root, |_| panic!("a job")).await, Err::<(), _>(Failed::Panicked));
    }
    assert_eq!(room.files.apart(&room.root, |_| 7).await, Ok(7));
    assert_eq!(room.read(&*room.file("/a.txt").await).await.unwrap(), b"a");
}
