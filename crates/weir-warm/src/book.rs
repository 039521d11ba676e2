//! The files of warmings, below one folder of the state folder, three for each: `ID.order` says what is
//! wanted and how far the list is; `ID.urls` is the list, a URL a line; `ID.done` says what came of which
//! URL, a line each: its number in the list, a letter, a word.
//!
//! A list is durable once its stage says that it is whole. What is done is written at once and synced now
//! and then: a killed process loses nothing of it, a machine without power the newest lines, whose URLs are
//! then asked for again.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use weir_disk::{Disk, DiskFile};

use crate::order::{Order, Stage};
use crate::report::{Outcome, Report};
use crate::sitemap::{is_url, without_fragment};
use crate::{LIST_BYTES_MAX, URLS_MAX, WARMINGS_MAX};

/// Those of callers of some sites: places are left for the others. Of these, a site gets a further one only
/// while more are free than it has, so that no two sites take all.
const OF_SITES_MAX: usize = WARMINGS_MAX / 2;
/// The folder.
const FOLDER: &str = "warm";
/// The longest order that is read.
const ORDER_BYTES_MAX: u64 = 4 << 20;
/// What is read of a file at once.
const CHUNK_BYTES: usize = 64 << 10;
/// A line of what is done is shorter, so a file of it can be read whole.
const DONE_BYTES_MAX: u64 = 64 << 20;
/// So many lines of what is done are synced together.
const SYNC_LINES: u32 = 1000;

/// Why a list is not taken.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// The state folder refuses.
    #[error("cannot write in the state folder: {0}")]
    Disk(#[from] io::Error),
    /// There are too many warmings.
    #[error(
        "{WARMINGS_MAX} warmings are under way, or {OF_SITES_MAX} of tokens of some sites, or two of yours"
    )]
    TooMany,
    /// A list is too long.
    #[error("a warming has at most {URLS_MAX} URLs, of {} MiB together", LIST_BYTES_MAX >> 20)]
    TooLong,
    /// There is no such warming, or its list is whole.
    #[error("no warming waits for URLs under this name")]
    Unknown,
    /// A piece of the list is missing before this one.
    #[error("{have} URLs have come, and this piece begins at {at}")]
    Gap {
        /// So many have come.
        have: u64,
        /// Where the piece begins.
        at: u64,
    },
    /// A text is no URL.
    #[error("not a URL of http or https: {0}")]
    NotAUrl(String),
}

/// The warmings of one state folder.
#[derive(Debug)]
pub struct Book {
    disk: Arc<dyn Disk>,
    open: Mutex<HashMap<String, Arc<Warming>>>,
}

/// One warming.
#[derive(Debug)]
pub struct Warming {
    id: String,
    order: Order,
    disk: Arc<dyn Disk>,
    list: Mutex<List>,
    /// Told when the stage of the list changes.
    came: Condvar,
}

/// The list as it is on the disk.
#[derive(Debug)]
struct List {
    file: Arc<dyn DiskFile>,
    bytes: u64,
    urls: u64,
    stage: Stage,
    /// Why it will not become whole.
    broken: Option<String>,
    /// Whether the warming was removed: its files are not made again.
    is_gone: bool,
}

impl Book {
    /// The warmings of a state folder. Nothing is read or written yet.
    pub fn of(disk: Arc<dyn Disk>) -> Book {
        Book { disk, open: Mutex::default() }
    }

    /// Begins a warming, whose list is to come by [`Warming::add`].
    ///
    /// # Errors
    /// There are too many, or the state folder refuses.
    pub fn begin(&self, id: &str, order: Order) -> Result<Arc<Warming>, BookError> {
        let mut open = self.open.lock();
        let has_place = order.sites.as_ref().is_none_or(|sites| has_place(&open, sites));
        if open.len() >= WARMINGS_MAX || !has_place {
            return Err(BookError::TooMany);
        }
        self.disk.make_folder(FOLDER)?;
        let stage = Stage::Receiving;
        let made = self.disk.create(&name(id, "urls")).and_then(|file| {
            self.disk.replace(&name(id, "order"), &order.to_bytes(stage))?;
            Ok(file)
        });
        let file = made.inspect_err(|_| self.unlink(id))?;
        let list = List { file, bytes: 0, urls: 0, stage, broken: None, is_gone: false };
        let warming = Warming::of((id, order), list, &self.disk);
        open.insert(id.to_owned(), warming.clone());
        Ok(warming)
    }

    /// The warming of an id.
    pub fn find(&self, id: &str) -> Option<Arc<Warming>> {
        self.open.lock().get(id).cloned()
    }

    /// Whether no warming is under way.
    pub fn is_empty(&self) -> bool {
        self.open.lock().is_empty()
    }

    /// Whether a warming of this entry of the configuration is under way.
    pub fn has_entry(&self, entry: &str) -> bool {
        self.open.lock().values().any(|warming| warming.order.entry.as_deref() == Some(entry))
    }

    /// The warmings of an earlier process, which go on where they were. Those whose list had not come are
    /// removed: their caller has had no answer.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn unfinished(&self) -> io::Result<Vec<Arc<Warming>>> {
        // None begins meanwhile, whose files would be taken for those of another process.
        let mut open = self.open.lock();
        let names = match self.disk.list(FOLDER) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            listed => listed?,
        };
        let mut found = Vec::new();
        for id in names.iter().filter_map(|name| name.strip_suffix(".order")) {
            if open.contains_key(id) {
                continue;
            }
            match self.load(id) {
                Ok(Some(warming)) => found.push(warming),
                Ok(None) => self.unlink(id),
                Err(error) => tracing::error!(id, %error, "cannot read a warming of the state folder"),
            }
        }
        let has_order = |id: &str| names.iter().any(|name| name.strip_suffix(".order") == Some(id));
        for (id, kind) in names.iter().filter_map(|name| name.split_once('.')) {
            if ["urls", "done", "order.new"].contains(&kind) && !has_order(id) {
                // It takes room, and nothing else.
                let _ = self.disk.unlink(&name(id, kind));
            }
        }
        open.extend(found.iter().map(|warming| (warming.id.clone(), warming.clone())));
        Ok(found)
    }

    fn load(&self, id: &str) -> io::Result<Option<Arc<Warming>>> {
        let Some(bytes) = self.disk.read(&name(id, "order"), ORDER_BYTES_MAX)? else { return Ok(None) };
        let Some((order, stage)) = Order::of_bytes(&bytes) else { return Ok(None) };
        let file = self.disk.open(&name(id, "urls"))?;
        let (bytes, urls) = match stage {
            Stage::Receiving => return Ok(None),
            // What is behind it belongs to a piece that was not acknowledged.
            Stage::Received { bytes, urls } | Stage::Listed { bytes, urls } => (bytes, urls),
        };
        let list = List { file, bytes, urls, stage, broken: None, is_gone: false };
        Ok(Some(Warming::of((id, order), list, &self.disk)))
    }

    /// Removes a warming with its files.
    pub fn remove(&self, id: &str) {
        self.cancel(id);
        self.forget(id);
    }

    /// Removes the files of a warming that is to end: no later process goes on with it.
    pub fn cancel(&self, id: &str) {
        if let Some(warming) = self.find(id) {
            warming.list.lock().is_gone = true;
        }
        self.unlink(id);
        if let Err(error) = self.disk.sync_folder(FOLDER) {
            tracing::warn!(id, %error, "a machine without power may go on with a warming that was removed");
        }
    }

    fn unlink(&self, id: &str) {
        for kind in ["order", "order.new", "urls", "done"] {
            match self.disk.unlink(&name(id, kind)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(id, %error, "cannot remove a warming from the state folder");
                }
                _ => {}
            }
        }
    }

    /// Leaves a warming to a later process.
    pub fn forget(&self, id: &str) {
        self.open.lock().remove(id);
    }
}

/// Whether a caller of these sites finds a place among those of such callers.
fn has_place(open: &HashMap<String, Arc<Warming>>, sites: &[String]) -> bool {
    let of_sites: Vec<_> = open.values().filter_map(|warming| warming.order.sites.as_ref()).collect();
    let free = OF_SITES_MAX.saturating_sub(of_sites.len());
    let has = |site: &String| of_sites.iter().filter(|others| others.contains(site)).count();
    free > sites.iter().map(has).max().unwrap_or_default()
}

fn name(id: &str, kind: &str) -> String {
    format!("{FOLDER}/{id}.{kind}")
}

impl Warming {
    fn of((id, order): (&str, Order), list: List, disk: &Arc<dyn Disk>) -> Arc<Warming> {
        let (id, disk) = (id.to_owned(), disk.clone());
        Arc::new(Warming { id, order, disk, list: Mutex::new(list), came: Condvar::new() })
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What is wanted.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// How many URLs are in the list by now, and whether more are to come.
    pub fn urls(&self) -> (u64, bool) {
        let list = self.list.lock();
        (list.urls, !matches!(list.stage, Stage::Listed { .. }))
    }

    /// Adds a piece of the list that begins behind `at` URLs, and says whether it was the last. A piece that
    /// has come before counts once. Returns how many URLs have come.
    ///
    /// # Errors
    /// The piece does not fit, or the state folder refuses; then nothing of it is taken.
    pub fn add(&self, at: u64, urls: &[String], is_last: bool) -> Result<u64, BookError> {
        if let Some(wrong) = urls.iter().find(|url| !is_url(url)) {
            return Err(BookError::NotAUrl(wrong.chars().take(200).collect()));
        }
        let mut list = self.list.lock();
        if list.stage != Stage::Receiving {
            return Err(BookError::Unknown);
        }
        if at > list.urls {
            return Err(BookError::Gap { have: list.urls, at });
        }
        let known = usize::try_from(list.urls - at).unwrap_or(usize::MAX).min(urls.len());
        list.append(&urls[known..])?;
        if is_last {
            list.file.sync_data()?;
            let stage = match self.order.has_sources() {
                true => Stage::Received { bytes: list.bytes, urls: list.urls },
                false => Stage::Listed { bytes: list.bytes, urls: list.urls },
            };
            self.enter(&mut list, stage)?;
        }
        Ok(list.urls)
    }

    fn enter(&self, list: &mut List, stage: Stage) -> Result<(), BookError> {
        if list.is_gone {
            return Err(BookError::Unknown);
        }
        self.disk.replace(&name(&self.id, "order"), &self.order.to_bytes(stage))?;
        list.stage = stage;
        self.came.notify_all();
        Ok(())
    }

    /// Says that the rest of the list does not come, and why.
    pub fn break_off(&self, why: String) {
        self.list.lock().broken = Some(why);
        self.came.notify_all();
    }

    /// Why the rest of the list does not come.
    pub(crate) fn broken(&self) -> Option<String> {
        self.list.lock().broken.clone()
    }

    /// Waits until all pieces have come, no longer than this. The stage then.
    pub(crate) fn await_list(&self, patience: Duration) -> Stage {
        let mut list = self.list.lock();
        if list.stage == Stage::Receiving && list.broken.is_none() {
            self.came.wait_for(&mut list, patience);
        }
        list.stage
    }

    /// Adds URLs of a sitemap or a folder.
    ///
    /// # Errors
    /// There are too many, or the state folder refuses.
    pub(crate) fn extend(&self, urls: &[String]) -> Result<(), BookError> {
        self.list.lock().append(urls)
    }

    /// The list is whole.
    ///
    /// # Errors
    /// The state folder refuses.
    pub(crate) fn end_list(&self) -> Result<u64, BookError> {
        let mut list = self.list.lock();
        list.file.sync_data()?;
        let (bytes, urls) = (list.bytes, list.urls);
        self.enter(&mut list, Stage::Listed { bytes, urls })?;
        Ok(urls)
    }

    /// The URLs in their order.
    pub(crate) fn lines(&self) -> Lines {
        let list = self.list.lock();
        Lines { file: list.file.clone(), at: 0, end: list.bytes, read: Vec::new(), taken: 0 }
    }

    /// What is done by now.
    ///
    /// # Errors
    /// The file cannot be read or made.
    pub(crate) fn done(&self) -> io::Result<Done> {
        let path = name(&self.id, "done");
        let urls = self.list.lock().urls;
        let mut done = Done {
            file: match self.disk.open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let file = self.disk.create(&path)?;
                    self.disk.sync_folder(FOLDER)?;
                    file
                }
                opened => opened?,
            },
            bytes: 0,
            unsynced: 0,
            is_done: vec![0; usize::try_from(urls.div_ceil(64)).unwrap_or_default()],
            urls,
            report: Report::default(),
        };
        let text = self.disk.read(&path, DONE_BYTES_MAX)?.unwrap_or_default();
        // A line without an end was not written whole.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        done.bytes = whole as u64;
        for line in String::from_utf8_lossy(&text[..whole]).lines() {
            let read = line
                .split_once(' ')
                .and_then(|(number, outcome)| Some((number.parse().ok()?, Outcome::of_line(outcome)?)));
            if let Some((number, outcome)) = read.filter(|(number, _)| !done.has(*number)) {
                done.mark(number);
                done.report.add(&outcome);
            }
        }
        Ok(done)
    }
}

impl List {
    fn append(&mut self, urls: &[String]) -> Result<(), BookError> {
        let urls = || urls.iter().map(|url| without_fragment(url));
        let (bytes, count) = (urls().map(|url| url.len() as u64 + 1).sum::<u64>(), urls().count() as u64);
        if self.urls + count > URLS_MAX || self.bytes + bytes > LIST_BYTES_MAX {
            return Err(BookError::TooLong);
        }
        let mut text = String::with_capacity(usize::try_from(bytes).unwrap_or_default());
        for url in urls() {
            text.push_str(url);
            text.push('\n');
        }
        self.file.write_all_at(&[text.as_bytes()], self.bytes)?;
        (self.bytes, self.urls) = (self.bytes + bytes, self.urls + count);
        Ok(())
    }
}

/// The lines of a list, read piece by piece.
pub(crate) struct Lines {
    file: Arc<dyn DiskFile>,
    at: u64,
    end: u64,
    read: Vec<u8>,
    taken: usize,
}

impl Lines {
    /// The next URL; `None` at the end.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            let rest = &self.read[self.taken..];
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&rest[..end]).into_owned();
                self.taken += end + 1;
                return Ok(Some(line));
            }
            if self.at >= self.end {
                return Ok(None);
            }
            self.read.drain(..self.taken);
            self.taken = 0;
            let (have, left) = (self.read.len(), self.end - self.at);
            let more = usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            self.read.resize(have + more, 0);
            let count = self.file.read_at(&mut self.read[have..], self.at)?;
            self.read.truncate(have + count);
            self.at += count as u64;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// What is done of a list.
pub(crate) struct Done {
    file: Arc<dyn DiskFile>,
    bytes: u64,
    unsynced: u32,
    /// A bit for each URL.
    is_done: Vec<u64>,
    /// How many URLs the list has.
    urls: u64,
    /// What came of those.
    pub(crate) report: Report,
}

impl Done {
    /// Whether a URL is done. What is not in the list is never asked for.
    pub(crate) fn has(&self, number: u64) -> bool {
        let word = self.is_done.get(usize::try_from(number / 64).unwrap_or(usize::MAX));
        number >= self.urls || word.is_none_or(|word| word & (1 << (number % 64)) != 0)
    }

    fn mark(&mut self, number: u64) {
        if let Some(word) = self.is_done.get_mut(usize::try_from(number / 64).unwrap_or(usize::MAX)) {
            *word |= 1 << (number % 64);
        }
    }

    /// Notes what came of a URL.
    ///
    /// # Errors
    /// The state folder refuses: it is not noted, and may be noted again.
    pub(crate) fn note(&mut self, number: u64, outcome: &Outcome) -> io::Result<()> {
        let Some(said) = outcome.line() else { return Ok(()) };
        let line = format!("{number} {said}\n");
        self.file.write_all_at(&[line.as_bytes()], self.bytes)?;
        self.bytes += line.len() as u64;
        self.mark(number);
        self.report.add(outcome);
        self.unsynced += 1;
        if self.unsynced >= SYNC_LINES {
            self.sync();
        }
        Ok(())
    }

    /// Makes durable what was noted. Where that fails, URLs may be asked for again after a crash.
    pub(crate) fn sync(&mut self) {
        self.unsynced = 0;
        if let Err(error) = self.file.sync_data() {
            tracing::warn!(%error, "cannot sync what a warming has done");
        }
    }
}

#[cfg(test)]
mod tests;
