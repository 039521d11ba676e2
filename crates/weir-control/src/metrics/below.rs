//! What the metrics say of the volumes, one series each.

use std::fmt;

use super::{Labels, Out};
use crate::plane::{CatalogueUse, VolumeUse};

type Of<T> = fn(&T) -> u64;

/// The states that a volume can be in.
const STATES: [&str; 6] = ["up", "full", "read-only", "slow", "ejected", "probing"];

const LEVELS: [(&str, &str, Of<VolumeUse>); 9] = [
    ("weir_volume_well", "1 while the volume stores and serves", |volume| u64::from(volume.state == "up")),
    ("weir_volume_objects", "objects on the volume", |volume| volume.objects),
    ("weir_volume_bytes", "bytes that the volume's files take", |volume| volume.used_bytes),
    ("weir_volume_bytes_max", "the ceiling of the volume's files", |volume| volume.size_bytes),
    ("weir_volume_segments", "files that hold objects", |volume| volume.segments),
    ("weir_volume_index_bytes", "bytes of memory that the volume's index takes", |volume| volume.index_bytes),
    ("weir_volume_weight", "the volume's share of the keys, beside the others'", |volume| volume.weight),
    ("weir_volume_written_today_bytes", "bytes written since midnight UTC", |volume| {
        volume.written_today_bytes
    }),
    ("weir_volume_write_budget_used_up", "1 while nothing is stored: the budget is used up", |volume| {
        u64::from(volume.write_budget_used_up)
    }),
];

const COUNTS: [(&str, &str, Of<VolumeUse>); 16] = [
    ("weir_volume_body_bytes", "bytes of bodies written", |volume| volume.written_body_bytes),
    ("weir_volume_other_bytes", "bytes written beside bodies", |volume| volume.written_overhead_bytes),
    ("weir_volume_admitted", "objects let down while they arrived", |volume| volume.admitted),
    ("weir_volume_promoted", "objects that went down from memory later", |volume| volume.written_later),
    ("weir_volume_budget_refused", "objects not stored for the write budget", |volume| volume.budget_refused),
    ("weir_volume_evicted", "objects that made room for others on the volume", |volume| volume.evicted),
    ("weir_volume_reinserted", "objects written anew because they were still wanted", |volume| {
        volume.reinserted
    }),
    ("weir_volume_over_quota", "objects that went because their site was at its quota", |volume| {
        volume.over_quota
    }),
    ("weir_volume_swept", "objects taken out after a purge", |volume| volume.swept),
    ("weir_volume_segments_freed", "files in which nothing was of use any more", |volume| {
        volume.segments_freed
    }),
    ("weir_volume_sweeps", "sweeps after which marks were dropped", |volume| volume.sweeps),
    ("weir_volume_sweeps_failed", "sweeps that could not go on", |volume| volume.sweeps_failed),
    ("weir_volume_damaged", "objects that were not what was stored", |volume| volume.damaged),
    ("weir_volume_queue_full", "objects not stored because too much waited", |volume| volume.queue_full),
    ("weir_volume_read_errors", "reads that failed", |volume| volume.read_errors),
    ("weir_volume_write_errors", "writes that failed", |volume| volume.write_errors),
];

const CATALOGUE_LEVELS: [(&str, &str, Of<CatalogueUse>); 4] = [
    ("weir_catalogue_well", "1 while the catalogue can be searched", |of| u64::from(!of.broken)),
    ("weir_catalogue_bytes", "bytes on the drive that the catalogue takes", |of| of.disk_bytes),
    ("weir_catalogue_memory_bytes", "bytes of memory that the catalogue takes", |of| of.memory_bytes),
    ("weir_catalogue_behind_bytes", "bytes of the log that are not taken in yet", |of| of.behind_bytes),
];

const CATALOGUE_COUNTS: [(&str, &str, Of<CatalogueUse>); 2] = [
    ("weir_catalogue_written_bytes", "bytes written by the catalogue", |of| of.written_bytes),
    ("weir_catalogue_records", "records of the log that were taken in", |of| of.records),
];

pub(super) fn volumes(out: &mut Out, volumes: &[VolumeUse]) -> fmt::Result {
    if volumes.is_empty() {
        return Ok(());
    }
    let each = || volumes.iter().map(|volume| (labels(volume), volume));
    for (name, help, value) in LEVELS {
        out.gauges(name, help, each().map(|(labels, volume)| (labels, value(volume) as f64)))?;
    }
    let states = volumes.iter().flat_map(|volume| {
        STATES.map(|state| {
            let labels = vec![("volume", volume.path.as_str()), ("state", state)];
            (labels, if volume.state == state { 1.0 } else { 0.0 })
        })
    });
    out.gauges("weir_volume_state", "1 for the state that the volume is in", states)?;
    for (name, help, value) in COUNTS {
        out.counters(name, help, each().map(|(labels, volume)| (labels, value(volume))))?;
    }
    let budgets = || volumes.iter().filter_map(|volume| Some((labels(volume), volume.write_budget_bytes?)));
    if budgets().next().is_some() {
        let help = "the most that is written in a day of UTC";
        let values = budgets().map(|(labels, bytes)| (labels, bytes as f64));
        out.gauges("weir_volume_write_budget_bytes", help, values)?;
    }
    let with = || volumes.iter().filter_map(|volume| Some((labels(volume), volume.catalogue.as_ref()?)));
    if with().next().is_none() {
        return Ok(());
    }
    for (name, help, value) in CATALOGUE_LEVELS {
        out.gauges(name, help, with().map(|(labels, of)| (labels, value(of) as f64)))?;
    }
    for (name, help, value) in CATALOGUE_COUNTS {
        out.counters(name, help, with().map(|(labels, of)| (labels, value(of))))?;
    }
    Ok(())
}

fn labels(volume: &VolumeUse) -> Labels<'_> {
    vec![("volume", volume.path.as_str())]
}
