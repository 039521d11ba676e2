//! What takes long: jobs, each on a thread of its own. They are asked for their progress, followed and
//! cancelled by their id, and end with the process; a later one may go on with some, under the same id.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, panic, thread};

use http::StatusCode;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_observe::plain_json;

use crate::answer::Refusal;
use crate::call::{Caller, Role};
use crate::clock;
use crate::progress::{Ends, Progress};
use crate::status::rfc3339;
use crate::streams::Sending;
use crate::turns::Turn;

/// Jobs that run at a time.
const RUNNING_MAX: usize = 8;
/// Jobs of one actor that run at a time.
const RUNNING_OF_ONE_MAX: usize = 2;
/// Jobs of callers of some sites that run at a time: places are left for the others.
const RUNNING_OF_SITES_MAX: usize = RUNNING_MAX / 2;
/// Jobs that are remembered, those included that have ended; also of one actor.
const KEPT_MAX: usize = 256;
const KEPT_OF_ONE_MAX: usize = 16;
/// Between two lines to a client that follows a job.
const LINE_EVERY: Duration = Duration::from_millis(250);

/// The state of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// It is under way.
    #[default]
    Running,
    /// It has ended as wanted.
    Done,
    /// It has failed.
    Failed,
    /// It was cancelled. What it had done stays done.
    Cancelled,
    /// An upgrade has ended it: a new process has taken over. Begin it again. A warming goes on there by
    /// itself, under the same id.
    Interrupted,
}

/// A job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobShown {
    /// Its id.
    pub id: String,
    /// What it does: `verify`, `purge-dry-run`, `warm`.
    pub kind: String,
    /// Its state.
    pub state: JobState,
    /// Who has begun it, as in the history.
    pub actor: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// How much of it is done, in `unit`.
    pub done: u64,
    /// How much there was of it when it began, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// What is counted: `objects`, `URLs`.
    pub unit: String,
    /// How much this process did in a second, on average.
    pub rate: f64,
    /// What it waits for, while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// What it found, once it has ended; where it was cancelled, as far as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a job does. It returns what it found, as JSON.
pub(crate) type Work = Box<dyn FnOnce(&Progress) -> Result<Value, String> + Send>;

/// A job that is wanted.
pub(crate) struct Wanted {
    /// Its id, where it goes on from an earlier process; else one is made.
    pub(crate) id: Option<String>,
    pub(crate) kind: &'static str,
    /// What is counted.
    pub(crate) unit: &'static str,
    /// Whether there is one of its kind at a time.
    pub(crate) is_alone: bool,
    pub(crate) actor: String,
    /// [`Caller::identity`].
    pub(crate) owner: String,
    /// Whether its caller is one of some sites.
    pub(crate) is_of_sites: bool,
    pub(crate) work: Work,
    /// Called with the job once it has ended.
    pub(crate) ended: Box<dyn FnOnce(&JobShown) + Send>,
}

/// The jobs of this process.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    all: Mutex<VecDeque<Arc<Job>>>,
}

/// A job and what is known of it.
#[derive(Debug)]
pub(crate) struct Job {
    id: String,
    kind: &'static str,
    owner: String,
    is_of_sites: bool,
    shown: Mutex<JobShown>,
    begun: Instant,
    progress: Progress,
}

/// No job can begin now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    #[error("{0} jobs are under way")]
    TooMany(usize),
    #[error("{0} jobs of tokens of some sites are under way")]
    TooManyOfSites(usize),
    #[error("the job {0} does the same already")]
    Same(String),
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

impl Jobs {
    /// Begins a job.
    ///
    /// # Errors
    /// See [`JobError`].
    pub(crate) fn begin(&self, wanted: Wanted) -> Result<Arc<Job>, JobError> {
        let Wanted { id, kind, unit, is_alone, actor, owner, is_of_sites, work, ended } = wanted;
        let mut all = self.all.lock();
        let running = || all.iter().filter(|job| job.is_running());
        if let Some(same) = running().find(|job| is_alone && job.kind == kind) {
            return Err(JobError::Same(same.id.clone()));
        }
        let own = running().filter(|job| job.owner == owner).count();
        let of_all = running().count();
        if own >= RUNNING_OF_ONE_MAX || of_all >= RUNNING_MAX {
            return Err(JobError::TooMany(if own >= RUNNING_OF_ONE_MAX { own } else { of_all }));
        }
        let of_sites = running().filter(|job| job.is_of_sites).count();
        if is_of_sites && of_sites >= RUNNING_OF_SITES_MAX {
            return Err(JobError::TooManyOfSites(of_sites));
        }
        // Another process of an upgrade must not take it for its own.
        let id = id.unwrap_or_else(|| format!("{:016x}", fastrand::u64(..)));
        let shown = JobShown {
            id: id.clone(),
            kind: kind.to_owned(),
            actor,
            started: rfc3339(clock::wall()),
            unit: unit.to_owned(),
            ..JobShown::default()
        };
        let (shown, begun, progress) = (Mutex::new(shown), clock::mono(), Progress::default());
        let job = Arc::new(Job { id, kind, owner, is_of_sites, shown, begun, progress });
        let own = job.clone();
        thread::Builder::new().name("weir-job".to_owned()).spawn(move || own.run(work, ended))?;
        forget_old(&mut all, &job.owner);
        all.push_back(job.clone());
        Ok(job)
    }

    /// Those that the caller may see, the newest last.
    pub(crate) fn list(&self, caller: &Caller) -> Vec<JobShown> {
        self.all.lock().iter().filter(|job| job.is_shown_to(caller)).map(|job| job.shown()).collect()
    }

    /// The job of this id, if the caller may see it.
    pub(crate) fn find(&self, id: &str, caller: &Caller) -> Option<Arc<Job>> {
        self.all.lock().iter().find(|job| job.id == id && job.is_shown_to(caller)).cloned()
    }

    /// Whether the job of this id is under way.
    pub(crate) fn is_running(&self, id: &str) -> bool {
        self.all.lock().iter().any(|job| job.id == id && job.is_running())
    }

    /// Asks all to end, since a new process takes over.
    pub(crate) fn interrupt(&self) {
        for job in self.all.lock().iter() {
            job.progress.end(Ends::Interrupted);
        }
    }
}

/// Makes room for one more of the actor. Nobody's jobs are forgotten for another's as long as few actors have
/// some.
fn forget_old(all: &mut VecDeque<Arc<Job>>, owner: &str) {
    let ended_of = |all: &VecDeque<Arc<Job>>, own: bool| {
        all.iter().position(|job| !job.is_running() && (!own || job.owner == owner))
    };
    let own = all.iter().filter(|job| job.owner == owner).count();
    let oldest = match (own >= KEPT_OF_ONE_MAX, all.len() >= KEPT_MAX) {
        (true, _) => ended_of(all, true),
        (false, true) => ended_of(all, false),
        (false, false) => None,
    };
    if let Some(oldest) = oldest {
        all.remove(oldest);
    }
}

impl Job {
    fn run(&self, work: Work, ended: Box<dyn FnOnce(&JobShown) + Send>) {
        // Without an end a job of its kind could never begin again.
        let result = panic::catch_unwind(AssertUnwindSafe(|| work(&self.progress)))
            .unwrap_or_else(|_| Err("the job has panicked: see the log of the program".to_owned()));
        // The figures of the end: nothing changes them any more.
        let mut shown = JobShown { waits_for: None, ..self.shown() };
        let state = match self.progress.ends() {
            Some(Ends::Cancelled) => JobState::Cancelled,
            Some(Ends::Interrupted) => JobState::Interrupted,
            None => JobState::Done,
        };
        match result {
            Ok(found) => (shown.state, shown.result) = (state, Some(found)),
            Err(error) => {
                shown.state = if state == JobState::Done { JobState::Failed } else { state };
                shown.error = Some(error);
            }
        }
        tracing::info!(job = shown.id, kind = shown.kind, state = ?shown.state, "a job has ended");
        ended(&shown);
        *self.shown.lock() = shown;
    }

    /// As it is now.
    pub(crate) fn shown(&self) -> JobShown {
        let mut shown = self.shown.lock().clone();
        if shown.state == JobState::Running {
            let elapsed = clock::mono().saturating_duration_since(self.begun).as_secs_f64();
            (shown.done, shown.total) = self.progress.now();
            shown.waits_for = self.progress.waits();
            let own = shown.done.saturating_sub(self.progress.before());
            shown.rate = (own as f64 / elapsed.max(0.001) * 10.0).round() / 10.0;
        }
        shown
    }

    /// Its id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// What it does.
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    pub(crate) fn is_running(&self) -> bool {
        self.shown.lock().state == JobState::Running
    }

    /// Asks it to end.
    pub(crate) fn cancel(&self) {
        self.progress.end(Ends::Cancelled);
    }

    /// Whether the caller has begun it.
    pub(crate) fn is_of(&self, caller: &Caller) -> bool {
        self.owner == caller.identity
    }

    /// Whether the caller has begun it, or sees the whole Weir.
    fn is_shown_to(&self, caller: &Caller) -> bool {
        let sees_all = caller.sites.is_none() && matches!(caller.role, Role::View | Role::Admin);
        sees_all || self.is_of(caller)
    }

    /// Sends its progress as lines of JSON, the last one when it has ended. Call it on a runtime.
    pub(crate) fn follow(self: Arc<Job>, mut sending: Sending) {
        tokio::spawn(async move {
            let mut before = None;
            loop {
                let shown = self.shown();
                let is_over = shown.state != JobState::Running;
                let is_read = if before.as_ref() == Some(&shown) {
                    sending.is_open()
                } else {
                    sending.put(&plain_json(&shown).unwrap_or_default())
                };
                if is_over || !is_read {
                    return;
                }
                before = Some(shown);
                tokio::time::sleep(LINE_EVERY).await;
            }
        });
    }
}

/// Does what may wait for a drive on a thread of its own, which ends with it.
///
/// # Errors
/// There is no thread.
pub(crate) fn on_thread(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Does what may take long on a thread beside the runtime, and keeps the turn until it is done.
///
/// # Errors
/// 500 where it panics.
///
/// # Cancel safety
/// What has begun is done.
pub(crate) async fn beside<T: Send + 'static>(
    turn: Turn,
    act: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let act = move || {
        let _turn = turn;
        act()
    };
    tokio::task::spawn_blocking(act).await.map_err(|error| {
        tracing::error!(%error, "a control request panicked");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "an internal error")
            .help("see the diagnostics of this Weir")
    })
}

#[cfg(test)]
mod tests;
