//! The folder with the content: lays, finds and removes, each durably before it says so.
//!
//! A piece is one file, which gets its name, its number, once it is whole and synced. So nothing has to be
//! replaced in place, and no list is kept beside the files: opening reads the end of each. Of two files for
//! one URL the larger number counts, and the other is removed. A removal is acknowledged when the names of
//! the folder are synced; what was removed before it is synced first, so that nothing older comes back.
//!
//! One process writes. In an upgrade the old one is released before the new one opens the folder, and both
//! read: until the old one has ended, the files of what is replaced stay for its requests.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use weir_disk::{Disk, DiskFile, read_exact_at};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::entry::{Entry, file_name, number_of};
use crate::form::{self, FOOT_BYTES};
use crate::room::{NoRoom, Reservation, Room, Share, Stock, Usage};

/// What the name of a file begins with whose content is on its way in.
pub(crate) const UNFINISHED: &str = "new-";
/// How far the number of a file that cannot be read may lie beyond those of all others. One that is further
/// is none that was given: nobody lays so much between two starts.
const GAP_MAX: u64 = 1 << 32;
/// So many files of what was replaced stay for another process that still reads.
const STAY_MAX: usize = 256;
/// How long leaving the folder to another process may take, and taking it back. No request begins meanwhile.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(5);
const RESUME_TIME_MAX: Duration = Duration::from_secs(1);

/// The bytes of a piece that have a sum of their own.
pub const BLOCK_BYTES: usize = 64 << 10;

/// Why content is not laid or removed.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// A URL, a site's name or a media type is too long.
    #[error("the {0} is too long")]
    TooLong(&'static str),
    /// One piece may have so many bytes at most.
    #[error("it is larger than the {0} bytes that there may be here")]
    TooLarge(u64),
    /// There is room for so many bytes more.
    #[error("there is room for {0} bytes more")]
    Full(u64),
    /// There are as many pieces as there may be.
    #[error("there are as many pieces as there may be here")]
    TooMany,
    /// As many uploads are under way as there may be.
    #[error("too many uploads are under way")]
    Busy,
    /// A file of the folder that is none of ours has the last number that there is.
    #[error(
        "{0} in the folder of the content leaves no number for another file: move it away, and start again"
    )]
    NoNumber(String),
    /// Another process has the folder now.
    #[error("another process has the folder now")]
    Released,
    /// The drive does not answer.
    #[error("the folder of the content cannot be written: its drive does not answer")]
    Silent,
    /// The file system has no room.
    #[error("the file system has no room left")]
    DiskFull(#[source] io::Error),
    /// The file system fails.
    #[error("the folder of the content cannot be written: {0}")]
    Disk(#[source] io::Error),
}

impl From<io::Error> for ShelfError {
    fn from(error: io::Error) -> ShelfError {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match error.kind() {
            StorageFull | QuotaExceeded => ShelfError::DiskFull(error),
            _ => ShelfError::Disk(error),
        }
    }
}

impl From<NoRoom> for ShelfError {
    fn from(why: NoRoom) -> ShelfError {
        match why {
            NoRoom::TooLarge(bytes) => ShelfError::TooLarge(bytes),
            NoRoom::Full(bytes) => ShelfError::Full(bytes),
            NoRoom::Entries => ShelfError::TooMany,
            NoRoom::Uploads => ShelfError::Busy,
        }
    }
}

/// A file of the folder that cannot be used. It stays where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Its name.
    pub file: String,
    /// Why.
    pub why: String,
}

/// The folder with the content.
#[derive(Debug)]
pub struct Shelf {
    pub(crate) disk: Arc<dyn Disk>,
    /// Held while names change.
    pub(crate) writing: Mutex<Writing>,
    pub(crate) state: Mutex<State>,
}

/// What only the thread that changes names uses.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) number_next: u64,
    /// Files that count no more and are not removed yet. Bounded: none is added while one cannot be removed,
    /// and [`STAY_MAX`] stay for another process.
    pub(crate) needless: Vec<String>,
    /// Whether names were removed since the folder was synced.
    pub(crate) is_unsynced: bool,
    pub(crate) is_released: bool,
    /// Another process, which wrote before, still reads.
    is_read_beside: bool,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) entries: BTreeMap<Arc<str>, Arc<Entry>>,
    pub(crate) room: Room,
    /// When the next piece ends by itself, at the earliest.
    ends_next: Option<SystemTime>,
}

impl Shelf {
    /// Opens the folder, or makes it, for `size_bytes` of content. Removes what was not finished, what newer
    /// content has replaced, and what has ended. What is none of ours stays, and is in nobody's way. Blocks.
    ///
    /// # Errors
    /// The folder cannot be made or listed.
    pub fn open(disk: Arc<dyn Disk>, size_bytes: u64, now: SystemTime) -> io::Result<(Shelf, Vec<Trouble>)> {
        Shelf::read_in(disk, size_bytes, now, false)
    }

    /// As [`Shelf::open`], while another process that has released the folder still reads: the files of what
    /// is replaced stay, up to a number, until [`Shelf::be_alone`].
    ///
    /// # Errors
    /// As [`Shelf::open`].
    pub fn open_beside(
        disk: Arc<dyn Disk>,
        size_bytes: u64,
        now: SystemTime,
    ) -> io::Result<(Shelf, Vec<Trouble>)> {
        Shelf::read_in(disk, size_bytes, now, true)
    }

    fn read_in(
        disk: Arc<dyn Disk>,
        size_bytes: u64,
        now: SystemTime,
        is_read_beside: bool,
    ) -> io::Result<(Shelf, Vec<Trouble>)> {
        disk.make_folder("")?;
        let state = State { entries: BTreeMap::new(), room: Room::new(size_bytes), ends_next: None };
        let writing = Writing {
            number_next: 1,
            needless: Vec::new(),
            is_unsynced: false,
            is_released: false,
            is_read_beside,
        };
        let shelf = Shelf { disk, writing: Mutex::new(writing), state: Mutex::new(state) };
        let mut troubles = Vec::new();
        let (mut needless, mut unread) = (Vec::new(), Vec::new());
        let (mut writing, mut state) = (shelf.writing.lock(), shelf.state.lock());
        for name in shelf.disk.list("")? {
            let Some(number) = number_of(&name) else {
                let why = if name.starts_with(UNFINISHED) { shelf.drop_unfinished(&name) } else { Ok(()) };
                troubles.extend(why.err().map(|why| Trouble { file: name, why }));
                continue;
            };
            match shelf.read(&name, number) {
                Ok(entry) => {
                    writing.number_next = writing.number_next.max(number.saturating_add(1));
                    needless.extend(state.keep(entry).map(|old| old.file_name()));
                }
                Err(why) => {
                    unread.push(number);
                    troubles.push(Trouble { file: name, why });
                }
            }
        }
        // One that can be read again some day must not be newer than what is laid from now on.
        unread.sort_unstable();
        for number in unread {
            if number.saturating_sub(writing.number_next) < GAP_MAX {
                writing.number_next = writing.number_next.max(number.saturating_add(1));
            }
        }
        writing.needless = needless;
        drop((writing, state));
        // What cannot be removed now is removed before anything else is written.
        shelf.tidy();
        shelf.end_over(now);
        troubles.sort_by(|one, other| one.file.cmp(&other.file));
        Ok((shelf, troubles))
    }

    /// Removes what an upload has left; not what has another name, and not a folder.
    fn drop_unfinished(&self, name: &str) -> Result<(), String> {
        if name.strip_prefix(UNFINISHED).and_then(number_of).is_none() {
            return Err("it is no upload".to_owned());
        }
        match self.disk.unlink(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("the rest of an upload cannot be removed: {error}"))
            }
            _ => Ok(()),
        }
    }

    /// Reads what the end of a file says.
    fn read(&self, name: &str, number: u64) -> Result<Entry, String> {
        let ends = |file: &dyn DiskFile| -> io::Result<Result<Entry, form::Unread>> {
            let length = file.length()?;
            let Some(at) = length.checked_sub(FOOT_BYTES as u64) else {
                return Ok(Err(form::Unread::Short));
            };
            let mut foot = [0; FOOT_BYTES];
            read_exact_at(file, &mut foot, at)?;
            let foot = match form::read_foot(&foot, length) {
                Ok(foot) => foot,
                Err(why) => return Ok(Err(why)),
            };
            let mut bytes = vec![0; foot.description_bytes + FOOT_BYTES];
            read_exact_at(file, &mut bytes, foot.body_bytes)?;
            Ok(form::read(&foot, &bytes))
        };
        let read = self.disk.open(name).and_then(|file| ends(&*file));
        match read.map_err(|error| error.to_string())?.map_err(|why| why.to_string())? {
            entry if entry.number == number => Ok(entry),
            entry => Err(format!("it was written as {}", entry.file_name())),
        }
    }

    /// Another size from now on. What is laid stays, also where it is more.
    pub fn limit(&self, size_bytes: u64) {
        self.state.lock().room.limit(size_bytes);
    }

    /// What is laid over a URL.
    pub fn find(&self, url: &str) -> Option<Arc<Entry>> {
        self.state.lock().entries.get(url).cloned()
    }

    /// All content, by URL.
    pub fn all(&self) -> Vec<Arc<Entry>> {
        self.state.lock().entries.values().cloned().collect()
    }

    /// Up to `limit` pieces behind a URL that are `wanted`, in order; and the last URL that was looked at,
    /// where there may be more.
    pub fn page(
        &self,
        after: Option<&str>,
        limit: usize,
        wanted: &dyn Fn(&Entry) -> bool,
    ) -> (Vec<Arc<Entry>>, Option<Arc<str>>) {
        let state = self.state.lock();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut found = Vec::new();
        for entry in state.entries.range::<str, _>((from, Bound::Unbounded)).map(|(_, entry)| entry) {
            if !wanted(entry) {
                continue;
            }
            if found.len() == limit {
                let next = found.last().map(|last: &Arc<Entry>| Arc::clone(&last.url));
                return (found, next);
            }
            found.push(Arc::clone(entry));
        }
        (found, None)
    }

    /// How much there is.
    pub fn usage(&self) -> Usage {
        self.state.lock().room.usage()
    }

    /// How much there is of each site, in no order.
    pub fn stocks(&self) -> Vec<(Arc<str>, Stock)> {
        self.state.lock().room.stocks()
    }

    /// Removes what is laid over a URL; none where nothing is. It is durable when this returns. Blocks.
    ///
    /// # Errors
    /// See [`ShelfError`]. It may then be gone after a power cut, and can be removed again.
    pub fn remove(&self, url: &str) -> Result<Option<Arc<Entry>>, ShelfError> {
        let mut writing = self.writing.lock();
        if writing.is_released {
            return Err(ShelfError::Released);
        }
        // There may be an older file for this URL: it must not come back when this one goes.
        self.clear(&mut writing)?;
        self.synced(&mut writing)?;
        let Some(entry) = self.find(url) else { return Ok(None) };
        match self.disk.unlink(&entry.file_name()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        self.disk.sync_folder("")?;
        self.state.lock().forget(&entry);
        Ok(Some(entry))
    }

    /// Whether some piece has ended that [`Shelf::end_over`] would take away.
    pub fn has_over(&self, now: SystemTime) -> bool {
        self.state.lock().ends_next.is_some_and(|next| next <= now)
    }

    /// Removes what has ended by itself. Costs a comparison where nothing has. Blocks otherwise.
    pub fn end_over(&self, now: SystemTime) -> Vec<Arc<Entry>> {
        if !self.has_over(now) {
            return Vec::new();
        }
        let mut writing = self.writing.lock();
        let mut state = self.state.lock();
        if writing.is_released {
            return Vec::new();
        }
        let over: Vec<_> = state.entries.values().filter(|entry| entry.is_over(now)).cloned().collect();
        over.iter().for_each(|entry| state.forget(entry));
        state.ends_next = state.entries.values().filter_map(|entry| entry.ends).min();
        drop(state);
        // An older file for the same URL must not come back, so that it goes first. What is not removed now
        // is at the next start.
        if self.clear(&mut writing).is_ok() && self.synced(&mut writing).is_ok() {
            over.iter().for_each(|entry| self.discard(&mut writing, entry.file_name()));
        }
        over
    }

    /// Removes the files of what was replaced. Call it when nobody is shown them any more. What cannot be
    /// removed now is before anything else is written. Blocks.
    pub fn tidy(&self) {
        let mut writing = self.writing.lock();
        if !writing.is_released {
            let _ = self.clear_unread(&mut writing);
        }
    }

    /// The process that read beside this one has ended. Blocks.
    pub fn be_alone(&self) {
        self.writing.lock().is_read_beside = false;
        self.tidy();
    }

    /// Removes the files that count no more, unless another process may still read them.
    pub(crate) fn clear_unread(&self, writing: &mut Writing) -> io::Result<()> {
        if writing.is_read_beside && writing.needless.len() <= STAY_MAX {
            return Ok(());
        }
        self.clear(writing)
    }

    /// Removes the files that count no more.
    pub(crate) fn clear(&self, writing: &mut Writing) -> io::Result<()> {
        while let Some(name) = writing.needless.last() {
            match self.disk.unlink(name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => writing.is_unsynced = true,
            }
            writing.needless.pop();
        }
        Ok(())
    }

    /// Removes a file that counts no more, now or before anything else is written.
    pub(crate) fn discard(&self, writing: &mut Writing, name: String) {
        writing.needless.push(name);
        let _ = self.clear(writing);
    }

    /// Makes removals durable.
    fn synced(&self, writing: &mut Writing) -> io::Result<()> {
        if writing.is_unsynced {
            self.disk.sync_folder("")?;
            writing.is_unsynced = false;
        }
        Ok(())
    }

    /// Reads the bytes of a piece. Where they are those that were laid: the XXH3-64 of each
    /// [`BLOCK_BYTES`] of them, so that a reader of some of them can check these. Blocks.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn sums(&self, entry: &Entry, get_on: &dyn Fn()) -> io::Result<Option<Vec<u64>>> {
        let file = self.disk.open(&entry.file_name())?;
        let mut buffer = vec![0; BLOCK_BYTES];
        let (mut hash, mut at, mut sums) = (Xxh3::new(), 0, Vec::new());
        while at < entry.body_bytes {
            let left = usize::try_from(entry.body_bytes - at).unwrap_or(usize::MAX);
            let piece = &mut buffer[..left.min(BLOCK_BYTES)];
            read_exact_at(&*file, piece, at)?;
            hash.update(piece);
            sums.push(xxh3_64(piece));
            at += piece.len() as u64;
            get_on();
        }
        Ok((hash.digest128() == entry.digest).then_some(sums))
    }

    /// Leaves the folder to another process: nothing is written from now on. Blocks until what is being
    /// written is, for a bounded time.
    ///
    /// # Errors
    /// An upload is being made durable, and its drive does not answer.
    pub fn release(&self) -> Result<(), ShelfError> {
        let mut writing = self.writing.try_lock_for(RELEASE_TIME_MAX).ok_or(ShelfError::Silent)?;
        writing.is_released = true;
        Ok(())
    }

    /// Takes the folder back: the other process has not taken over.
    pub fn resume(&self) {
        // Where a drive holds the lock the folder was not left.
        if let Some(mut writing) = self.writing.try_lock_for(RESUME_TIME_MAX) {
            writing.is_released = false;
        }
    }

    pub(crate) fn reserve(
        &self,
        site: &Arc<str>,
        body_bytes: u64,
        share: Share,
    ) -> Result<Reservation, ShelfError> {
        if self.writing.lock().is_released {
            return Err(ShelfError::Released);
        }
        Ok(self.state.lock().room.begin(site, body_bytes, share)?)
    }

    /// A number that no file of the folder has.
    pub(crate) fn number_now(&self, writing: &mut Writing) -> Result<u64, ShelfError> {
        loop {
            let number = writing.number_next;
            let next = number.checked_add(1).ok_or_else(|| ShelfError::NoNumber(file_name(number)))?;
            writing.number_next = next;
            // A foreign file may have come since the start.
            if self.disk.identity(&file_name(number))?.is_none() {
                return Ok(number);
            }
        }
    }
}

impl State {
    /// Keeps a piece. Returns the one for the same URL that does not count any more.
    pub(crate) fn keep(&mut self, entry: Entry) -> Option<Arc<Entry>> {
        let entry = Arc::new(entry);
        if self.entries.get(&entry.url).is_some_and(|held| held.number > entry.number) {
            return Some(entry);
        }
        self.room.add(&entry);
        self.ends_next = self.ends_next.into_iter().chain(entry.ends).min();
        let old = self.entries.insert(Arc::clone(&entry.url), entry);
        old.inspect(|old| self.room.remove(old))
    }

    fn forget(&mut self, entry: &Entry) {
        self.entries.remove(&entry.url);
        self.room.remove(entry);
    }
}

/// The name that a number gets.
pub(crate) fn name_of(number: u64) -> String {
    file_name(number)
}

#[cfg(test)]
mod tests;
