//! Opening the volume that the configuration names.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::Context;
use weir_config::model;
use weir_store::catalogue::Rows;
use weir_store::volume::{Clock, Disk, OsDisk, Volume, VolumeSettings};

/// The size where none is given, at most; in bytes.
const SIZE_BYTES: u64 = 10 << 30;
/// And at most this share of what is free.
const FREE_SHARE: u64 = 4;
/// What waits to be written takes at most this share of the memory.
const QUEUE_SHARE: u64 = 4;
/// The catalogue takes this share of the memory, within these limits in bytes.
const ROWS_SHARE: u64 = 16;
const ROWS_BYTES_MIN: u64 = 4 << 20;
const ROWS_BYTES_MAX: u64 = 64 << 20;
/// Below this there is none: it would take too much of the cache's.
const ROWS_MEMORY_BYTES_MIN: u64 = 32 << 20;

/// How the memory of the cache is shared among what needs some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// What is left for responses.
    pub(crate) store_bytes: u64,
    /// For the catalogue of one volume; 0 where there is none.
    rows_bytes: u64,
    /// For what waits to be written to one volume.
    queue_bytes: u64,
}

impl Share {
    /// Of so much memory, for so many volumes at most.
    pub(crate) fn of(memory_bytes: u64, volumes: usize) -> Share {
        let count = volumes.max(1) as u64;
        let all_rows = (memory_bytes / ROWS_SHARE).clamp(ROWS_BYTES_MIN, ROWS_BYTES_MAX);
        let has_rows = cfg!(feature = "rocksdb") && volumes > 0 && memory_bytes >= ROWS_MEMORY_BYTES_MIN;
        let rows_bytes = if has_rows { (all_rows / count).max(ROWS_BYTES_MIN) } else { 0 };
        Share {
            store_bytes: memory_bytes.saturating_sub(rows_bytes * count),
            rows_bytes,
            queue_bytes: memory_bytes / QUEUE_SHARE / count,
        }
    }
}

/// Opens the rows of a volume's catalogue. Those that are damaged are taken away and made anew; where there can be none, the
/// volume is walked instead.
#[cfg(feature = "rocksdb")]
pub(crate) fn rows(of: &model::Volume, volume: &Volume, share: &Share) -> Option<Arc<dyn Rows>> {
    if share.rows_bytes == 0 {
        return None;
    }
    let folder = of.path.0.join("catalogue");
    let settings = weir_rocks::Settings {
        memory_bytes: usize::try_from(share.rows_bytes).unwrap_or(usize::MAX),
        ..weir_rocks::Settings::default()
    };
    let wanted = weir_store::catalogue::wanted(volume);
    let opened = weir_rocks::open(&folder, &settings, wanted.clone());
    let opened = match opened {
        Err(weir_rocks::OpenError::Damaged(error)) => {
            tracing::warn!(%error, "the catalogue is damaged and is made anew from the volume");
            let destroyed = weir_rocks::destroy(&folder).map_err(weir_rocks::OpenError::Refused);
            destroyed.and_then(|()| weir_rocks::open(&folder, &settings, wanted))
        }
        opened => opened,
    };
    opened
        .inspect_err(|error| tracing::error!(%error, "there is no catalogue; the volume is walked instead"))
        .ok()
}

/// Without RocksDB there are none.
#[cfg(not(feature = "rocksdb"))]
pub(crate) fn rows(_: &model::Volume, _: &Volume, _: &Share) -> Option<Arc<dyn Rows>> {
    None
}

/// Opens the volume, or makes it; with its weight. `numbers` is where all volumes of the house get the numbers of their objects
/// from. Blocks for as long as recovery takes.
///
/// # Errors
/// A sentence that says what to do.
pub(crate) fn open(
    of: &model::Volume,
    share: &Share,
    numbers: &Arc<AtomicU64>,
) -> anyhow::Result<(Volume, u64)> {
    let path = &of.path.0;
    let said = || format!("cannot use the volume {}", path.display());
    let disk = OsDisk::take(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::ResourceBusy => anyhow::anyhow!(
            "another Weir uses the volume {}; stop it, or give this one its own folder",
            path.display()
        ),
        _ => anyhow::Error::new(error).context(said()),
    })?;
    let size_bytes = match of.size {
        Some(size) => size.0,
        None => SIZE_BYTES.min(disk.room().with_context(said)?.free_bytes / FREE_SHARE),
    };
    let begun = weir_edge::now().mono;
    let mut settings = VolumeSettings::of(size_bytes, Clock::new(move || weir_edge::now().since(begun)));
    settings.write_budget_bytes = of.write_budget.map(|budget| budget.0);
    // What waits to be written holds its blocks in memory.
    settings.queue_bytes = settings.queue_bytes.min(share.queue_bytes);
    settings.numbers = Arc::clone(numbers);
    let (volume, found) = Volume::open(Arc::new(disk), &settings).with_context(said)?;
    tracing::info!(
        objects = found.objects,
        segments = found.segments,
        scanned = found.scanned,
        rebuilt = found.was_rebuilt,
        ms = weir_edge::now().since(begun).as_millis() as u64,
        "volume {} of {size_bytes} bytes is open",
        path.display()
    );
    Ok((volume, weight(of, size_bytes)))
}

/// Its share of the keys, beside the others': by default its size in MiB.
pub(crate) fn weight(of: &model::Volume, size_bytes: u64) -> u64 {
    of.weight.map_or((size_bytes >> 20).max(1), |weight| u64::from(weight.get()))
}
