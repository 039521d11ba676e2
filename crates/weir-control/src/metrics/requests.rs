//! The families of requests: outcomes, everything that `weir-observe` counts, and what each site has.

use weir_observe::{Count, Level, Outcome, SiteCount};

use super::family::{Buckets, Family, Seen, Series};

fn by_outcome<'a, T>(values: impl IntoIterator<Item = T>) -> Vec<(Vec<&'a str>, T)> {
    Outcome::ALL.iter().zip(values).map(|(outcome, value)| (vec![outcome.word()], value)).collect()
}

pub(super) fn requests(seen: &Seen) -> Vec<Family<'_>> {
    let snapshot = &seen.snapshot;
    let classes = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];
    let statuses = classes.iter().zip(snapshot.statuses).map(|(class, count)| (vec![*class], count));
    let first: Vec<_> = snapshot.first_byte.iter().map(Buckets::of).collect();
    let total: Vec<_> = snapshot.total.iter().map(Buckets::of).collect();
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
            Series::Counts(by_outcome(snapshot.requests)),
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
            Series::Histograms(by_outcome(first)),
        ),
        family(
            "weir_request_duration_seconds",
            "Time from the head of a request to the end of its response.",
            &["outcome"],
            Series::Histograms(by_outcome(total)),
        ),
    ]
}

/// The rows of `weir-observe`.
pub(super) fn counts(seen: &Seen) -> Vec<Family<'_>> {
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
pub(super) fn sites(seen: &Seen) -> Vec<Family<'_>> {
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
