//! Loads in the background all that is missing of an object of which a part was asked for (`range.fill =
//! "whole"`). It must not mix two versions: it asks as readers do, gap by gap.

use std::sync::Arc;
use std::time::Duration;

use weir_policy::Interval;
use weir_store::{BLOCK_BYTES, Generation};

use super::gap::task::GapRequest;
use super::machine::End;
use super::same::SameGeneration;

/// How many objects are completed at a time. Further ones are tried again by their next reader.
const RUNNING_MAX: usize = 64;
/// How often in a row a gap is asked for without a block of it coming, and the time between.
const TRIES_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Completes a generation where its route says so, unless that is under way. Called from within the runtime
/// of the request's core.
pub fn start(request: &GapRequest, generation: &Arc<Generation>) {
    if !request.settings.range().fills_whole {
        return;
    }
    let own = SameGeneration::of(generation);
    {
        let mut completing = request.resources.inflight.completing.lock();
        if completing.len() >= RUNNING_MAX || !completing.insert(own.clone()) {
            return;
        }
    }
    let done = Done { request: request.clone(), own };
    let generation = generation.clone();
    tokio::spawn(Box::pin(async move {
        complete(&done.request, &generation).await;
        drop(done);
    }));
}

/// Takes the generation off the list, however completing it ends.
struct Done {
    request: GapRequest,
    own: SameGeneration,
}

impl Drop for Done {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.request.resources.counters().panicked();
        }
        self.request.resources.inflight.completing.lock().remove(&self.own);
    }
}

async fn complete(request: &GapRequest, generation: &Arc<Generation>) {
    let Some(length) = generation.length() else { return };
    let mut tries = 0;
    while !generation.is_retired() && tries < TRIES_MAX {
        generation.look_on_disk().await;
        let Some(gap) = generation.gap(Interval::new(0, length)) else { return };
        let Some(guard) = request.join(generation, gap.start, gap) else { continue };
        let end = guard.ended().await;
        let least = gap.end.min(gap.start.saturating_add(BLOCK_BYTES as u64));
        let has_come = generation.gap(gap).is_none_or(|left| left.start >= least);
        match end {
            End::Changed | End::Unable => return,
            _ if has_come => tries = 0,
            // An origin that sends a byte at a time is not asked for each of them at once.
            _ => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
