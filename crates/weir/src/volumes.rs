//! The configuration's volumes, for the store's supervisor ([`weir_store::drives`]): what it is told, what
//! it tells, and the databases of catalogues.

use std::path::Path;
use std::sync::Arc;

use weir_config::{Loaded, model};
use weir_control::{CatalogueUse, VolumeStanding, VolumeUse};
use weir_store::catalogue::CatalogueUsage;
use weir_store::drives::{Change, Drain, DriveReport, Machine, RegisterChange, Settings, Wanted};
use weir_store::volume::Clock;
use weir_store::{AdmissionMode, AdmissionSettings, OsDisk, Stamp, VolumeReport, VolumeState};

/// What a supervisor of volumes works with here.
pub(crate) fn settings(memory_bytes: u64) -> Settings {
    let begun = weir_clock::now().mono;
    Settings {
        memory_bytes,
        clock: Clock::new(move || weir_clock::now().since(begun)),
        now: weir_clock::now,
        machine: Arc::new(Here),
    }
}

/// The volumes that a configuration wants.
pub(crate) fn wanted(volumes: &[model::Volume]) -> Vec<Wanted> {
    let one = |volume: &model::Volume| Wanted {
        path: volume.path.0.clone(),
        size_bytes: volume.size.map(|size| size.0),
        weight: volume.weight,
        write_budget_bytes: volume.write_budget.map(|budget| budget.0),
        read_timeout: volume.read_timeout.0,
        is_drained: volume.drain,
    };
    volumes.iter().map(one).collect()
}

/// This machine, and the diagnostics.
#[derive(Debug)]
struct Here;

impl Machine for Here {
    fn has_rows(&self) -> bool {
        cfg!(feature = "rocksdb")
    }

    #[cfg(feature = "rocksdb")]
    fn rows(
        &self,
        path: &Path,
        volume: &weir_store::volume::Volume,
        memory_bytes: u64,
    ) -> Option<Arc<dyn weir_store::catalogue::Rows>> {
        rows(path, volume, memory_bytes)
    }

    fn volume_changed(&self, name: &str, change: &Change) {
        match change {
            Change::Opened { size_bytes, found, took } => tracing::info!(
                objects = found.objects,
                segments = found.segments,
                scanned = found.scanned,
                rebuilt = found.was_rebuilt,
                ms = took.as_millis() as u64,
                "volume {name} of {size_bytes} bytes is open"
            ),
            Change::NotOpened(why) => {
                tracing::error!("volume {name} cannot be opened: {why}; Weir goes on without it");
            }
            Change::Distrusted(distrust) => tracing::warn!("volume {name} {}", distrust.sentence()),
            Change::InPlaceOf { expected, found } => tracing::warn!(
                "volume {expected:032x} was in {name} and is not there: {found:032x} is used in its place"
            ),
            Change::Resized(size_bytes) => tracing::info!("volume {name} has {size_bytes} bytes now"),
            Change::Budgeted => tracing::info!("the write budget of volume {name} has changed"),
            Change::Slow(most) => {
                tracing::warn!("volume {name} is slow: something took longer than {most:?}");
            }
            Change::Unstoring(why) => tracing::warn!("volume {name} stores nothing more: {why}"),
            Change::Storing => tracing::warn!("volume {name} is up again: it stores again"),
            Change::Up => tracing::warn!("volume {name} is up again"),
            Change::LetGo(why) => tracing::error!("volume {name} is let go: {why}"),
            Change::OpenedAgain(why) => tracing::warn!("volume {name} is opened again: {why}"),
            Change::Emptied => tracing::info!("volume {name} is empty and can be taken out"),
            Change::Unclosed => {
                tracing::error!("volume {name} cannot be closed: there is no thread for it");
            }
        }
    }

    fn register_changed(&self, change: &RegisterChange) {
        match change {
            RegisterChange::Unread(error) => {
                tracing::error!(%error, "cannot read the register of volumes");
            }
            RegisterChange::Unwritten(error) => {
                tracing::error!(%error, "cannot write the register of volumes; tried again every second");
            }
            RegisterChange::Written => tracing::warn!("the register of volumes is written again"),
        }
    }
}

/// Opens the rows of a volume's catalogue. Damaged rows are removed and made again. Without rows, searches
/// read through the volume.
#[cfg(feature = "rocksdb")]
fn rows(
    path: &Path,
    volume: &weir_store::volume::Volume,
    memory_bytes: u64,
) -> Option<Arc<dyn weir_store::catalogue::Rows>> {
    let folder = path.join("catalogue");
    let settings = weir_rocks::Settings {
        memory_bytes: usize::try_from(memory_bytes).unwrap_or(usize::MAX),
        ..weir_rocks::Settings::default()
    };
    let wanted = weir_store::catalogue::wanted(volume);
    let opened = weir_rocks::open(&folder, &settings, wanted.clone());
    let opened = match opened {
        Err(weir_rocks::OpenError::Damaged(error)) => {
            tracing::warn!(%error, "the catalogue is damaged; Weir makes it again from the volume");
            let destroyed = weir_rocks::destroy(&folder).map_err(weir_rocks::OpenError::Refused);
            destroyed.and_then(|()| weir_rocks::open(&folder, &settings, wanted))
        }
        opened => opened,
    };
    opened
        .inspect_err(
            |error| tracing::error!(%error, "no catalogue; searches read through the volume instead"),
        )
        .ok()
}

/// What `weir volumes`, the status and the metrics say of a volume.
pub(crate) fn told(report: DriveReport) -> VolumeUse {
    let DriveReport { name, state, why, rests_for, drain, held } = report;
    let drain = drain.map(|drain| match drain {
        Drain::Draining => "draining".to_owned(),
        Drain::Drained => "drained".to_owned(),
    });
    VolumeUse {
        path: name,
        state: standing(state),
        reason: why,
        retry_s: rests_for.map(|rest| rest.as_secs().max(1)),
        drain,
        ..held.map(in_use).unwrap_or_default()
    }
}

fn standing(state: VolumeState) -> VolumeStanding {
    match state {
        VolumeState::Probing => VolumeStanding::Probing,
        VolumeState::Up => VolumeStanding::Up,
        VolumeState::Full => VolumeStanding::Full,
        VolumeState::ReadOnly => VolumeStanding::ReadOnly,
        VolumeState::Slow => VolumeStanding::Slow,
        VolumeState::Ejected => VolumeStanding::Ejected,
    }
}

fn in_use(report: VolumeReport) -> VolumeUse {
    let VolumeReport { usage, sweeps, budget, .. } = report;
    VolumeUse {
        id: format!("{:032x}", report.id),
        suspect: report.suspect_before > Stamp::of(0),
        weight: report.weight,
        objects: usage.objects,
        used_bytes: usage.used_bytes,
        size_bytes: usage.size_bytes,
        segments: usage.segments,
        index_bytes: usage.index_memory_bytes,
        written_body_bytes: usage.body_bytes,
        written_overhead_bytes: usage.head_bytes + usage.journal_bytes + usage.checkpoint_bytes,
        write_budget_bytes: budget.limit_bytes,
        written_today_bytes: budget.used_bytes,
        write_budget_used_up: budget.is_used_up,
        budget_refused: budget.refused,
        admitted: report.admitted,
        written_later: report.written_later,
        evicted: usage.evicted,
        swept: usage.swept,
        segments_freed: usage.segments_freed,
        kept_bytes: usage.kept_bytes,
        kept_no_longer: usage.kept_no_longer,
        reinserted: usage.reinserted,
        over_quota: usage.over_quota,
        sweeps: sweeps.passes,
        sweeps_failed: sweeps.failed,
        catalogue: report.catalogue.map(catalogue),
        damaged: usage.damaged,
        queue_full: usage.queue_full,
        read_errors: usage.read_errors,
        write_errors: usage.write_errors,
        ..VolumeUse::default()
    }
}

fn catalogue(usage: CatalogueUsage) -> CatalogueUse {
    let CatalogueUsage { disk_bytes, memory_bytes, written_bytes, records, behind_bytes, is_broken } = usage;
    CatalogueUse { disk_bytes, memory_bytes, written_bytes, records, behind_bytes, broken: is_broken }
}

/// How that is decided.
pub(crate) fn admission(loaded: &Loaded, state: &Path) -> AdmissionSettings {
    let sizes = loaded.config.cache.volume.iter().filter_map(|volume| Some(volume.size?.0));
    AdmissionSettings {
        mode: admission_of(loaded),
        disk: Some(Arc::new(OsDisk::at(state))),
        volumes_bytes: sizes.sum(),
    }
}

/// Which responses are written to the drives.
pub(crate) fn admission_of(loaded: &Loaded) -> AdmissionMode {
    match loaded.config.cache.admission {
        model::Admission::Auto => AdmissionMode::Auto,
        model::Admission::Always => AdmissionMode::Always,
        model::Admission::Second => AdmissionMode::Second,
    }
}
