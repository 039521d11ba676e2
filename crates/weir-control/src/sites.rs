//! The accounts of sites as they are asked for and shown: for people, as JSON, and as CSV (RFC 4180) to bill
//! by. All numbers are exact; days are days of UTC.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use weir_observe::Outcome;

/// Which accounts are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SitesOrder {
    /// This one alone, by its name or one of its hosts.
    pub site: Option<String>,
    /// From this day, this month or so long ago on: `2026-11-22`, `2026-11`, `30d`.
    pub since: Option<String>,
    /// What more is wanted of each.
    pub more: More,
}

/// What more is wanted of each account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct More {
    /// Each day by itself.
    pub days: bool,
    /// What is held and of use, for which every head that is held is read.
    pub live: bool,
}

/// The accounts of sites.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sites {
    /// The day of UTC from which on `used` counts; absent where that is all time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Those of the configuration in its order, then those that it does not have any more, then `-`.
    pub sites: Vec<SiteAccount>,
    /// Whether `held` may still count what is purged: on volumes that is until it is swept.
    #[serde(default)]
    pub sweep_pending: bool,
    /// Files of the accounts of which not all can be read; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsound: Vec<UnsoundFile>,
}

impl Sites {
    /// The files of which not all can be read, and whose months are among those that were asked for.
    pub fn unsound_within(&self) -> impl Iterator<Item = &UnsoundFile> {
        let first = self.since.as_deref().and_then(|day| day.get(.."2026-11".len())).unwrap_or_default();
        self.unsound.iter().filter(move |file| &*file.month >= first)
    }
}

/// A file of the accounts of which not all can be read: counts of its month may be smaller than they were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsoundFile {
    /// Its name in the folder of the accounts.
    pub file: String,
    /// Its month of UTC, `2026-11`.
    pub month: String,
    /// Bytes that are neither sound nor the beginning of something sound.
    pub damaged_bytes: u64,
    /// Bytes at its end that are the beginning of something sound.
    pub torn_bytes: u64,
    /// All of it in a sentence.
    pub message: String,
}

/// An account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteAccount {
    /// The site's name; `-` for what no site can be named for.
    pub site: String,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the configuration has it.
    pub configured: bool,
    /// What is held of it now, what is purged and not swept yet on volumes included; absent where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Holding>,
    /// What of that is of use, neither purged nor stale; absent where it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Stock>,
    /// What it has used since the day that was asked for.
    pub used: Used,
    /// What it has used in all time.
    pub all_time: Used,
    /// `used`, day by day, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<UsedIn>,
}

/// What is held of a site, exactly: of what is purged only what is on volumes, until it is swept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// In memory.
    pub memory: Stock,
    /// On volumes.
    pub volume: Stock,
    /// Both together, each object and each byte once.
    pub total: Stock,
}

/// Where the accounts of sites stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountsUse {
    /// Why they could not be written the last time; absent when they could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Writes that failed.
    pub failed: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Files of which not all could be read when they were last.
    #[serde(default)]
    pub unsound: u64,
}

/// How much of something there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stock {
    /// Objects, each variant counted.
    pub objects: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

/// What an account has used in a day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedIn {
    /// The day of UTC (`2026-11-22`), or the month (`2024-10`) where its days are not kept any more.
    pub day: String,
    /// What was used.
    #[serde(flatten)]
    pub used: Used,
}

/// What an account has used in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Requests that have ended: the sum of the seven below.
    pub requests: u64,
    /// From the cache, fresh.
    pub hits: u64,
    /// From the cache, stale.
    pub stale: u64,
    /// By a transfer from an origin that the cache took part in.
    pub misses: u64,
    /// From the cache, after the origin had said that it is unchanged.
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

/// RFC 4180 §2: quoted where it would be taken for more than a field.
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
