//! Content on its way in: written to a file of its own, which gets its name when it is whole and synced. One
//! that is dropped before leaves nothing.

use std::sync::Arc;
use std::time::SystemTime;

use weir_disk::DiskFile;
use xxhash_rust::xxh3::Xxh3;

use crate::entry::Entry;
use crate::form::{self, URL_BYTES_MAX, WORD_BYTES_MAX};
use crate::room::{Reservation, Share};
use crate::shelf::{Shelf, ShelfError, UNFINISHED, name_of};

/// What is to be laid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The URL.
    pub url: Arc<str>,
    /// Its site.
    pub site: Arc<str>,
    /// Its media type.
    pub content_type: Arc<str>,
    /// When it ends by itself.
    pub ends: Option<SystemTime>,
    /// How many bytes come, where that is known.
    pub body_bytes: Option<u64>,
    /// How much of the room it may use.
    pub share: Share,
}

/// What was laid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Laid {
    /// It.
    pub entry: Arc<Entry>,
    /// What it replaces.
    pub replaced: Option<Arc<Entry>>,
}

/// Content on its way in.
pub struct Upload {
    shelf: Arc<Shelf>,
    file: Arc<dyn DiskFile>,
    /// The name of its file.
    name: String,
    wanted: Wanted,
    reservation: Reservation,
    hash: Xxh3,
    written: u64,
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Upload").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

impl Upload {
    /// Begins to lay content. Blocks.
    ///
    /// # Errors
    /// See [`ShelfError`].
    pub fn begin(shelf: &Arc<Shelf>, wanted: Wanted) -> Result<Upload, ShelfError> {
        for (text, bytes_max, what) in [
            (&wanted.url, URL_BYTES_MAX, "URL"),
            (&wanted.site, WORD_BYTES_MAX, "site's name"),
            (&wanted.content_type, WORD_BYTES_MAX, "media type"),
        ] {
            if text.len() > bytes_max {
                return Err(ShelfError::TooLong(what));
            }
        }
        let reservation = shelf.reserve(&wanted.site, wanted.body_bytes.unwrap_or(0), wanted.share)?;
        // Another process may write beside this one for a moment, in an upgrade.
        let name = format!("{UNFINISHED}{:016x}", fastrand::u64(..));
        let file = match shelf.disk.create(&name) {
            Ok(file) => file,
            Err(error) => {
                shelf.state.lock().room.give_back(&reservation);
                return Err(error.into());
            }
        };
        let shelf = Arc::clone(shelf);
        Ok(Upload { shelf, file, name, wanted, reservation, hash: Xxh3::new(), written: 0 })
    }

    /// What is to be laid.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Adds bytes. Blocks.
    ///
    /// # Errors
    /// See [`ShelfError`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ShelfError> {
        let all = self.written.saturating_add(bytes.len() as u64);
        self.shelf.state.lock().room.grow(&mut self.reservation, all)?;
        self.file.write_all_at(&[bytes], self.written)?;
        self.hash.update(bytes);
        self.written = all;
        Ok(())
    }

    /// Syncs the bytes so far, so that [`Upload::finish`] is short. Blocks.
    ///
    /// # Errors
    /// See [`ShelfError`].
    pub fn sync(&mut self) -> Result<(), ShelfError> {
        Ok(self.file.sync_data()?)
    }

    /// Lays the content, in place of what is laid over its URL. It is durable when this returns. The file of
    /// what it replaces is there until [`Shelf::tidy`]. Blocks.
    ///
    /// # Errors
    /// See [`ShelfError`]: what was laid before stays. After a power cut it may be there all the same, where
    /// the names of the folder could not be synced.
    pub fn finish(self, now: SystemTime) -> Result<Laid, ShelfError> {
        let shelf = Arc::clone(&self.shelf);
        let mut writing = shelf.writing.lock();
        if writing.is_released {
            return Err(ShelfError::Released);
        }
        shelf.clear_unread(&mut writing)?;
        let Wanted { url, site, content_type, ends, .. } = self.wanted.clone();
        let entry = Entry {
            number: shelf.number_now(&mut writing)?,
            url,
            site,
            content_type,
            body_bytes: self.written,
            digest: self.hash.digest128(),
            laid: form::rounded(now),
            ends: ends.map(form::rounded),
        };
        self.file.write_all_at(&[&form::write(&entry)], self.written)?;
        self.file.sync_data()?;
        let name = name_of(entry.number);
        shelf.disk.rename(&self.name, &name)?;
        if let Err(error) = shelf.disk.sync_folder("") {
            // What is laid already counts: this must not be found at the next start.
            shelf.discard(&mut writing, name);
            return Err(error.into());
        }
        writing.is_unsynced = false;
        let mut state = shelf.state.lock();
        let replaced = state.keep(entry.clone());
        let entry = state.entries.get(&entry.url).cloned().unwrap_or_else(|| Arc::new(entry));
        drop(state);
        writing.needless.extend(replaced.as_ref().map(|old| old.file_name()));
        Ok(Laid { entry, replaced })
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // Once it has its own name, this finds nothing.
        let _ = self.shelf.disk.unlink(&self.name);
        self.shelf.state.lock().room.give_back(&self.reservation);
    }
}
