//! Finding what a path names: from memory, at once from what the kernel has in its caches, or on a thread
//! that may wait.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use weir_clock::{self as clock, Now};
use weir_policy::Coding;
use weir_share::Client;

use crate::file::{Content, Found};
use crate::hot::{Hot, HotLimits, write_key};
use crate::listing::{ListText, Listing, ListingForm, Room};
use crate::load::{Hold, LoadError, SEALED_BYTES_MIN, load};
use crate::look::{Looked, LookedFile, look};
use crate::pool::{On, Pool, Pulse, Unanswered};
use crate::root::{OpenError, Root, Wait};
use crate::stamp::{Age, GRAIN};
use crate::way::Way;

/// So often a file is looked at again that changes while it is read.
const TRIES: usize = 12;

thread_local! {
    /// The key of the look-up under way.
    static KEY: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// The files of all roots: what is in memory, and the threads that may wait.
#[derive(Clone, Debug)]
pub struct Files(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    hot: Hot,
    pub(crate) pool: Pool,
    lists: Room,
}

/// What a path leads to.
#[derive(Debug)]
pub enum Finding {
    /// A file.
    File(Arc<Found>),
    /// A folder; the path lacks the slash at its end.
    Slash,
    /// A folder that is listed.
    Listing(Listing),
    /// Nothing.
    NotThere,
    /// Something that is not served: what is behind a link out of the root, a device.
    Refused,
}

/// Why there is no answer about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// The process may not read it.
    #[error("the file may not be read")]
    Denied,
    /// It changes again and again while it is read.
    #[error("the file is being written")]
    Changing,
    /// So many files are open that no more may be.
    #[error("too many files are open")]
    Crowded,
    /// Its device does not answer, or too many wait for it.
    #[error("its device does not answer")]
    Hangs,
    /// What was done for it has panicked.
    #[error("reading it has panicked")]
    Panicked,
    /// The system failed: its number of the error.
    #[error("reading a file failed with error {0}")]
    System(i32),
}

/// What a path leads to, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looking {
    /// A file with these names below the root, and its siblings.
    File(Vec<u8>, Vec<Coding>),
    /// A folder whose slash is missing.
    Slash,
    /// A folder that is listed.
    Folder,
    /// Nothing.
    NotThere,
    /// Something that is not served: what is behind a link out of the root, a device.
    Refused,
}

impl From<Unanswered> for Failed {
    fn from(why: Unanswered) -> Failed {
        match why {
            Unanswered::Hangs | Unanswered::Crowded => Failed::Hangs,
            Unanswered::Panicked => Failed::Panicked,
            Unanswered::NoThread => Failed::System(0),
        }
    }
}

/// Why one try came to nothing.
enum Miss {
    WouldWait,
    Changing(Duration),
    Failed(Failed),
}

impl From<OpenError> for Miss {
    fn from(error: OpenError) -> Miss {
        match error {
            OpenError::WouldWait => Miss::WouldWait,
            // Opening alone takes it for an answer.
            OpenError::NotThere | OpenError::Refused => Miss::Failed(Failed::System(0)),
            OpenError::Denied => Miss::Failed(Failed::Denied),
            OpenError::System(Errno::MFILE | Errno::NFILE) => Miss::Failed(Failed::Crowded),
            OpenError::System(errno) => Miss::Failed(Failed::System(errno.raw_os_error())),
        }
    }
}

impl From<LoadError> for Miss {
    fn from(error: LoadError) -> Miss {
        match error {
            LoadError::WouldWait => Miss::WouldWait,
            LoadError::Changing(after) => Miss::Changing(after),
            LoadError::Crowded => Miss::Failed(Failed::Crowded),
            LoadError::System(errno) => Miss::Failed(Failed::System(errno.raw_os_error())),
        }
    }
}

impl Files {
    /// Nothing is in memory yet.
    pub fn new(limits: HotLimits) -> Files {
        Files(Arc::new(Inner {
            hot: Hot::new(limits, clock::mono()),
            pool: Pool::default(),
            lists: Room::default(),
        }))
    }

    /// Other limits from now on.
    pub fn limit(&self, limits: HotLimits) {
        self.0.hot.limit(limits);
    }

    /// Bytes in memory.
    pub fn used_bytes(&self) -> u64 {
        self.0.hot.used_bytes()
    }

    /// Does what may wait for the device of a root on a thread for that. `act` calls what it is given
    /// whenever it has got on.
    ///
    /// # Errors
    /// The device does not answer, or there is no thread.
    ///
    /// # Cancel safety
    /// Safe: what was begun is done, and its result dropped.
    pub async fn apart<T: Send + 'static>(
        &self,
        root: &Root,
        act: impl FnOnce(&dyn Fn()) -> T + Send + 'static,
    ) -> Result<T, Failed> {
        let act = move |pulse: &Pulse| act(&|| pulse.beat());
        Ok(self.0.pool.run(root.on(), act).await?)
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// What a way leads to, where that is in memory and was looked at within the last second.
    pub fn at_hand(&self, root: &Root, way: &Way<'_>, now: Instant) -> Option<Arc<Found>> {
        KEY.with_borrow_mut(|key| {
            write_key(key, root.mark, way.names(), way.is_folder());
            self.0.hot.at_hand(key, now)
        })
    }

    /// What a way leads to, for a client whose share of the memory of lists it may need.
    ///
    /// # Errors
    /// It cannot be read.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn find(
        &self,
        root: &Arc<Root>,
        way: &Way<'_>,
        client: Option<Client>,
    ) -> Result<Finding, Failed> {
        let mut key = Vec::with_capacity(64);
        write_key(&mut key, root.mark, way.names(), way.is_folder());
        let query = Query {
            root: Arc::clone(root),
            key,
            names: way.names().into(),
            is_folder: way.is_folder(),
            client,
            was_asked_for: OnceLock::new(),
        };
        let query = Arc::new(query);
        for _ in 0..TRIES {
            let tried = match self.0.once(&query, Wait::Never, clock::now()) {
                Err(Miss::WouldWait) => {
                    let (inner, own, now) = (Arc::clone(&self.0), Arc::clone(&query), clock::now());
                    let job = move |_: &Pulse| inner.once(&own, Wait::May, now);
                    let done = self.0.pool.run_for((root.on(), client), job).await;
                    match (done, self.0.hot.known(&query.key)) {
                        (Ok(tried), _) => tried,
                        // What is in memory is sent a little longer.
                        (Err(Unanswered::Hangs | Unanswered::Crowded), Some(known)) => {
                            Ok(Finding::File(known))
                        }
                        (Err(why), _) => Err(Miss::Failed(why.into())),
                    }
                }
                tried => tried,
            };
            match tried {
                Ok(finding) => return Ok(finding),
                Err(Miss::Changing(after)) => tokio::time::sleep(after).await,
                Err(Miss::WouldWait) => tokio::time::sleep(GRAIN).await,
                Err(Miss::Failed(failed)) => return Err(failed),
            }
        }
        Err(Failed::Changing)
    }

    /// The text of a list of the folder with this path.
    ///
    /// # Errors
    /// Too many lists are being sent.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn written(&self, listing: Listing, form: ListingForm, path: &str) -> Result<ListText, Failed> {
        let path = path.to_owned();
        let of = (On::Nothing, listing.client());
        let written = self.0.pool.run_for(of, move |_| listing.text(form, &path)).await?;
        written.ok_or(Failed::Crowded)
    }

    /// Whether what a way leads to is not served, or may not be read, or is not to be found out. It
    /// waits for a device on a thread.
    ///
    /// # Errors
    /// The device does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn refuses(&self, root: &Arc<Root>, way: &Way<'_>) -> Result<bool, Failed> {
        let now = clock::mono();
        let asked = (way.names(), way.is_folder());
        let refused = |looked: Result<Looked, OpenError>| {
            matches!(looked, Err(OpenError::Refused | OpenError::Denied | OpenError::WouldWait))
        };
        match look(root, asked, Wait::Never, now) {
            Err(OpenError::WouldWait) => {}
            looked => return Ok(refused(looked)),
        }
        let (own, names, is_folder) = (Arc::clone(root), Box::<[u8]>::from(asked.0), asked.1);
        let look = move |_: &Pulse| look(&own, (&names, is_folder), Wait::May, now);
        Ok(refused(self.0.pool.run(root.on(), look).await?))
    }

    /// What a way leads to, without reading it. It may wait for a device.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn look(root: &Root, way: &Way<'_>) -> Result<Looking, Failed> {
        let looked = look(root, (way.names(), way.is_folder()), Wait::May, clock::mono());
        match looked {
            Ok(Looked::File(file)) => {
                let siblings = file.siblings.iter().map(|(coding, _)| *coding).collect();
                Ok(Looking::File(file.names, siblings))
            }
            Ok(Looked::Slash) => Ok(Looking::Slash),
            Ok(Looked::Folder(_)) => Ok(Looking::Folder),
            Ok(Looked::NotThere) | Err(OpenError::NotThere) => Ok(Looking::NotThere),
            Err(OpenError::Refused) => Ok(Looking::Refused),
            Err(OpenError::Denied) => Err(Failed::Denied),
            Err(OpenError::System(errno)) => Err(Failed::System(errno.raw_os_error())),
            Err(OpenError::WouldWait) => Err(Failed::System(0)),
        }
    }
}

/// What is looked for.
struct Query {
    root: Arc<Root>,
    key: Vec<u8>,
    names: Box<[u8]>,
    is_folder: bool,
    client: Option<Client>,
    /// Whether a large file was asked for before.
    was_asked_for: OnceLock<bool>,
}

impl Inner {
    /// One try.
    fn once(&self, query: &Query, wait: Wait, now: Now) -> Result<Finding, Miss> {
        let looked = match look(&query.root, (&query.names, query.is_folder), wait, now.mono) {
            Err(OpenError::NotThere) => Looked::NotThere,
            Err(OpenError::Refused) => {
                self.hot.forget(&query.key);
                return Ok(Finding::Refused);
            }
            Err(OpenError::System(Errno::MFILE | Errno::NFILE)) if self.hot.known(&query.key).is_some() => {
                // What is in memory is sent a little longer.
                let known = self.hot.known(&query.key);
                return known.map(Finding::File).ok_or(Miss::Failed(Failed::Crowded));
            }
            looked => looked?,
        };
        let file = match looked {
            Looked::File(file) => file,
            other => {
                self.hot.forget(&query.key);
                return match other {
                    Looked::Folder(_) if wait == Wait::Never => Err(Miss::WouldWait),
                    Looked::Folder(folder) => {
                        let is_top = query.names.is_empty();
                        let of = (&self.lists, query.client);
                        let listing = Listing::read(&folder, &query.root.rules, is_top, of);
                        listing.map(Finding::Listing).map_err(|errno| OpenError::System(errno).into())
                    }
                    Looked::Slash => Ok(Finding::Slash),
                    Looked::File(_) | Looked::NotThere => Ok(Finding::NotThere),
                };
            }
        };
        if let Some(known) = self.hot.known(&query.key) {
            if is_same(&known, &file) {
                known.checked_ms.store(self.hot.ms(now.mono), Ordering::Relaxed);
                known.is_used.store(true, Ordering::Relaxed);
                return Ok(Finding::File(known));
            }
            self.hot.forget(&query.key);
        }
        self.load(query, *file, wait, now)
    }

    fn load(&self, query: &Query, file: LookedFile, wait: Wait, now: Now) -> Result<Finding, Miss> {
        let lengths = || file.siblings.iter().map(|(_, opened)| opened).chain([&file.plain]);
        let longest = lengths().map(|opened| opened.stamp.length).max().unwrap_or(0);
        let is_large = longest >= SEALED_BYTES_MIN;
        // A large file is read into memory when it is asked for again, and once. Until then it is sent from
        // where it is.
        let mut hold = Hold::Memory;
        let mut loading = None;
        if is_large {
            // Noted once for a request, however often it is tried.
            let was_asked_for = *query.was_asked_for.get_or_init(|| self.hot.was_asked_for(&query.key));
            let is_again = was_asked_for && longest <= self.hot.file_bytes_max();
            loading = if is_again { self.hot.begin_loading(&query.key) } else { None };
            if loading.is_none() {
                hold = Hold::Open;
            }
        }
        let names = file.names.clone().into();
        let (plain, siblings) = load(file, &self.hot, (hold, wait), now)?;
        let found = Found {
            plain,
            siblings,
            names,
            checked_ms: AtomicU64::new(self.hot.ms(now.mono)),
            is_used: AtomicBool::new(false),
        };
        let found = Arc::new(found);
        if found.files().all(|file| !matches!(file.content, Content::Open(_))) {
            self.hot.insert(&query.key, &found);
        }
        drop(loading);
        Ok(Finding::File(found))
    }
}

/// Whether what is known is what was found just now, and old enough to be believed.
fn is_same(known: &Found, file: &LookedFile) -> bool {
    let is_same = |known: &crate::file::File, opened: &crate::look::Opened| {
        known.stamp == opened.stamp && known.age == Age::Settled
    };
    is_same(&known.plain, &file.plain)
        && known.siblings.len() == file.siblings.len()
        && known
            .siblings
            .iter()
            .zip(&file.siblings)
            .all(|((one, known), (other, opened))| one == other && is_same(known, opened))
}

#[cfg(test)]
mod tests;
