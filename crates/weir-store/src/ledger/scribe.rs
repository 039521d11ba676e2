//! Writes the ledger's file, and judges what is found of it at the start.
//!
//! A ledger is not believed blindly: its file may be an old copy, be cut off, or be gone. Two other places
//! say how far it had come: the file `ledger.end`, which is written with each batch before its marks are
//! acknowledged, and the register of volumes. Where the file says less, or does not end with a record, marks
//! may be lost. Then all that was asked for before this start is *suspect*, and the header says so from now
//! on.

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use weir_disk::{Disk, DiskFile};
use weir_policy::Now;

use super::error::OpenError;
use super::marks::Marks;
use super::record::{self, Content, End, FILE_BYTES_MAX, Header, RECORD_BYTES, Record};
use super::scope::{Force, Mark, Scope};
use crate::volume::random;

const FILE: &str = "ledger";
const FILE_END: &str = "ledger.end";
/// How far the counter jumps at a start: more than can have been counted and not written when the last
/// process ended.
pub(super) const START_GAP: u64 = 1 << 32;
/// No new ledger begins beyond this, whatever the clock says.
const FIRST_NUMBER_MAX: u64 = 1 << 62;
/// The most records in the file beyond twice those that are needed, before it is written again.
const SURPLUS_MAX: usize = 4096;

/// What was found of a ledger when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Past {
    /// All that it ever acknowledged.
    Whole,
    /// Nothing: this is a new ledger.
    New,
    /// It does not end with a record, or what follows the last acknowledged mark has gaps: its last marks
    /// were torn or damaged.
    Torn,
    /// Records inside it are damaged that were acknowledged. What was stored before is dead.
    Damaged,
    /// It is an old copy, or was cut off: it is known to have reached a larger number.
    Behind,
    /// The file `ledger.end` does not say how far it came.
    Unproven,
}

impl Past {
    /// What was found, and what follows from it.
    pub fn sentence(self) -> &'static str {
        match self {
            Past::Whole => "the ledger is whole",
            Past::New => "the ledger is new: what volumes were used with another is not used any more",
            Past::Torn => {
                "the ledger's end is torn or damaged, and purges may be lost: what volumes hold is asked \
                about before it is used"
            }
            Past::Damaged => {
                "the ledger is damaged, and purges may be lost: what volumes hold is not used any more"
            }
            Past::Behind => {
                "the ledger is a copy from before, or was cut off, and purges are lost: what volumes hold \
                is asked about before it is \
                 used"
            }
            Past::Unproven => {
                "the file `ledger.end` is missing or damaged, so that nobody knows whether purges are \
                lost: what volumes hold is asked \
                 about before it is used"
            }
        }
    }
}

/// What identifies a ledger, beside its marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nature {
    pub(super) id: u128,
    pub(super) suspect_before: u64,
    pub(super) is_adopted: bool,
    /// The number it had when it was opened.
    pub(super) found: u64,
}

/// Writes the file.
#[derive(Debug)]
pub(super) struct Scribe {
    marks: Arc<Marks>,
    disk: Arc<dyn Disk>,
    /// The file, and where it ends.
    open: Option<(Arc<dyn DiskFile>, u64)>,
    nature: Nature,
    /// Records in the file.
    records: usize,
    is_broken: bool,
    /// `ledger.end` belongs to this ledger.
    has_end: bool,
}

/// The first number of a new ledger: by the clock, so that two of them rarely begin with the same.
fn first_number(now: Now) -> u64 {
    let since = now.wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let number = u64::try_from(since.as_millis()).unwrap_or(u64::MAX).saturating_mul(1 << 20);
    number.min(FIRST_NUMBER_MAX)
}

/// What the files of a ledger say.
struct Found {
    past: Past,
    /// The largest number in any of its files.
    highest: u64,
    header: Option<Header>,
    has_end: bool,
}

impl Found {
    /// From a ledger's content, from `ledger.end`, and from a number that it is known to have reached.
    fn of(content: &Content, end: Option<(u128, u64)>, least: u64) -> Found {
        let header = content.header;
        let reached = content.records.iter().map(|record| record.number).fold(header.base, u64::max);
        let own_end = end.filter(|(id, _)| header.id == Some(*id)).map(|(_, number)| number);
        let highest = reached.max(own_end.unwrap_or(0)).max(least);
        let past = match content.end {
            // What was never acknowledged was being written when the power went, in whatever order.
            End::Damaged { whole_to } if own_end.is_some_and(|end| whole_to >= end.max(least)) => Past::Torn,
            End::Damaged { .. } => Past::Damaged,
            End::Torn => Past::Torn,
            End::Whole if reached < highest => Past::Behind,
            End::Whole if header.id.is_some() && own_end.is_none() => Past::Unproven,
            End::Whole => Past::Whole,
        };
        Found { past, highest, header: Some(header), has_end: own_end.is_some() }
    }

    /// For a folder without a ledger.
    fn nothing(end: Option<(u128, u64)>, least: u64, now: Now) -> Found {
        let highest = first_number(now).max(least).max(end.map_or(0, |(_, number)| number));
        Found { past: Past::New, highest, header: None, has_end: false }
    }
}

impl Scribe {
    /// Reads the file and writes it again: without a torn tail, and with a counter beyond every number ever
    /// given. If that fails it says why: the file counts as broken, and what it said is in force.
    pub(super) fn open(
        marks: Arc<Marks>,
        disk: Arc<dyn Disk>,
        least: u64,
        now: Now,
    ) -> Result<(Scribe, Past, io::Result<u64>), OpenError> {
        let read = disk.read(FILE, FILE_BYTES_MAX).map_err(OpenError::Unread)?;
        let end = disk.read(FILE_END, RECORD_BYTES as u64).ok().flatten();
        let end = end.and_then(|bytes| record::end_of_bytes(&bytes));
        let found = match read {
            Some(bytes) => {
                let content = record::read(&bytes)?;
                content.records.iter().for_each(|record| marks.restore(record, now));
                Found::of(&content, end, least)
            }
            None => Found::nothing(end, least, now),
        };
        let number = found.highest.saturating_add(START_GAP);
        marks.resume(number);
        if found.past == Past::Damaged {
            // The marks that made older objects dead are not known.
            let all = Mark { scope: Scope::All, force: Force::Hard };
            marks.restore(&Record { number, mark: all, at: now.wall }, now);
        }
        let id = found.header.and_then(|header| header.id);
        let nature = Nature {
            id: id.unwrap_or_else(random::identity),
            suspect_before: match found.past {
                Past::Whole | Past::New => found.header.map_or(0, |header| header.suspect_before),
                Past::Torn | Past::Damaged | Past::Behind | Past::Unproven => number,
            },
            is_adopted: found.header.is_some_and(|header| header.id.is_none() || header.is_adopted),
            found: found.highest,
        };
        let has_end = found.has_end;
        let mut scribe = Scribe { marks, disk, open: None, nature, records: 0, is_broken: true, has_end };
        let written = scribe.write_again();
        Ok((scribe, found.past, written))
    }

    pub(super) fn nature(&self) -> Nature {
        self.nature
    }

    /// Whether the content of the file is unknown.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Forgets the state of the file, which others may have changed: the next batch writes all.
    pub(super) fn mistrust(&mut self) {
        self.is_broken = true;
    }

    /// Writes a batch, or all marks where `is_whole` says so. Returns the number up to which all is durable
    /// then.
    pub(super) fn write(&mut self, batch: &[Record], is_whole: bool) -> io::Result<u64> {
        let needed = self.marks.count();
        let is_long = self.records + batch.len() > 2 * needed + SURPLUS_MAX;
        if self.is_broken || is_whole || is_long {
            return self.write_again();
        }
        let Some(last) = batch.last() else { return Ok(0) };
        let mut bytes = Vec::with_capacity(batch.len() * RECORD_BYTES);
        for record in batch {
            bytes.extend_from_slice(&record.to_bytes());
        }
        // A failure from here on leaves a file with unknown content.
        self.is_broken = true;
        let Some((file, end)) = &mut self.open else { return self.write_again() };
        file.write_all_at(&[&bytes], *end)?;
        file.sync_data()?;
        *end += bytes.len() as u64;
        // The file may have been removed or replaced.
        if self.disk.identity(FILE)? != Some(file.identity()?) {
            return self.write_again();
        }
        self.write_end(last.number)?;
        self.is_broken = false;
        self.records += batch.len();
        Ok(last.number)
    }

    /// Writes all marks into a new file, in place of the old one.
    fn write_again(&mut self) -> io::Result<u64> {
        self.is_broken = true;
        let (number, records) = self.marks.snapshot();
        let Nature { id, suspect_before, is_adopted, .. } = self.nature;
        let mut bytes = Vec::with_capacity((records.len() + 1) * RECORD_BYTES);
        let count = u32::try_from(records.len()).unwrap_or(u32::MAX);
        let header = Header { base: number, id: Some(id), suspect_before, is_adopted, count };
        bytes.extend_from_slice(&record::header(header));
        for record in &records {
            bytes.extend_from_slice(&record.to_bytes());
        }
        if !self.has_end {
            // Before the ledger: a ledger without it would be suspect, and it says nothing of a ledger with
            // another identity.
            self.write_end(number)?;
        }
        self.open = None;
        self.open = Some((self.disk.replace(FILE, &bytes)?, bytes.len() as u64));
        self.write_end(number)?;
        self.is_broken = false;
        self.records = records.len();
        Ok(number)
    }

    fn write_end(&mut self, number: u64) -> io::Result<()> {
        self.disk.overwrite(FILE_END, &record::end_to_bytes(self.nature.id, number))?;
        self.has_end = true;
        Ok(())
    }
}
