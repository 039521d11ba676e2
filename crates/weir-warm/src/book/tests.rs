//! What the files keep: across a crash, a full disk, and whatever is sent twice.

use weir_disk::testing::{CrashDisk, Fault};

use super::*;

fn url(number: u64) -> String {
    format!("http://a.test/{number}")
}

fn urls(of: std::ops::Range<u64>) -> Vec<String> {
    of.map(url).collect()
}

fn book(disk: &CrashDisk) -> Book {
    Book::of(Arc::new(disk.process()))
}

fn all(warming: &Warming) -> Vec<String> {
    let mut lines = warming.lines();
    std::iter::from_fn(|| lines.next().unwrap()).collect()
}

#[test]
fn pieces_are_taken_once_and_in_their_order() {
    let disk = CrashDisk::new(1);
    let book = book(&disk);
    let warming = book.begin("1", Order::default()).unwrap();
    assert_eq!(warming.add(0, &urls(0..3), false).unwrap(), 3);
    assert_eq!(warming.add(0, &urls(0..3), false).unwrap(), 3, "sent again");
    assert_eq!(warming.add(2, &urls(2..5), false).unwrap(), 5, "in part sent again");
    assert!(matches!(warming.add(6, &urls(6..7), false), Err(BookError::Gap { have: 5, at: 6 })));
    let wrong = vec![url(5), "http://a.test/ x".to_owned()];
    assert!(matches!(warming.add(5, &wrong, false), Err(BookError::NotAUrl(_))));
    assert_eq!(warming.add(5, &urls(5..6), true).unwrap(), 6);
    assert!(matches!(warming.add(6, &urls(6..7), true), Err(BookError::Unknown)));
    assert_eq!(all(&warming), urls(0..6));
    assert_eq!(warming.urls(), (6, false));
}

#[test]
fn what_is_done_outlasts_the_process_and_a_torn_line_counts_for_nothing() {
    let disk = CrashDisk::new(2);
    let first = book(&disk);
    first.begin("1", Order::default()).unwrap().add(0, &urls(0..200), true).unwrap();
    first.begin("2", Order::default()).unwrap().add(0, &urls(0..2), false).unwrap();
    let mut done = first.find("1").unwrap().done().unwrap();
    for number in [0, 3, 130] {
        done.note(number, &Outcome::Stored).unwrap();
    }
    done.note(4, &Outcome::Failed("503".into())).unwrap();
    done.note(5, &Outcome::NotStored("no-store".into())).unwrap();
    done.note(6, &Outcome::GaveWay(crate::report::Waits::Places)).unwrap();
    let torn = done.bytes;
    done.file.write_all_at(&[b"7 s"], torn).unwrap();
    done.sync();
    drop((done, first));
    disk.restart();

    let second = book(&disk);
    let found = second.unfinished().unwrap();
    assert_eq!(found.iter().map(|warming| warming.id()).collect::<Vec<_>>(), ["1"], "2 had not come");
    assert!(!disk.paths().iter().any(|path| path.starts_with("warm/2.")), "{:?}", disk.paths());
    assert_eq!(all(&found[0]), urls(0..200));
    let mut done = found[0].done().unwrap();
    let not_done: Vec<u64> = (0..200).filter(|number| !done.has(*number)).collect();
    let expect: Vec<u64> = (0..200).filter(|number| ![0, 3, 4, 5, 130].contains(number)).collect();
    assert_eq!(not_done, expect);
    assert!(done.has(200), "what is not in the list is not asked for");
    assert_eq!((done.report.stored, done.report.failed["503"]), (3, 1));
    assert_eq!((done.report.not_stored["no-store"], done.report.total()), (1, 5));
    done.note(7, &Outcome::Fresh).unwrap();
    assert!(found[0].done().unwrap().has(7), "in place of the torn line");
    assert!(second.unfinished().unwrap().is_empty(), "it is under way");
    second.remove("1");
    assert!(disk.paths().iter().all(|path| !path.starts_with("warm/")), "{:?}", disk.paths());
}

#[test]
fn sitemaps_are_read_again_where_the_list_was_not_whole() {
    let disk = CrashDisk::new(3);
    let order = Order { sitemaps: vec!["http://a.test/s".to_owned()], ..Order::default() };
    let first = book(&disk);
    let warming = first.begin("1", order.clone()).unwrap();
    warming.add(0, &urls(0..2), true).unwrap();
    assert_eq!(warming.await_list(Duration::ZERO), Stage::Received { bytes: 32, urls: 2 });
    warming.extend(&urls(2..9)).unwrap();
    disk.restart();
    let second = book(&disk);
    let warming = second.unfinished().unwrap().remove(0);
    assert_eq!((all(&warming), warming.order()), (urls(0..2), &order));
    warming.extend(&urls(2..5)).unwrap();
    assert_eq!(warming.end_list().unwrap(), 5);
    disk.restart();
    let third = book(&disk);
    let warming = third.unfinished().unwrap().remove(0);
    assert_eq!((all(&warming), warming.urls()), (urls(0..5), (5, false)));
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let disk = CrashDisk::new(4);
    let book = book(&disk);
    let warming = book.begin("1", Order::default()).unwrap();
    warming.add(0, &urls(0..2), false).unwrap();
    disk.fail_from(0, Fault::Full);
    assert!(matches!(warming.add(2, &urls(2..4), true), Err(BookError::Disk(_))));
    disk.fail_no_more();
    assert_eq!(warming.urls(), (2, true));
    warming.add(2, &urls(2..4), true).unwrap();
    assert_eq!(all(&warming), urls(0..4));
    let mut done = warming.done().unwrap();
    disk.fail_from(0, Fault::Full);
    assert!(done.note(0, &Outcome::Stored).is_err() && !done.has(0));
    disk.fail_no_more();
    done.note(0, &Outcome::Stored).unwrap();
    assert_eq!(warming.done().unwrap().report.stored, 1);
}

#[test]
fn all_of_it_is_bounded() {
    let disk = CrashDisk::new(5);
    let book = book(&disk);
    for number in 0..WARMINGS_MAX {
        book.begin(&number.to_string(), Order::default()).unwrap();
    }
    assert!(matches!(book.begin("more", Order::default()), Err(BookError::TooMany)));
    book.remove("0");
    let warming = book.begin("more", Order::default()).unwrap();
    let long = vec![format!("http://a.test/{}", "x".repeat(8000)); 1000];
    let taken = (0..).find(|at| warming.add(at * 1000, &long, false).is_err()).unwrap();
    assert_eq!(taken, LIST_BYTES_MAX / (8015 * 1000), "and nothing of the piece that is too much");
    assert_eq!(warming.urls().0, taken * 1000);
}

/// `docs/format/warm.md` has these files. They must stay readable.
const GOLDEN_ORDER: &str = r#"{"version":1,"actor":"token:cms","owner":"f00","sites":["a.test"],"entry":null,
     "sitemaps":[],"folder":null,"headers":[["accept-encoding","br"]],"rate":50,"parallel":4,"refresh":false,
     "stage":{"is":"listed","bytes":37,"urls":2}}"#;
const GOLDEN_URLS: &str = "https://a.test/\nhttps://a.test/x?y=1\n";
const GOLDEN_DONE: &str = "0 s\n1 x 503\n";
const GOLDEN_ID: &str = "00000000000000f0";

fn golden() -> Order {
    Order {
        actor: "token:cms".to_owned(),
        owner: "f00".to_owned(),
        sites: Some(vec!["a.test".to_owned()]),
        headers: vec![("accept-encoding".to_owned(), "br".to_owned())],
        rate: Some(50),
        parallel: 4,
        ..Order::default()
    }
}

#[test]
fn the_files_are_those_of_version_1() {
    let page = include_str!("../../../../docs/format/warm.md");
    for text in [GOLDEN_ORDER, GOLDEN_URLS, GOLDEN_DONE] {
        let lines = text.lines().map(str::trim).collect::<Vec<_>>();
        assert!(lines.iter().all(|line| page.lines().any(|shown| shown.trim() == *line)), "{lines:?}");
    }
    let disk = CrashDisk::new(6);
    let warming = book(&disk).begin(GOLDEN_ID, golden()).unwrap();
    let urls: Vec<String> = GOLDEN_URLS.lines().map(str::to_owned).collect();
    warming.add(0, &urls, true).unwrap();
    let mut done = warming.done().unwrap();
    done.note(0, &Outcome::Stored).unwrap();
    done.note(1, &Outcome::Failed("503".into())).unwrap();
    let files = disk.process();
    let read =
        |kind| String::from_utf8(files.read(&name(GOLDEN_ID, kind), 1 << 20).unwrap().unwrap()).unwrap();
    assert_eq!((read("urls"), read("done")), (GOLDEN_URLS.to_owned(), GOLDEN_DONE.to_owned()));
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(json(&read("order")), json(GOLDEN_ORDER));
}

#[test]
fn the_files_of_version_1_are_gone_on_with() {
    let disk = CrashDisk::new(7);
    let files = disk.process();
    files.make_folder(FOLDER).unwrap();
    for (kind, text) in [("order", GOLDEN_ORDER), ("urls", GOLDEN_URLS), ("done", GOLDEN_DONE)] {
        files.create(&name(GOLDEN_ID, kind)).unwrap().write_all_at(&[text.as_bytes()], 0).unwrap();
    }
    let warming = book(&disk).unfinished().unwrap().remove(0);
    assert_eq!((warming.id(), warming.order()), (GOLDEN_ID, &golden()));
    assert_eq!(all(&warming), GOLDEN_URLS.lines().collect::<Vec<_>>());
    let done = warming.done().unwrap();
    assert_eq!((done.report.stored, &done.report.failed), (1, &[("503".to_owned(), 1)].into()));
    assert!(done.has(0) && done.has(1));
}

#[test]
fn a_fragment_is_not_kept() {
    let disk = CrashDisk::new(8);
    let warming = book(&disk).begin("1", Order::default()).unwrap();
    let urls = ["http://a.test/x#y", "http://a.test#@b.test/", "http://a.test/?#"].map(str::to_owned);
    warming.add(0, &urls, true).unwrap();
    assert_eq!(all(&warming), ["http://a.test/x", "http://a.test", "http://a.test/?"]);
}

/// Two sites do not take all places that there are for tokens of sites.
#[test]
fn a_site_takes_a_further_place_only_while_more_are_free() {
    let disk = CrashDisk::new(9);
    let book = book(&disk);
    let begin = |id: &str, sites: &[&str]| {
        let sites = Some(sites.iter().map(|site| (*site).to_owned()).collect());
        book.begin(id, Order { sites, ..Order::default() }).is_ok()
    };
    let begun = |of: &str| (0..4).filter(|number| begin(&format!("{of}{number}"), &[of])).count();
    assert_eq!((begun("a"), begun("b")), (2, 1));
    // Another token of the same site, or one that has the site beside another, has no more.
    assert!(!begin("more", &["c", "a"]));
    assert_eq!((begun("c"), begun("d")), (1, 0));
    book.remove("a0");
    assert!(!begin("again", &["a"]) && begin("other", &["d"]));
}
