//! The history as it is asked for and shown. The data plane's room of observation writes it.

mod backwards;

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use http::Method;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_observe::{AUDIT_PURGES, AUDIT_SITES, AUDITS};

use self::backwards::Set;
/// The act of a retention.
pub(crate) const RETENTION: &str = "ttl";
/// The word of purges.
pub(crate) const PURGE: &str = "purge";
/// The most entries of a set of files that are looked at for what they have decided.
const LOOKED_MAX: usize = 20_000;
/// The ways in which an act ends.
pub const RESULTS: [&str; 3] = ["done", "refused", "failed"];
/// The words of what can be done; of refused attempts at anything else the history has method and path.
pub const ACTS: [&str; 16] = [
    PURGE,
    "purge-dry-run",
    RETENTION,
    "reload",
    "upgrade",
    "verify",
    "warm",
    "token-add",
    "token-remove",
    "origin-change",
    "origin-metrics",
    "content-put",
    "content-reset",
    "job-cancel",
    "job-ended",
    // Of a minute: so many more attempts were refused than are written.
    "refused",
];
/// What the shortest time that a question may name is completed with.
const TIME_REST: &str = "0000-01-01T00:00:00Z";

/// What is asked for. Several conditions must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryOrder {
    /// The most entries: the newest.
    pub limit: usize,
    /// Only entries of this site.
    pub site: Option<String>,
    /// Only those of this actor: `token:cms`.
    pub actor: Option<String>,
    /// Only this act: `purge`.
    pub act: Option<String>,
    /// Only this result: `done`, `refused`, `failed`.
    pub result: Option<String>,
    /// Only from this time on: RFC 3339 or the beginning of one in UTC, `2026-11-23`, `2026-11-23T10`, or so
    /// long ago, `36h`, `30d`.
    pub since: Option<String>,
}

/// Some of the history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HistoryShown {
    /// The entries, the newest last.
    pub entries: Vec<HistoryEntry>,
    /// Why the history cannot be written now; absent where it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Entries that were lost since the start because the disk failed for too long.
    #[serde(default)]
    pub lost: u64,
}

/// An entry of the history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HistoryEntry {
    /// When, RFC 3339.
    pub time: String,
    /// Who: `user:NAME` by the control socket, `token:NAME`, `client:ADDRESS` on a data listener, `signal`,
    /// or `unknown`.
    pub actor: String,
    /// From where; absent where that is this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What: `purge`, `purge-dry-run`, `ttl`, `reload`, `upgrade`, `verify`, `token-add`, `token-remove`,
    /// `job-cancel`, `job-ended`, `origin-change`, `content-put`, `content-reset`; of a refused attempt at
    /// something else the method and the path.
    pub act: String,
    /// Method, path and query of a refused attempt.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// What it concerned; absent where that is all.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub scope: Value,
    /// The sites that it concerned; absent: the whole Weir, or none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<String>,
    /// `done`, `refused` or `failed`.
    pub result: String,
    /// Why, or what else there is to say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The number of the mark in the ledger, for a purge or a retention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// The id of the request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
}

/// A caller that sees some sites alone.
pub(crate) struct Own<'a> {
    pub(crate) sites: &'a [String],
    /// As in an entry.
    pub(crate) actor: String,
}

impl Own<'_> {
    /// Whether it sees an entry: what concerns its sites alone, and what it was refused itself.
    pub(crate) fn sees(&self, entry: &HistoryEntry) -> bool {
        let is_its_try = entry.result == "refused" && entry.actor == self.actor && entry.sites.is_empty();
        is_its_try || (!entry.sites.is_empty() && entry.sites.iter().all(|site| self.sites.contains(site)))
    }
}

impl HistoryOrder {
    fn wants(&self, entry: &HistoryEntry, own: Option<&Own<'_>>) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        own.is_none_or(|own| own.sees(entry))
            && is(&self.actor, &entry.actor)
            && is(&self.act, &entry.act)
            && is(&self.result, &entry.result)
            && self.site.as_ref().is_none_or(|site| entry.sites.contains(site))
            && self.since.as_ref().is_none_or(|since| entry.time >= *since)
    }

    /// The same with a time that entries are compared with.
    ///
    /// # Errors
    /// A sentence, where a value is none that there could be.
    pub(crate) fn checked(mut self, now: SystemTime) -> Result<HistoryOrder, String> {
        if let Some(unknown) = self.result.as_ref().filter(|result| !RESULTS.contains(&result.as_str())) {
            return Err(format!("{unknown} is no result; there are {}", RESULTS.join(", ")));
        }
        let is_path = |act: &str| act.contains('/');
        if let Some(unknown) = self.act.as_ref().filter(|act| !is_path(act) && !ACTS.contains(&act.as_str()))
        {
            return Err(format!("{unknown} is no act; there are {}", ACTS.join(", ")));
        }
        if let Some(since) = self.since.take() {
            self.since = Some(time(&since, now)?);
        }
        Ok(self)
    }
}

/// A time as in an entry, without its `Z`: a longer text is later.
fn time(text: &str, now: SystemTime) -> Result<String, String> {
    let ago = || {
        // Four weeks are what the accounts take as well.
        let weeks = text.strip_suffix('w').and_then(|weeks| weeks.parse::<u64>().ok());
        let text = weeks.map_or_else(|| text.to_owned(), |weeks| format!("{}d", weeks.saturating_mul(7)));
        let ago = text.parse::<weir_config::value::Duration>().ok()?;
        Timestamp::try_from(now.checked_sub(ago.0)?).ok()
    };
    let begun = || {
        let is_whole_field = [4, 7, 10, 13, 16, 19].contains(&text.len());
        let whole = TIME_REST.get(text.len()..).filter(|_| is_whole_field)?;
        format!("{text}{whole}").parse().ok()
    };
    let found = begun().or_else(|| text.parse().ok()).or_else(ago);
    let found: Timestamp = found.ok_or_else(|| {
        format!(
            "{text} is no time: write a day (2026-11-22), the beginning of a time of UTC (2026-11-22T10:30) \
             or how long ago (36h, 30d, 4w)"
        )
    })?;
    Ok(format!("{found:.3}").trim_end_matches('Z').to_owned())
}

/// The act of a request: the word by which the history has it when it is done. Of a path that changes
/// nothing, the method and the path.
pub(crate) fn act_of(method: &Method, path: &str) -> String {
    match path.strip_prefix("/cache/").filter(|_| *method == Method::POST) {
        Some(rest) if rest.starts_with("add/") => return "content-put".to_owned(),
        Some(rest) if rest.starts_with("reset/") => return "content-reset".to_owned(),
        _ => {}
    }
    let below = path.strip_prefix("/v1").unwrap_or_default();
    let is_below = |folder: &str| below.strip_prefix(folder).is_some_and(|name| !name.contains('/'));
    let word = match (method, below) {
        (&Method::POST, "/purge") => "purge",
        (&Method::POST, "/purge/dry-run") => "purge-dry-run",
        (&Method::POST, "/ttl") => RETENTION,
        (&Method::POST, "/reload") => "reload",
        (&Method::POST, "/upgrade") => "upgrade",
        (&Method::POST, "/verify") => "verify",
        (&Method::POST, "/warm") => "warm",
        (&Method::POST, "/tokens") => "token-add",
        (&Method::POST, "/origins") => "origin-change",
        (&Method::POST | &Method::PUT, "/origins/metrics") => "origin-metrics",
        (&Method::PUT, "/content") => "content-put",
        (&Method::DELETE, "/content") => "content-reset",
        (&Method::DELETE, _) if is_below("/tokens/") => "token-remove",
        (&Method::DELETE, _) if is_below("/jobs/") => "job-cancel",
        _ => return format!("{method} {path}"),
    };
    word.to_owned()
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The newest that are wanted, the newest last.
    pub(crate) entries: VecDeque<HistoryEntry>,
    /// Whether there is an entry of the site that was asked for.
    pub(crate) has_site: bool,
}

/// The newest entries of a state folder that are wanted; those that `own` may see alone, where it is given.
/// Blocks.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn read(state: &Path, order: &HistoryOrder, own: Option<&Own<'_>>) -> io::Result<Found> {
    let mut sets = AUDITS.iter().map(|name| Set::open(state, name)).collect::<io::Result<Vec<_>>>()?;
    let mut found = Found::default();
    while found.entries.len() < order.limit {
        let newest = sets.iter_mut().filter(|set| set.newest.is_some());
        let newest = newest.max_by(|a, b| Set::time(a).cmp(Set::time(b)));
        let Some(entry) = newest.map(Set::take).transpose()?.flatten() else { break };
        found.has_site |= order.site.as_ref().is_some_and(|site| entry.sites.contains(site));
        if order.wants(&entry, own) {
            found.entries.push_front(entry);
        }
    }
    Ok(found)
}

/// The entries of what an admin of some sites may do, the newest first.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn newest_of_sites(state: &Path) -> io::Result<Newest> {
    Newest::of(state, AUDIT_SITES)
}

/// The entries of what the right to purge suffices for, the newest first.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn newest_of_purgers(state: &Path) -> io::Result<Newest> {
    Newest::of(state, AUDIT_PURGES)
}

/// The entries of a set of files, the newest first; so many at most.
pub(crate) struct Newest {
    set: Set,
    left: usize,
}

impl Newest {
    fn of(state: &Path, name: &str) -> io::Result<Newest> {
        Ok(Newest { set: Set::open(state, name)?, left: LOOKED_MAX })
    }

    /// The next one where it is wanted; otherwise it stays the next. Blocks.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn next_if(
        &mut self,
        is_wanted: impl FnOnce(&HistoryEntry) -> bool,
    ) -> io::Result<Option<HistoryEntry>> {
        if self.left == 0 || !self.set.newest.as_ref().is_some_and(is_wanted) {
            return Ok(None);
        }
        self.left -= 1;
        self.set.take()
    }
}

#[cfg(test)]
mod tests;
