//! Compares a catalogue with its volume: adds the rows that are missing and removes those of no use.

use std::ops::ControlFlow;

use weir_policy::Now;

use super::cover::{Catalogue, Uncovered, rows_of};
use super::rows::Change;
use super::schema;
use super::schema::{MARKER, Row};
use crate::volume::log::Logged;
use crate::{Place, ReadError, Record};

/// How many rows are read before the useless ones are removed.
const ROWS_AT_ONCE: usize = 1024;

/// What a recount found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recounted {
    /// Rows that were missing, and were added.
    pub missing: u64,
    /// Rows that were of no use any more, and were removed.
    pub superfluous: u64,
}

impl Catalogue {
    /// Looks for the rows of all covered records of the volume, and for the record of each row. Does nothing
    /// if the catalogue is broken. Reads all heads.
    ///
    /// # Errors
    /// Rows or volume cannot be read or written.
    pub fn recount(&self, now: Now) -> Result<Recounted, Uncovered> {
        let mut found = Recounted::default();
        let Some(covered) = self.covered().filter(|_| !self.is_broken()) else { return Ok(found) };
        let mut failed = None;
        self.volume().walk(|record| match self.mend(record, covered, now) {
            Ok(count) => {
                found.missing += count;
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        found.superfluous = self.drop_superfluous()?;
        Ok(found)
    }

    /// Adds the rows that a record lacks. Returns how many.
    fn mend(&self, record: &Record, covered: Place, now: Now) -> Result<u64, Uncovered> {
        // Covering will reach it.
        if record.place() >= covered {
            return Ok(0);
        }
        let logged = Logged::of(record);
        let digest = logged.digest;
        let mut lacking = Vec::new();
        for (key, value) in rows_of(self.volume(), &logged, now) {
            let mut is_there = false;
            self.rows().scan(&key, &mut |own, said| {
                let place = Row::read(said).map(|row| row.place);
                is_there = own == key && place == Some(logged.place);
                ControlFlow::Break(())
            })?;
            if !is_there {
                lacking.push((key, value));
            }
        }
        let _writing = self.writing();
        // A newer record of the object may have been covered in the meantime.
        if lacking.is_empty() || !self.volume().has_record((digest >> 64) as u64, logged.place) {
            return Ok(0);
        }
        let changes: Vec<Change<'_>> =
            lacking.iter().map(|(key, value)| Change::Put { key, value }).collect();
        self.rows().apply(&changes)?;
        Ok(lacking.len() as u64)
    }

    fn drop_superfluous(&self) -> Result<u64, Uncovered> {
        let (mut count, mut from) = (0, Vec::new());
        loop {
            let (mut useless, mut looked, mut last) = (Vec::new(), 0, Vec::new());
            self.rows().scan(&from, &mut |key, value| {
                looked += 1;
                last = key.to_vec();
                let row = schema::read_key(key).and_then(|_| Row::read(value));
                let is_wanted = row.is_some_and(|row| self.volume().may_be(row.hash, row.place));
                if key != MARKER && !is_wanted {
                    useless.push((key.to_vec(), value.to_vec()));
                }
                if looked < ROWS_AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            count += self.take_away(&useless)?;
            if looked < ROWS_AT_ONCE {
                return Ok(count);
            }
            from = last;
            from.push(0);
        }
    }

    /// Removes rows whose values are still the same.
    fn take_away(&self, useless: &[(Vec<u8>, Vec<u8>)]) -> Result<u64, Uncovered> {
        let _writing = self.writing();
        let mut changes = Vec::new();
        for (key, value) in useless {
            let mut is_same = false;
            self.rows().scan(key, &mut |own, said| {
                is_same = own == key && said == value;
                ControlFlow::Break(())
            })?;
            if is_same {
                changes.push(Change::Remove { key });
            }
        }
        if !changes.is_empty() {
            self.rows().apply(&changes)?;
        }
        Ok(changes.len() as u64)
    }
}

impl From<Uncovered> for ReadError {
    fn from(error: Uncovered) -> ReadError {
        match error {
            Uncovered::Volume(error) => error,
            Uncovered::Rows(error) => ReadError::Device(std::io::Error::other(error)),
        }
    }
}
