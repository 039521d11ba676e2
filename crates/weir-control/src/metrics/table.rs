//! The families of `/metrics`, one row each, in the sections of the guide's page. A row has the name without
//! `_total`, the help, and how to read the value. It must not format anything.

use std::slice;

use weir_observe::{Count, Level, Outcome, SiteCount};

use super::{Family, Seen, Series};
use crate::data_plane::{
    CatalogueUse, CertificatesUse, Inventory, OriginState, SessionsState, UpstreamState, VolumeUse,
};

/// How a value is read: as a counter, which only grows, or as a level.
enum Read<T> {
    Count(fn(&T) -> u64),
    Level(fn(&T) -> f64),
}

/// A family in which each thing (an origin, a volume, all of Weir) has one series.
struct Row<T> {
    name: &'static str,
    help: &'static str,
    read: Read<T>,
}

const fn count<T>(name: &'static str, help: &'static str, read: fn(&T) -> u64) -> Row<T> {
    Row { name, help, read: Read::Count(read) }
}

const fn level<T>(name: &'static str, help: &'static str, read: fn(&T) -> f64) -> Row<T> {
    Row { name, help, read: Read::Level(read) }
}

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

const VOLUMES: &[Row<VolumeUse>] = &[
    level("weir_volume_up", "1 while the volume stores and serves.", |volume| one_if(volume.state == "up")),
    level("weir_volume_objects", "Objects on the volume.", |volume| volume.objects as f64),
    level("weir_volume_used_bytes", "Bytes that the volume's files use.", |volume| volume.used_bytes as f64),
    level("weir_volume_size_bytes", "The most bytes that the volume's files may use.", |volume| {
        volume.size_bytes as f64
    }),
    level("weir_volume_segments", "Segments: files that hold objects.", |volume| volume.segments as f64),
    level("weir_volume_index_bytes", "Memory of the volume's index, beyond that of the cache.", |volume| {
        volume.index_bytes as f64
    }),
    level(
        "weir_volume_weight",
        "The volume's share of the keys, relative to the other volumes' weights.",
        |volume| volume.weight as f64,
    ),
    level("weir_volume_written_today_bytes", "Bytes written since midnight UTC.", |volume| {
        volume.written_today_bytes as f64
    }),
    level(
        "weir_volume_write_budget_used_up",
        "1 while nothing is stored, since the write budget is used up.",
        |volume| one_if(volume.write_budget_used_up),
    ),
    count("weir_volume_written_body_bytes", "Bytes of bodies written.", |volume| volume.written_body_bytes),
    count(
        "weir_volume_written_overhead_bytes",
        "Bytes written other than bodies: heads, checksums, journal, checkpoints.",
        |volume| volume.written_overhead_bytes,
    ),
    count("weir_volume_admitted", "Objects written while they arrived.", |volume| volume.admitted),
    count("weir_volume_written_later", "Objects written later, from memory.", |volume| volume.written_later),
    count(
        "weir_volume_budget_refused",
        "Objects not stored because the write budget was used up.",
        |volume| volume.budget_refused,
    ),
    count("weir_volume_evicted", "Objects evicted for room.", |volume| volume.evicted),
    count(
        "weir_volume_reinserted",
        "Objects of a dropped segment that were written again because they were used.",
        |volume| volume.reinserted,
    ),
    count("weir_volume_over_quota", "Objects removed because their site was at its quota.", |volume| {
        volume.over_quota
    }),
    count("weir_volume_swept", "Objects removed after a purge.", |volume| volume.swept),
    count("weir_volume_segments_freed", "Segments removed because nothing in them was alive.", |volume| {
        volume.segments_freed
    }),
    count("weir_volume_sweeps", "Sweeps after which marks were dropped.", |volume| volume.sweeps),
    count("weir_volume_sweeps_failed", "Sweeps that failed; the volume begins them again.", |volume| {
        volume.sweeps_failed
    }),
    count("weir_volume_damaged", "Objects dropped because their checksum did not match.", |volume| {
        volume.damaged
    }),
    count("weir_volume_queue_full", "Objects not stored because the write queue was full.", |volume| {
        volume.queue_full
    }),
    count("weir_volume_read_errors", "Failed reads.", |volume| volume.read_errors),
    count("weir_volume_write_errors", "Failed writes.", |volume| volume.write_errors),
];

const CATALOGUES: &[Row<CatalogueUse>] = &[
    level("weir_catalogue_up", "1 while the volume's catalogue can be searched.", |of| one_if(!of.broken)),
    level("weir_catalogue_disk_bytes", "Bytes on the drive that the volume's catalogue uses.", |of| {
        of.disk_bytes as f64
    }),
    level("weir_catalogue_memory_bytes", "Memory of the catalogue, within that of the cache.", |of| {
        of.memory_bytes as f64
    }),
    level("weir_catalogue_behind_bytes", "Bytes of the log that the catalogue has not read yet.", |of| {
        of.behind_bytes as f64
    }),
    count("weir_catalogue_written_bytes", "Bytes written by the catalogue, compactions included.", |of| {
        of.written_bytes
    }),
    count("weir_catalogue_records", "Records of the log that the catalogue has read.", |of| of.records),
];

const ORIGINS: &[Row<OriginState>] = &[
    level("weir_origin_available", "1 while the origin takes its share of requests.", |origin| {
        one_if(origin.available)
    }),
    level("weir_origin_connections_open", "Open connections to the origin.", |origin| {
        origin.connections_open as f64
    }),
    level("weir_origin_connections_idle", "Idle connections to the origin.", |origin| {
        origin.connections_idle as f64
    }),
    level("weir_origin_streams", "Open tunnels and event streams of the origin.", |origin| {
        origin.streams as f64
    }),
    level("weir_origin_requests_queued", "Requests that wait for a connection to the origin.", |origin| {
        origin.queued as f64
    }),
    count("weir_origin_requests", "Requests sent to the origin, each retry counted.", |origin| {
        origin.requests
    }),
    count("weir_origin_failures", "Requests that the origin failed.", |origin| origin.failures),
    count("weir_origin_retries", "Requests tried again after the origin failed them.", |origin| {
        origin.retries
    }),
    count("weir_origin_connections_opened", "Connections to the origin opened.", |origin| {
        origin.connections_opened
    }),
    count("weir_origin_connections_reused", "Requests sent on a reused connection.", |origin| {
        origin.connections_reused
    }),
    count(
        "weir_origin_busy",
        "Requests turned away because all connections to the origin were in use.",
        |origin| origin.busy,
    ),
];

const UPSTREAMS: &[Row<UpstreamState>] = &[
    level("weir_upstream_panic", "1 while too many origins are ejected, so that all are used.", |upstream| {
        one_if(upstream.panic)
    }),
    count("weir_upstream_retries_refused", "Requests not sent again for want of budget.", |upstream| {
        upstream.retries_refused
    }),
    count("weir_upstream_panics", "Times that too many origins were ejected.", |upstream| upstream.panics),
];

const SESSIONS: &[Row<SessionsState>] = &[
    count("weir_sessions_created", "Sessions that began with a passed response.", |sessions| {
        sessions.created
    }),
    count("weir_sessions_kept", "Passed requests of sessions that their origin answered.", |sessions| {
        sessions.kept
    }),
    count(
        "weir_sessions_moved",
        "Passed requests of sessions whose origin was gone: another one answered.",
        |sessions| sessions.moved,
    ),
    count(
        "weir_sessions_refused",
        "Passed requests that said of a session what is not Weir's, is out of date, or names no origin.",
        |sessions| sessions.refused,
    ),
];

/// The states that a volume can be in.
const STATES: [&str; 6] = ["up", "full", "read-only", "slow", "ejected", "probing"];

/// A section of the page: its title and its families.
pub(super) type Section<'a> = (&'static str, Vec<Family<'a>>);

/// All families, in the order of the page.
pub(super) fn sections(seen: &Seen) -> Vec<Section<'_>> {
    let mut process = vec![build()];
    rows(&mut process, PROCESS, &[], slice::from_ref(&(vec![], seen)));
    process.push(reloads(seen));
    let mut cache = Vec::new();
    rows(&mut cache, CACHE, &[], slice::from_ref(&(vec![], &seen.inventory)));
    let mut ledger = Vec::new();
    rows(&mut ledger, LEDGER, &[], slice::from_ref(&(vec![], &seen.inventory)));
    let mut origins = Vec::new();
    rows(&mut origins, ORIGINS, &["upstream", "origin"], &each_origin(&seen.inventory));
    origins.push(picks(&seen.inventory));
    origins.push(ejections(&seen.inventory));
    let upstreams: Vec<_> =
        seen.inventory.upstreams.iter().map(|upstream| (vec![upstream.name.as_str()], upstream)).collect();
    rows(&mut origins, UPSTREAMS, &["upstream"], &upstreams);
    origins.extend(checks(&seen.inventory));
    rows(&mut origins, SESSIONS, &["upstream"], &each_affinity(&seen.inventory));
    origins.push(retries(&seen.inventory));
    vec![
        ("Requests and their outcomes", requests(seen)),
        ("Everything that is counted", counts(seen)),
        ("Sites", sites(seen)),
        ("Origins", origins),
        ("Memory", cache),
        ("Volumes", volumes(&seen.inventory)),
        ("Certificates", certificates(&seen.inventory)),
        ("Ledger and accounts", ledger),
        ("The process", process),
    ]
}

/// Retries by reason.
fn retries(inventory: &Inventory) -> Family<'_> {
    let each = inventory.upstreams.iter().flat_map(|upstream| {
        let labels = |reason| vec![upstream.name.as_str(), reason];
        upstream.retries.iter().map(move |(reason, count)| (labels(reason.as_str()), *count))
    });
    Family {
        name: "weir_upstream_retries",
        help: "Requests sent again, by reason.",
        labels: &["upstream", "reason"],
        series: Series::Counts(each.collect()),
    }
}

/// Ejections by cause.
fn ejections(inventory: &Inventory) -> Family<'_> {
    let each = each_origin(inventory).into_iter().flat_map(|(labels, origin)| {
        origin.ejections_by_cause.iter().map(move |(cause, count)| {
            (labels.iter().copied().chain([cause.as_str()]).collect::<Vec<_>>(), *count)
        })
    });
    Family {
        name: "weir_origin_ejections",
        help: "Times that the origin was ejected, by cause: failures or bad statuses in a row.",
        labels: &["upstream", "origin", "cause"],
        series: Series::Counts(each.collect()),
    }
}

/// Adds the families of a table, each with a series of every thing.
fn rows<'a, T>(
    out: &mut Vec<Family<'a>>,
    table: &[Row<T>],
    labels: &'static [&'static str],
    things: &[(Vec<&'a str>, &T)],
) {
    for Row { name, help, read } in table {
        let series = match read {
            Read::Count(read) => {
                Series::Counts(things.iter().map(|(labels, of)| (labels.clone(), read(of))).collect())
            }
            Read::Level(read) => {
                Series::Levels(things.iter().map(|(labels, of)| (labels.clone(), read(of))).collect())
            }
        };
        out.push(Family { name, help, labels, series });
    }
}

fn build<'a>() -> Family<'a> {
    let series = Series::Levels(vec![(vec![env!("CARGO_PKG_VERSION")], 1.0)]);
    Family { name: "weir_build_info", help: "The running version.", labels: &["version"], series }
}

fn reloads<'a>(seen: &Seen) -> Family<'a> {
    let (done, refused) = seen.reloads;
    let series = Series::Counts(vec![(vec!["done"], done), (vec!["refused"], refused)]);
    Family { name: "weir_reloads", help: "Reloads of the configuration.", labels: &["result"], series }
}

fn by_outcome<'a, T: Copy>(values: &[T]) -> Vec<(Vec<&'a str>, T)> {
    Outcome::ALL.iter().zip(values).map(|(outcome, value)| (vec![outcome.word()], *value)).collect()
}

fn requests(seen: &Seen) -> Vec<Family<'_>> {
    let snapshot = &seen.snapshot;
    let classes = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];
    let statuses = classes.iter().zip(snapshot.statuses).map(|(class, count)| (vec![*class], count));
    let first: Vec<_> = snapshot.first_byte.iter().collect();
    let total: Vec<_> = snapshot.total.iter().collect();
    let cut = snapshot.counts[Count::Cut];
    let incomplete = vec![(vec!["weir"], cut), (vec!["client"], snapshot.counts[Count::ClientGone])];
    let words = |name, help, labels, counts: &'_ std::collections::BTreeMap<&'static str, u64>| {
        let series = Series::Counts(counts.iter().map(|(word, count)| (vec![*word], *count)).collect());
        Family { name, help, labels, series }
    };
    let family = |name, help, labels, series| Family { name, help, labels, series };
    vec![
        family(
            "weir_requests",
            "Finished requests by outcome.",
            &["outcome"],
            Series::Counts(by_outcome(&snapshot.requests)),
        ),
        family(
            "weir_responses",
            "Finished requests by the class of the status on the wire: 2xx, none.",
            &["status"],
            Series::Counts(statuses.collect()),
        ),
        family(
            "weir_responses_incomplete",
            "Responses that did not end whole, by who ended them: weir (or the origin) or the client.",
            &["by"],
            Series::Counts(incomplete),
        ),
        words(
            "weir_request_details",
            "Requests that were not hits, by detail: see the page of reasons.",
            &["detail"],
            &snapshot.details,
        ),
        words(
            "weir_responses_not_stored",
            "Responses not stored, by reason.",
            &["reason"],
            &snapshot.not_stored,
        ),
        words("weir_errors", "Errors of origins and transfers, by reason.", &["reason"], &snapshot.errors),
        family(
            "weir_request_first_byte_seconds",
            "Time from the head of a request to the first byte of its response.",
            &["outcome"],
            Series::Histograms(by_outcome(&first)),
        ),
        family(
            "weir_request_duration_seconds",
            "Time from the head of a request to the end of its response.",
            &["outcome"],
            Series::Histograms(by_outcome(&total)),
        ),
    ]
}

/// The rows of `weir-observe`.
fn counts(seen: &Seen) -> Vec<Family<'_>> {
    let snapshot = &seen.snapshot;
    let counted = Count::ALL.iter().map(|count| (count.row(), snapshot.counts[*count]));
    let counted = counted.filter(|(row, _)| !row.name.is_empty()).map(|(row, count)| {
        let series = Series::Counts(vec![(vec![], count)]);
        Family { name: row.name, help: row.help, labels: &[], series }
    });
    let now = Level::ALL.iter().map(|level| {
        let series = Series::Levels(vec![(vec![], snapshot.now(level) as f64)]);
        Family { name: level.name, help: level.help, labels: &[], series }
    });
    counted.chain(now).collect()
}

/// What each site has. Rows of `weir-observe` that are 0 have no series.
fn sites(seen: &Seen) -> Vec<Family<'_>> {
    let all = &seen.snapshot.sites;
    let requests = all.iter().flat_map(|site| {
        let counted = Outcome::ALL.iter().zip(site.requests).filter(|(_, count)| *count > 0);
        counted.map(|(outcome, count)| (vec![&*site.name, outcome.word()], count))
    });
    let mut families = vec![Family {
        name: "weir_site_requests",
        help: "Finished requests by site and outcome.",
        labels: &["site", "outcome"],
        series: Series::Counts(requests.collect()),
    }];
    families.extend(SiteCount::ALL.iter().map(|count| {
        let counted = all.iter().map(|site| (vec![&*site.name], site.counts[*count]));
        let series = Series::Counts(counted.filter(|(_, count)| *count > 0).collect());
        Family { name: count.row().name, help: count.row().help, labels: &["site"], series }
    }));
    let held = seen.held.iter().flat_map(|(site, held)| {
        let tiers = [("memory", held.memory), ("volume", held.volume), ("total", held.total)];
        tiers.map(|(tier, stock)| (vec![site.as_str(), tier], stock))
    });
    let held: Vec<_> = held.collect();
    let objects = held.iter().map(|(labels, stock)| (labels.clone(), stock.objects as f64));
    let bytes = held.iter().map(|(labels, stock)| (labels.clone(), stock.bytes as f64));
    let labels: &[&str] = &["site", "tier"];
    families.push(Family {
        name: "weir_site_held_objects",
        help: "Objects that are held of a site, in memory, on volumes, and in total with each once; purged \
               ones on volumes until swept.",
        labels,
        series: Series::Levels(objects.collect()),
    });
    families.push(Family {
        name: "weir_site_held_bytes",
        help: "Bytes of the bodies of these objects.",
        labels,
        series: Series::Levels(bytes.collect()),
    });
    families
}

fn volumes(inventory: &Inventory) -> Vec<Family<'_>> {
    let volumes = &inventory.volumes;
    let mut families = Vec::new();
    let each: Vec<_> = volumes.iter().map(|volume| (vec![volume.path.as_str()], volume)).collect();
    rows(&mut families, VOLUMES, &["volume"], &each);
    let budgets = volumes
        .iter()
        .filter_map(|volume| Some((vec![volume.path.as_str()], volume.write_budget_bytes? as f64)));
    families.push(Family {
        name: "weir_volume_write_budget_bytes",
        help: "The most bytes that may be written in a day of UTC, if there is a limit.",
        labels: &["volume"],
        series: Series::Levels(budgets.collect()),
    });
    let states = volumes.iter().flat_map(|volume| {
        STATES.map(|state| (vec![volume.path.as_str(), state], one_if(volume.state == state)))
    });
    families.push(Family {
        name: "weir_volume_state",
        help: "1 for the state that the volume is in: up, full, read-only, slow, ejected, probing.",
        labels: &["volume", "state"],
        series: Series::Levels(states.collect()),
    });
    let catalogues =
        volumes.iter().filter_map(|volume| Some((vec![volume.path.as_str()], volume.catalogue.as_ref()?)));
    let catalogues: Vec<_> = catalogues.collect();
    rows(&mut families, CATALOGUES, &["volume"], &catalogues);
    families
}

/// The states of certificates, in the words of `weir certificates`.
const CERTIFICATE_STATES: [&str; 5] = ["valid", "near-end", "expired", "ordered", "failed"];

/// What is known of certificates for clients.
fn certificates(inventory: &Inventory) -> Vec<Family<'_>> {
    let CertificatesUse { all, failures, orders } = &inventory.certificates;
    let in_use = all.iter().filter_map(|of| Some((of, of.expires_in_s?)));
    let ends = in_use.map(|(of, left)| {
        let name = of.names.first().map_or("", String::as_str);
        (vec![name, of.key.as_str(), of.source.as_str()], left as f64)
    });
    let unusable = all.iter().filter(|of| of.error.is_some()).count();
    let states = CERTIFICATE_STATES
        .iter()
        .filter(|_| !all.is_empty())
        .map(|state| (vec![*state], all.iter().filter(|of| of.state == *state).count() as f64));
    let orders = orders.map_or_else(Vec::new, |orders| {
        vec![(vec!["issued"], orders.issued), (vec!["failed"], orders.failed)]
    });
    // Without TLS there is nothing to say.
    let numbers = |number: f64| if all.is_empty() { Vec::new() } else { vec![(vec![], number)] };
    let failed = if all.is_empty() { Vec::new() } else { vec![(vec![], *failures)] };
    vec![
        Family {
            name: "weir_certificate_expires_in_seconds",
            help: "How long each certificate is still valid, by its first name, the kind of its key, and \
                   where it comes from; 0 once it has expired.",
            labels: &["certificate", "key", "source"],
            series: Series::Levels(ends.collect()),
        },
        Family {
            name: "weir_certificates",
            help: "Certificates by the state that `weir certificates` shows: valid, near-end, expired, \
                   ordered, failed.",
            labels: &["state"],
            series: Series::Levels(states.collect()),
        },
        Family {
            name: "weir_acme_orders",
            help: "Orders of certificates that have ended, by outcome.",
            labels: &["outcome"],
            series: Series::Counts(orders),
        },
        Family {
            name: "weir_certificates_unusable",
            help: "Certificates for which `weir certificates` shows an error: their files cannot be used as \
                   they are, or their last order failed.",
            labels: &[],
            series: Series::Levels(numbers(unusable as f64)),
        },
        Family {
            name: "weir_certificate_failures",
            help: "Times that files of certificates could not be used.",
            labels: &[],
            series: Series::Counts(failed),
        },
    ]
}

fn each_origin(inventory: &Inventory) -> Vec<(Vec<&str>, &OriginState)> {
    let all = inventory.upstreams.iter().flat_map(|upstream| {
        upstream.origins.iter().map(|origin| (vec![upstream.name.as_str(), origin.name.as_str()], origin))
    });
    all.collect()
}

fn picks(inventory: &Inventory) -> Family<'_> {
    let counts = each_origin(inventory).into_iter().flat_map(|(names, origin)| {
        origin.picks.iter().map(move |picks| {
            let labels = names.iter().copied().chain([picks.pick.as_str(), picks.reason.as_str()]);
            (labels.collect(), picks.count)
        })
    });
    Family {
        name: "weir_origin_picks",
        help: "Requests and retries for which the origin was picked, by pick and reason.",
        labels: &["upstream", "origin", "pick", "reason"],
        series: Series::Counts(counts.collect()),
    }
}

/// Labels, and one more.
fn with<'a>(labels: &[&'a str], word: &'a str) -> Vec<&'a str> {
    labels.iter().copied().chain([word]).collect()
}

/// What checks and agents have said.
fn checks(inventory: &Inventory) -> Vec<Family<'_>> {
    let all = each_origin(inventory);
    let standings = all.iter().map(|(labels, origin)| (with(labels, &origin.standing), 1.0));
    let checked = || all.iter().filter_map(|(labels, origin)| Some((labels, origin.check.as_ref()?)));
    let results = checked().flat_map(|(labels, check)| {
        let results = [("passed", check.passed), ("failed", check.failed)];
        results.map(|(word, count)| (with(labels, word), count))
    });
    let took = checked().filter_map(|(labels, check)| Some((labels.clone(), check.last_took_s?)));
    let agents = all.iter().filter_map(|(labels, origin)| Some((labels, origin.agent.as_ref()?)));
    let lines = agents.flat_map(|(labels, agent)| {
        let results = [
            ("understood", agent.understood),
            ("partly", agent.partly),
            ("broken", agent.broken),
            ("unreachable", agent.unreachable),
        ];
        results.map(|(word, count)| (with(labels, word), count))
    });
    vec![
        Family {
            name: "weir_origin_standing",
            help: "1 for how the origin stands: ready, ejected, down, draining, maintenance.",
            labels: &["upstream", "origin", "standing"],
            series: Series::Levels(standings.collect()),
        },
        Family {
            name: "weir_origin_checks",
            help: "Checks of the origin, by result.",
            labels: &["upstream", "origin", "result"],
            series: Series::Counts(results.collect()),
        },
        Family {
            name: "weir_origin_check_seconds",
            help: "How long the last check of the origin took.",
            labels: &["upstream", "origin"],
            series: Series::Levels(took.collect()),
        },
        Family {
            name: "weir_origin_agent_lines",
            help: "Connections to the origin's agent by what came of them: a line that was understood, one \
                   with a word that means nothing (partly), none that was whole (broken), no connection \
                   (unreachable).",
            labels: &["upstream", "origin", "result"],
            series: Series::Counts(lines.collect()),
        },
    ]
}

fn each_affinity(inventory: &Inventory) -> Vec<(Vec<&str>, &SessionsState)> {
    let all = inventory.upstreams.iter();
    all.filter_map(|upstream| Some((vec![upstream.name.as_str()], upstream.sessions.as_ref()?))).collect()
}

fn one_if(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}
