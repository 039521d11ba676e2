//! No URL twice, none left out: whatever gives way, fails, or ends the process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use weir_disk::testing::CrashDisk;

use super::*;
use crate::book::Book;

/// A program around that answers from other threads, in another order.
#[derive(Default)]
struct Program {
    asked: Mutex<Vec<String>>,
    at_once: AtomicU64,
    most_at_once: AtomicU64,
    documents: BTreeMap<String, String>,
    /// URLs that give way the first time, whenever their number is one of so many.
    gives_way: u64,
    gave_way: Mutex<HashSet<String>>,
    is_over: AtomicBool,
    /// After so many answers the job is to end.
    ends_after: Option<usize>,
    steps: AtomicU64,
    resumed: AtomicU64,
    waits: Mutex<Vec<Option<String>>>,
    expected: AtomicU64,
}

struct Shared(Arc<Program>);

impl Outside for Shared {
    fn warm(&self, url: &str, _: &Order, done: Box<dyn FnOnce(Outcome) + Send>) {
        let (program, url) = (self.0.clone(), url.to_owned());
        let at_once = program.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        program.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        std::thread::spawn(move || {
            let number = url.len() as u64 + url.bytes().map(u64::from).sum::<u64>();
            std::thread::sleep(Duration::from_micros(number % 7 * 100));
            program.at_once.fetch_sub(1, Ordering::SeqCst);
            if program.gives_way > 0
                && number.is_multiple_of(program.gives_way)
                && program.gave_way.lock().insert(url.clone())
            {
                return done(Outcome::GaveWay(Waits::Down("main".to_owned())));
            }
            let mut asked = program.asked.lock();
            asked.push(url.clone());
            if program.ends_after.is_some_and(|most| asked.len() >= most) {
                program.is_over.store(true, Ordering::SeqCst);
            }
            drop(asked);
            done(match number % 5 {
                0 => Outcome::Failed("503".into()),
                1 => Outcome::NotStored("no-store".into()),
                _ => Outcome::Stored,
            });
        });
    }

    fn read(&self, url: &str, _: &Order) -> Result<Content<'_>, String> {
        if self.0.gives_way > 0 && self.0.gave_way.lock().insert(url.to_owned()) {
            return Ok(Err(Waits::Places));
        }
        let text = self.0.documents.get(url).ok_or("404")?;
        Ok(Ok(Box::new(std::io::Cursor::new(text.clone().into_bytes()))))
    }

    fn site(&self, url: &str) -> Option<String> {
        let host = url.strip_prefix("http://")?.split('/').next()?;
        host.ends_with(".test").then(|| host.to_owned())
    }
}

impl Watch for Shared {
    fn expect(&self, total: u64) {
        self.0.expected.store(total, Ordering::SeqCst);
    }

    fn resume(&self, done: u64) {
        self.0.resumed.store(done, Ordering::SeqCst);
    }

    fn wait_for(&self, what: Option<&str>) {
        let (mut waits, what) = (self.0.waits.lock(), what.map(str::to_owned));
        if waits.last() != Some(&what) {
            waits.push(what);
        }
    }

    fn step(&self) -> ControlFlow<()> {
        self.0.steps.fetch_add(1, Ordering::SeqCst);
        ControlFlow::Continue(())
    }

    fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::SeqCst)
    }
}

fn asked(program: &Program) -> Vec<String> {
    let mut asked = program.asked.lock().clone();
    asked.sort();
    asked
}

fn go(warming: &Warming, program: &Arc<Program>) -> Result<Report, String> {
    run(warming, &Shared(program.clone()), &Shared(program.clone()))
}

fn book(disk: &CrashDisk) -> Book {
    Book::of(Arc::new(disk.process()))
}

fn urls(count: u64) -> Vec<String> {
    let mut urls: Vec<String> = (0..count).map(|number| format!("http://a.test/{number}")).collect();
    urls.sort();
    urls
}

#[test]
fn each_url_is_asked_for_once_and_those_that_give_way_later() {
    let disk = CrashDisk::new(1);
    let warming = book(&disk).begin("1", Order { parallel: 3, ..Order::default() }).unwrap();
    warming.add(0, &urls(500), true).unwrap();
    let program = Arc::new(Program { gives_way: 3, ..Program::default() });
    let report = go(&warming, &program).unwrap();
    assert_eq!(asked(&program), urls(500));
    assert_eq!((report.total(), program.steps.load(Ordering::SeqCst)), (500, 500));
    assert_eq!(program.most_at_once.load(Ordering::SeqCst), 3);
    assert!(!program.gave_way.lock().is_empty());
    let waits = program.waits.lock();
    assert!(waits.contains(&Some("an answer of the upstream main".to_owned())));
    assert_eq!(waits.last(), Some(&None), "it waits for nothing at its end");
    assert_eq!(report.examples.len(), 100);
}

#[test]
fn it_goes_on_where_it_was() {
    let disk = CrashDisk::new(2);
    let warming = book(&disk).begin("1", Order { parallel: 4, ..Order::default() }).unwrap();
    warming.add(0, &urls(600), true).unwrap();
    let mut all = Vec::new();
    let first = Arc::new(Program { ends_after: Some(250), ..Program::default() });
    let report = go(&warming, &first).unwrap();
    assert!((250..254).contains(&report.total()), "what was under way is waited for: {}", report.total());
    all.extend(asked(&first));
    let second = Arc::new(Program::default());
    let warming = book(&disk).unfinished().unwrap().remove(0);
    let report = go(&warming, &second).unwrap();
    all.extend(asked(&second));
    all.sort();
    assert_eq!(all, urls(600), "no URL twice, none left out");
    let (steps, resumed) = (second.steps.load(Ordering::SeqCst), second.resumed.load(Ordering::SeqCst));
    assert_eq!((report.total(), steps + resumed), (600, 600));
    assert!(resumed >= 250, "what an earlier process has done is no step of this one: {resumed}");
}

#[test]
fn sitemaps_are_followed_as_far_as_they_may() {
    let index = |urls: &[&str]| {
        let all: String = urls.iter().map(|url| format!("<sitemap><loc>{url}</loc></sitemap>")).collect();
        format!("<sitemapindex>{all}</sitemapindex>")
    };
    let documents = |pairs: &[(&str, String)]| {
        pairs.iter().map(|(url, text)| (format!("http://a.test/{url}"), text.clone())).collect()
    };
    let loop_of_two = [
        ("s", index(&["http://a.test/1", "http://a.test/2"])),
        (
            "1",
            "http://a.test/x\nhttp://a.test/x\nhttp://b.test/y\nhttp://evil.example/z\nno URL\n\
             http://a.test/x#y\nhttp://a.test/\u{e4}\n"
                .to_owned()
                // No part of what is no URL is asked for in its place.
                + &format!("http://a.test/ x\nhttp://a.test/{}\n", "y".repeat(9000)),
        ),
        ("2", index(&["http://a.test/s#x", "http://a.test/1"])),
    ];
    let endless: Vec<(&str, String)> =
        vec![("s", index(&["http://a.test/1"])), ("1", index(&["http://a.test/2"])), ("2", index(&[]))];
    let deep = [&endless[..2], &[("2", index(&["http://a.test/3"])), ("3", String::new())]].concat();
    let foreign = [("s", index(&["http://evil.example/s"]))];
    let of_other = [("s", index(&["http://b.test/s"]))];
    for (number, (pairs, sites, expect)) in [
        (&loop_of_two[..], None, Ok(7)),
        (&loop_of_two[..], Some(vec!["a.test".to_owned()]), Ok(7)),
        (&endless[..], None, Ok(0)),
        (&deep[..], None, Err("the 4th level of indexes")),
        (&foreign[..], None, Err("not of a site of this Weir")),
        (&of_other[..], Some(vec!["a.test".to_owned()]), Err("or not yours")),
        (&[][..], None, Err("cannot be read: 404")),
    ]
    .into_iter()
    .enumerate()
    {
        let disk = CrashDisk::new(number as u64);
        let book = book(&disk);
        let sitemaps = vec!["http://a.test/s".to_owned()];
        let order = Order { sitemaps, sites: sites.clone(), parallel: 2, ..Order::default() };
        let warming = book.begin("1", order).unwrap();
        warming.add(0, &[], true).unwrap();
        let program = Arc::new(Program { documents: documents(pairs), gives_way: 1, ..Program::default() });
        match (go(&warming, &program), expect) {
            (Ok(report), Ok(expect)) => {
                assert_eq!(report.total(), expect, "{number}: {report:?}");
                let malformed = report.failed.get("malformed-url").copied().unwrap_or_default();
                assert_eq!(malformed, if expect == 0 { 0 } else { 4 }, "{number}: {report:?}");
            }
            (Err(why), Err(expect)) => assert!(why.contains(expect), "{number}: {why}"),
            (found, expect) => panic!("{number}: {found:?} instead of {expect:?}"),
        }
        assert!(asked(&program).iter().all(|url| url.contains(".test/")), "no foreign host is asked");
        assert!(asked(&program).iter().all(|url| url.len() < 20), "{:?}", asked(&program));
        if let Some(own) = sites {
            assert!(asked(&program).iter().all(|url| url.contains(&own[0])), "{number}");
        }
    }
}

#[test]
fn a_list_that_does_not_come_and_a_job_that_is_over_end() {
    let disk = CrashDisk::new(9);
    let warming = book(&disk).begin("1", Order::default()).unwrap();
    let program = Arc::new(Program { is_over: true.into(), ..Program::default() });
    assert_eq!(go(&warming, &program), Ok(Report::default()));
}

#[test]
fn a_list_that_breaks_off_fails_with_its_reason() {
    let disk = CrashDisk::new(11);
    let warming = book(&disk).begin("1", Order::default()).unwrap();
    warming.add(0, &urls(3), false).unwrap();
    warming.break_off("urls.txt, line 4: not a URL".to_owned());
    let program = Arc::new(Program::default());
    assert_eq!(go(&warming, &program), Err("urls.txt, line 4: not a URL".to_owned()));
    assert!(asked(&program).is_empty());
}

#[test]
fn what_is_cancelled_is_not_gone_on_with() {
    let disk = CrashDisk::new(12);
    let book_of_first = book(&disk);
    let warming = book_of_first.begin("1", Order::default()).unwrap();
    warming.add(0, &urls(3), false).unwrap();
    book_of_first.cancel("1");
    // Its last piece comes too late, and does not bring it back.
    assert!(warming.add(3, &[], true).is_err());
    assert!(book(&disk).unfinished().unwrap().is_empty());
}

#[test]
fn tokens_of_sites_leave_places_for_others() {
    let disk = CrashDisk::new(13);
    let book = book(&disk);
    let of_site = || Order { sites: Some(vec!["a.test".to_owned()]), ..Order::default() };
    let begun = (0..8).filter(|number| book.begin(&format!("s{number}"), of_site()).is_ok()).count();
    assert_eq!(begun, 2);
    let begun = (0..8).filter(|number| book.begin(&format!("w{number}"), Order::default()).is_ok()).count();
    assert_eq!(begun, 6);
}

#[test]
fn a_folder_is_its_files_without_links_and_what_is_hidden() {
    let folder = weir_disk::testing::Folder::new("warm");
    let root = folder.path().to_owned();
    std::fs::create_dir_all(root.join("a b/c")).unwrap();
    for name in ["x.html", "a b/ä?.txt", "a b/c/y", ".hidden", "a b/.z"] {
        std::fs::write(root.join(name), "x").unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
    std::os::unix::fs::symlink("/etc", root.join("linked")).unwrap();
    let disk = CrashDisk::new(10);
    let from = Folder { path: root, url: "http://a.test/f/".to_owned() };
    let order = Order { folder: Some(from), parallel: 1, ..Order::default() };
    let warming = book(&disk).begin("1", order).unwrap();
    warming.add(0, &[], true).unwrap();
    let program = Arc::new(Program::default());
    go(&warming, &program).unwrap();
    let expect =
        ["http://a.test/f/a%20b/%C3%A4%3F.txt", "http://a.test/f/a%20b/c/y", "http://a.test/f/x.html"];
    assert_eq!(asked(&program), expect);
}

#[test]
fn a_pace_does_not_make_up_for_what_it_missed() {
    let begun = clock::mono();
    let after = |ms| begun + Duration::from_millis(ms);
    let mut pace = Pace::of(Some(10));
    assert_eq!(pace.until(begun), None);
    pace.took(begun);
    assert_eq!(pace.until(after(99)), Some(after(100)));
    pace.took(after(1000));
    assert_eq!(pace.until(after(1000)), Some(after(1100)));
    let mut none = Pace::of(None);
    none.took(begun);
    assert_eq!(none.until(begun), None);
}
