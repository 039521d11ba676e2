//! The families of volumes and their catalogues.

use super::family::{Family, Series};
use super::row::{Row, count, level, one_if, rows};
use crate::data_plane::{CatalogueUse, Inventory, VolumeStanding, VolumeUse};
use smallvec::smallvec;

const VOLUMES: &[Row<VolumeUse>] = &[
    level("weir_volume_up", "1 while the volume stores and serves.", |volume| {
        one_if(volume.state == VolumeStanding::Up)
    }),
    level("weir_volume_objects", "Objects on the volume.", |volume| volume.objects as f64),
    level("weir_volume_used_bytes", "Bytes that the volume's files use.", |volume| volume.used_bytes as f64),
    level("weir_volume_size_bytes", "The most bytes that the volume's files may use.", |volume| {
        volume.size_bytes as f64
    }),
    level("weir_volume_segments", "Segments: files that hold objects.", |volume| volume.segments as f64),
    level(
        "weir_volume_kept_bytes",
        "Bytes of removed segments that are kept for clients who read them.",
        |volume| volume.kept_bytes as f64,
    ),
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
    count(
        "weir_volume_kept_no_longer",
        "Clients' bodies for which something removed was kept no longer before it was read.",
        |volume| volume.kept_no_longer,
    ),
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

pub(super) fn volumes(inventory: &Inventory) -> Vec<Family<'_>> {
    let volumes = &inventory.volumes;
    let mut families = Vec::new();
    let each: Vec<_> = volumes.iter().map(|volume| (smallvec![volume.path.as_str()], volume)).collect();
    rows(&mut families, VOLUMES, &["volume"], &each);
    let budgets = volumes
        .iter()
        .filter_map(|volume| Some((smallvec![volume.path.as_str()], volume.write_budget_bytes? as f64)));
    families.push(Family {
        name: "weir_volume_write_budget_bytes",
        help: "The most bytes that may be written in a day of UTC, if there is a limit.",
        labels: &["volume"],
        series: Series::Levels(budgets.collect()),
    });
    let states = volumes.iter().flat_map(|volume| {
        VolumeStanding::ALL
            .map(|state| (smallvec![volume.path.as_str(), state.word()], one_if(volume.state == state)))
    });
    families.push(Family {
        name: "weir_volume_state",
        help: "1 for the state that the volume is in: up, full, read-only, slow, ejected, probing.",
        labels: &["volume", "state"],
        series: Series::Levels(states.collect()),
    });
    let catalogues = volumes
        .iter()
        .filter_map(|volume| Some((smallvec![volume.path.as_str()], volume.catalogue.as_ref()?)));
    let catalogues: Vec<_> = catalogues.collect();
    rows(&mut families, CATALOGUES, &["volume"], &catalogues);
    families
}
