//! Many users request many ranges while the origin changes its files at random. Every byte of every response
//! is compared with the version that the response's own entity tag names.
//!
//! `WEIR_RANGE_SEED`, `WEIR_RANGE_USERS` and `WEIR_RANGE_REQUESTS` (of each user) make longer runs.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use weir_testkit::{Client, Origin, Random, Response, Trouble, Weir, pattern, until};

use crate::counted::{Counted, Version, part};
use crate::server::server;

/// The distance of two versions in the bytes that all share. Objects lie a thousand times as far apart.
const STEP: usize = 4096;
const OBJECTS: u64 = 12;
/// The most versions of an object.
const VERSIONS: u64 = 400;
const LENGTH_MIN: usize = 200_000;
const LENGTH_SPREAD: u64 = 3_000_000;
const CHUNK: u64 = 1 << 20;
const BLOCK: u64 = 64 << 10;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// The files of the origin. The bytes of a version at an offset differ from those of every other version.
struct Files {
    bytes: Arc<[u8]>,
    now: Vec<AtomicU64>,
    served: Vec<Arc<Counted>>,
}

impl Files {
    fn put(origin: &Origin, controls: &[&str]) -> Files {
        let far = (OBJECTS * VERSIONS) as usize * STEP + LENGTH_MIN + LENGTH_SPREAD as usize;
        let mut files = Files { bytes: pattern(1, far).into(), now: Vec::new(), served: Vec::new() };
        for object in 0..OBJECTS {
            let control = controls[object as usize % controls.len()];
            let counted = Counted::new(files.version(object, 0), &[("Cache-Control", control)]);
            files.now.push(AtomicU64::new(0));
            files.served.push(counted.at(origin, &format!("/{object}")));
        }
        files
    }

    fn length(object: u64, version: u64) -> usize {
        LENGTH_MIN + Random::new(object * VERSIONS + version).below(LENGTH_SPREAD) as usize
    }

    fn version(&self, object: u64, version: u64) -> Version {
        let at = (object * VERSIONS + version) as usize * STEP;
        let at = at..at + Files::length(object, version);
        Version { tag: format!("\"{object}-{version}\""), bytes: self.bytes.clone(), at }
    }

    fn change(&self, object: u64) {
        let version = self.now[object as usize].load(Ordering::SeqCst) + 1;
        if version < VERSIONS {
            // A cut is judged by this number, so it is set before the change.
            self.now[object as usize].store(version, Ordering::SeqCst);
            self.served[object as usize].change(self.version(object, version));
        }
    }

    /// The version that a response's entity tag names.
    fn named(&self, response: &Response) -> (u64, Version) {
        let tag = response.header("etag").unwrap_or_else(|| panic!("no entity tag in {:?}", response.head));
        let (object, version) = tag.trim_matches('"').split_once('-').unwrap();
        let (object, version) = (object.parse().unwrap(), version.parse().unwrap());
        (version, self.version(object, version))
    }
}

/// The results of the requests.
#[derive(Default, Debug)]
struct Outcomes {
    parts: AtomicU64,
    wholes: AtomicU64,
    multiparts: AtomicU64,
    unsatisfiable: AtomicU64,
    cut: AtomicU64,
    bytes: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// A random Range: single, suffix, open or several.
fn random_range(random: &mut Random, length: u64) -> String {
    let mut single = |longest: u64| {
        let first = random.below(length + length / 50);
        format!("{first}-{}", first + random.below(longest))
    };
    let ranges = [single(60_000), single(60_000), single(500_000), single(5_000), single(2_000)];
    match random.below(20) {
        // Sometimes the whole.
        _ if random.below(60) == 0 => String::new(),
        0..10 => format!("bytes={}", ranges[0]),
        10 => format!("bytes={}", ranges[2]),
        11..14 => format!("bytes=-{}", 1 + random.below(30_000)),
        14..17 => format!("bytes={}-", length - length.min(1 + random.below(100_000))),
        17 => format!("bytes={}-", random.below(length)),
        _ => format!("bytes={},{},-{}", ranges[3], ranges[4], 1 + random.below(3_000)),
    }
}

/// A request. If-Range names a version, if there is one.
#[derive(Debug)]
struct Asked {
    object: u64,
    range: String,
    condition: Option<u64>,
}

/// Compares a response with the version that its own tag names.
fn judge(files: &Files, asked: &Asked, answer: Result<Response, Trouble>, outcomes: &Outcomes) {
    let Asked { object, range, condition } = asked;
    let object = *object;
    let (response, is_whole) = match answer {
        Ok(response) => (response, true),
        Err(Trouble::Cut(response)) => (*response, false),
        Err(why) => panic!("{asked:?}: {why}"),
    };
    let told = format!("{asked:?}: {:?}", response.head);
    let body = &response.body;
    add(&outcomes.bytes, body.len() as u64);
    if response.status() == 416 {
        let total = response.header("content-range").and_then(|v| v.strip_prefix("bytes */")?.parse().ok());
        let total = total.unwrap_or_else(|| panic!("no length: {told}"));
        let lived = (0..=files.now[object as usize].load(Ordering::SeqCst))
            .any(|version| Files::length(object, version) as u64 == total);
        let named = condition.is_none_or(|version| Files::length(object, version) as u64 == total);
        assert!(lived && named && intervals(range, total).is_empty(), "{told}");
        return add(&outcomes.unsatisfiable, 1);
    }
    let (number, version) = files.named(&response);
    assert!(version.tag.starts_with(&format!("\"{object}-")), "of another object: {told}");
    let length = version.body().len() as u64;
    if !is_whole {
        add(&outcomes.cut, 1);
        let now = files.now[object as usize].load(Ordering::SeqCst);
        assert!(number < now, "cut, and nothing was changed: {told}");
    }
    let held = condition.is_none_or(|version| version == number);
    assert!(held || response.status() == 200, "If-Range named another version: {told}");
    match response.status() {
        206 if response.header("content-type").is_some_and(|v| v.starts_with("multipart/byteranges")) => {
            add(&outcomes.multiparts, 1);
            multipart(&response, is_whole, &version, range);
        }
        206 => {
            add(&outcomes.parts, 1);
            let value = response.header("content-range").unwrap_or_else(|| panic!("no place: {told}"));
            let sent = place(&value, length);
            let intervals = intervals(range, length);
            // If some of several ranges are merged, fewer may be left.
            let first = intervals.iter().map(|interval| interval.start).min();
            let end = intervals.iter().map(|interval| interval.end).max();
            assert_eq!((Some(sent.start), Some(sent.end)), (first, end), "{told}");
            let wanted = sent;
            compare(body, &version, wanted, is_whole, &told);
        }
        200 => {
            add(&outcomes.wholes, 1);
            compare(body, &version, 0..length, is_whole, &told);
        }
        _ => panic!("{told}"),
    }
}

/// Checks that `body` is this interval of the version: all of it, or its front if the response was cut.
fn compare(body: &[u8], version: &Version, wanted: Range<u64>, is_whole: bool, told: &str) {
    let wanted = &version.body()[wanted.start as usize..wanted.end as usize];
    assert!(body.len() <= wanted.len() && (body.len() == wanted.len() || !is_whole), "short: {told}");
    if *body != wanted[..body.len()] {
        let at = body.iter().zip(wanted).position(|(got, wanted)| got != wanted);
        panic!("mixed from byte {at:?} of {} on: {told}", body.len());
    }
}

/// Checks each part of a multipart body (RFC 9110 §14.6) by its own Content-Range. Together they have what
/// was requested.
fn multipart(response: &Response, is_whole: bool, version: &Version, range: &str) {
    let length = version.body().len() as u64;
    let kind = response.header("content-type").unwrap();
    let mark = format!("--{}", kind.split_once("boundary=").unwrap().1.trim_matches('"')).into_bytes();
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut rest = &response.body[..];
    while let Some(at) = rest.windows(4).position(|window| window == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&rest[..at]).into_owned();
        assert!(head.as_bytes().windows(mark.len()).any(|window| window == mark), "{head:?}");
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("content-range:"));
        let value = line.unwrap_or_else(|| panic!("a part without its place: {head:?}"));
        let wanted = place(value.split_once(": ").unwrap().1.trim(), length);
        let body = &rest[at + 4..];
        let end = ((wanted.end - wanted.start) as usize).min(body.len());
        let complete = is_whole || end < body.len();
        compare(&body[..end], version, wanted.clone(), complete, &format!("{range}: {head}"));
        rest = &body[end..];
        found.push(wanted);
    }
    if is_whole {
        let last = rest.strip_prefix(b"\r\n").unwrap_or_default();
        assert!(last.starts_with(&mark) && last[mark.len()..].starts_with(b"--"), "{range}: no end");
        for wanted in intervals(range, length) {
            let holds = |part: &Range<u64>| part.start <= wanted.start && wanted.end <= part.end;
            assert!(found.iter().any(holds), "{range} lacks {wanted:?}: {found:?}");
        }
    }
}

/// The satisfiable intervals of a Range; the whole if there is none.
fn intervals(range: &str, length: u64) -> Vec<Range<u64>> {
    let ranges = range.trim_start_matches("bytes=").split(',');
    let all = ranges.map(|one| part(&format!("bytes={one}"), length).unwrap_or(0..length));
    all.filter(|interval| !interval.is_empty()).collect()
}

/// The interval that a Content-Range names in a body of this length.
fn place(value: &str, length: u64) -> Range<u64> {
    let (interval, total) = value.strip_prefix("bytes ").unwrap().split_once('/').unwrap();
    assert_eq!(total, length.to_string(), "{value}");
    let (first, last) = interval.split_once('-').unwrap();
    first.parse().unwrap()..last.parse::<u64>().unwrap() + 1
}

/// Lets every user send its requests, each on a connection that it keeps.
fn users(weir: &Weir, files: &Files, outcomes: &Outcomes, range: impl Fn(&mut Random, u64) -> String + Sync) {
    let seed = number("WEIR_RANGE_SEED", 1);
    let (users, requests) = (number("WEIR_RANGE_USERS", 100), number("WEIR_RANGE_REQUESTS", 100));
    eprintln!("WEIR_RANGE_SEED={seed}, {users} users, {requests} requests each");
    let together = Barrier::new(users as usize);
    std::thread::scope(|scope| {
        for user in 0..users {
            let (range, together) = (&range, &together);
            scope.spawn(move || {
                let mut random = Random::new(seed * 1_000_003 + user);
                let mut client = weir.client();
                together.wait();
                for _ in 0..requests {
                    let object = random.below(OBJECTS);
                    let range = range(&mut random, object);
                    // Some ask for more of a version of which they have the front, and which may be gone.
                    let now = files.now[object as usize].load(Ordering::SeqCst);
                    let condition = (random.below(6) == 0).then(|| now.saturating_sub(random.below(3)));
                    ask(weir, &mut client, files, &Asked { object, range, condition }, outcomes);
                }
            });
        }
    });
}

fn ask(weir: &Weir, client: &mut Client, files: &Files, asked: &Asked, outcomes: &Outcomes) {
    let tag = asked.condition.map(|version| files.version(asked.object, version).tag).unwrap_or_default();
    let mut headers = vec![("Range", asked.range.as_str()), ("If-Range", tag.as_str())];
    headers.retain(|(_, value)| !value.is_empty());
    client.send_get("localhost", &format!("/{}", asked.object), &headers);
    let answer = client.recv();
    if answer.is_err() {
        *client = weir.client();
    }
    judge(files, asked, answer, outcomes);
}

/// Sets the flag when it is dropped.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn no_response_mixes_two_versions_however_often_the_files_change() {
    let origin = Origin::start();
    // Some objects are validated each time, some soon, and some changes are noticed only at the next gap.
    let files = Files::put(&origin, &["no-cache", "max-age=1", "max-age=3600"]);
    let weir = server(&[&origin]).more("[cache]\nmemory = \"256MiB\"").start();
    let (outcomes, over) = (Outcomes::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(number("WEIR_RANGE_SEED", 1) + 77);
            while !over.load(Ordering::SeqCst) {
                files.change(random.below(OBJECTS));
                std::thread::sleep(Duration::from_millis(5 + random.below(60)));
            }
        });
        // Also if a user panics: the task that changes the files waits for it.
        let _over = Over(&over);
        users(&weir, &files, &outcomes, |random, object| {
            let now = files.now[object as usize].load(Ordering::SeqCst);
            random_range(random, Files::length(object, now) as u64)
        });
    });
    let changes: u64 = files.now.iter().map(|now| now.load(Ordering::SeqCst)).sum();
    let asked: u64 = files.served.iter().map(|served| served.bytes()).sum();
    eprintln!(
        "{changes} changes, {asked} bytes from the origin, {} requests to it: {outcomes:?}",
        origin.total()
    );
    assert!(changes > 20, "the files hardly changed");
    assert!(outcomes.parts.into_inner() > 0 && outcomes.multiparts.into_inner() > 0);
}

/// Ranges of every third chunk alone, and suffixes, while nothing changes.
fn sparing_range(random: &mut Random, object: u64) -> String {
    let length = Files::length(object, 0) as u64;
    if random.below(8) == 0 {
        return format!("bytes=-{}", 1 + random.below(20_000));
    }
    let chunk = random.below(length.div_ceil(CHUNK)) / 3 * 3 * CHUNK;
    let end = (chunk + CHUNK).min(length);
    let first = chunk + random.below(end - chunk);
    match random.below(8) {
        0 if end == length => format!("bytes={first}-"),
        _ => format!("bytes={first}-{}", first + random.below((end - first).min(60_000))),
    }
}

#[test]
fn without_changes_only_touched_chunks_are_fetched_and_no_byte_twice() {
    let origin = Origin::start();
    let files = Files::put(&origin, &["max-age=3600"]);
    let weir = server(&[&origin]).more("[cache]\nmemory = \"256MiB\"").start();
    let outcomes = Outcomes::default();
    users(&weir, &files, &outcomes, sparing_range);
    until("the transfers are over", || weir.metric("weir_fills_running") == Some(0.0));
    for (object, served) in files.served.iter().enumerate() {
        let length = Files::length(object as u64, 0) as u64;
        let last = (length - 20_000 - BLOCK) / CHUNK;
        let untouched = |chunk: &u64| !chunk.is_multiple_of(3) && *chunk < last;
        let strange: Vec<u64> = served.chunks(CHUNK).into_iter().filter(untouched).collect();
        assert!(strange.is_empty(), "/{object}: chunks {strange:?} of {:?}", served.sent());
    }
    // A transfer stops where another began. What it had sent was on its way, and Weir has not taken it.
    let taken = weir.metric("weir_origin_body_bytes_total").unwrap() as u64;
    let sent: u64 = files.served.iter().map(|served| served.bytes()).sum();
    let again: u64 = files.served.iter().map(|served| served.bytes_again()).sum();
    println!("{} requests to the origin, {sent} bytes, {again} again, {taken} taken", origin.total());
    let once = sent - again;
    assert!(taken <= once + once / 5, "{taken} bytes taken, and there were {once}");
}
