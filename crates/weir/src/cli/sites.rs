//! `weir sites`: what each site holds and has used, for people, as JSON, or as CSV to bill by.

use std::fmt::Write;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use http::Method;
use weir_control::sites::{More, csv};
use weir_control::{SiteAccount, Sites, SitesOrder, Used, UsedIn, query};

use super::find::Find;
use crate::print::say;
use crate::print::size;

/// Reading the head of every object may take long.
const PATIENCE: Duration = Duration::from_secs(600);

/// Below the numbers while a sweep is due.
const UNSWEPT: &str =
    "held still counts purged objects until they are swept from the volumes: some seconds\n";

/// The command line of `weir sites`.
#[derive(Debug, Args)]
pub(crate) struct ShowSites {
    /// Only this site, by its name or one of its hosts, day by day.
    #[arg(value_name = "SITE")]
    site: Option<String>,
    /// The same.
    #[arg(long = "site", value_name = "SITE", conflicts_with = "site")]
    named: Option<String>,
    /// Only use from this day (2026-11-22), this month (2026-11) or this long ago (36h, 30d, 4w) on; days are
    /// whole days of UTC.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Print CSV (RFC 4180), a line for each site and day. Exits with 1 and names the file where a file of
    /// the accounts is not whole.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Also count what is held and neither purged nor stale. Reads the head of every object.
    #[arg(long, conflicts_with = "csv")]
    live: bool,
    #[command(flatten)]
    find: Find,
}

impl ShowSites {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let ShowSites { site, named, since, csv: as_csv, live, find } = self;
        let site = site.or(named);
        let days = as_csv || find.json || site.is_some();
        let path = query::write_sites(&SitesOrder { site, since, more: More { days, live } });
        let asked = find.ask_for(Method::GET, &path, Vec::new(), PATIENCE)?;
        if !as_csv {
            return find.answer(&asked, if days { show_days } else { show });
        }
        if let Some(refusal) = asked.refusal() {
            anyhow::bail!(refusal);
        }
        let sites: Sites = serde_json::from_slice(&asked.body)
            .context("cannot read the running Weir's answer; is it of another version?")?;
        say(&csv(&sites))?;
        // A bill must not silently be too small.
        let mut code = ExitCode::SUCCESS;
        for unsound in sites.unsound_within() {
            writeln!(io::stderr(), "weir: {}", unsound.message)?;
            code = ExitCode::FAILURE;
        }
        Ok(code)
    }
}

/// A line for each site.
fn show(sites: &Sites) -> String {
    let mut rows = vec![head("site", &["customer", "held", "live"])];
    for account in &sites.sites {
        let customer = account.customer.clone().unwrap_or_default();
        let held = account.held.map_or_else(String::new, |held| size(held.total.bytes));
        let live = account.live.map_or_else(String::new, |live| size(live.bytes));
        let mark = if account.configured || account.site == "-" { "" } else { " (gone)" };
        rows.push(line(format!("{}{mark}", account.site), &[customer, held, live], &account.used));
    }
    let mut text = table(rows);
    let since =
        sites.since.as_deref().map_or_else(|| "over all time".to_owned(), |day| format!("since {day} (UTC)"));
    let _ = writeln!(text, "used {since}; - is what belongs to no site");
    text + remarks(sites).as_str()
}

/// One site, a line for each day.
fn show_days(sites: &Sites) -> String {
    let all: String = sites.sites.iter().map(|account| about(account, sites.since.as_deref())).collect();
    all + remarks(sites).as_str()
}

/// Warnings about the numbers: a line while purged objects are still held, and one for each file that cannot
/// be read as a whole.
fn remarks(sites: &Sites) -> String {
    let is_held = sites.sweep_pending && sites.sites.iter().any(|account| account.held.is_some());
    let unswept = if is_held { UNSWEPT } else { "" };
    let unsound: String =
        sites.unsound_within().map(|unsound| format!("not whole: {}\n", unsound.message)).collect();
    unswept.to_owned() + unsound.as_str()
}

fn about(account: &SiteAccount, since: Option<&str>) -> String {
    let mut text = format!("site         {}\n", account.site);
    for (what, value) in [("customer", &account.customer), ("description", &account.description)] {
        if let Some(value) = value {
            let _ = writeln!(text, "{what:<12} {value}");
        }
    }
    if let Some(held) = account.held {
        let (memory, volume, total) = (held.memory, held.volume, held.total);
        let _ = writeln!(
            text,
            "held         {} objects, {}: {} ({}) in memory, {} ({}) on volumes",
            total.objects,
            size(total.bytes),
            memory.objects,
            size(memory.bytes),
            volume.objects,
            size(volume.bytes)
        );
    }
    if let Some(laid) = account.by_hand {
        let _ = writeln!(text, "by hand      {} pieces, {}", laid.objects, size(laid.bytes));
    }
    if let Some(live) = account.live {
        let _ = writeln!(text, "live         {} objects, {}", live.objects, size(live.bytes));
    }
    let mut rows = vec![head("day (UTC)", &[])];
    rows.extend(account.days.iter().map(|UsedIn { day, used }| line(day.clone(), &[], used)));
    let since = since.map_or_else(String::new, |day| format!("since {day}"));
    if !since.is_empty() {
        rows.push(line(since, &[], &account.used));
    }
    rows.push(line("all time".to_owned(), &[], &account.all_time));
    text += &table(rows);
    text
}

const COLUMNS: [&str; 8] =
    ["requests", "hits", "stale", "misses", "revalid.", "from cache", "to clients", "from origins"];

fn head(first: &str, more: &[&str]) -> Vec<String> {
    let all = [first].into_iter().chain(more.iter().copied()).chain(COLUMNS);
    all.map(str::to_owned).collect()
}

fn line(first: String, more: &[String], used: &Used) -> Vec<String> {
    let ratio = used.hit_ratio().map_or_else(String::new, |ratio| format!("{:.1} %", ratio * 100.0));
    let counts = [used.requests, used.hits, used.stale, used.misses, used.revalidations];
    let mut line = vec![first];
    line.extend_from_slice(more);
    line.extend(counts.iter().map(ToString::to_string));
    let origins = format!("{} in {}", size(used.origin_bytes), used.origin_requests);
    line.extend([ratio, size(used.client_bytes), origins]);
    line
}

/// A table. The first column, and the second where it is text, are aligned left, numbers right. Columns with
/// no value but in the head are left out.
fn table(rows: Vec<Vec<String>>) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let is_used = |at: usize| rows.len() == 1 || rows[1..].iter().any(|row| !row[at].is_empty());
    let widths: Vec<(usize, usize)> =
        (0..columns).filter(|at| is_used(*at)).map(|at| (at, width(at))).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = widths.iter().map(|(at, width)| {
            let is_text = *at == 0 || rows[0][*at] == "customer";
            if is_text { format!("{:<width$}", row[*at]) } else { format!("{:>width$}", row[*at]) }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(site: &str, hits: u64, customer: Option<&str>) -> SiteAccount {
        let used = Used { requests: hits + 1, hits, misses: 1, client_bytes: hits * 1024, ..Used::default() };
        let days = vec![UsedIn { day: "2026-11-22".to_owned(), used }];
        let customer = customer.map(str::to_owned);
        SiteAccount {
            site: site.to_owned(),
            customer,
            configured: true,
            used,
            all_time: used,
            days,
            ..SiteAccount::default()
        }
    }

    #[test]
    fn a_line_for_each_site_in_columns() {
        let gone = SiteAccount { configured: false, ..account("old.example", 1, None) };
        let sites = vec![account("a.example", 3, Some("Ann")), gone, account("-", 0, None)];
        let expect = "\
site                customer  requests  hits  stale  misses  revalid.  from cache  to clients  from origins
a.example           Ann              4     3      0       1         0      75.0 %     3.0 KiB      0 B in 0
old.example (gone)                   2     1      0       1         0      50.0 %     1.0 KiB      0 B in 0
-                                    1     0      0       1         0       0.0 %         0 B      0 B in 0
used since 2026-11-01 (UTC); - is what belongs to no site
";
        assert_eq!(show(&Sites { since: Some("2026-11-01".to_owned()), sites, ..Sites::default() }), expect);
    }

    #[test]
    fn what_is_purged_is_held_until_it_is_swept() {
        let held = Some(weir_control::Holding::default());
        let sites = vec![SiteAccount { held, ..account("a.example", 3, None) }];
        let unswept = Sites { sites, sweep_pending: true, ..Sites::default() };
        assert!(show(&unswept).ends_with(UNSWEPT) && show_days(&unswept).ends_with(UNSWEPT));
        let swept = Sites { sweep_pending: false, ..unswept };
        assert!(!show(&swept).contains("swept") && !show_days(&swept).contains("swept"));
        let nothing =
            Sites { sites: vec![account("a.example", 3, None)], sweep_pending: true, ..Sites::default() };
        assert!(!show(&nothing).contains("swept"));
    }

    #[test]
    fn a_site_day_by_day() {
        let expect = "\
site         a.example
customer     Ann
day (UTC)   requests  hits  stale  misses  revalid.  from cache  to clients  from origins
2026-11-22         4     3      0       1         0      75.0 %     3.0 KiB      0 B in 0
all time           4     3      0       1         0      75.0 %     3.0 KiB      0 B in 0
";
        let sites = vec![account("a.example", 3, Some("Ann"))];
        assert_eq!(show_days(&Sites { since: None, sites, ..Sites::default() }), expect);
    }
}
