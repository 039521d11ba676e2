//! The list of retentions. The ledger knows them by hashes alone; what each named, who gave it and when is in
//! the history, which the list is read from.

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::Value;

use crate::clock;
use crate::data_plane::{PurgeScope, RetentionShown, Retentions, StoredVariant};
use crate::history::{self, HistoryEntry, Own, RETENTION};
use crate::status::rfc3339;

/// The most rows of a list.
const ROWS_MAX: usize = 1000;
/// The most entries of the history that are looked at.
const LOOKED_MAX: usize = 20_000;
/// How far the end of a lifetime may be from what its entry says: that was written once it was durable.
const ENTRY_DELAY: Duration = Duration::from_secs(5);

/// The retentions in force by the history of a state folder; those that `own` may see alone, where it is
/// given. Blocks.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn in_force(state: &Path, now: SystemTime, own: Option<&Own<'_>>) -> io::Result<Retentions> {
    let mut found = Retentions::default();
    let mut known: HashSet<String> = HashSet::new();
    each_order(state, |given| {
        if own.is_some_and(|own| !own.sees(&given.entry)) {
            return ControlFlow::Continue(());
        }
        found.more |= given.is_cut;
        for row in given.rows(now) {
            let name = serde_json::to_string(&row.scope).unwrap_or_default();
            // An older one of the same scope decides nothing, even where this one has ended.
            if known.insert(name) && row.left_s > 0 {
                found.retentions.push(row);
            }
        }
        match found.retentions.len() > ROWS_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    if found.retentions.len() > ROWS_MAX {
        found.retentions.truncate(ROWS_MAX);
        found.more = true;
    }
    Ok(found)
}

/// Says of a stored response that has its lifetime from a retention which order that was: the newest that
/// ends at that time, concerns it, and may be seen by `own`, where it is given. Blocks.
///
/// # Errors
/// A file of the history cannot be read.
pub(crate) fn tell(
    state: &Path,
    own: Option<&Own<'_>>,
    variant: &mut StoredVariant,
    concerns: impl Fn(&PurgeScope, &[String]) -> bool,
) -> io::Result<()> {
    let Some(retained) = &mut variant.retained else { return Ok(()) };
    let Some(until) = time(&retained.until) else { return Ok(()) };
    each_order(state, |given| {
        let is_it = own.is_none_or(|own| own.sees(&given.entry))
            && given.until().is_some_and(|said| apart(said, until) <= ENTRY_DELAY);
        let mut rows = if is_it { given.rows(clock::wall()) } else { Vec::new() };
        rows.retain(|row| concerns(&row.scope, &variant.tags));
        retained.order = rows.into_iter().next();
        if retained.order.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

/// An order as the history has it.
struct Given {
    entry: HistoryEntry,
    scopes: Vec<PurgeScope>,
    lifetime_s: u64,
    /// Some of its scopes are not in the history.
    is_cut: bool,
}

impl Given {
    fn of(entry: HistoryEntry) -> Option<Given> {
        let lifetime_s = entry.scope.get("lifetime_s").and_then(Value::as_u64)?;
        let several = entry.scope.get("scopes").and_then(Value::as_array).into_iter().flatten();
        let all = entry.scope.get("scope").into_iter().chain(several);
        let all: Vec<Option<PurgeScope>> = all.map(|one| serde_json::from_value(one.clone()).ok()).collect();
        let is_cut = all.iter().any(Option::is_none);
        Some(Given { entry, scopes: all.into_iter().flatten().collect(), lifetime_s, is_cut })
    }

    fn until(&self) -> Option<SystemTime> {
        time(&self.entry.time)?.checked_add(Duration::from_secs(self.lifetime_s))
    }

    /// A row for each scope.
    fn rows(&self, now: SystemTime) -> Vec<RetentionShown> {
        let Some(until) = self.until() else { return Vec::new() };
        let left = until.duration_since(now).unwrap_or_default();
        let row = |scope: &PurgeScope| RetentionShown {
            scope: scope.clone(),
            lifetime_s: self.lifetime_s,
            given: self.entry.time.clone(),
            until: rfc3339(until),
            left_s: left.as_secs() + u64::from(left.subsec_nanos() > 0),
            actor: self.entry.actor.clone(),
            mark: self.entry.mark.clone(),
            sites: self.entry.sites.clone(),
        };
        self.scopes.iter().map(row).collect()
    }
}

/// Hands on the orders of the history that were carried out, the newest first.
fn each_order(state: &Path, mut each: impl FnMut(Given) -> ControlFlow<()>) -> io::Result<()> {
    let mut looked = 0;
    history::newest_of_sites(state, |entry| {
        looked += 1;
        let given = if entry.act == RETENTION && entry.result == "done" { Given::of(entry) } else { None };
        match given {
            _ if looked > LOOKED_MAX => ControlFlow::Break(()),
            Some(given) => each(given),
            None => ControlFlow::Continue(()),
        }
    })
}

fn time(text: &str) -> Option<SystemTime> {
    text.parse::<Timestamp>().ok().map(SystemTime::from)
}

fn apart(one: SystemTime, other: SystemTime) -> Duration {
    one.duration_since(other).unwrap_or_else(|earlier| earlier.duration())
}

#[cfg(test)]
mod tests;
