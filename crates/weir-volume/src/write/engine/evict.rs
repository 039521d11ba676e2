//! Makes room: the oldest segment leaves the index in small steps, then its file is unlinked.

use std::sync::{Arc, Weak};

use super::Engine;
use crate::format::journal::Change;
use crate::index::segment::{Seen, Segment, path};
use crate::shared::Shared;
use crate::usage::Counters;
use crate::write::tasks::{Dropping, Unreported};

/// How many shards one step goes through: some tens of microseconds.
const SHARDS_A_STEP: usize = if cfg!(test) { 24 } else { 256 };

impl Engine {
    /// One step of dropping. True while there is more to do.
    pub(super) fn step_dropping(&mut self) -> bool {
        // What leaves the index of a sealed volume would be back at the next opening.
        if self.shared.disk.is_sealed() {
            return false;
        }
        if self.dropping.is_none() && self.is_crowded() {
            let oldest = self.oldest();
            if oldest.is_some_and(|number| self.is_reinserting(number)) {
                return true;
            }
            self.dropping = oldest.map(|number| self.begin_dropping(number));
        }
        self.drop_some() || self.is_crowded() && self.oldest().is_some()
    }

    /// Writes again some more of a segment's wanted objects. False once the segment may be dropped.
    fn is_reinserting(&mut self, number: u64) -> bool {
        let own = self.reinsertion.take().filter(|reinsertion| reinsertion.number() == number);
        let mut reinsertion = own.unwrap_or_else(|| self.begin_reinsertion(number));
        let is_more = self.step_reinsertion(&mut reinsertion);
        // Writing may have dropped the segment itself.
        self.reinsertion = is_more.then_some(reinsertion);
        is_more
    }

    fn begin_dropping(&mut self, number: u64) -> Dropping {
        self.shared.pending_removals.add_segment(number);
        let failed = self.failed_removals.iter().flat_map(|removal| &removal.counted);
        self.books.begin_dropping(&self.shared, number, failed);
        Dropping { number, next_shard: 0, gone: 0, unreported: Unreported::default() }
    }

    /// Drops a segment in which nothing was of use when it was `seen`, unless a head has named its bytes
    /// since. One with records of removals stays for as long as there are older segments, since an index that
    /// is made again needs them.
    pub(crate) fn free(&mut self, number: u64, seen: Seen, has_gone: bool) {
        let is_open = self.open.as_ref().is_some_and(|open| open.segment.number == number);
        let is_dropping = self.dropping.as_ref().is_some_and(|dropping| dropping.number == number);
        let is_needed = has_gone && self.shared.segments.oldest() != Some(number);
        let is_read = |put: &crate::write::storing::Put| {
            put.extents.iter().any(|extent| extent.place.segment == number)
        };
        if is_open || is_dropping || is_needed || self.puts.values().any(is_read) {
            return;
        }
        let unchanged = self.shared.segments.segment(number).filter(|segment| segment.seen() == seen);
        let Some(segment) = unchanged else { return };
        let geometry = self.shared.segments.geometry;
        let slot = geometry.slot_of(number);
        let is_empty = |shard| !self.shared.index.any(shard, |location| geometry.slot(location) == slot);
        // Removals of its objects must be durable before the file goes. Otherwise a crash would lose entries
        // that still count.
        if (0..self.shared.index.shards()).all(is_empty) && self.sync() {
            // The sync may have dropped it, to make room for itself.
            if !self.shared.segments.has(number) {
                return;
            }
            self.shared.pending_removals.add_segment(number);
            Counters::add(&self.shared.counters.segments_freed, 1);
            self.discard(&segment);
        }
    }

    /// Goes on with the segment that is being dropped. True while more of it is left.
    fn drop_some(&mut self) -> bool {
        let Some(mut dropping) = self.dropping.take() else { return false };
        if self.unindex_some(&mut dropping) || self.report_some(&mut dropping.unreported) {
            self.dropping = Some(dropping);
            return true;
        }
        let shared = &self.shared;
        let geometry = shared.segments.geometry;
        let slot = geometry.slot_of(dropping.number);
        Counters::add(&shared.counters.segments_dropped, 1);
        Counters::add(&shared.counters.evicted, dropping.gone);
        if let Some(segment) = shared.segments.segment(dropping.number) {
            self.discard(&segment);
        }
        for put in self.puts.values_mut() {
            put.forget_segment(dropping.number, |location| geometry.slot(location) == slot);
        }
        false
    }

    /// Removes the segment's entries from some more shards. True while others still have some.
    fn unindex_some(&self, dropping: &mut Dropping) -> bool {
        let Shared { index, segments, listener, .. } = &*self.shared;
        if dropping.next_shard == index.shards() {
            return false;
        }
        let geometry = segments.geometry;
        let slot = geometry.slot_of(dropping.number);
        let is_listening = listener.is_listening();
        let end = (dropping.next_shard + SHARDS_A_STEP).min(index.shards());
        for shard in dropping.next_shard..end {
            dropping.gone += index.retain(shard, |location| {
                let stays = geometry.slot(location) != slot;
                if !stays && is_listening {
                    dropping.unreported.add(location);
                }
                stays
            });
        }
        dropping.next_shard = end;
        if end == index.shards() {
            dropping.unreported.arrange();
        }
        end < index.shards()
    }

    /// The oldest segment, unless it is the open one.
    fn oldest(&self) -> Option<u64> {
        let open = self.open.as_ref().map(|open| open.segment.number);
        self.shared.segments.oldest().filter(|number| Some(*number) != open)
    }

    /// Drops the oldest segment at once. False if there is none.
    pub(super) fn drop_oldest(&mut self) -> bool {
        if self.dropping.is_none() {
            let Some(number) = self.oldest() else { return false };
            self.dropping = Some(self.begin_dropping(number));
        }
        self.finish_dropping();
        true
    }

    /// Drops what is left of a segment that is being dropped. What has left the index with it would be back
    /// after a crash until then.
    pub(crate) fn finish_dropping(&mut self) {
        while self.drop_some() {
            if let Some(mut dropping) = self.dropping.take() {
                self.hurry(&mut dropping.unreported);
                self.dropping = Some(dropping);
            }
        }
    }

    /// Drops a segment that nothing in the index names any more. What is read is kept for a while.
    pub(super) fn discard(&mut self, segment: &Arc<Segment>) {
        let is_kept = self.keep(segment);
        self.shared.segments.remove(segment.number);
        self.books.drop_segment(segment.number);
        // A frame under way may name a segment that the journal does not know yet.
        self.pending.push(Change::Dropped { segment: segment.number });
        self.dropped.retain(|segment| segment.strong_count() > 0);
        if !is_kept {
            self.dropped.push(Arc::downgrade(segment));
        }
        self.unlink(Arc::clone(segment));
    }

    /// The bytes of dropped segments that readers still have open, or that could not be unlinked.
    pub(super) fn dropped_bytes(&self) -> u64 {
        self.dropped.iter().filter_map(Weak::upgrade).map(|segment| segment.bytes()).sum()
    }

    fn unlink(&mut self, segment: Arc<Segment>) {
        match self.shared.disk.unlink(&path(segment.number)) {
            Ok(()) => self.are_names_new = true,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                self.note(&error);
                self.stuck.push(segment);
            }
        }
    }

    /// Tries again to unlink files.
    pub(super) fn unlink_stuck(&mut self) {
        for segment in std::mem::take(&mut self.stuck) {
            self.unlink(segment);
        }
    }
}
