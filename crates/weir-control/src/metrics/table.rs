//! The families of `/metrics`, in the sections of the guide's page. It must not format anything.

use smallvec::smallvec;
use std::slice;

use super::certificates::certificates;
use super::family::{Family, Seen, Series};
use super::origins::origins;
use super::requests::{counts, requests, sites};
use super::row::{Row, count, level, one_if, rows};
use super::sources::sources;
use super::volumes::volumes;
use super::written::Written;
use crate::data_plane::Inventory;

const PROCESS: &[Row<Seen>] = &[
    level("weir_start_time_seconds", "When Weir was started, in seconds since the Unix epoch.", |seen| {
        seen.started_s
    }),
    level("weir_ready", "1 while requests are taken, 0 while draining.", |seen| one_if(seen.is_serving)),
    level(
        "weir_plan",
        "The number of the configuration in force. Each reload takes the next one, also a refused reload.",
        |seen| seen.inventory.plan as f64,
    ),
    level("weir_sites", "Sites of the configuration in force.", |seen| seen.inventory.sites as f64),
    level("weir_routes", "Routes of the configuration in force.", |seen| seen.inventory.routes as f64),
    level("weir_workers", "Worker threads.", |seen| seen.inventory.workers as f64),
];

const CACHE: &[Row<Inventory>] = &[
    level("weir_cache_objects", "Objects in the cache, each variant counted.", |inventory| {
        inventory.cache.objects as f64
    }),
    level("weir_cache_memory_bytes", "Memory in use for responses.", |inventory| {
        inventory.cache.memory_bytes as f64
    }),
    level("weir_cache_memory_limit_bytes", "The ceiling of the memory for responses.", |inventory| {
        inventory.cache.memory_bytes_max as f64
    }),
    count("weir_cache_evicted", "Objects evicted from memory for room.", |inventory| inventory.cache.evicted),
    count(
        "weir_cache_not_admitted",
        "Objects not written to a volume because they were not asked for often enough.",
        |inventory| inventory.cache.not_admitted,
    ),
];

const LEDGER: &[Row<Inventory>] = &[
    level(
        "weir_ledger_writable",
        "1 while purges can be written; 0: they are answered with 500.",
        |inventory| one_if(inventory.ledger.failure.is_none()),
    ),
    level("weir_ledger_marks", "Marks of purges and invalidations that the ledger keeps.", |inventory| {
        inventory.ledger.marks as f64
    }),
    level(
        "weir_ledger_unwritten_marks",
        "Marks of purges and invalidations in force that are not on disk.",
        |inventory| inventory.ledger.number.saturating_sub(inventory.ledger.durable) as f64,
    ),
    level("weir_accounts_writable", "1 while the accounts of sites can be written.", |inventory| {
        one_if(inventory.accounts.failure.is_none())
    }),
    count("weir_accounts_write_errors", "Failed writes of the accounts.", |inventory| {
        inventory.accounts.failed
    }),
    count("weir_accounts_written_bytes", "Bytes written for the accounts.", |inventory| {
        inventory.accounts.written_bytes
    }),
    level(
        "weir_accounts_unsound_files",
        "Files of the accounts that were damaged or cut off.",
        |inventory| inventory.accounts.unsound as f64,
    ),
];

const BY_HAND: &[Row<Inventory>] = &[
    level("weir_content_objects", "Pieces of content by hand.", |inventory| inventory.content.objects as f64),
    level("weir_content_bytes", "Bytes of the content by hand.", |inventory| inventory.content.bytes as f64),
    level(
        "weir_content_used_bytes",
        "What is used of the room for content by hand, with what is on its way in, in steps of 4 KiB.",
        |inventory| inventory.content.used_bytes as f64,
    ),
    level("weir_content_size_bytes", "The room for content by hand: `[content] size`.", |inventory| {
        inventory.content.size_bytes as f64
    }),
];

/// A section of the page: its title and its families.
pub(super) type Section<'a> = (&'static str, Vec<Family<'a>>);

/// All families, in the order of the page.
pub(super) fn sections<'a>(seen: &'a Seen, written: &'a Written) -> Vec<Section<'a>> {
    let mut process = vec![build()];
    rows(&mut process, PROCESS, &[], slice::from_ref(&(smallvec![], seen)));
    process.push(reloads(seen));
    let mut cache = Vec::new();
    rows(&mut cache, CACHE, &[], slice::from_ref(&(smallvec![], &seen.inventory)));
    let mut ledger = Vec::new();
    rows(&mut ledger, LEDGER, &[], slice::from_ref(&(smallvec![], &seen.inventory)));
    let mut by_hand = Vec::new();
    rows(&mut by_hand, BY_HAND, &[], slice::from_ref(&(smallvec![], &seen.inventory)));
    vec![
        ("Requests and their outcomes", requests(seen)),
        ("Everything that is counted", counts(seen)),
        ("Sites", sites(seen, written)),
        ("Origins", origins(&seen.inventory)),
        ("Sources of origins' metrics", sources(&seen.inventory)),
        ("Memory", cache),
        ("Volumes", volumes(&seen.inventory)),
        ("Content by hand", by_hand),
        ("Certificates", certificates(&seen.inventory)),
        ("Ledger and accounts", ledger),
        ("The process", process),
    ]
}

fn build<'a>() -> Family<'a> {
    let series = Series::Levels(vec![(smallvec![env!("CARGO_PKG_VERSION")], 1.0)]);
    Family { name: "weir_build_info", help: "The running version.", labels: &["version"], series }
}

fn reloads<'a>(seen: &Seen) -> Family<'a> {
    let (done, refused) = seen.reloads;
    let series = Series::Counts(vec![(smallvec!["done"], done), (smallvec!["refused"], refused)]);
    Family { name: "weir_reloads", help: "Reloads of the configuration.", labels: &["result"], series }
}
