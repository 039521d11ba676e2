//! Warmings between the API, the state folder and the edge. A thread goes on with those of an earlier
//! process. It must not decide what is stored.

pub(crate) mod list;

mod folder;
mod piecemeal;
mod wanted;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use tokio::sync::watch;
use weir_config::{Loaded, model};
use weir_control::{Control, Progress, WarmBy, WarmExample, WarmOrder, WarmPiece, WarmRefusal, Warmed};
use weir_edge::{Edge, GaveWay, Warm};
use weir_store::OsDisk;
use weir_warm::{Book, BookError, Content, Order, Outcome, Outside, Report, Waits, Watch};

use self::folder::FolderOrigin;
use self::list::Pieces;
use self::piecemeal::Piecemeal;
use crate::print::sentence;

/// The file that the process holds whose warmings go on, below the state folder.
const LOCK: &str = "warm/lock";
/// How long the head of a sitemap may take.
const HEAD_TIME_MAX: Duration = Duration::from_secs(120);
/// Between two looks whether the process before has let go.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// Before a warming for which there was no place is tried again.
const TRY_PAUSE: Duration = Duration::from_secs(1);
/// Before an entry of the configuration that cannot begin is tried again.
const FAILED_PAUSE: Duration = Duration::from_secs(60);

/// The warmings of this process.
pub(crate) struct Warmings {
    book: Book,
    state: PathBuf,
    /// Those of the configuration, each with its key.
    entries: Mutex<Vec<(String, model::Warm)>>,
    /// Held while this process has warmings, or may have some.
    lock: Mutex<Option<File>>,
    /// Whether another process takes over.
    is_leaving: AtomicBool,
}

impl Warmings {
    /// Those of a state folder and of a configuration.
    pub(crate) fn of(state: &Path, loaded: &Loaded) -> Warmings {
        let warmings = Warmings {
            book: Book::of(Arc::new(OsDisk::at(state))),
            state: state.to_owned(),
            entries: Mutex::default(),
            lock: Mutex::default(),
            is_leaving: AtomicBool::new(false),
        };
        warmings.configure(loaded);
        warmings
    }

    /// Begins one; its list may have to come.
    pub(crate) fn begin(&self, order: &WarmOrder, by: &WarmBy) -> Result<String, WarmRefusal> {
        let wanted = wanted::wanted(order, by)?;
        if order.urls.is_empty() && !order.more && wanted.sitemaps.is_empty() && wanted.folder.is_none() {
            return Err(WarmRefusal::Unfit(
                "name what is to be warmed: URLs, a sitemap or a folder".to_owned(),
            ));
        }
        let id = format!("{:016x}", fastrand::u64(..));
        let warming = self.book.begin(&id, wanted).map_err(refused)?;
        // While an earlier process has some of its own, this one waits with those that are left.
        self.hold();
        warming.add(0, &order.urls, !order.more).map_err(|error| {
            self.book.remove(&id);
            refused(error)
        })?;
        Ok(id)
    }

    /// Takes a further piece of a list.
    pub(crate) fn add(&self, id: &str, piece: &WarmPiece) -> Result<u64, WarmRefusal> {
        let warming = self.book.find(id).ok_or(BookError::Unknown).map_err(refused)?;
        warming.add(piece.at, &piece.urls, !piece.more).map_err(refused)
    }

    /// Has no later process go on with one that is to end.
    pub(crate) fn cancel(&self, id: &str) {
        self.book.cancel(id);
    }

    /// Forgets one that has not begun.
    pub(crate) fn remove(&self, id: &str) {
        self.book.remove(id);
    }

    /// Goes through one. Blocks until it has ended or is to end.
    pub(crate) fn run(&self, id: &str, edge: &Edge, progress: &Progress) -> Result<Warmed, String> {
        let warming = self.book.find(id).ok_or_else(|| format!("there is no warming {id}"))?;
        let folder = match &warming.order().folder {
            None => None,
            Some(folder) => {
                let socket = self.state.join(format!("warm/{id}.sock"));
                let origin = FolderOrigin::start(&folder.path, &socket);
                Some(origin.map_err(|error| format!("cannot serve the folder: {error}"))?)
            }
        };
        let (ending, ends) = watch::channel(());
        let owner = warming.order().owner.as_str().into();
        let outside = Around { edge, folder, progress, owner, ends, _ending: ending };
        let ended = weir_warm::run(&warming, &outside, &Watched(progress));
        match progress.is_interrupted() {
            true => self.book.forget(id),
            false => self.book.remove(id),
        }
        self.let_go();
        ended.map(shown)
    }

    /// Another process takes over, and goes on with all of them once those under way have ended here.
    pub(crate) fn leave(&self) {
        self.is_leaving.store(true, Ordering::SeqCst);
        self.let_go();
    }

    /// Whether another process takes over.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::SeqCst)
    }

    fn let_go(&self) {
        if self.is_leaving() && self.book.is_empty() {
            *self.lock.lock() = None;
        }
    }

    /// Takes what an earlier process has left, once that process has let go. Blocks; `None` where this one
    /// is to end before.
    fn left(&self, is_over: &dyn Fn() -> bool) -> Option<Vec<(String, WarmBy)>> {
        while !self.hold() {
            if is_over() {
                return None;
            }
            std::thread::sleep(LOOK_PAUSE);
        }
        let found = self.book.unfinished().unwrap_or_else(|error| {
            tracing::error!(%error, "cannot read the warmings of the state folder");
            Vec::new()
        });
        let by = |order: &Order| WarmBy {
            actor: order.actor.clone(),
            owner: order.owner.clone(),
            sites: order.sites.clone(),
            entry: order.entry.clone(),
        };
        Some(found.iter().map(|warming| (warming.id().to_owned(), by(warming.order()))).collect())
    }

    /// Takes the lock; true once it is held.
    fn hold(&self) -> bool {
        let mut lock = self.lock.lock();
        if lock.is_some() {
            return true;
        }
        let opened = File::options().create(true).truncate(false).write(true).open(self.state.join(LOCK));
        match opened {
            Ok(file) if file.try_lock().is_ok() => {
                *lock = Some(file);
                true
            }
            Ok(_) => false,
            // There is no warming yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => {
                tracing::warn!(%error, "cannot lock the warmings of the state folder");
                true
            }
        }
    }
}

/// Goes on with the warmings of earlier processes, and begins those of the configuration, on a thread of its
/// own.
///
/// # Errors
/// There is no thread.
pub(crate) fn attend(
    warmings: Arc<Warmings>,
    control: Arc<Control>,
    is_over: impl Fn() -> bool + Send + 'static,
) -> io::Result<()> {
    std::thread::Builder::new().name("weir-warm".to_owned()).spawn(move || {
        let Some(left) = warmings.left(&is_over) else { return };
        for (id, by) in left {
            tracing::info!(id, "a warming goes on where it was");
            while let Err(why) = control.resume_warming(&id, &by) {
                tracing::debug!(id, why, "a warming waits for its turn");
                if is_over() {
                    return;
                }
                std::thread::sleep(TRY_PAUSE);
            }
        }
        let mut next = HashMap::new();
        while !is_over() {
            warmings.begin_entries(&control, &mut next);
            std::thread::sleep(TRY_PAUSE);
        }
    })?;
    Ok(())
}

impl Warmings {
    /// Takes the entries of a configuration.
    pub(crate) fn configure(&self, loaded: &Loaded) {
        // What is kept across a restart names the entry that it came from.
        let key = |entry: &model::Warm| weir_warm::entry_key(&entry.line());
        *self.entries.lock() = loaded.config.warm.iter().map(|entry| (key(entry), entry.clone())).collect();
    }

    /// Begins the next entry whose time has come, while none is under way. `next`: when each is due; `None`:
    /// never again.
    fn begin_entries(&self, control: &Arc<Control>, next: &mut HashMap<String, Option<Instant>>) {
        let (entries, now) = (self.entries.lock().clone(), weir_clock::now().mono);
        next.retain(|key, _| entries.iter().any(|(known, _)| known == key));
        let again = |entry: &model::Warm| entry.every.and_then(|every| now.checked_add(every.0));
        // One that an earlier process has begun counts as begun.
        let under_way: Vec<_> = entries.iter().filter(|(key, _)| self.book.has_entry(key)).collect();
        for (key, entry) in &under_way {
            next.entry(key.clone()).or_insert_with(|| again(entry));
        }
        let is_due = |key: &str| next.get(key).is_none_or(|due| due.is_some_and(|due| due <= now));
        // One that has not begun goes first, then that which is due for longest: none keeps others waiting.
        let since = |(key, _): &&(String, model::Warm)| next.get(key).copied().flatten();
        let due = entries.iter().filter(|(key, _)| is_due(key)).min_by_key(since);
        let due = due.filter(|_| under_way.is_empty());
        let Some((key, entry)) = due else { return };
        match control.warm_of_configuration(&wanted::of_entry(entry), key.clone()) {
            Ok(id) => {
                tracing::info!(id, "an entry of [[warm]] has begun");
                next.insert(key.clone(), again(entry));
                if let Some(list) = &entry.list {
                    self.send_list(&id, &list.0, entry.urls.len() as u64);
                }
            }
            Err(why) => {
                tracing::error!(why, "an entry of [[warm]] cannot begin; it is tried again in a minute");
                next.insert(key.clone(), now.checked_add(FAILED_PAUSE));
            }
        }
    }

    /// Has a warming fail whose list does not come to its end.
    fn break_off(&self, id: &str, why: String) {
        if let Some(warming) = self.book.find(id) {
            warming.break_off(why);
        }
    }

    /// Sends the list of an entry. Where it cannot be read, nothing of it is warmed.
    fn send_list(&self, id: &str, list: &Path, mut at: u64) {
        let lists = [list.to_owned()];
        let mut pieces = Pieces::of(&[], &lists);
        loop {
            let urls = match pieces.next() {
                Ok(urls) => urls,
                Err(error) => return self.break_off(id, sentence(&error)),
            };
            let (more, urls) = (urls.is_some(), urls.unwrap_or_default());
            let count = urls.len() as u64;
            if let Err(why) = self.add(id, &WarmPiece { at, urls, more }) {
                return self.break_off(id, why.to_string());
            }
            at += count;
            if !more {
                return;
            }
        }
    }
}

fn refused(error: BookError) -> WarmRefusal {
    let text = error.to_string();
    match error {
        BookError::Disk(_) => WarmRefusal::StateFolder(text),
        BookError::TooMany => WarmRefusal::Busy(text),
        BookError::TooLong | BookError::NotAUrl(_) => WarmRefusal::Unfit(text),
        BookError::Unknown => WarmRefusal::Unknown(text),
        BookError::Gap { .. } => WarmRefusal::Gap(text),
    }
}

fn shown(report: Report) -> Warmed {
    let Report { stored, confirmed, fresh, not_stored, failed, examples } = report;
    let examples = examples.into_iter().map(|(url, why)| WarmExample { url, why }).collect();
    Warmed { stored, confirmed, fresh, not_stored, failed, examples }
}

/// A job as the warming sees it.
struct Watched<'p>(&'p Progress);

impl Watch for Watched<'_> {
    fn expect(&self, total: u64) {
        self.0.expect(total);
    }

    fn resume(&self, done: u64) {
        self.0.resume(done);
    }

    fn wait_for(&self, what: Option<&str>) {
        self.0.wait_for(what);
    }

    fn step(&self) -> ControlFlow<()> {
        self.0.step()
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

/// The edge as the warming sees it.
struct Around<'e> {
    edge: &'e Edge,
    folder: Option<FolderOrigin>,
    progress: &'e Progress,
    owner: Arc<str>,
    /// What is under way ends with the warming.
    ends: watch::Receiver<()>,
    _ending: watch::Sender<()>,
}

impl Around<'_> {
    fn ask(&self, url: &str, order: &Order) -> Warm {
        let fields = order.headers.iter();
        let fields = fields.filter_map(|(name, value)| Some((name.parse().ok()?, value.parse().ok()?)));
        let mut headers = HeaderMap::new();
        fields.for_each(|(name, value): (HeaderName, HeaderValue)| {
            headers.append(name, value);
        });
        let below = order.folder.as_ref().and_then(|folder| url.strip_prefix(&folder.url));
        let instead = below.zip(self.folder.as_ref());
        let instead = instead.map(|(path, origin)| (origin.upstream().clone(), format!("/{path}")));
        let (owner, ends) = (self.owner.clone(), self.ends.clone());
        Warm { url: url.to_owned(), headers, refresh: order.refresh, instead, owner, ends }
    }
}

impl Outside for Around<'_> {
    fn warm(&self, url: &str, order: &Order, done: Box<dyn FnOnce(Outcome) + Send>) {
        self.edge.warm(self.ask(url, order), Box::new(move |warmed| done(outcome(warmed))));
    }

    fn read(&self, url: &str, order: &Order) -> Result<Content<'_>, String> {
        let (tell, told) = mpsc::channel();
        let mut asked = self.ask(url, order);
        // The fields are those of pages. This reader knows no other coding.
        asked.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let document = self.edge.read(asked, Box::new(move |warmed| drop(tell.send(warmed))));
        let until = weir_clock::now().mono + HEAD_TIME_MAX;
        let head = loop {
            match told.recv_timeout(LOOK_PAUSE) {
                Ok(head) => break head,
                Err(_) if self.progress.is_over() => return Err("the job is to end".to_owned()),
                Err(mpsc::RecvTimeoutError::Timeout) if weir_clock::now().mono < until => {}
                Err(_) => return Err("there was no answer in time".to_owned()),
            }
        };
        match head {
            weir_edge::Warmed::Stored => Ok(Ok(Box::new(Piecemeal::of(document, self.progress)))),
            weir_edge::Warmed::Status(status) => Err(format!("it is answered {}", status.as_u16())),
            other => match outcome(other) {
                Outcome::GaveWay(waits) => Ok(Err(waits)),
                Outcome::Failed(word) | Outcome::NotStored(word) => Err(word.into_owned()),
                Outcome::Stored | Outcome::Confirmed | Outcome::Fresh => Err("it has no content".to_owned()),
            },
        }
    }

    fn site(&self, url: &str) -> Option<String> {
        self.edge.site_of_url(url)
    }
}

fn outcome(warmed: weir_edge::Warmed) -> Outcome {
    match warmed {
        weir_edge::Warmed::Stored => Outcome::Stored,
        weir_edge::Warmed::Confirmed => Outcome::Confirmed,
        weir_edge::Warmed::Fresh => Outcome::Fresh,
        weir_edge::Warmed::NotStored(word) => Outcome::NotStored(word.into()),
        weir_edge::Warmed::Failed(word) => Outcome::Failed(word.into()),
        weir_edge::Warmed::Status(status) => Outcome::Failed(status.as_u16().to_string().into()),
        weir_edge::Warmed::GaveWay(why) => Outcome::GaveWay(match why {
            GaveWay::Places => Waits::Places,
            GaveWay::Clients(upstream) => Waits::Clients(upstream),
            GaveWay::Down(upstream) => Waits::Down(upstream),
        }),
    }
}
