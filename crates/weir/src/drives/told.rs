//! What is told of a volume: by `weir volumes`, the status and the metrics.

use std::time::Duration;

use weir_control::{CatalogueUse, VolumeUse};
use weir_store::catalogue::CatalogueUsage;
use weir_store::{Stamp, VolumeReport, VolumeState};

use super::{Drain, Slot};

/// Of a slot, at a moment of the drives' clock.
pub(super) fn of(slot: &Slot, now: Duration) -> VolumeUse {
    let retry_s =
        slot.breaker.rests_for(now).filter(|rest| !rest.is_zero()).map(|rest| rest.as_secs().max(1));
    let drain = match slot.drain {
        Drain::No => None,
        Drain::Passing | Drain::Rests(_) => Some("draining".to_owned()),
        Drain::Done => Some("drained".to_owned()),
    };
    let state = slot.state();
    let held = slot.attached().map_or_else(|| slot.last.clone(), |attached| held(attached.report()));
    VolumeUse {
        path: slot.path(),
        state: word(state).to_owned(),
        reason: slot.why.clone().filter(|_| state != VolumeState::Up),
        retry_s,
        drain,
        ..held
    }
}

fn word(state: VolumeState) -> &'static str {
    match state {
        VolumeState::Probing => "probing",
        VolumeState::Up => "up",
        VolumeState::Full => "full",
        VolumeState::ReadOnly => "read-only",
        VolumeState::Slow => "slow",
        VolumeState::Ejected => "ejected",
    }
}

pub(super) fn held(state: VolumeReport) -> VolumeUse {
    let VolumeReport { usage, sweeps, budget, .. } = state;
    VolumeUse {
        id: format!("{:032x}", state.id),
        suspect: state.suspect_before > Stamp::of(0),
        weight: state.weight,
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
        admitted: state.admitted,
        written_later: state.written_later,
        evicted: usage.evicted,
        swept: usage.swept,
        segments_freed: usage.segments_freed,
        reinserted: usage.reinserted,
        over_quota: usage.over_quota,
        sweeps: sweeps.passes,
        sweeps_failed: sweeps.failed,
        catalogue: state.catalogue.map(catalogue),
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
