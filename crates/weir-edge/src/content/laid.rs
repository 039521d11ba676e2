//! What is laid: each piece once, and the index of a plan, by which requests find it. A look-up takes no
//! lock. It must not answer.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OnceCell;
use weir_body::PrintedSlot;
use weir_content::{BLOCK_BYTES, Entry, Shelf};
use weir_files::{Files, Hidden, Root, RootRules, Siblings, Sums, Symlinks};
use weir_policy::{Stored, http_date};

use super::named;
use crate::plan::Plan;

/// A piece of content, as requests meet it.
#[derive(Debug)]
pub(crate) struct Laid {
    pub(crate) entry: Arc<Entry>,
    /// Status, fields and validators.
    pub(crate) stored: Stored,
    /// The head as it was printed last.
    pub(crate) printed: PrintedSlot,
    /// The sums of its bytes, where they are those that were laid; each process looks once.
    sums: OnceCell<Option<Arc<Sums>>>,
    /// Whether it could not be read when it was asked for last.
    is_unread: AtomicBool,
}

impl Laid {
    pub(super) fn new(entry: Arc<Entry>) -> Laid {
        let texts = [
            (CONTENT_TYPE, Some(entry.content_type.to_string())),
            (ETAG, Some(entry.tag())),
            (LAST_MODIFIED, http_date(entry.laid)),
            (CACHE_CONTROL, Some("no-cache".to_owned())),
        ];
        let value = |(name, text): (_, Option<String>)| Some((name, HeaderValue::try_from(text?).ok()?));
        let fields: HeaderMap = texts.into_iter().filter_map(value).collect();
        let stored = Stored::of_own(StatusCode::OK, fields, weir_clock::now());
        let (printed, sums) = (PrintedSlot::default(), OnceCell::new());
        Laid { entry, stored, printed, sums, is_unread: AtomicBool::new(false) }
    }

    /// The path of its file below the root.
    pub(super) fn path(&self) -> String {
        format!("/{}", self.entry.file_name())
    }

    /// The sums of its bytes, where they are those that were laid, and where no block was read since that is
    /// not. Reads them on a thread for that, once.
    ///
    /// # Errors
    /// Why they cannot be sent.
    pub(super) async fn sums(&self, shelved: &Shelved, files: &Files) -> Result<Arc<Sums>, &'static str> {
        let sums = match self.sums.get() {
            Some(known) => known,
            None => self.look(shelved, files).await.ok_or("its file cannot be read to the end")?,
        };
        let sound = sums.as_ref().filter(|sums| !sums.is_broken());
        sound.cloned().ok_or("its bytes are not those that were laid")
    }

    async fn look(&self, shelved: &Shelved, files: &Files) -> Option<&Option<Arc<Sums>>> {
        let (shelf, entry) = (Arc::clone(&shelved.shelf), Arc::clone(&self.entry));
        let of = move |get_on: &dyn Fn()| {
            let bytes = entry.body_bytes;
            let sums = shelf.sums(&entry, get_on).ok()?;
            Some(sums.map(|sums| Arc::new(Sums::new(sums, BLOCK_BYTES, bytes))))
        };
        let look = || async { files.apart(&shelved.root, of).await.ok().flatten().ok_or(()) };
        // A drive that fails for a moment is asked again.
        self.sums.get_or_try_init(look).await.ok()
    }

    /// Whether it is known to be damaged, or could not be read when it was asked for last.
    pub(crate) fn is_damaged(&self) -> bool {
        let is_broken = |sums: &Option<Arc<Sums>>| sums.as_ref().is_none_or(|sums| sums.is_broken());
        self.sums.get().is_some_and(is_broken) || self.is_unread.load(Ordering::Relaxed)
    }

    /// It has been read.
    pub(super) fn tell_read(&self) {
        if self.is_unread.load(Ordering::Relaxed) {
            self.is_unread.store(false, Ordering::Relaxed);
        }
    }

    /// Says in the log that it cannot be sent, once until it can.
    pub(super) fn tell_damaged(&self, why: &str) {
        if !self.is_unread.swap(true, Ordering::Relaxed) {
            let (url, file) = (&*self.entry.url, self.entry.file_name());
            tracing::error!(
                url,
                file,
                why,
                "content by hand cannot be read, and is as if not laid; lay it again"
            );
        }
    }
}

/// Which content requests find, by what the routes of one plan make of its URLs.
#[derive(Debug, Default)]
pub(crate) struct LaidIndex {
    /// The keys, so that a request costs one load while there are none.
    count: AtomicUsize,
    /// The newest first, where several URLs have one key.
    by_key: papaya::HashMap<Box<[u8]>, Arc<[Arc<Laid>]>>,
}

impl LaidIndex {
    /// The index of a plan.
    pub(super) fn of<'l>(plan: &Plan, all: impl Iterator<Item = &'l Arc<Laid>>) -> LaidIndex {
        let index = LaidIndex::default();
        all.for_each(|laid| index.insert(plan, laid));
        index
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<Arc<Laid>> {
        self.by_key.pin().get(key)?.first().cloned()
    }

    /// What requests for the URL of a piece have; nothing where the URL leads to another site now.
    fn keys(plan: &Plan, entry: &Entry) -> Vec<Box<[u8]>> {
        let site = named::site_of(plan, &entry.url).ok().filter(|site| *site.name == *entry.site);
        site.map(|site| named::keys(site, &entry.url)).unwrap_or_default()
    }

    /// Whether any request finds a piece.
    pub(crate) fn shows(&self, plan: &Plan, laid: &Laid) -> bool {
        let is_first = |key: &[u8]| self.find(key).is_some_and(|found| found.entry == laid.entry);
        LaidIndex::keys(plan, &laid.entry).iter().any(|key| is_first(key))
    }

    /// The newer content that requests for the URL of a piece find in its place, if they find it never.
    pub(super) fn covering(&self, plan: &Plan, laid: &Laid) -> Option<Arc<Laid>> {
        let keys = LaidIndex::keys(plan, &laid.entry);
        let found: Vec<_> = keys.iter().filter_map(|key| self.find(key)).collect();
        if found.iter().any(|found| found.entry == laid.entry) { None } else { found.into_iter().next() }
    }

    fn insert(&self, plan: &Plan, laid: &Arc<Laid>) {
        self.change(plan, laid, |all| {
            all.push(Arc::clone(laid));
            all.sort_by_key(|laid| std::cmp::Reverse(laid.entry.number));
        });
    }

    /// Takes out what is laid over the URL of a piece, and adds another where there is one.
    fn change(&self, plan: &Plan, of: &Laid, add: impl Fn(&mut Vec<Arc<Laid>>)) {
        let by_key = self.by_key.pin();
        for key in LaidIndex::keys(plan, &of.entry) {
            let held = by_key.get(&key).map(|held| held.to_vec()).unwrap_or_default();
            let mut all: Vec<_> = held.into_iter().filter(|held| held.entry.url != of.entry.url).collect();
            add(&mut all);
            match all.is_empty() {
                true => drop(by_key.remove(&key)),
                false => drop(by_key.insert(key, all.into())),
            }
        }
        self.count.store(by_key.len(), Ordering::Relaxed);
    }
}

/// The folder of the content.
#[derive(Debug)]
pub(crate) struct Shelved {
    pub(super) shelf: Arc<Shelf>,
    /// The same folder, for the files to be sent.
    pub(super) root: Arc<Root>,
}

/// All content by hand.
#[derive(Debug, Default)]
pub(crate) struct Content {
    shelved: Option<Shelved>,
    /// By URL. Held for a moment.
    all: Mutex<BTreeMap<Arc<str>, Arc<Laid>>>,
    /// Held while content is laid or removed, or a plan is put in force.
    order: Mutex<()>,
}

impl Content {
    /// The content of a folder.
    pub(crate) fn of(shelf: Shelf, folder: PathBuf) -> Content {
        let rules = RootRules {
            index: Vec::new(),
            hidden: Hidden::NotServed,
            symlinks: Symlinks::Refused,
            siblings: Siblings::NotUsed,
            lists: false,
        };
        let all = shelf.all().into_iter();
        let all = all.map(|entry| (Arc::clone(&entry.url), Arc::new(Laid::new(entry))));
        let all = Mutex::new(all.collect());
        let root = Arc::new(Root::new(folder, rules));
        Content { shelved: Some(Shelved { shelf: Arc::new(shelf), root }), all, order: Mutex::default() }
    }

    pub(super) fn shelved(&self) -> Option<&Shelved> {
        self.shelved.as_ref()
    }

    pub(super) fn shelf(&self) -> Option<&Arc<Shelf>> {
        self.shelved.as_ref().map(|shelved| &shelved.shelf)
    }

    /// Lets no content change, for as long as it is held. Blocks while a drive is written.
    pub(crate) fn still(&self) -> MutexGuard<'_, ()> {
        self.order.lock()
    }

    /// The index of a plan.
    pub(crate) fn index(&self, plan: &Plan) -> LaidIndex {
        LaidIndex::of(plan, self.all.lock().values())
    }

    /// All that is laid, by URL.
    pub(crate) fn all(&self) -> Vec<Arc<Laid>> {
        self.all.lock().values().cloned().collect()
    }

    /// What is laid over a URL.
    pub(super) fn current(&self, url: &str) -> Option<Arc<Laid>> {
        self.all.lock().get(url).cloned()
    }

    /// Shows what has been laid. `still` proves that nothing else changes.
    pub(super) fn show(&self, _still: &MutexGuard<'_, ()>, index: &LaidIndex, plan: &Plan, laid: Laid) {
        let laid = Arc::new(laid);
        self.all.lock().insert(Arc::clone(&laid.entry.url), Arc::clone(&laid));
        index.insert(plan, &laid);
    }

    /// Shows a piece no more.
    pub(super) fn hide(&self, _still: &MutexGuard<'_, ()>, index: &LaidIndex, plan: &Plan, url: &str) {
        let gone = self.all.lock().remove(url);
        if let Some(gone) = gone {
            index.change(plan, &gone, |_| {});
        }
    }
}
