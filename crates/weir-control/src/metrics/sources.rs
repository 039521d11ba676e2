//! The families of sources of origins' metrics.

use super::family::{Family, Series};
use crate::data_plane::Inventory;
use smallvec::smallvec;

/// The families of sources.
pub(super) fn sources(inventory: &Inventory) -> Vec<Family<'_>> {
    let reads = inventory.sources.iter().flat_map(|source| {
        let results = [("succeeded", source.succeeded), ("failed", source.failed)];
        results.map(|(result, count)| (smallvec![source.source.as_str(), result], count))
    });
    let ages = inventory
        .sources
        .iter()
        .filter_map(|source| Some((smallvec![source.source.as_str()], source.ago_s?)));
    vec![
        Family {
            name: "weir_metrics_reads",
            help: "Reads of the source of origins' metrics, by result: succeeded, failed.",
            labels: &["source", "result"],
            series: Series::Counts(reads.collect()),
        },
        Family {
            name: "weir_metrics_read_age_seconds",
            help: "How long ago the source of origins' metrics was read.",
            labels: &["source"],
            series: Series::Levels(ages.collect()),
        },
    ]
}
