//! The families of requests: outcomes, everything that `weir-observe` counts, and what each site has.

use smallvec::smallvec;
use std::time::SystemTime;

use weir_observe::{Count, Level, Outcome, SiteCount};

use super::family::{Buckets, Family, Labels, Many, Seen, Series, SiteLabels};
use super::written::Written;
use crate::sites::Stock;

fn by_outcome<'a, T>(values: impl IntoIterator<Item = T>) -> Vec<(Labels<'a>, T)> {
    Outcome::ALL.iter().zip(values).map(|(outcome, value)| (smallvec![outcome.word()], value)).collect()
}

pub(super) fn requests(seen: &Seen) -> Vec<Family<'_>> {
    let snapshot = &seen.snapshot;
    let classes = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];
    let statuses = classes.iter().zip(snapshot.statuses).map(|(class, count)| (smallvec![*class], count));
    let first: Vec<_> = snapshot.first_byte.iter().map(Buckets::of).collect();
    let total: Vec<_> = snapshot.total.iter().map(Buckets::of).collect();
    let cut = snapshot.counts[Count::Cut];
    let incomplete =
        vec![(smallvec!["weir"], cut), (smallvec!["client"], snapshot.counts[Count::ClientGone])];
    let words = |name, help, labels, counts: &'_ std::collections::BTreeMap<&'static str, u64>| {
        let series = Series::Counts(counts.iter().map(|(word, count)| (smallvec![*word], *count)).collect());
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
        let series = Series::Counts(vec![(smallvec![], count)]);
        Family { name: row.name, help: row.help, labels: &[], series }
    });
    let now = Level::ALL.iter().map(|level| {
        let series = Series::Levels(vec![(smallvec![], snapshot.now(level) as f64)]);
        Family { name: level.name, help: level.help, labels: &[], series }
    });
    counted.chain(now).collect()
}

/// What each site has. Rows of `weir-observe` that are 0 have no series.
pub(super) fn sites<'a>(seen: &'a Seen, written: &'a Written) -> Vec<Family<'a>> {
    let all = || written.counted.each().zip(&seen.snapshot.sites);
    let requests = move || {
        all().flat_map(|(label, site)| {
            let counted = written.outcomes.iter().zip(site.requests).filter(|(_, count)| *count > 0);
            counted.map(move |(outcome, count)| (SiteLabels(label, outcome), count))
        })
    };
    let mut families = vec![Family {
        name: "weir_site_requests",
        help: "Finished requests by site and outcome.",
        labels: &["site", "outcome"],
        series: Series::ManyCounts(Many::new(requests)),
    }];
    families.extend(SiteCount::ALL.iter().map(|count| {
        let each = move || {
            let counted = all().map(|(label, site)| (SiteLabels(label, ""), site.counts[*count]));
            counted.filter(|(_, count)| *count > 0)
        };
        let series = Series::ManyCounts(Many::new(each));
        Family { name: count.row().name, help: count.row().help, labels: &["site"], series }
    }));
    families.extend(held(seen, written));
    families
}

/// What is held of each site. Rows that are 0 have no series, and neither has memory before its objects were
/// counted.
fn held<'a>(seen: &'a Seen, written: &'a Written) -> [Family<'a>; 3] {
    let stocks = move |of: fn(Stock) -> u64| {
        written.held.each().zip(&seen.held.sites).flat_map(move |(label, (_, held))| {
            let total = seen.held.as_of.map_or_else(Stock::default, |_| held.total);
            let tiers = [
                (r#",tier="memory""#, held.memory),
                (r#",tier="volume""#, held.volume),
                (r#",tier="total""#, total),
            ];
            let tiers = tiers.into_iter().filter(|(_, stock)| stock.objects > 0);
            tiers.map(move |(tier, stock)| (SiteLabels(label, tier), of(stock)))
        })
    };
    let since_epoch = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let as_of = seen.held.as_of.map(|time| (smallvec![], since_epoch(time).as_secs_f64()));
    let labels: &[&str] = &["site", "tier"];
    [
        Family {
            name: "weir_site_held_objects",
            help: "Objects that are held of a site, in memory, on volumes, and in total with each once; \
                   purged ones on volumes until swept.",
            labels,
            series: Series::ManyLevels(Many::new(move || stocks(|stock| stock.objects))),
        },
        Family {
            name: "weir_site_held_bytes",
            help: "Bytes of the bodies of these objects.",
            labels,
            series: Series::ManyLevels(Many::new(move || stocks(|stock| stock.bytes))),
        },
        Family {
            name: "weir_site_held_timestamp_seconds",
            help: "When what memory holds of sites was counted, in seconds since the Unix epoch. Where \
                   memory holds many objects that was a while before the scrape.",
            labels: &[],
            series: Series::Levels(as_of.into_iter().collect()),
        },
    ]
}
