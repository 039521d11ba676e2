//! Objects by their rows, some at a time and in order: those whose keys begin in a way, or that have a tag.
//! It reads no record of the volume.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::cover::Catalogue;
use super::rows::RowsError;
use super::schema::{self, Named, Row, key_of, of_tag, read_by_key, read_by_number, read_key};
use super::summary::Summary;
use crate::Place;

/// What is searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Search {
    /// Objects whose rows by key begin so ([`schema::of_site`], [`schema::KEYS`]), in the order of these.
    Keys(Vec<u8>),
    /// Objects with this tag, in the order of their numbers.
    Tag(u64),
}

/// An object that rows name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Where it stands in the order of the search.
    pub name: Vec<u8>,
    /// Its site.
    pub site: u64,
    /// Its full key.
    pub full: Bytes,
    /// Its number.
    pub number: u64,
    /// Its record. Where `has_moved`, an older one.
    pub row: Row,
    /// What the row says of it.
    pub summary: Summary,
    /// The index has something under its hash that the rows do not know of yet: perhaps its newer head.
    pub has_moved: bool,
}

/// Some of what a search finds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Looked {
    /// The objects, in order.
    pub seen: Vec<Seen>,
    /// How many rows were looked at.
    pub looked: usize,
    /// Where to go on; `None` at the end.
    pub next: Option<Vec<u8>>,
}

impl Catalogue {
    /// Looks at `most` rows of a search, beginning with the first that is not before `from`; that may be
    /// empty. Leaves out what is gone. May wait for the drive of the rows.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn objects(&self, search: &Search, from: &[u8], most: usize) -> Result<Looked, RowsError> {
        // Whatever the log has before this place is in the rows that are read from here on.
        let covered = self.covered().unwrap_or(Place::BEGIN);
        let result = match search {
            Search::Keys(prefix) => self.by_keys(prefix, from, most, covered),
            Search::Tag(tag) => self.by_tag(*tag, from, most, covered),
        };
        if result.is_err() {
            self.give_up();
        }
        result
    }

    /// Whether a row is of use: `Some(false)` if it is the index's, `Some(true)` if that may have moved.
    fn moved(&self, row: Row, covered: Place) -> Option<bool> {
        if self.volume().has_record(row.hash, row.place) {
            return Some(false);
        }
        self.volume().has_behind(row.hash, covered).then_some(true)
    }

    fn by_keys(&self, prefix: &[u8], from: &[u8], most: usize, covered: Place) -> Result<Looked, RowsError> {
        let mut found = Looked::default();
        self.rows().scan(prefix.max(from), &mut |key, value| {
            if !key.starts_with(prefix) {
                return ControlFlow::Break(());
            }
            found.looked += 1;
            if let Some((Named::Key { site, full }, number)) = read_key(key)
                && let Some(has_moved) = Row::read(value).and_then(|row| self.moved(row, covered))
                && let Some((row, summary)) = read_by_key(value)
            {
                let (name, full) = (key.to_vec(), Bytes::copy_from_slice(full));
                found.seen.push(Seen { name, site, full, number, row, summary, has_moved });
            }
            if found.looked < most {
                return ControlFlow::Continue(());
            }
            found.next = Some([key, &[0]].concat());
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    fn by_tag(&self, tag: u64, from: &[u8], most: usize, covered: Place) -> Result<Looked, RowsError> {
        let prefix = of_tag(tag);
        let (mut found, mut tagged) = (Looked::default(), Vec::new());
        self.rows().scan(&[&prefix, from].concat(), &mut |key, value| {
            if !key.starts_with(&prefix) {
                return ControlFlow::Break(());
            }
            found.looked += 1;
            if let Some((Named::Tag(_), number)) = read_key(key)
                && let Some(row) = Row::read(value)
                && let Some(has_moved) = self.moved(row, covered)
            {
                tagged.push((number, row.place, has_moved));
            }
            if found.looked < most {
                return ControlFlow::Continue(());
            }
            found.next = Some([&key[prefix.len()..], &[0]].concat());
            ControlFlow::Break(())
        })?;
        let keys: Vec<Vec<u8>> = tagged.iter().map(|(number, ..)| key_of(Named::Object, *number)).collect();
        let mut wanted = tagged.iter();
        self.rows().find(&keys, &mut |key, value| {
            let Some((_, number)) = read_key(key) else { return ControlFlow::Continue(()) };
            let named = wanted.find(|(own, ..)| *own == number);
            // A newer head may have lost the tag: its row by number is newer than that by tag.
            if let Some(((_, place, has_moved), (row, summary, site, full))) =
                named.zip(read_by_number(value))
                && row.place == *place
            {
                let (name, full) = (number.to_be_bytes().to_vec(), Bytes::copy_from_slice(full));
                found.seen.push(Seen { name, site, full, number, row, summary, has_moved: *has_moved });
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }
}

/// Where an object by key and number stands among the rows by key.
pub fn name_by_key(site: u64, full: &[u8], number: u64) -> Vec<u8> {
    let mut name = schema::of_site(site, full);
    name.extend_from_slice(&number.to_be_bytes());
    name
}
