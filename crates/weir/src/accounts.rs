//! The accounts of sites: hands the workers' counters to the keeper, and joins accounts with what the
//! configuration says of a site and what the cache holds of it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use weir_accounts::{
    AccountLine, Accounts, AccountsError, AccountsState, Counted, Day, Flows, Report, Since, UNATTRIBUTED,
    Unsound,
};
use weir_config::{Loaded, ResolvedSite};
use weir_control::state::ACCOUNTS;
use weir_control::{
    AccountsUse, Held, Holding, SiteAccount, Sites, SitesOrder, Stock, UnsoundFile, Used, UsedIn,
};
use weir_edge::Edge;
use weir_edge::plan::site_hash;
use weir_observe::{Observatory, Outcome, SiteCount, SiteSnapshot};
use weir_store::{OsDisk, Scope, SiteStocks, StocksSeen};

/// Opens the accounts in the state folder, and keeps them from now on.
///
/// # Errors
/// They cannot be read.
pub(crate) fn start(observatory: &Arc<Observatory>, state: &Path) -> Result<Accounts, AccountsError> {
    let disk = Arc::new(OsDisk::at(&state.join(ACCOUNTS)));
    let observatory = observatory.clone();
    let source = move || observatory.sites().into_iter().map(counted).collect();
    Accounts::start(disk, Box::new(source), || weir_clock::now().wall)
}

fn counted(site: SiteSnapshot) -> Counted {
    let of = |outcome: Outcome| site.requests[outcome as usize];
    let flows = Flows {
        hits: of(Outcome::Hit),
        stale: of(Outcome::Stale),
        misses: of(Outcome::Miss),
        revalidations: of(Outcome::Revalidated),
        passes: of(Outcome::Pass),
        local: of(Outcome::Local),
        refused: of(Outcome::Refused),
        client_bytes: site.counts[SiteCount::ClientBytes],
        origin_requests: site.counts[SiteCount::OriginRequests],
        origin_bytes: site.counts[SiteCount::OriginBytes],
    };
    Counted { name: site.name.alone(), flows }
}

/// Their state.
pub(crate) fn in_use(accounts: &Accounts) -> AccountsUse {
    let AccountsState { failure, failed, written_bytes, unsound } = accounts.state();
    AccountsUse { failure, failed, written_bytes, unsound }
}

/// The answer to an order.
///
/// # Errors
/// A sentence.
pub(crate) fn sites(
    order: &SitesOrder,
    accounts: &Accounts,
    loaded: &Loaded,
    edge: &Edge,
) -> Result<Sites, String> {
    let now = weir_clock::now();
    let first = order.since.as_deref().map(str::parse::<Since>).transpose()?;
    let first = first.map(|since| since.first(now.wall));
    let report = if order.more.days { accounts.days(first) } else { accounts.since(first) };
    let Report { lines, unsound } = report.map_err(|error| error.to_string())?;
    let mut lines: HashMap<Arc<str>, AccountLine> =
        lines.into_iter().map(|line| (line.name.clone(), line)).collect();
    let resolved = loaded.resolved();
    let mut all: Vec<SiteAccount> = resolved.iter().map(|site| configured(site, &mut lines)).collect();
    let mut gone: Vec<_> = lines.into_values().collect();
    gone.sort_by(|one, other| {
        let last = |line: &AccountLine| &*line.name == UNATTRIBUTED;
        (last(one), &one.name).cmp(&(last(other), &other.name))
    });
    all.extend(gone.into_iter().map(account));
    if let Some(wanted) = &order.site {
        let site = resolved.iter().find(|site| site.hosts.iter().any(|host| host.to_string() == *wanted));
        let name = site.map_or(wanted.as_str(), |site| site.name.as_str());
        all.retain(|account| account.site == name);
        if all.is_empty() {
            return Err(format!("no site is named {wanted}, and none was since there are accounts"));
        }
    }
    // Asked before the counting: what is swept meanwhile may still be counted.
    let sweep_pending = edge.store().is_unswept();
    hold(&mut all, edge);
    if order.more.live {
        live(&mut all, edge)?;
    }
    let unsound = unsound.iter().map(unsound_file).collect();
    Ok(Sites { since: first.map(|first: Day| first.to_string()), sites: all, sweep_pending, unsound })
}

fn unsound_file(unsound: &Unsound) -> UnsoundFile {
    UnsoundFile {
        file: unsound.file.clone(),
        month: unsound.month.to_string(),
        damaged_bytes: unsound.damaged_bytes,
        torn_bytes: unsound.torn_bytes,
        message: unsound.to_string(),
    }
}

fn configured(site: &ResolvedSite, lines: &mut HashMap<Arc<str>, AccountLine>) -> SiteAccount {
    let known = lines.remove(site.name.as_str()).map(account).unwrap_or_default();
    SiteAccount {
        site: site.name.clone(),
        customer: site.customer.clone(),
        description: site.description.clone(),
        configured: true,
        ..known
    }
}

fn account(line: AccountLine) -> SiteAccount {
    let days = line.periods.iter().map(|(day, flows)| UsedIn { day: day.to_string(), used: used(flows) });
    SiteAccount {
        site: line.name.to_string(),
        used: used(&line.total),
        all_time: used(&line.ever),
        days: days.collect(),
        ..SiteAccount::default()
    }
}

fn used(flows: &Flows) -> Used {
    Used {
        requests: flows.requests(),
        hits: flows.hits,
        stale: flows.stale,
        misses: flows.misses,
        revalidations: flows.revalidations,
        passes: flows.passes,
        local: flows.local,
        refused: flows.refused,
        client_bytes: flows.client_bytes,
        origin_requests: flows.origin_requests,
        origin_bytes: flows.origin_bytes,
    }
}

/// What of the stocks, which are in the order of their sites' hashes, is a site's.
fn holding(stocks: &[SiteStocks], site: u64) -> Option<Holding> {
    let held = &stocks[stocks.binary_search_by_key(&site, |held| held.site).ok()?];
    Some(Holding { memory: stock(held.memory), volume: stock(held.volume), total: stock(held.held) })
}

/// What is held of each site of the configuration, including purged objects on volumes until they are swept.
pub(crate) fn held(edge: &Edge) -> Held {
    let StocksSeen { sites, as_of } = edge.store().stocks_lately(weir_clock::now);
    let held = |mark| holding(&sites, mark).unwrap_or_default();
    let sites = edge.plan().sites().iter().map(|site| (site.name.clone(), held(site.mark))).collect();
    Held { sites, as_of }
}

/// What is held of one site.
fn hold(accounts: &mut [SiteAccount], edge: &Edge) {
    let stocks = edge.store().stocks();
    let by_hand: HashMap<Arc<str>, _> = edge.content_stocks().into_iter().collect();
    for account in accounts {
        let laid = by_hand.get(&*account.site).filter(|laid| laid.objects > 0);
        account.by_hand = laid.map(|laid| Stock { objects: laid.objects, bytes: laid.bytes });
        account.held = holding(&stocks, site_hash(&account.site));
    }
}

/// The part that is neither purged nor stale.
fn live(accounts: &mut [SiteAccount], edge: &Edge) -> Result<(), String> {
    let live =
        edge.store().live(weir_clock::now()).map_err(|error| format!("a volume cannot be read: {error}"))?;
    let live: HashMap<u64, _> = live.sites.into_iter().collect();
    for account in accounts {
        let of = live.get(&site_hash(&account.site)).copied().unwrap_or_default();
        account.live = Some(stock(of));
    }
    Ok(())
}

fn stock(stock: weir_store::Stock) -> Stock {
    Stock { objects: stock.objects, bytes: stock.bytes }
}

/// The quotas of sites, by the mark in their keys.
pub(crate) fn quotas(loaded: &Loaded) -> HashMap<u64, u64> {
    let quota = |site: &ResolvedSite| match Scope::site(&site.name) {
        Scope::Site(mark) => Some((mark, site.quota_bytes?)),
        _ => None,
    };
    loaded.resolved().iter().filter_map(quota).collect()
}
