//! The thread beside the requests: it brings down what has earned its place since it arrived, also what
//! memory held already when a volume came, takes out of the volume what was replaced by something that stayed
//! in memory, lets the sketch age, tells the volumes the time, and writes down what is to be remembered. It
//! ends with the inside.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use weir_policy::Now;

use super::{Inside, Keeper, VolumeWrite};
use crate::admission::Task;
use crate::generation::{Generation, Residence};

/// How many tasks may wait; one more is not done, and found again at the next use.
const TASKS_MAX: usize = 1024;
/// How much of what memory alone holds is offered to a volume that comes: what is used most. The rest is,
/// when it is used again.
const OFFERED_MAX: usize = 1 << 16;
/// How often it is offered what the volume could not take just then, once in [`TICK`].
const OFFERS_MAX: u32 = 60;
/// After so many of them memory is looked through again.
const LOOKED_AGAIN_AT: [u32; 3] = [3, 15, 60];
/// How often the time is told, and what was written today is written down.
const TICK: Duration = Duration::from_secs(1);
/// The sketch is written down so often at most.
const SKETCH_INTERVAL: Duration = Duration::from_secs(60);

/// Starts the thread, unless it runs.
///
/// # Errors
/// The system has no thread to spare.
pub(crate) fn start(inside: &Arc<Inside>, clock: fn() -> Now) -> std::io::Result<()> {
    let admission = &inside.volumes.admission;
    if admission.has_thread() {
        return Ok(());
    }
    if let Some(charge) = inside.memory.charge(admission.memory_bytes()) {
        admission.keep(charge);
    }
    let (sender, tasks) = crossbeam_channel::bounded(TASKS_MAX);
    let mut written_at = clock().mono;
    let weak = Arc::downgrade(inside);
    let work = move || run(&weak, &tasks, &mut written_at, clock);
    std::thread::Builder::new().name("weir-admission".to_owned()).spawn(work)?;
    // Of two that begin at once the later one's thread finds its tasks closed, and ends.
    admission.set_tasks(sender);
    Ok(())
}

fn run(inside: &Weak<Inside>, tasks: &Receiver<Task>, written_at: &mut Instant, clock: fn() -> Now) {
    let mut ticked = None;
    let mut offer = Offer::none();
    loop {
        let task = tasks.recv_timeout(if offer.now.is_empty() { TICK } else { Duration::ZERO });
        let Some(inside) = inside.upgrade() else { return };
        match task {
            Ok(Task::WriteLater(generation)) => {
                if let Some(generation) = generation.upgrade() {
                    // What is not taken is found again at its next use.
                    let _ = write_later(&inside, &generation);
                }
            }
            Ok(Task::Offer) => offer = Offer::of_all(&inside),
            Ok(Task::Stop(done)) => {
                write_down(&inside, written_at, Moment::Last);
                let _ = done.send(());
                return;
            }
            Err(RecvTimeoutError::Timeout) => offer.next(&inside),
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = clock();
        if ticked.is_none_or(|last| now.since(last) >= TICK) {
            ticked = Some(now.mono);
            inside.volumes.tiers.all().iter().for_each(|tier| tier.tick_budget());
            inside.volumes.admission.grow_old_if_due();
            write_down(&inside, written_at, Moment::At(now.mono));
            offer.again(&inside);
        }
    }
}

/// When something is written down.
#[derive(Clone, Copy)]
enum Moment {
    At(Instant),
    /// Before the process ends.
    Last,
}

/// Writes down what is due. A restart forgets what cannot be written; nothing else depends on it.
fn write_down(inside: &Inside, written_at: &mut Instant, moment: Moment) {
    let is_due = match moment {
        Moment::At(now) => now.saturating_duration_since(*written_at) >= SKETCH_INTERVAL,
        Moment::Last => true,
    };
    for tier in inside.volumes.tiers.all().iter() {
        tier.write_budget();
        if is_due {
            tier.sync_budget();
        }
    }
    if is_due {
        inside.volumes.admission.write_sketch();
    }
    if let (true, Moment::At(now)) = (is_due, moment) {
        *written_at = now;
    }
}

/// What memory alone held when a volume came, the most used first: it came while there was no volume to take
/// it, and of what is used most no use is noted any more.
struct Offer {
    now: VecDeque<Weak<Generation>>,
    /// What the volume could not take just then.
    later: VecDeque<Weak<Generation>>,
    /// How many [`TICK`]s ago it was made.
    rounds: u32,
}

impl Offer {
    /// No volume has come yet.
    fn none() -> Offer {
        Offer { now: VecDeque::new(), later: VecDeque::new(), rounds: OFFERS_MAX }
    }

    fn of_all(inside: &Inside) -> Offer {
        let mut found = Vec::new();
        inside.memory.index.each(|generation| {
            if generation.object() == 0 && generation.body.is_whole() {
                found.push((Reverse(generation.label.uses()), Arc::downgrade(generation)));
            }
        });
        found.sort_by_key(|(uses, _)| *uses);
        found.truncate(OFFERED_MAX);
        let now = found.into_iter().map(|(_, generation)| generation).collect();
        Offer { now, later: VecDeque::new(), rounds: 0 }
    }

    fn next(&mut self, inside: &Arc<Inside>) {
        let Some(generation) = self.now.pop_front().and_then(|next| next.upgrade()) else { return };
        if write_later(inside, &generation) == Written::NotNow {
            self.later.push_back(Arc::downgrade(&generation));
        }
    }

    /// Once in [`TICK`]: offers again what was not taken, a bounded number of times, and now and then what
    /// was still arriving, or was used most before it could be taken.
    fn again(&mut self, inside: &Inside) {
        self.rounds = self.rounds.saturating_add(1);
        if !self.now.is_empty() || self.rounds > OFFERS_MAX {
            return;
        }
        self.now = match LOOKED_AGAIN_AT.contains(&self.rounds) {
            true => Offer::of_all(inside).now,
            false => std::mem::take(&mut self.later),
        };
    }
}

/// What became of something that is to be written to a volume.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    /// It is being written, or there is nothing to be done for it.
    Done,
    /// The volume could not take it.
    NotNow,
}

/// Brings a generation down that is whole in memory and has earned it.
fn write_later(inside: &Arc<Inside>, generation: &Arc<Generation>) -> Written {
    match inside.volumes.is_admitted(generation) {
        Some(true) => {}
        Some(false) => return Written::Done,
        None => return Written::NotNow,
    }
    let Some(volume_write) = inside.write_later(generation) else {
        let is_at_rest = generation.object() == 0 && generation.residence() == Residence::Resident;
        return if is_at_rest { Written::NotNow } else { Written::Done };
    };
    if let Some(tier) = generation.home() {
        tier.count_written_later();
    }
    let end = generation.length().unwrap_or_default();
    volume_write.finish(generation, end, Keeper::Memory, |_| {});
    Written::Done
}

impl Inside {
    /// Begins to bring down what is whole and at rest in memory alone; `None` where it is not, where
    /// something newer is on its way, or where nothing is taken.
    pub(crate) fn write_later(&self, generation: &Arc<Generation>) -> Option<VolumeWrite> {
        // Under memory's lock, so that what is withdrawn afterwards is removed from the volume as well.
        self.memory.while_at_rest(generation, || {
            let may = generation.object() == 0 && !generation.is_alone();
            if may { self.volumes.tiers.begin(generation) } else { None }
        })
    }
}
