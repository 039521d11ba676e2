//! Events of what is stored: what was stored, what was revalidated, what left and why. It must not wait.

use std::sync::Arc;

use weir_policy::freshness;
use weir_store::{Evicted, Eviction, Generation, Retirement, Watcher};

use weir_clock as clock;
use weir_observe::{Event, EventKind, Events, Observatory};

/// Reports what leaves memory and what has to leave a volume.
#[derive(Debug)]
pub struct EvictionEvents(pub Arc<Observatory>);

impl Watcher for EvictionEvents {
    fn wants(&self) -> bool {
        let events = &self.0.events;
        [EventKind::Evicted, EventKind::Expired, EventKind::Purged].into_iter().any(|kind| events.wants(kind))
    }

    fn left(&self, generation: &Generation, why: Retirement) {
        let is_expired = || freshness(&generation.head().stored, clock::now()).left_s() < 0;
        let (kind, why) = match why {
            Retirement::Evicted => (EventKind::Evicted, "memory"),
            Retirement::Replaced if is_expired() => (EventKind::Expired, "replaced"),
            Retirement::Replaced => (EventKind::Evicted, "replaced"),
            Retirement::Invalidated => (EventKind::Purged, "invalidated"),
            Retirement::Outgrown | Retirement::Abandoned => return,
        };
        report(&self.0.events, kind, generation, why);
    }

    fn wants_volumes(&self) -> bool {
        self.0.events.wants(EventKind::Evicted)
    }

    fn left_volume(&self, evicted: &Evicted<'_>) {
        let why = match evicted.why {
            Eviction::Room => "volume",
            Eviction::Quota => "quota",
        };
        let kind = EventKind::Evicted;
        self.0.events.tell(kind, || Event {
            kind,
            wall: clock::now().wall,
            site: evicted.site,
            key: evicted.key.to_vec(),
            bytes: Some(evicted.bytes),
            why,
            volume: Some(Arc::clone(evicted.volume)),
            purge: None,
        });
    }

    fn untold(&self, count: u64) {
        self.0.events.miss(EventKind::Evicted, count);
    }
}

/// Reports a generation.
pub fn report(events: &Events, kind: EventKind, generation: &Generation, why: &'static str) {
    events.tell(kind, || Event {
        kind,
        wall: clock::now().wall,
        site: generation.key().site,
        key: generation.key().full.to_vec(),
        // Memory may keep only a window of what is stored whole.
        bytes: generation.length().filter(|_| kind == EventKind::Stored).or(Some(generation.held_bytes())),
        why,
        volume: None,
        purge: None,
    });
}

/// Reports that a generation is stored whole, once, whichever transfer loaded the last of it.
pub fn report_stored(events: &Events, generation: &Generation) {
    if events.wants(EventKind::Stored) && generation.begin_telling() {
        report(events, EventKind::Stored, generation, "");
    }
}
