//! The thread beside the requests: it brings down what has earned its place since it arrived, also what
//! memory held already when a volume came, takes out of the volume what was replaced by something that stayed
//! in memory, lets the sketch age, tells the volumes the time, and writes down what is to be remembered. It
//! ends with the shelf.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError};
use weir_disk::Disk;
use weir_policy::Now;

use super::{Admission, file};
use crate::generation::{Generation, Residence};
use crate::shelf::Shelf;
use crate::tier::Keeper;

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

/// What the thread is asked for.
#[derive(Debug)]
pub(crate) enum Task {
    /// A generation in memory is used: it may have earned its place below.
    Promote(Weak<Generation>),
    /// A volume has come: what memory alone holds may go down to it.
    Offer,
    /// Write down what is to be remembered, and end.
    Stop(Sender<()>),
}

impl Admission {
    /// Asks the thread for something. Never waits.
    pub(crate) fn ask(&self, task: Task) {
        if let Some(tasks) = self.tasks.get() {
            match tasks.try_send(task) {
                Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
    }

    /// Has the thread do what it was asked for, write down what is to be remembered, and end. Blocks.
    pub(crate) fn stop(&self) {
        let (done, wait) = crossbeam_channel::bounded(1);
        if let Some(tasks) = self.tasks.get()
            && tasks.send(Task::Stop(done)).is_ok()
        {
            // An error means that it has ended already.
            let _ = wait.recv();
        }
    }
}

/// Starts the thread, unless it runs.
///
/// # Errors
/// The system has no thread to spare.
pub(crate) fn start(shelf: &Arc<Shelf>, clock: fn() -> Now) -> std::io::Result<()> {
    let admission = &shelf.admission;
    if admission.tasks.get().is_some() {
        return Ok(());
    }
    if let Some(charge) = shelf.charge(admission.memory_bytes()) {
        admission.keep(charge);
    }
    let (sender, tasks) = crossbeam_channel::bounded(TASKS_MAX);
    let disk = shelf.settings.admission.disk.clone();
    let mut memory = Memory { disk, written_at: clock().mono };
    let shelf_behind = Arc::downgrade(shelf);
    let work = move || run(&shelf_behind, &tasks, &mut memory, clock);
    std::thread::Builder::new().name("weir-admission".to_owned()).spawn(work)?;
    // Of two who begin at once the later one's thread finds its tasks closed, and ends.
    let _ = admission.tasks.set(sender);
    Ok(())
}

fn run(shelf: &Weak<Shelf>, tasks: &Receiver<Task>, memory: &mut Memory, clock: fn() -> Now) {
    let mut ticked = None;
    let mut offer = Offer::none();
    loop {
        let task = tasks.recv_timeout(if offer.now.is_empty() { TICK } else { Duration::ZERO });
        let Some(shelf) = shelf.upgrade() else { return };
        match task {
            Ok(Task::Promote(generation)) => {
                if let Some(generation) = generation.upgrade() {
                    // What is not taken is found again at its next use.
                    let _ = promote(&shelf, &generation);
                }
            }
            Ok(Task::Offer) => offer = Offer::of_all(&shelf),
            Ok(Task::Stop(done)) => {
                memory.write(&shelf, Moment::Last);
                let _ = done.send(());
                return;
            }
            Err(RecvTimeoutError::Timeout) => offer.next(&shelf),
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = clock();
        if ticked.is_none_or(|last| now.since(last) >= TICK) {
            ticked = Some(now.mono);
            shelf.tiers.all().iter().for_each(|tier| tier.tick_budget());
            shelf.admission.grow_old_if_due();
            memory.write(&shelf, Moment::At(now.mono));
            offer.again(&shelf);
        }
    }
}

/// Where the sketch is kept, and since when what is there.
struct Memory {
    disk: Option<Arc<dyn Disk>>,
    written_at: Instant,
}

/// When something is written down.
#[derive(Clone, Copy)]
enum Moment {
    At(Instant),
    /// Before the process ends.
    Last,
}

impl Memory {
    /// Writes down what is due. What cannot be written is forgotten by a restart: nobody is troubled by it
    /// before.
    fn write(&mut self, shelf: &Shelf, moment: Moment) {
        let is_due = match moment {
            Moment::At(now) => now.saturating_duration_since(self.written_at) >= SKETCH_INTERVAL,
            Moment::Last => true,
        };
        for tier in shelf.tiers.all().iter() {
            tier.write_budget();
            if is_due {
                tier.sync_budget();
            }
        }
        if let (true, Some(disk)) = (is_due, &self.disk) {
            let _ = file::write(&**disk, &shelf.admission.sketch);
        }
        if let (true, Moment::At(now)) = (is_due, moment) {
            self.written_at = now;
        }
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

    fn of_all(shelf: &Shelf) -> Offer {
        let mut found = Vec::new();
        shelf.index.each(|generation| {
            if generation.object() == 0 && generation.body.is_whole() {
                found.push((Reverse(generation.label.uses()), Arc::downgrade(generation)));
            }
        });
        found.sort_by_key(|(uses, _)| *uses);
        found.truncate(OFFERED_MAX);
        let now = found.into_iter().map(|(_, generation)| generation).collect();
        Offer { now, later: VecDeque::new(), rounds: 0 }
    }

    fn next(&mut self, shelf: &Arc<Shelf>) {
        let Some(generation) = self.now.pop_front().and_then(|next| next.upgrade()) else { return };
        if promote(shelf, &generation) == Promoted::NotNow {
            self.later.push_back(Arc::downgrade(&generation));
        }
    }

    /// Once in [`TICK`]: offers again what was not taken, a bounded number of times, and now and then what
    /// was still arriving, or was used most before it could be taken.
    fn again(&mut self, shelf: &Shelf) {
        self.rounds = self.rounds.saturating_add(1);
        if !self.now.is_empty() || self.rounds > OFFERS_MAX {
            return;
        }
        self.now = match LOOKED_AGAIN_AT.contains(&self.rounds) {
            true => Offer::of_all(shelf).now,
            false => std::mem::take(&mut self.later),
        };
    }
}

/// What became of something that is to be written to a volume.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promoted {
    /// It is being written, or there is nothing to be done for it.
    Done,
    /// The volume could not take it.
    NotNow,
}

/// Brings a generation down that is whole in memory and has earned it.
fn promote(shelf: &Arc<Shelf>, generation: &Arc<Generation>) -> Promoted {
    match shelf.may_go_down(generation) {
        Some(true) => {}
        Some(false) => return Promoted::Done,
        None => return Promoted::NotNow,
    }
    let Some(stowing) = shelf.promote(generation) else {
        let is_at_rest = generation.object() == 0 && generation.residence() == Residence::Resident;
        return if is_at_rest { Promoted::NotNow } else { Promoted::Done };
    };
    if let Some(tier) = generation.home() {
        tier.count_promoted();
    }
    let end = generation.length().unwrap_or_default();
    stowing.finish(generation, end, Keeper::Memory, |_| {});
    Promoted::Done
}
