//! An object that is being stored: what is written of it, what waits, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weir_policy::{Interval, Intervals};

use crate::BLOCK_BYTES;
use crate::format::record::{Description, ExtentRef, Header, Kind, LENGTH_UNKNOWN, Table};
use crate::index::stocks::Counted;
use crate::index::{KeyHash, Location};
use crate::settings::EXTENT_DELAY;
use crate::write::intake::Waiting;
use crate::write::put::PutStatus;

/// An extent that is written because time is up has at least this part of what is held, so that a slow body
/// of any length has few extents.
const EXTENT_PART: u64 = 64;
/// The fewest bytes that are written early when too much waits.
const PRESSED_BYTES_MIN: u64 = 4096;

/// How a put ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The body is whole. Its length.
    Whole(u64),
    /// What has come is kept as a partial object.
    Rest,
    /// What has come is dropped.
    Abandon,
}

/// An object as its head describes it.
#[derive(Debug)]
pub(crate) struct ObjectHead {
    pub(crate) digest: u128,
    pub(crate) key: Bytes,
    pub(crate) head: Bytes,
    pub(crate) stamp: u64,
    /// The length of the body in bytes, if it is known.
    pub(crate) length: Option<u64>,
}

/// An object that is being stored.
#[derive(Debug)]
pub struct Put {
    pub(crate) digest: u128,
    pub(crate) key: Bytes,
    pub(crate) head: Bytes,
    pub(crate) stamp: u64,
    pub(crate) length: Option<u64>,
    pub(crate) status: Arc<PutStatus>,
    /// The written extents, sorted by offset, none overlapping.
    pub(crate) extents: Vec<ExtentRef>,
    /// The record that the index has.
    pub(crate) published: Option<Location>,
    /// What that record counted for.
    pub(crate) counted: Counted,
    pub(crate) held: Intervals,
    /// The bytes that wait to be written, by run. Transfers of several gaps have a run each.
    pub(crate) waiting: Vec<Run>,
    /// The bytes written since the last head.
    pub(crate) unpublished_bytes: u64,
}

/// Adjacent bytes of a body that are not written yet.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) since: Duration,
    pub(crate) pieces: Vec<Bytes>,
    /// Their share of the queue.
    pub(crate) charge: Option<Waiting>,
}

impl Put {
    pub(crate) fn new(object: ObjectHead, status: Arc<PutStatus>) -> Put {
        let ObjectHead { digest, key, head, stamp, length } = object;
        Put {
            digest,
            key,
            head,
            stamp,
            length,
            status,
            extents: Vec::new(),
            published: None,
            counted: Counted::default(),
            held: Intervals::new(),
            waiting: Vec::new(),
            unpublished_bytes: 0,
        }
    }

    pub(crate) fn hash(&self) -> KeyHash {
        KeyHash::of(self.digest)
    }

    /// The length of key and head, in bytes.
    pub(crate) fn described_bytes(&self) -> u64 {
        (self.key.len() + self.head.len()) as u64
    }

    pub(crate) fn header(&self, object: u64, kind: Kind) -> Header {
        Header {
            kind,
            key_bytes: 0,
            number: object,
            stamp: self.stamp,
            digest: self.digest,
            span: self.length.unwrap_or(LENGTH_UNKNOWN),
            head_bytes: 0,
            count: 0,
        }
    }

    /// A segment was dropped: what lay in it can be written again. `is_in` says whether a record lay there.
    pub(crate) fn forget_segment(&mut self, number: u64, is_in: impl Fn(Location) -> bool) {
        for extent in self.extents.extract_if(.., |extent| extent.place.segment == number) {
            self.held.remove(Interval { start: extent.offset, end: extent.end() });
        }
        self.published = self.published.filter(|location| !is_in(*location));
    }

    pub(crate) fn head_record_bytes(&self) -> u64 {
        let table = Table::Extents(&self.extents);
        let description = Description { key: &self.key, head: &self.head, table };
        self.header(0, Kind::Head).fit(&description).record_bytes()
    }

    /// Whether waiting bytes are to be written now.
    pub(crate) fn is_due(&self, now: Duration, is_pressed: bool) -> bool {
        let bytes = self.waiting_bytes();
        let since = self.waiting.iter().map(|run| run.since).min().unwrap_or(now);
        let waits = now.saturating_sub(since);
        let least = (self.held.length() / EXTENT_PART).max(BLOCK_BYTES as u64);
        (waits >= EXTENT_DELAY && bytes >= least) || (is_pressed && bytes >= PRESSED_BYTES_MIN)
    }
}

impl Put {
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting.iter().map(|run| run.bytes).sum()
    }

    /// The run that ends at `offset`.
    pub(crate) fn run_at(&self, offset: u64) -> Option<usize> {
        self.waiting.iter().position(|run| run.offset + run.bytes == offset)
    }

    /// Takes up to `bytes` from the front of a run.
    pub(crate) fn split(&mut self, run: usize, bytes: u64) -> Option<(u64, Vec<Bytes>)> {
        Some(self.waiting.get_mut(run)?.split(bytes))
    }
}

impl Run {
    pub(crate) fn take(&mut self, charge: Option<Waiting>) {
        match (&mut self.charge, charge) {
            (Some(own), Some(more)) => own.merge(more),
            (None, charge) => self.charge = charge,
            (Some(_), None) => {}
        }
    }

    /// Gives back the queue's room of bytes that were written.
    pub(crate) fn settle(&mut self) {
        let bytes = self.bytes;
        if bytes == 0 {
            self.charge = None;
        } else if let Some(charge) = &mut self.charge {
            charge.shrink_to(bytes);
        }
    }

    /// Takes up to `bytes` from the front.
    pub(crate) fn split(&mut self, bytes: u64) -> (u64, Vec<Bytes>) {
        let offset = self.offset;
        let mut taken = Vec::new();
        let mut left = bytes.min(self.bytes);
        self.offset += left;
        self.bytes -= left;
        let mut rest = Vec::new();
        for mut piece in std::mem::take(&mut self.pieces) {
            let count = (piece.len() as u64).min(left) as usize;
            if count > 0 {
                taken.push(piece.split_to(count));
                left -= count as u64;
            }
            if !piece.is_empty() {
                rest.push(piece);
            }
        }
        self.pieces = rest;
        (offset, taken)
    }
}
