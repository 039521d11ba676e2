//! Opening the volume that the configuration names.

use std::sync::Arc;

use anyhow::Context;
use weir_config::model;
use weir_store::volume::{Clock, Disk, OsDisk, Volume, VolumeSettings};

/// The size where none is given, at most; in bytes.
const SIZE_BYTES: u64 = 10 << 30;
/// And at most this share of what is free.
const FREE_SHARE: u64 = 4;
/// What waits to be written takes at most this share of the memory.
const QUEUE_SHARE: u64 = 4;

/// Opens the volume, or makes it. Blocks for as long as recovery takes.
///
/// # Errors
/// A sentence that says what to do.
pub(crate) fn open(of: &model::Volume, memory_bytes: u64) -> anyhow::Result<Volume> {
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
    // What waits to be written holds its blocks in memory.
    settings.queue_bytes = settings.queue_bytes.min(memory_bytes / QUEUE_SHARE);
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
    Ok(volume)
}
