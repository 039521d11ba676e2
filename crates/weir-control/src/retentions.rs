//! The list of retentions. The ledger knows them by hashes alone; what each named, who gave it and when is in
//! the history, which the list is read from.
//!
//! The history is written in the order of what happened, whatever the clock says: where a clock was set back,
//! entries are later than those behind them. Then the list shows no order that must have ended, and none for
//! longer than was ordered.

mod superseded;

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::Value;

use crate::data_plane::{PurgeScope, RetentionShown, Retentions, StoredVariant};
use crate::history::{self, HistoryEntry, Own, PURGE, RETENTION};
use crate::status::rfc3339;

use self::superseded::Newer;

/// The most rows of a list.
const ROWS_MAX: usize = 1000;
/// How far the end of a lifetime may be from what its entry says: that was written once it was durable.
const ENTRY_DELAY: Duration = Duration::from_secs(5);
/// An entry that lies further ahead of a later one, or of now, is of a clock that was set back since.
const CLOCK_STEP_MAX: Duration = Duration::from_secs(60);

/// The retentions in force by the history of a state folder; those that `own` may see alone, where it is
/// given. Blocks.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn in_force(state: &Path, now: SystemTime, own: Option<&Own<'_>>) -> io::Result<Retentions> {
    let mut found = Retentions::default();
    let mut newer = Newer::default();
    let mut purges = history::newest_of_purgers(state)?;
    each_order(state, now, |given, clocks| {
        // What was held is gone or stale since, and what has come since has its own lifetime.
        while let Some(purge) = purges.next_if(|purge| is_before(&given.entry, purge))? {
            if purge.act == PURGE && purge.result == "done" && purge.mark.is_some() {
                scopes(&purge).iter().flatten().for_each(|scope| newer.note(scope, &purge.sites));
            }
        }
        let is_shown = own.is_none_or(|own| own.sees(&given.entry));
        found.more |= is_shown && given.is_cut;
        for row in given.rows(now) {
            // An older one within a scope decides nothing, even where this one has ended.
            if !newer.covers(&row) && is_shown && row.left_s > 0 {
                match clocks.is_in_doubt(given.time, given.until) {
                    true => found.more = true,
                    false => found.retentions.push(row),
                }
            }
        }
        given.scopes.iter().for_each(|scope| newer.note(scope, &given.entry.sites));
        Ok(match found.retentions.len() > ROWS_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    })?;
    if found.retentions.len() > ROWS_MAX {
        found.retentions.truncate(ROWS_MAX);
        found.more = true;
    }
    Ok(found)
}

/// Says of a stored response that has its lifetime from a retention which order that was: the newest that
/// ends at that time, concerns it, and may be seen by `own`, where it is given. Where the clock was set back
/// since, times say nothing: then the newest that concerns it. Blocks.
///
/// # Errors
/// A file of the history cannot be read.
pub(crate) fn tell(
    state: &Path,
    now: SystemTime,
    own: Option<&Own<'_>>,
    variant: &mut StoredVariant,
    concerns: impl Fn(&PurgeScope, &[String]) -> bool,
) -> io::Result<()> {
    let Some(retained) = &mut variant.retained else { return Ok(()) };
    let Some(until) = time(&retained.until) else { return Ok(()) };
    let row_of = |given: &Given, tags: &[String]| {
        given.scopes.iter().find(|scope| concerns(scope, tags)).map(|scope| given.row(scope, now))
    };
    let mut was_set_back = false;
    each_order(state, now, |given, clocks| {
        was_set_back |= clocks.were_set_back;
        let is_seen = own.is_none_or(|own| own.sees(&given.entry));
        if is_seen && apart(given.until, until) <= ENTRY_DELAY {
            retained.order = row_of(&given, &variant.tags);
        }
        Ok(if retained.order.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if !was_set_back || retained.order.is_some() {
        return Ok(());
    }
    each_order(state, now, |given, _| {
        let row = row_of(&given, &variant.tags);
        if row.is_none() && !given.is_cut {
            return Ok(ControlFlow::Continue(()));
        }
        // What is not seen, or not known whole, may be the one as well: then none is named.
        let is_seen = own.is_none_or(|own| own.sees(&given.entry));
        retained.order = row.filter(|_| is_seen && !given.is_cut);
        Ok(ControlFlow::Break(()))
    })
}

/// Whether an entry lies before another one, by the numbers of their marks. All are before one without
/// a mark.
fn is_before(entry: &HistoryEntry, other: &HistoryEntry) -> bool {
    let number = |entry: &HistoryEntry| entry.mark.as_ref().and_then(|mark| mark.parse::<u64>().ok());
    number(other).is_none_or(|other| number(entry).is_some_and(|own| own < other))
}

/// The scopes of an order; none for what is no scope, such as how many more there were.
fn scopes(entry: &HistoryEntry) -> Vec<Option<PurgeScope>> {
    let several = entry.scope.get("scopes").and_then(Value::as_array).into_iter().flatten();
    let all = entry.scope.get("scope").filter(|scope| !scope.is_null()).into_iter().chain(several);
    all.map(|one| serde_json::from_value(one.clone()).ok()).collect()
}

/// An order as the history has it.
struct Given {
    entry: HistoryEntry,
    scopes: Vec<PurgeScope>,
    lifetime_s: u64,
    time: SystemTime,
    until: SystemTime,
    /// Some of its scopes are not in the history.
    is_cut: bool,
}

impl Given {
    fn of(entry: HistoryEntry) -> Option<Given> {
        let lifetime_s = entry.scope.get("lifetime_s").and_then(Value::as_u64)?;
        let all = scopes(&entry);
        let is_cut = all.iter().any(Option::is_none);
        let time = time(&entry.time)?;
        let until = time.checked_add(Duration::from_secs(lifetime_s))?;
        let scopes = all.into_iter().flatten().collect();
        Some(Given { entry, scopes, lifetime_s, time, until, is_cut })
    }

    /// A row for each scope.
    fn rows(&self, now: SystemTime) -> impl Iterator<Item = RetentionShown> {
        self.scopes.iter().map(move |scope| self.row(scope, now))
    }

    /// A row for one of its scopes.
    fn row(&self, scope: &PurgeScope, now: SystemTime) -> RetentionShown {
        // No longer than was ordered, though the clock may have been set back.
        let left = self.until.duration_since(now).unwrap_or_default();
        let left = left.min(Duration::from_secs(self.lifetime_s));
        RetentionShown {
            scope: scope.clone(),
            lifetime_s: self.lifetime_s,
            given: self.entry.time.clone(),
            until: rfc3339(self.until),
            left_s: left.as_secs() + u64::from(left.subsec_nanos() > 0),
            actor: self.entry.actor.clone(),
            mark: self.entry.mark.clone(),
            sites: self.entry.sites.clone(),
        }
    }
}

/// What the entries of the history say of the clock, from now back to one of them.
struct Clocks {
    now: SystemTime,
    /// The latest time of an entry that is newer.
    latest: SystemTime,
    /// The earliest.
    earliest: SystemTime,
    /// Some entry is later than one behind it, or than now.
    were_set_back: bool,
}

impl Clocks {
    /// Notes the next older entry.
    fn note(&mut self, time: SystemTime) {
        self.were_set_back |= is_after(time, self.earliest);
        (self.latest, self.earliest) = (self.latest.max(time), self.earliest.min(time));
    }

    /// Whether an order that was given at that time may have ended, though its end has not come: it lies
    /// ahead of now, or its end came before the clock was set back.
    fn is_in_doubt(&self, given: SystemTime, until: SystemTime) -> bool {
        is_after(given, self.now) || until <= self.latest
    }
}

/// Whether a time is later than a later one.
fn is_after(time: SystemTime, later: SystemTime) -> bool {
    time.duration_since(later).is_ok_and(|ahead| ahead > CLOCK_STEP_MAX)
}

/// Hands on the orders of the history that were carried out, the newest first.
fn each_order(
    state: &Path,
    now: SystemTime,
    mut each: impl FnMut(Given, &Clocks) -> io::Result<ControlFlow<()>>,
) -> io::Result<()> {
    let mut clocks = Clocks { now, latest: now, earliest: now, were_set_back: false };
    let mut entries = history::newest_of_sites(state)?;
    while let Some(entry) = entries.next_if(|_| true)? {
        if let Some(time) = time(&entry.time) {
            clocks.note(time);
        }
        let is_order = entry.act == RETENTION && entry.result == "done";
        if let Some(given) = is_order.then(|| Given::of(entry)).flatten()
            && each(given, &clocks)?.is_break()
        {
            break;
        }
    }
    Ok(())
}

fn time(text: &str) -> Option<SystemTime> {
    text.parse::<Timestamp>().ok().map(SystemTime::from)
}

fn apart(one: SystemTime, other: SystemTime) -> Duration {
    one.duration_since(other).unwrap_or_else(|earlier| earlier.duration())
}

#[cfg(test)]
mod tests;
