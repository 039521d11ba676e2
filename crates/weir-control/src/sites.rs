//! The accounts of sites as they are asked for and shown: for people, as JSON, and as CSV (RFC 4180) to bill
//! by. All numbers are exact. Days are days of UTC.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use weir_observe::Outcome;

/// Which accounts are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SitesOrder {
    /// Only this site, by its name or one of its hosts.
    pub site: Option<String>,
    /// From this day, this month, or this long ago: `2026-11-22`, `2026-11`, `30d`.
    pub since: Option<String>,
    /// What else is wanted of each account.
    pub more: More,
}

/// What else is wanted of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct More {
    /// Each day by itself.
    pub days: bool,
    /// What is held and alive. Counting it reads the head of every object.
    pub live: bool,
}

/// The accounts of sites.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sites {
    /// The day of UTC from which on `used` counts; absent where that is all time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The accounts: those of the configuration in its order, then those of sites that it no longer has, then
    /// `-`.
    pub sites: Vec<SiteAccount>,
    /// Whether `held` may still count purged objects, on volumes that are not swept yet.
    #[serde(default)]
    pub sweep_pending: bool,
    /// Files of the accounts that cannot be read as a whole; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsound: Vec<UnsoundFile>,
}

impl Sites {
    /// The files that cannot be read as a whole and whose month was asked for.
    pub fn unsound_within(&self) -> impl Iterator<Item = &UnsoundFile> {
        let first = self.since.as_deref().and_then(|day| day.get(.."2026-11".len())).unwrap_or_default();
        self.unsound.iter().filter(move |file| &*file.month >= first)
    }
}

/// A file of the accounts that cannot be read as a whole. Counts of its month may be smaller than they were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnsoundFile {
    /// Its name in the folder of the accounts.
    pub file: String,
    /// Its month of UTC, `2026-11`.
    pub month: String,
    /// Bytes that are neither a sound frame nor the beginning of one.
    pub damaged_bytes: u64,
    /// Bytes at its end that are the beginning of a frame.
    pub torn_bytes: u64,
    /// The same as a sentence.
    pub message: String,
}

/// An account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SiteAccount {
    /// The site's name; `-` for what belongs to no site.
    pub site: String,
    /// The customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<String>,
    /// The description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the configuration has the site.
    pub configured: bool,
    /// What the cache holds of the site now, including purged objects on volumes that are not swept yet;
    /// absent where it holds nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Holding>,
    /// The content by hand of the site, which is not in `held`; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<Stock>,
    /// The part of `held` that is neither purged nor stale; absent where it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Stock>,
    /// What it has used since the day that was asked for.
    pub used: Used,
    /// What it has used over all time.
    pub all_time: Used,
    /// `used`, day by day, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<UsedIn>,
}

/// What the cache holds of a site, exactly. Purged objects count only on volumes, until they are swept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Holding {
    /// In memory.
    pub memory: Stock,
    /// On volumes.
    pub volume: Stock,
    /// Both together, each object and each byte counted once.
    pub total: Stock,
}

/// The state of the accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AccountsUse {
    /// Why the last write failed; absent where it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Failed writes.
    pub failed: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Files that could not be read as a whole when they were last read.
    #[serde(default)]
    pub unsound: u64,
}

/// A number of objects and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stock {
    /// Objects, each variant counted.
    pub objects: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

/// What an account has used in a day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UsedIn {
    /// The day of UTC (`2026-11-22`), or the month (`2024-10`) whose days are no longer kept.
    pub day: String,
    /// What was used.
    #[serde(flatten)]
    pub used: Used,
}

/// What an account has used in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Used {
    /// Requests that have ended: the sum of the seven below.
    pub requests: u64,
    /// From the cache, fresh.
    pub hits: u64,
    /// From the cache, stale.
    pub stale: u64,
    /// By a transfer from an origin that the cache took part in.
    pub misses: u64,
    /// From the cache, after the origin answered 304.
    pub revalidations: u64,
    /// By the origin, past the cache.
    pub passes: u64,
    /// By Weir itself.
    pub local: u64,
    /// Turned away.
    pub refused: u64,
    /// Bytes written to clients: heads, interim responses, framing and bodies, without TLS.
    pub client_bytes: u64,
    /// Requests written to origins, each retry and range counted.
    pub origin_requests: u64,
    /// Bytes read from origins: heads, framing and bodies, without TLS.
    pub origin_bytes: u64,
}

impl Used {
    /// The share *from the cache* ([`Outcome::hit_ratio`]), as `weir status` says it.
    pub fn hit_ratio(&self) -> Option<f64> {
        let Used { hits, stale, misses, revalidations, passes, local, refused, .. } = *self;
        Outcome::hit_ratio(&[hits, stale, misses, revalidations, passes, local, refused])
    }

    /// Names and numbers in the order of the CSV.
    fn columns(&self) -> [(&'static str, u64); 11] {
        [
            ("requests", self.requests),
            ("hits", self.hits),
            ("stale", self.stale),
            ("misses", self.misses),
            ("revalidations", self.revalidations),
            ("passes", self.passes),
            ("local", self.local),
            ("refused", self.refused),
            ("client_bytes", self.client_bytes),
            ("origin_requests", self.origin_requests),
            ("origin_bytes", self.origin_bytes),
        ]
    }
}

/// The accounts as CSV with a head line, a line for each site and day.
pub fn csv(sites: &Sites) -> String {
    let mut text = "site,customer,day".to_owned();
    for (name, _) in Used::default().columns() {
        text.push(',');
        text += name;
    }
    text += "\r\n";
    for account in &sites.sites {
        for UsedIn { day, used } in &account.days {
            field(&mut text, &account.site);
            text.push(',');
            field(&mut text, account.customer.as_deref().unwrap_or_default());
            text.push(',');
            field(&mut text, day);
            for (_, number) in used.columns() {
                // Writing to a string cannot fail.
                let _ = write!(text, ",{number}");
            }
            text += "\r\n";
        }
    }
    text
}

/// A field of CSV (RFC 4180 §2), quoted where it would be read as more than one.
fn field(out: &mut String, value: &str) {
    if !value.contains(['"', ',', '\r', '\n']) {
        return out.push_str(value);
    }
    out.push('"');
    out.push_str(&value.replace('"', "\"\""));
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_plane::{Inventory, Phase};
    use crate::status::Status;

    /// Both counted the share in their own way: `weir sites` left the requests out that go past the cache.
    #[test]
    fn the_status_and_the_sites_mean_the_same_by_from_the_cache() {
        let requests = [30, 5, 20, 5, 40, 7, 3];
        let snapshot = weir_observe::Snapshot { requests, ..weir_observe::Snapshot::default() };
        let of_status = Status::of(&snapshot, Inventory::default(), Phase::Serving).requests.hit_ratio;
        let [hits, stale, misses, revalidations, passes, local, refused] = requests;
        let used = Used { hits, stale, misses, revalidations, passes, local, refused, ..Used::default() };
        assert_eq!((of_status, used.hit_ratio()), (Some(0.4), Some(0.4)));
        assert_eq!(Used { local, refused, ..Used::default() }.hit_ratio(), None);
    }

    #[test]
    fn a_line_for_each_site_and_day() {
        let used = |hits| Used { requests: hits, hits, client_bytes: u64::MAX, ..Used::default() };
        let days = vec![
            UsedIn { day: "2024-10".to_owned(), used: used(1) },
            UsedIn { day: "2026-11-22".to_owned(), used: used(2) },
        ];
        let customer = Some("Smith, \"Jo\" & Co".to_owned());
        let one = SiteAccount { site: "a.example".to_owned(), customer, days, ..SiteAccount::default() };
        let idle = SiteAccount { site: "idle".to_owned(), ..SiteAccount::default() };
        let text = csv(&Sites { sites: vec![one, idle], ..Sites::default() });
        let expect = "site,customer,day,requests,hits,stale,misses,revalidations,passes,local,refused,\
             client_bytes,origin_requests,origin_bytes\r\n\
             a.example,\"Smith, \"\"Jo\"\" & Co\",2024-10,1,1,0,0,0,0,0,0,18446744073709551615,0,0\r\n\
             a.example,\"Smith, \"\"Jo\"\" & Co\",2026-11-22,2,2,0,0,0,0,0,0,18446744073709551615,0,0\r\n";
        assert_eq!(text, expect);
    }

    #[test]
    fn what_is_not_whole_is_told_of_with_the_months_it_concerns() {
        let file = |month: &str| UnsoundFile { month: month.to_owned(), ..UnsoundFile::default() };
        let unsound = vec![file("2025-12"), file("2026-10"), file("2026-11")];
        let mut sites = Sites { since: Some("2026-10-31".to_owned()), unsound, ..Sites::default() };
        let months =
            |sites: &Sites| sites.unsound_within().map(|file| file.month.clone()).collect::<Vec<_>>();
        assert_eq!(months(&sites), ["2026-10", "2026-11"]);
        sites.since = None;
        assert_eq!(months(&sites).len(), 3);
    }
}
