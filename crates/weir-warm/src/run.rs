//! Goes through a warming: waits for its list, reads its sitemaps and its folder, and asks for one URL after
//! another, so many at a time and so many a second. What gives way to clients is asked for again later. On
//! a thread of its own; it blocks.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use weir_clock as clock;
use xxhash_rust::xxh3::xxh3_128;

use crate::book::{Done, Lines, Warming};
use crate::order::{Folder, Order, Stage};
use crate::report::{Outcome, Report, Waits};
use crate::sitemap::{self, Entry, is_url, without_fragment};

/// How long the caller of a list may take for its next piece.
const PIECE_TIME_MAX: Duration = Duration::from_secs(600);
/// How often it is looked whether the job is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a URL that gave way rests: the first time, and at most.
const REST: Duration = Duration::from_millis(10);
const REST_MAX: Duration = Duration::from_secs(1);
/// A URL for which there was no room for so long has failed.
const ROOM_TIME_MAX: Duration = Duration::from_secs(600);
/// How long a job that is to end waits for what is under way, so that nothing is asked for again.
const END_TIME_MAX: Duration = Duration::from_secs(5);
/// Before the next try where what is done cannot be written down.
const DISK_PAUSE: Duration = Duration::from_secs(1);
/// The most sitemaps of a warming, and the most levels of indexes.
const SITEMAPS_MAX: usize = 10_000;
const LEVELS_MAX: u32 = 3;
/// How deep the files of a folder lie at most.
const FOLDER_DEPTH_MAX: usize = 64;
/// So many URLs are added to the list together.
const BATCH: usize = 1000;
/// The word for a URL of a host that no site has, or of a site that the caller may not touch.
const FOREIGN: &str = "other-site";

/// The word for what is no URL of http or https, or not in ASCII.
const MALFORMED: &str = "malformed-url";

/// The content of a document, or what it waits for.
pub type Content<'o> = Result<Box<dyn Read + Send + 'o>, Waits>;

/// The program around: it asks for URLs, and knows sites.
pub trait Outside: Send + Sync {
    /// Asks for a URL, and calls `done` with what came of it, perhaps from another thread.
    fn warm(&self, url: &str, order: &Order, done: Box<dyn FnOnce(Outcome) + Send>);

    /// The content of a URL, decoded as the origin sends it.
    ///
    /// # Errors
    /// A sentence: there is none.
    fn read(&self, url: &str, order: &Order) -> Result<Content<'_>, String>;

    /// The name of the site that a URL leads to.
    fn site(&self, url: &str) -> Option<String>;
}

/// What watches a job.
pub trait Watch: Send + Sync {
    /// There is so much.
    fn expect(&self, total: u64);

    /// So much was done by earlier processes.
    fn resume(&self, done: u64);

    /// What it waits for; `None`: it goes on.
    fn wait_for(&self, what: Option<&str>);

    /// One more is done. A break asks the job to end.
    fn step(&self) -> ControlFlow<()>;

    /// Whether it is to end.
    fn is_over(&self) -> bool;
}

/// Goes through a warming until it has ended or is to end.
///
/// # Errors
/// A sentence: a sitemap cannot be read, or the state folder.
pub fn run(warming: &Warming, outside: &dyn Outside, watch: &dyn Watch) -> Result<Report, String> {
    if !list(warming, outside, watch)? {
        return Ok(Report::default());
    }
    let done = warming.done().map_err(|error| format!("cannot read what is done: {error}"))?;
    let (tell, told) = mpsc::channel();
    let going = Going {
        warming,
        outside,
        watch,
        done,
        lines: warming.lines(),
        number: 0,
        back: VecDeque::new(),
        pace: Pace::of(warming.order().rate),
        under_way: 0,
        rest: Rest::default(),
        tell,
    };
    going.through(&told)
}

/// Has the list become whole; false where the job is to end before.
fn list(warming: &Warming, outside: &dyn Outside, watch: &dyn Watch) -> Result<bool, String> {
    let (mut have, mut since) = (0, clock::mono());
    loop {
        match warming.await_list(LOOK_EVERY) {
            Stage::Receiving if watch.is_over() => return Ok(false),
            Stage::Receiving if let Some(why) = warming.broken() => return Err(why),
            Stage::Receiving => {
                let (urls, _) = warming.urls();
                if urls != have {
                    (have, since) = (urls, clock::mono());
                }
                if clock::mono().saturating_duration_since(since) > PIECE_TIME_MAX {
                    return Err("the list did not come to its end".to_owned());
                }
            }
            Stage::Received { .. } => return expand(warming, outside, watch),
            Stage::Listed { urls, .. } => {
                watch.expect(urls);
                return Ok(true);
            }
        }
    }
}

/// Adds what sitemaps and the folder name. A URL that stands in them several times is added once.
fn expand(warming: &Warming, outside: &dyn Outside, watch: &dyn Watch) -> Result<bool, String> {
    let mut lines = warming.lines();
    let mut into = Collected { warming, seen: HashSet::new(), batch: Vec::new() };
    while let Some(url) = lines.next().map_err(|error| format!("cannot read the list: {error}"))? {
        into.seen.insert(xxh3_128(url.as_bytes()));
    }
    if let Some(folder) = &warming.order().folder
        && !files(folder, &mut into, watch)?
    {
        return Ok(false);
    }
    let ordered = || warming.order().sitemaps.iter().map(|url| without_fragment(url).to_owned());
    let mut sitemaps: VecDeque<_> = ordered().map(|url| (url, 1)).collect();
    let mut known: HashSet<String> = ordered().collect();
    while let Some((url, level)) = sitemaps.pop_front() {
        if watch.is_over() {
            return Ok(false);
        }
        let Some(content) = content(&url, warming.order(), outside, watch)? else { return Ok(false) };
        let mut each = |entry| match entry {
            Entry::Url(url) => into.add(url),
            Entry::Sitemap(further) if level >= LEVELS_MAX => {
                Err(format!("names {further}, which would be the {}th level of indexes", level + 1))
            }
            Entry::Sitemap(further) => {
                let further = without_fragment(&further).to_owned();
                if known.insert(further.clone()) {
                    sitemaps.push_back((further, level + 1));
                }
                if known.len() > SITEMAPS_MAX {
                    return Err(format!("names more than {SITEMAPS_MAX} sitemaps"));
                }
                Ok(())
            }
        };
        let read = sitemap::read(content, &mut each);
        if watch.is_over() {
            return Ok(false);
        }
        read.map_err(|error| format!("the sitemap {url} {error}"))?;
    }
    into.flush()?;
    if watch.is_over() {
        return Ok(false);
    }
    let urls = warming.end_list().map_err(|error| error.to_string())?;
    watch.expect(urls);
    Ok(true)
}

/// The content of a sitemap, once there is room for it; `None` where the job is to end before.
fn content<'o>(
    url: &str,
    order: &Order,
    outside: &'o dyn Outside,
    watch: &dyn Watch,
) -> Result<Option<Box<dyn Read + Send + 'o>>, String> {
    if !is_url(url) || !is_own(url, order, outside) {
        let shown: String = url.chars().take(200).collect();
        return Err(format!(
            "no sitemap is read from {shown}: it is not of a site of this Weir, or not yours"
        ));
    }
    let (since, mut rest) = (clock::mono(), Rest::default());
    loop {
        let read = outside.read(url, order);
        if watch.is_over() {
            return Ok(None);
        }
        match read.map_err(|why| format!("the sitemap {url} cannot be read: {why}"))? {
            Ok(content) => {
                watch.wait_for(None);
                return Ok(Some(content));
            }
            Err(waits) if clock::mono().saturating_duration_since(since) > ROOM_TIME_MAX => {
                return Err(format!("the sitemap {url} cannot be read: {}", waits.word()));
            }
            Err(waits) => watch.wait_for(Some(&waits.text())),
        }
        std::thread::sleep(rest.longer());
    }
}

/// Whether the caller may ask for a URL.
fn is_own(url: &str, order: &Order, outside: &dyn Outside) -> bool {
    let Some(site) = outside.site(url) else { return false };
    order.sites.as_ref().is_none_or(|own| own.contains(&site))
}

/// Where the URLs of sitemaps and folders go.
struct Collected<'w> {
    warming: &'w Warming,
    seen: HashSet<u128>,
    batch: Vec<String>,
}

impl Collected<'_> {
    fn add(&mut self, url: String) -> Result<(), String> {
        // What is no URL is left to the report: it is asked for in vain.
        let url = if is_url(&url) { without_fragment(&url).to_owned() } else { written(&url) };
        if !url.is_empty() && self.seen.insert(xxh3_128(url.as_bytes())) {
            self.batch.push(url);
        }
        if self.batch.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), String> {
        let batch = std::mem::take(&mut self.batch);
        self.warming.extend(&batch).map_err(|error| error.to_string())
    }
}

/// A text that is no URL, as it can stand in a line. It does not become one: what is left out leaves a mark.
fn written(text: &str) -> String {
    let plain = |letter: char| match letter.is_control() || letter.is_whitespace() {
        true => char::REPLACEMENT_CHARACTER,
        false => letter,
    };
    let mut written: String = text.chars().take(200).map(plain).collect();
    if written.len() < text.len() && written.is_ascii() {
        written.push('…');
    }
    written
}

/// Adds the files below a folder. Links are not followed, nor what is hidden. False where the job is to end
/// before.
fn files(folder: &Folder, into: &mut Collected<'_>, watch: &dyn Watch) -> Result<bool, String> {
    let mut folders: Vec<(PathBuf, String, usize)> = vec![(folder.path.clone(), String::new(), 1)];
    while let Some((path, below, depth)) = folders.pop() {
        if watch.is_over() {
            return Ok(false);
        }
        let unread = |error: std::io::Error| format!("cannot read the folder {}: {error}", path.display());
        for entry in std::fs::read_dir(&path).map_err(unread)? {
            let entry = entry.map_err(unread)?;
            let name = entry.file_name();
            if name.as_encoded_bytes().first() == Some(&b'.') {
                continue;
            }
            let kind = entry.file_type().map_err(unread)?;
            let own = format!("{below}{}", encoded(name.as_encoded_bytes()));
            if kind.is_dir() && depth >= FOLDER_DEPTH_MAX {
                return Err(format!("{} lies too deep in its folder", entry.path().display()));
            }
            if kind.is_dir() {
                folders.push((entry.path(), own + "/", depth + 1));
            } else if kind.is_file() {
                into.add(format!("{}{own}", folder.url))?;
            }
        }
    }
    Ok(true)
}

/// A name as a segment of a path (RFC 3986 §3.3).
fn encoded(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name {
        match byte {
            b'A'..=b'Z'
            | b'a'..=b'z'
            | b'0'..=b'9'
            | b'-'
            | b'.'
            | b'_'
            | b'~'
            | b'!'
            | b'$'
            | b'&'
            | b'\''
            | b'('
            | b')'
            | b'*'
            | b'+'
            | b','
            | b';'
            | b'='
            | b':'
            | b'@' => {
                text.push(char::from(*byte));
            }
            other => text += &format!("%{other:02X}"),
        }
    }
    text
}

/// A URL of the list, with its number.
struct Turn {
    number: u64,
    url: String,
    /// Since when it gives way.
    since: Option<Instant>,
}

/// A warming whose list is whole.
struct Going<'w> {
    warming: &'w Warming,
    outside: &'w dyn Outside,
    watch: &'w dyn Watch,
    done: Done,
    lines: Lines,
    number: u64,
    /// Those that gave way.
    back: VecDeque<Turn>,
    pace: Pace,
    under_way: u16,
    rest: Rest,
    tell: Sender<(Turn, Outcome)>,
}

impl Going<'_> {
    fn through(mut self, told: &Receiver<(Turn, Outcome)>) -> Result<Report, String> {
        self.watch.resume(self.done.report.total());
        let parallel = self.warming.order().parallel.clamp(1, crate::PARALLEL_MAX);
        let mut ends_at = None;
        loop {
            let now = clock::mono();
            if ends_at.is_none() && self.watch.is_over() {
                ends_at = Some(now + END_TIME_MAX);
            }
            let mut is_at_end = ends_at.is_some();
            let mut wait = LOOK_EVERY;
            while ends_at.is_none() && self.under_way < parallel {
                match self.pace.until(now).max(self.rest.until(now)) {
                    Some(until) => {
                        wait = wait.min(until.saturating_duration_since(now));
                        break;
                    }
                    None => match self.next()? {
                        Some(turn) => self.begin(turn, now),
                        None => {
                            is_at_end = true;
                            break;
                        }
                    },
                }
            }
            if self.under_way == 0 && is_at_end {
                break;
            }
            match told.recv_timeout(wait) {
                Ok((turn, outcome)) => self.ended(turn, outcome),
                Err(RecvTimeoutError::Timeout) if ends_at.is_some_and(|at| clock::mono() >= at) => break,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
        self.done.sync();
        Ok(self.done.report)
    }

    /// The next URL that is not done.
    fn next(&mut self) -> Result<Option<Turn>, String> {
        if let Some(turn) = self.back.pop_front() {
            return Ok(Some(turn));
        }
        loop {
            let line = self.lines.next().map_err(|error| format!("cannot read the list: {error}"))?;
            let Some(url) = line else { return Ok(None) };
            let number = self.number;
            self.number += 1;
            if !self.done.has(number) {
                return Ok(Some(Turn { number, url, since: None }));
            }
        }
    }

    fn begin(&mut self, turn: Turn, now: Instant) {
        let order = self.warming.order();
        self.under_way += 1;
        let tell = self.tell.clone();
        let refused = match is_url(&turn.url) && turn.url.is_ascii() {
            false => Some(MALFORMED),
            true if !is_own(&turn.url, order, self.outside) => Some(FOREIGN),
            true => None,
        };
        if let Some(word) = refused {
            // The receiver is this thread.
            let _ = tell.send((turn, Outcome::Failed(Cow::Borrowed(word))));
            return;
        }
        self.pace.took(now);
        let url = turn.url.clone();
        self.outside.warm(&url, order, Box::new(move |outcome| drop(tell.send((turn, outcome)))));
    }

    fn ended(&mut self, turn: Turn, outcome: Outcome) {
        self.under_way -= 1;
        let now = clock::mono();
        let outcome = match (outcome, turn.since) {
            (Outcome::GaveWay(waits), Some(since))
                if now.saturating_duration_since(since) > ROOM_TIME_MAX =>
            {
                Outcome::Failed(Cow::Borrowed(waits.word()))
            }
            (Outcome::GaveWay(waits), since) => {
                self.rest.begin(now);
                self.watch.wait_for(Some(&waits.text()));
                let since = Some(since.unwrap_or(now));
                return self.back.push_back(Turn { since, ..turn });
            }
            (outcome, _) => outcome,
        };
        self.rest = Rest::default();
        self.watch.wait_for(None);
        self.done.report.name(&turn.url, &outcome);
        let mut is_told = false;
        while let Err(error) = self.done.note(turn.number, &outcome) {
            if !is_told {
                tracing::error!(%error, "a warming waits: what it has done cannot be written down");
                is_told = true;
            }
            if self.watch.is_over() {
                return;
            }
            std::thread::sleep(DISK_PAUSE);
        }
        // Whether it is to end is looked at before the next one.
        let _ = self.watch.step();
    }
}

/// When the next URL may begin, where there is a rate.
struct Pace {
    every: Option<Duration>,
    next: Option<Instant>,
}

impl Pace {
    fn of(rate: Option<u32>) -> Pace {
        let every = rate.map(|rate| Duration::from_secs(1) / rate.max(1));
        Pace { every, next: None }
    }

    fn until(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| *next > now)
    }

    fn took(&mut self, now: Instant) {
        // What was not begun in time is not made up for in a burst.
        self.next = self.every.map(|every| self.next.map_or(now, |next| next.max(now)) + every);
    }
}

/// How long nothing is begun after something gave way.
#[derive(Default)]
struct Rest {
    time: Duration,
    until: Option<Instant>,
}

impl Rest {
    fn longer(&mut self) -> Duration {
        self.time = (self.time * 2).clamp(REST, REST_MAX);
        self.time
    }

    fn begin(&mut self, now: Instant) {
        // Several that give way together rest together.
        if self.until(now).is_none() {
            self.until = Some(now + self.longer());
        }
    }

    fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests;
