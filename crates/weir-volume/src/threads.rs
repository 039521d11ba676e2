//! A volume's threads: one writes, some read. A panic in one of them ejects the volume and ends nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError};

use crate::settings::Clock;
use crate::shared::Shared;
use crate::write::engine::Engine;
use crate::write::intake::{Intake, NAP};

/// How many commands the writer takes between two looks at the clock.
const COMMANDS_A_STEP: usize = 64;
/// How long the writer sleeps while nothing waits to be done.
const PATIENCE_IDLE: Duration = Duration::from_millis(500);
/// How many reads may wait for a thread.
const READS_MAX: usize = 1024;

/// Too many reads wait already, or the volume is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the volume's reading threads are busy")]
pub struct Busy;

type Job = Box<dyn FnOnce() + Send>;

/// The threads that read from the drive.
#[derive(Debug)]
pub(crate) struct Readers {
    jobs: Sender<Job>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(crate) fn start(count: usize, shared: &Arc<Shared>) -> std::io::Result<Readers> {
        let (jobs, queue): (Sender<Job>, Receiver<Job>) = crossbeam_channel::bounded(READS_MAX);
        let mut threads = Vec::new();
        for number in 0..count.max(1) {
            let (queue, shared) = (queue.clone(), Arc::clone(shared));
            let work = move || {
                for job in &queue {
                    if catch_unwind(AssertUnwindSafe(job)).is_err() {
                        shared.counters.eject();
                    }
                }
            };
            threads.push(std::thread::Builder::new().name(format!("weir-read-{number}")).spawn(work)?);
        }
        Ok(Readers { jobs, threads })
    }

    pub(crate) fn run(&self, job: Job) -> Result<(), Busy> {
        self.jobs.try_send(job).map_err(|error: TrySendError<Job>| {
            drop(error);
            Busy
        })
    }

    /// Has nobody wait for the threads when they end: what ends them may be what a client reads last.
    pub(crate) fn let_go(&mut self) {
        self.threads.clear();
    }

    /// Finishes the jobs that wait, then ends the threads.
    pub(crate) fn stop(self) {
        drop(self.jobs);
        // The last holder of the volume may be a job on one of these threads, which cannot join itself.
        let own = std::thread::current().id();
        for thread in self.threads.into_iter().filter(|thread| thread.thread().id() != own) {
            // The thread catches a job's panic. Any other panic is not the closer's concern.
            let _ = thread.join();
        }
    }
}

/// Starts the thread that writes.
pub(crate) fn start_writer(
    mut engine: Engine,
    intake: Arc<Intake>,
    clock: Clock,
) -> std::io::Result<JoinHandle<()>> {
    let work = move || {
        let shared = Arc::clone(&engine.shared);
        let result = catch_unwind(AssertUnwindSafe(|| write(&mut engine, &intake, &clock)));
        intake.close();
        if result.is_err() {
            shared.counters.eject();
        }
    };
    std::thread::Builder::new().name("weir-volume".to_owned()).spawn(work)
}

fn write(engine: &mut Engine, intake: &Intake, clock: &Clock) {
    let mut has_more = false;
    loop {
        has_more = engine.step(clock.now(), intake.is_pressed()) || has_more;
        let mut patience = match (has_more, engine.is_idle()) {
            (true, _) => Duration::ZERO,
            (false, false) => NAP,
            (false, true) => PATIENCE_IDLE,
        };
        has_more = false;
        for _ in 0..COMMANDS_A_STEP {
            let Some((command, waiting)) = intake.next(patience) else { break };
            patience = Duration::ZERO;
            if !engine.apply(command, waiting) {
                return;
            }
            has_more = true;
        }
    }
}
