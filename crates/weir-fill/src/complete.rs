//! Bringing all that is missing of an object of which a part was asked for, in the background (`range.fill =
//! "whole"`). It must not mix two versions: it asks as readers do, gap by gap.

use std::sync::Arc;
use std::time::Duration;

use weir_policy::Interval;
use weir_store::{BLOCK_BYTES, Generation};

use super::gap::task::Errand;
use super::machine::End;

/// How many objects are completed at a time; what comes beyond waits for its next reader.
const RUNNING_MAX: usize = 64;
/// How often in a row a gap is asked for of which not a block comes, and how long apart.
const TRIES_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Completes a generation where its route wants that, unless it is under way. Called from within the runtime
/// of the errand's core.
pub fn start(errand: &Errand, generation: &Arc<Generation>) {
    if !errand.settings.range().fills_whole {
        return;
    }
    let at = Arc::as_ptr(generation).addr();
    {
        let mut completing = errand.means.desk.completing.lock();
        if completing.len() >= RUNNING_MAX || !completing.insert(at) {
            return;
        }
    }
    let done = Done { errand: errand.clone(), at };
    let generation = generation.clone();
    tokio::spawn(Box::pin(async move {
        complete(&done.errand, &generation).await;
        drop(done);
    }));
}

/// Takes it off the list, however it ends.
struct Done {
    errand: Errand,
    at: usize,
}

impl Drop for Done {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.errand.means.counters().panicked();
        }
        self.errand.means.desk.completing.lock().remove(&self.at);
    }
}

async fn complete(errand: &Errand, generation: &Arc<Generation>) {
    let Some(length) = generation.length() else { return };
    let mut tries = 0;
    while !generation.is_retired() && tries < TRIES_MAX {
        generation.look_on_disk().await;
        let Some(gap) = generation.gap(Interval::new(0, length)) else { return };
        let Some(seat) = errand.seat(generation, gap.start, gap) else { continue };
        let end = seat.ended().await;
        let least = gap.end.min(gap.start.saturating_add(BLOCK_BYTES as u64));
        let is_brought = generation.gap(gap).is_none_or(|left| left.start >= least);
        match end {
            End::Changed | End::Unable => return,
            _ if is_brought => tries = 0,
            // An origin that sends a byte at a time is not asked for each.
            _ => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
