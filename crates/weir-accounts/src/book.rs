//! What is known of the accounts: the sums of every month, and the days of the months that are being written.
//! It must not touch a file; the keeper reads and writes for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::day::{Day, Month, Period};
use crate::flows::Flows;
use crate::form::{Id, Sheet, id};
use crate::unsound::Unsound;

/// A row that is not written yet: its month, account and day.
type Unwritten = (Month, Id, u8);

#[derive(Debug, Default)]
pub(crate) struct Book {
    /// The end of the names of this process's own files.
    own: String,
    names: BTreeMap<Id, Arc<str>>,
    sums: BTreeMap<(Month, Id), Flows>,
    /// Months whose files keep days.
    detailed: BTreeSet<Month>,
    /// Months that are being written.
    open: BTreeMap<Month, Sheet>,
    unwritten: BTreeSet<Unwritten>,
    /// Months whose files are not whole and could not be set aside.
    unsound: BTreeMap<Month, Unsound>,
}

impl Book {
    /// An empty book, whose files have this end of their names.
    pub(crate) fn of(own: String) -> Book {
        Book { own, ..Book::default() }
    }

    /// Whether it belongs to an old process that has left its files to a new one.
    pub(crate) fn is_aside(&self) -> bool {
        !self.own.is_empty()
    }

    /// The file of a month.
    pub(crate) fn file_name(&self, month: Month) -> String {
        format!("{month}{}", self.own)
    }

    /// The month of a file, where it is one of the own.
    pub(crate) fn own_month(&self, file_name: &str) -> Option<Month> {
        file_name.strip_suffix(self.own.as_str())?.parse().ok()
    }

    /// Takes the sums of a month's file, once at the start.
    pub(crate) fn sum(&mut self, month: Month, sheet: &Sheet) {
        self.names.extend(sheet.names.iter().map(|(id, name)| (*id, name.clone())));
        for ((id, day), flows) in &sheet.rows {
            self.sums.entry((month, *id)).or_default().add(flows);
            if *day > 0 {
                self.detailed.insert(month);
            }
        }
    }

    /// Takes the sums of what is sound of a file that could not be set aside.
    pub(crate) fn sum_unsound(&mut self, unsound: Unsound, sheet: &Sheet) {
        self.sum(unsound.month, sheet);
        self.unsound.insert(unsound.month, unsound);
    }

    /// A month's file has gone aside: what was known of it is read there from now on.
    pub(crate) fn forget(&mut self, month: Month) {
        self.sums.retain(|(of, _), _| *of != month);
        self.detailed.remove(&month);
        self.unsound.remove(&month);
    }

    /// The files that are not whole, and could not be set aside.
    pub(crate) fn unsound(&self) -> impl Iterator<Item = &Unsound> {
        self.unsound.values()
    }

    /// Whether days can be added to a month.
    pub(crate) fn is_open(&self, month: Month) -> bool {
        self.open.contains_key(&month)
    }

    /// Opens a month with what its file says; that is written again, as nobody knows whether it was synced.
    pub(crate) fn open(&mut self, month: Month, sheet: Sheet) {
        self.unwritten.extend(sheet.rows.keys().map(|(id, day)| (month, *id, *day)));
        self.open.insert(month, sheet);
    }

    /// Adds to an account's day, whose month is open.
    pub(crate) fn add(&mut self, day: Day, name: &Arc<str>, flows: &Flows) {
        let (month, id) = (day.month(), id(name));
        let Some(sheet) = self.open.get_mut(&month) else { return };
        sheet.names.entry(id).or_insert_with(|| name.clone());
        self.names.entry(id).or_insert_with(|| name.clone());
        sheet.rows.entry((id, day.number())).or_default().add(flows);
        self.sums.entry((month, id)).or_default().add(flows);
        self.detailed.insert(month);
        self.unwritten.insert((month, id, day.number()));
    }

    /// The first month with rows that are not written.
    pub(crate) fn unwritten(&self) -> Option<Month> {
        self.unwritten.first().map(|(month, ..)| *month)
    }

    /// The whole file of an open month.
    pub(crate) fn file(&self, month: Month) -> Vec<u8> {
        self.open.get(&month).map(Sheet::file).unwrap_or_default()
    }

    /// What is to be added to the file of an open month, in which these accounts are named.
    pub(crate) fn addition(&self, month: Month, named: &BTreeSet<Id>) -> Vec<u8> {
        let Some(sheet) = self.open.get(&month) else { return Vec::new() };
        let keys: Vec<_> = self.unwritten_of(month).map(|(_, id, day)| (*id, *day)).collect();
        sheet.addition(keys.iter(), |id| !named.contains(&id))
    }

    fn unwritten_of(&self, month: Month) -> impl Iterator<Item = &Unwritten> {
        self.unwritten.range((month, 0, 0)..).take_while(move |(of, ..)| *of == month)
    }

    /// The accounts of an open month.
    pub(crate) fn ids(&self, month: Month) -> BTreeSet<Id> {
        self.open.get(&month).map(|sheet| sheet.names.keys().copied().collect()).unwrap_or_default()
    }

    /// All of a month is written.
    pub(crate) fn written(&mut self, month: Month) {
        self.unwritten.retain(|(of, ..)| *of != month);
    }

    /// Forgets the days of months that are written and are not this one.
    pub(crate) fn close(&mut self, now: Month) {
        let unwritten = &self.unwritten;
        let is_unwritten = |month: Month| unwritten.range((month, 0, 0)..).any(|(of, ..)| *of == month);
        self.open.retain(|month, _| *month == now || is_unwritten(*month));
    }

    /// The months whose days are kept for longer than they need be: all but the newest of them.
    pub(crate) fn to_fold(&self, months_kept: usize) -> Vec<Month> {
        let old = self.detailed.iter().rev().skip(months_kept);
        old.filter(|month| !self.open.contains_key(month)).copied().collect()
    }

    /// The days of a month are kept no more.
    pub(crate) fn folded(&mut self, month: Month) {
        self.detailed.remove(&month);
    }

    /// The names of the accounts.
    pub(crate) fn name(&self, id: Id) -> Arc<str> {
        self.names.get(&id).cloned().unwrap_or_else(|| format!("?{id:016x}").into())
    }

    /// What each account has used since ever.
    pub(crate) fn ever(&self) -> BTreeMap<Id, Flows> {
        let mut ever: BTreeMap<Id, Flows> = BTreeMap::new();
        for ((_, id), flows) in &self.sums {
            ever.entry(*id).or_default().add(flows);
        }
        ever
    }

    /// The months of which something is known, from one on.
    pub(crate) fn months(&self, first: Option<Month>) -> BTreeSet<Month> {
        let all = self.sums.keys().map(|(month, _)| *month);
        all.filter(|month| first.is_none_or(|first| *month >= first)).collect()
    }

    /// The sums of a month.
    pub(crate) fn sums_of(&self, month: Month) -> impl Iterator<Item = (Id, &Flows)> {
        self.sums
            .range((month, 0)..)
            .take_while(move |((of, _), _)| *of == month)
            .map(|((_, id), f)| (*id, f))
    }

    /// The rows of an open month.
    pub(crate) fn rows(&self, month: Month) -> Option<Rows> {
        self.open.get(&month).map(|sheet| rows(month, sheet))
    }
}

/// Rows by account and period.
pub(crate) type Rows = Vec<(Id, Period, Flows)>;

/// The rows of a month; what is of no day that it has is of the month.
pub(crate) fn rows(month: Month, sheet: &Sheet) -> Rows {
    let period = |day: u8| month.day(day).map_or(Period::Month(month), Period::Day);
    sheet.rows.iter().map(|((id, day), flows)| (*id, period(*day), *flows)).collect()
}

/// The same with one row an account.
pub(crate) fn folded(sheet: &Sheet) -> Sheet {
    let mut folded = Sheet { names: sheet.names.clone(), ..Sheet::default() };
    for ((id, _), flows) in &sheet.rows {
        folded.rows.entry((*id, 0)).or_default().add(flows);
    }
    folded
}
