//! The background thread of the store. It writes to the volumes what has earned its place since it arrived,
//! and what memory held when a volume came. It lets the sketch age, tells the volumes the time, and writes
//! down the sketch and the budgets. It ends with the store.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use weir_policy::Now;

use super::{Inside, Keeper, VolumeWrite};
use crate::admission::Task;
use crate::generation::{Generation, Residence};

/// The most tasks that may wait. One more is dropped; the next use asks for it again.
const TASKS_MAX: usize = 1024;
/// The most generations in memory that are offered to a volume that comes, the most used first. The rest is
/// offered when it is used again.
const OFFERED_MAX: usize = 1 << 16;
/// How often a body is offered again that the volume could not take, once in [`TICK`].
const OFFERS_MAX: u32 = 60;
/// After so many rounds memory is searched again.
const LOOKED_AGAIN_AT: [u32; 3] = [3, 15, 60];
/// How often the volumes are told the time, and today's writes are written down.
const TICK: Duration = Duration::from_secs(1);
/// How often the sketch is written down, at most.
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
    // Where two begin at once, the later thread finds its tasks closed, and ends.
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
                    // What was not taken is asked for again at its next use.
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
            inside.memory.budget.settle();
            write_down(&inside, written_at, Moment::At(now.mono));
            offer.again(&inside);
        }
    }
}

/// When state is written down.
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

/// What only memory held when a volume came, the most used first. No volume could take it when it arrived,
/// and of the most used no further use is noted.
struct Offer {
    now: VecDeque<Weak<Generation>>,
    /// What the volume could not take.
    later: VecDeque<Weak<Generation>>,
    /// How many [`TICK`]s ago memory was searched.
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

    /// Once in [`TICK`]: offers again what was not taken, a bounded number of times. Now and then it searches
    /// memory again, for bodies that were still arriving.
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

/// The result of writing a body later.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    /// It is being written, or there is nothing to be done for it.
    Done,
    /// The volume could not take it.
    NotNow,
}

/// Writes a generation to a volume that is whole in memory and has earned it.
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
    /// Begins to write what is whole and at rest in memory only. `None` where it is not, where something
    /// newer is arriving, or where no volume takes it.
    pub(crate) fn write_later(&self, generation: &Arc<Generation>) -> Option<VolumeWrite> {
        // Under memory's lock, so that a later withdrawal removes it from the volume as well.
        self.memory.while_at_rest(generation, || {
            let may = generation.object() == 0 && !generation.is_unvalidated_part();
            if may { self.volumes.tiers.begin(generation) } else { None }
        })
    }
}
