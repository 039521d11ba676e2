//! Which bodies have readers at the moment: how far each reader has come, and for which client it reads. What
//! leaves the volume meanwhile is kept for these readers (`write::engine::kept`).
//!
//! It holds no bytes and no segments. What reads a body of the volume piece by piece has a
//! [`KnownReader`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use weir_policy::Interval;

use crate::read::reader::Record;

/// One reader of one object's body. While it exists, the volume keeps what this reader has yet to read, also
/// where the object is removed, replaced or evicted: within bounds.
#[derive(Debug)]
pub struct KnownReader {
    readers: Arc<KnownReaders>,
    object: u64,
    own: Arc<Progress>,
    has_told: bool,
}

impl KnownReader {
    /// The object's number.
    pub fn object(&self) -> u64 {
        self.object
    }

    /// The reader has come to an offset.
    pub fn moved(&self, offset: u64) {
        self.own.at.store(offset, Ordering::Relaxed);
    }

    /// The reader goes on with other bytes.
    pub fn turn_to(&self, of: Interval) {
        self.own.at.store(of.start, Ordering::Relaxed);
        self.own.end.store(of.end, Ordering::Relaxed);
    }

    /// Tells where the body lies, once, where nobody knows that yet.
    pub fn tell(&mut self, record: impl FnOnce() -> Arc<Record>) {
        if !std::mem::replace(&mut self.has_told, true) {
            self.readers.tell(self.object, record());
        }
    }

    /// Whether something that it had yet to read could not be kept any longer.
    pub fn is_lost(&self) -> bool {
        self.own.is_lost.load(Ordering::Acquire)
    }
}

impl Drop for KnownReader {
    fn drop(&mut self) {
        self.readers.end(self.object, &self.own);
    }
}

/// How far one reader has come.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) client: u64,
    at: AtomicU64,
    end: AtomicU64,
    is_lost: AtomicBool,
}

impl Progress {
    /// How many bytes come before the reader reaches a run of bytes; `None` where it does not read there any
    /// more.
    fn distance(&self, run: Interval) -> Option<u64> {
        let (at, end) = (self.at.load(Ordering::Relaxed), self.end.load(Ordering::Relaxed));
        (at < run.end && run.start < end).then(|| run.start.saturating_sub(at))
    }

    /// Notes that it has lost something. True for the first time.
    pub(crate) fn lose(&self) -> bool {
        !self.is_lost.swap(true, Ordering::AcqRel)
    }
}

/// A reader that has yet to read bytes of a segment.
#[derive(Debug)]
pub(crate) struct Want {
    pub(crate) reader: Arc<Progress>,
    /// The bytes before it reaches them.
    pub(crate) distance: u64,
}

/// The readers that want something of a segment, by its number.
pub(crate) type Wants = BTreeMap<u64, Vec<Want>>;

/// The bodies that are read, by their objects' numbers.
#[derive(Debug, Default)]
pub(crate) struct KnownReaders(Mutex<HashMap<u64, Body>>);

#[derive(Debug, Default)]
struct Body {
    /// Its newest record, as far as the readers know.
    newest: Option<Arc<Record>>,
    /// By their addresses.
    readers: HashMap<usize, Arc<Progress>>,
}

fn address(reader: &Arc<Progress>) -> usize {
    Arc::as_ptr(reader).addr()
}

impl KnownReaders {
    /// Notes a reader of bytes `of` an object.
    pub(crate) fn begin(self: &Arc<KnownReaders>, object: u64, client: u64, of: Interval) -> KnownReader {
        let (at, end) = (AtomicU64::new(of.start), AtomicU64::new(of.end));
        let own = Arc::new(Progress { client, at, end, is_lost: AtomicBool::new(false) });
        self.0.lock().entry(object).or_default().readers.insert(address(&own), Arc::clone(&own));
        KnownReader { readers: Arc::clone(self), object, own, has_told: false }
    }

    fn end(&self, object: u64, own: &Arc<Progress>) {
        let mut bodies = self.0.lock();
        let Some(body) = bodies.get_mut(&object) else { return };
        body.readers.remove(&address(own));
        if body.readers.is_empty() {
            bodies.remove(&object);
        }
    }

    fn tell(&self, object: u64, record: Arc<Record>) {
        if let Some(body) = self.0.lock().get_mut(&object) {
            body.newest.get_or_insert(record);
        }
    }

    /// Whether an object has readers.
    pub(crate) fn has(&self, object: u64) -> bool {
        self.0.lock().contains_key(&object)
    }

    /// Notes an object's new record, where the object has readers. What has left the volume since the older
    /// one is not in the new one, and may be kept.
    pub(crate) fn renew(&self, object: u64, record: impl FnOnce() -> Record) {
        if let Some(body) = self.0.lock().get_mut(&object) {
            let record = record();
            body.newest = Some(Arc::new(match &body.newest {
                Some(older) => record.with_older(older),
                None => record,
            }));
        }
    }

    /// The newest record of an object that has readers.
    pub(crate) fn newest(&self, object: u64) -> Option<Arc<Record>> {
        self.0.lock().get(&object)?.newest.clone()
    }

    /// Who wants what of the segments that are asked for.
    pub(crate) fn wants(&self, is_asked: impl Fn(u64) -> bool) -> Wants {
        let mut wants = Wants::new();
        // Readers come and go meanwhile: no lock is held while tables of extents are gone through.
        let known: Vec<(u64, Arc<Record>)> = {
            let bodies = self.0.lock();
            bodies.iter().filter_map(|(object, body)| Some((*object, body.newest.clone()?))).collect()
        };
        for (object, record) in known {
            let runs = record.runs(&is_asked);
            if runs.is_empty() {
                continue;
            }
            let all = |body: &Body| body.readers.values().cloned().collect();
            let readers: Vec<Arc<Progress>> = self.0.lock().get(&object).map(all).unwrap_or_default();
            for (segment, run) in runs {
                let wanting = readers.iter().filter_map(|reader| {
                    Some(Want { reader: Arc::clone(reader), distance: reader.distance(run)? })
                });
                let wanting: Vec<Want> = wanting.collect();
                if !wanting.is_empty() {
                    wants.entry(segment).or_default().extend(wanting);
                }
            }
        }
        wants
    }
}
