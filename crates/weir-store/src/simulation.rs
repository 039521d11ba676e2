//! The store's decisions driven by a trace, without bytes, files or threads: for `cargo xtask simulate`.
//!
//! The decisions are those of the store: the queues of memory and their ghosts, [`crate::admission`], the
//! counts of uses, and what is reinserted ([`crate::volume`]). The log is modelled: segments that are filled
//! and dropped in order, each object in one of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use weir_policy::{CacheKey, CacheRules, Now, RequestView, ResponseView, Storable, Stored, storable};

use crate::admission::{Admission, AdmissionMode, Extent, Room, Sketch};
use crate::budget::Budget;
use crate::generation::Body;
use crate::generation::Generation;
use crate::generation::Head;
use crate::ledger::Stamp;
use crate::memory::Queues;
use crate::volume::reinsert::{Wanted, allowance_bytes, choose, uses_after};
use crate::volume::testing::{KeyHash, Uses};

/// What an object of a few KB costs beside its body, in memory and in the log, in bytes: as in the store.
const MEMORY_OVERHEAD_BYTES: u64 = 900;
const LOG_OVERHEAD_BYTES: u64 = 384;
/// The size of an object for which the sketch is made, in bytes.
const OBJECT_BYTES: u64 = 8 << 10;
/// A shard's bits of a volume's index.
const SHARD_BITS: u32 = 12;

/// A segment of the log.
#[derive(Debug, Default)]
struct Segment {
    used_bytes: u64,
    objects: Vec<(u64, u64)>,
}

/// A memory and a volume below it.
#[derive(Debug)]
pub struct Model {
    queues: Queues,
    held: HashMap<u64, (Weak<Generation>, u64)>,
    memory_bytes: u64,
    used_bytes: u64,
    stored: Stored,
    budget: Arc<Budget>,
    sequence: u64,
    admission: Admission,
    uses: Uses,
    segment_bytes: u64,
    segments_max: usize,
    /// The oldest first; the last one is open.
    segments: VecDeque<Segment>,
    /// The number of the oldest one.
    oldest: u64,
    /// Which segment has an object.
    places: HashMap<u64, u64>,
    has_dropped: bool,
    written_bytes: u64,
    /// How much may be written in all, in bytes.
    budget_bytes: Option<u64>,
}

impl Model {
    /// A memory and a volume of these sizes in bytes. `now` may be any moment.
    pub fn new(memory_bytes: u64, volume_bytes: u64, mode: AdmissionMode, now: Now) -> Model {
        let segment_bytes = (volume_bytes / 32).next_power_of_two() / 2;
        let extent = Extent::of(volume_bytes / OBJECT_BYTES, memory_bytes / 32);
        Model {
            queues: Queues::new(memory_bytes),
            held: HashMap::new(),
            memory_bytes,
            used_bytes: extent.memory_bytes(),
            stored: any_response(now).into_stored(),
            budget: Budget::new(u64::MAX),
            sequence: 0,
            admission: Admission::with(mode, Sketch::new(extent)),
            uses: Uses::new(volume_bytes, SHARD_BITS),
            segment_bytes,
            segments_max: (volume_bytes / segment_bytes) as usize,
            segments: VecDeque::from([Segment::default()]),
            oldest: 0,
            places: HashMap::new(),
            has_dropped: false,
            written_bytes: 0,
            budget_bytes: None,
        }
    }

    /// The same model with a limit on what may be written, in bytes.
    pub fn within(self, budget_bytes: u64) -> Model {
        Model { budget_bytes: Some(budget_bytes), ..self }
    }

    /// What was written to the volume, in bytes.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// A request for an object of `bytes` bytes. True for a hit.
    pub fn request(&mut self, object: u64, bytes: u64) -> bool {
        self.admission.grow_old_if_due();
        let digest = digest_of(object);
        let known = self.held.get(&object).and_then(|(generation, _)| generation.upgrade());
        let is_hit = known.is_some() || self.places.contains_key(&object);
        match known {
            Some(generation) => self.used(&generation, object, bytes),
            None if is_hit => {
                let generation = self.keep(object, bytes);
                if let Some(generation) = generation.and_then(|weak| weak.upgrade()) {
                    self.used(&generation, object, bytes);
                }
            }
            None => {
                self.admission.note(digest);
                if self.admission.judge(digest, self.room()) {
                    self.store(object, bytes);
                }
                self.keep(object, bytes);
            }
        }
        is_hit
    }

    /// Does what `Store::find` does with a hit.
    fn used(&mut self, generation: &Arc<Generation>, object: u64, bytes: u64) {
        if !generation.label.note_use() {
            return;
        }
        let digest = digest_of(object);
        self.admission.note(digest);
        if self.places.contains_key(&object) {
            self.uses.note(KeyHash::of(digest));
        } else if self.admission.judge(digest, self.room()) {
            self.store(object, bytes);
        }
    }

    fn room(&self) -> Room {
        let free = self.segments_max - self.segments.len();
        let is_left = if self.has_dropped { free >= (self.segments_max / 8).max(3) } else { free >= 2 };
        let is_half_spent = self.budget_bytes.is_some_and(|budget| self.written_bytes * 2 > budget);
        Room { is_left, ahead: 0, is_half_spent }
    }

    /// Puts an object into memory, where it fits.
    fn keep(&mut self, object: u64, bytes: u64) -> Option<Weak<Generation>> {
        let weight = bytes + MEMORY_OVERHEAD_BYTES;
        if weight > self.memory_bytes / 2 {
            return None;
        }
        while self.used_bytes + weight > self.memory_bytes {
            let victims = self.queues.pick(self.used_bytes + weight - self.memory_bytes);
            if victims.is_empty() {
                return None;
            }
            for victim in victims {
                if let Some((_, weight)) = self.held.remove(&victim.label.sequence) {
                    self.used_bytes -= weight;
                }
            }
        }
        self.sequence += 1;
        let key = CacheKey { digest: digest_of(object), full: Bytes::new(), site: 0 };
        let head = Head::new(self.stored.clone(), self.budget.nothing());
        let body = Body::new(Some(0), self.budget.nothing());
        let generation =
            Arc::new(Generation::new(key, object, Stamp::of(1), head, body, self.budget.nothing()));
        let weak = Arc::downgrade(&generation);
        self.queues.link(generation, weight);
        self.held.insert(object, (Weak::clone(&weak), weight));
        self.used_bytes += weight;
        Some(weak)
    }

    /// Writes an object to the log.
    fn store(&mut self, object: u64, bytes: u64) {
        if self.budget_bytes.is_some_and(|budget| self.written_bytes + bytes > budget) {
            return;
        }
        self.append(object, bytes);
        let is_half_full = self.open().used_bytes > self.segment_bytes / 2;
        if is_half_full && self.segments.len() >= self.segments_max {
            self.drop_oldest();
        }
    }

    fn open(&mut self) -> &mut Segment {
        if self.segments.is_empty() {
            self.segments.push_back(Segment::default());
        }
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }

    fn append(&mut self, object: u64, bytes: u64) {
        let cost = bytes + LOG_OVERHEAD_BYTES;
        if self.open().used_bytes + cost > self.segment_bytes {
            self.segments.push_back(Segment::default());
        }
        let open = self.open();
        open.used_bytes += cost;
        open.objects.push((object, bytes));
        let number = self.oldest + self.segments.len() as u64 - 1;
        self.places.insert(object, number);
        self.written_bytes += cost;
    }

    /// Drops the oldest segment. What of it is worth that is reinserted, as far as the open segment has room.
    fn drop_oldest(&mut self) {
        self.has_dropped = true;
        let Some(segment) = self.segments.pop_front() else { return };
        let number = self.oldest;
        self.oldest += 1;
        let here: Vec<(u64, u64)> = segment
            .objects
            .into_iter()
            .filter(|(object, _)| self.places.get(object) == Some(&number))
            .collect();
        let hash = |object: u64| KeyHash::of(digest_of(object));
        let wanted: Vec<Wanted> = here
            .iter()
            .map(|(object, bytes)| Wanted {
                uses: self.uses.of(hash(*object)),
                bytes: bytes + LOG_OVERHEAD_BYTES,
            })
            .collect();
        for (object, _) in &here {
            self.places.remove(object);
        }
        let chosen = choose(&wanted, allowance_bytes(self.segment_bytes));
        here.iter().for_each(|(object, _)| self.uses.set(hash(*object), 0));
        for at in chosen {
            if self.open().used_bytes + wanted[at].bytes > self.segment_bytes {
                break;
            }
            let (object, bytes) = here[at];
            self.append(object, bytes);
            self.uses.set(hash(object), uses_after(wanted[at].uses));
        }
    }
}

/// A digest in which every bit depends on the number.
fn digest_of(object: u64) -> u128 {
    xxhash_rust::xxh3::xxh3_128(&object.to_le_bytes())
}

/// A response that may be stored.
pub fn any_response(now: Now) -> Storable {
    let request = HeaderMap::new();
    let mut response = HeaderMap::new();
    response.insert("cache-control", HeaderValue::from_static("max-age=600"));
    let view = RequestView {
        method: &Method::GET,
        scheme: "http",
        host: "example.test",
        path_and_query: "/",
        headers: &request,
        has_body: false,
        is_trusted: false,
    };
    let rules = CacheRules::default();
    match storable(&view, &ResponseView::new(StatusCode::OK, &response, now, now), &rules) {
        Ok(storable) => storable,
        Err(_) => unreachable!("this response may be stored"),
    }
}
