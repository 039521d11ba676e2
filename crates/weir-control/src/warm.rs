//! Warmings as jobs. Unlike others they outlast the process: the next one goes on with them, under the same
//! id.

use std::sync::Arc;

use serde_json::{Value, json};
use weir_observe::{Act, Actor, Entry};

use crate::answer::Refusal;
use crate::api::{job_refusal, warm_refusal};
use crate::control::Control;
use crate::data_plane::{WarmBy, WarmOrder, WarmPiece, WarmRefusal};
use crate::jobs::{Job, JobError, JobShown, JobState, Wanted, Work};

impl Control {
    /// Begins a warming as a job.
    ///
    /// # Errors
    /// It makes no sense, or too much is under way.
    pub(crate) fn warm(self: &Arc<Control>, order: &WarmOrder, by: WarmBy) -> Result<Arc<Job>, Refusal> {
        let id = self.data_plane().warm_begin(order, &by).map_err(warm_refusal)?;
        self.run_warming(&id, &by).map_err(|error| {
            self.data_plane().warm_drop(&id);
            job_refusal(&error)
        })
    }

    /// Begins a warming of the configuration.
    ///
    /// # Errors
    /// A sentence.
    pub fn warm_of_configuration(
        self: &Arc<Control>,
        order: &WarmOrder,
        entry: String,
    ) -> Result<String, String> {
        let (actor, owner) = ("configuration".to_owned(), format!("configuration {entry}"));
        let by = WarmBy { actor, owner, sites: None, entry: Some(entry) };
        let begun = self.warm(order, by).map_err(|refusal| refusal.refused.message)?;
        Ok(begun.id().to_owned())
    }

    /// Goes on with a warming of an earlier process.
    ///
    /// # Errors
    /// A sentence: too much is under way.
    pub fn resume_warming(self: &Arc<Control>, id: &str, by: &WarmBy) -> Result<(), String> {
        self.run_warming(id, by).map(drop).map_err(|error| error.to_string())
    }

    /// Whether a job is under way.
    pub fn is_job_running(&self, id: &str) -> bool {
        self.jobs().is_running(id)
    }

    fn run_warming(self: &Arc<Control>, id: &str, by: &WarmBy) -> Result<Arc<Job>, JobError> {
        let (own, of) = (self.clone(), id.to_owned());
        let work: Work = Box::new(move |progress| {
            own.await_volumes(progress);
            Ok(json!(own.data_plane().warm_run(&of, progress)?))
        });
        let (own, is_entry) = (self.clone(), by.entry.is_some());
        let ended = Box::new(move |job: &JobShown| {
            if is_entry {
                log_end(job);
            }
            // It goes on in the next process.
            if job.state != JobState::Interrupted {
                own.record_now(entry_of_end(job));
            }
        });
        self.jobs().begin(Wanted {
            id: Some(id.to_owned()),
            kind: "warm",
            unit: "URLs",
            is_alone: false,
            actor: by.actor.clone(),
            owner: by.owner.clone(),
            is_of_sites: by.sites.is_some(),
            work,
            ended,
        })
    }

    /// Takes a further piece of the list of a warming.
    pub(crate) fn warm_more(&self, id: &str, piece: &WarmPiece) -> Result<u64, WarmRefusal> {
        self.data_plane().warm_add(id, piece)
    }
}

/// Nobody waits for a warming of the configuration: the log tells how it ended.
fn log_end(job: &JobShown) {
    let (id, figures) = (job.id.as_str(), figures(job));
    match job.state {
        JobState::Done => tracing::info!(id, %figures, "an entry of [[warm]] is done"),
        JobState::Failed => {
            let why = job.error.as_deref().unwrap_or_default();
            tracing::error!(id, why, "an entry of [[warm]] has failed");
        }
        _ => {}
    }
}

/// What came of its URLs, without the URLs: those of strangers' lists are not for the history.
fn figures(job: &JobShown) -> Value {
    let mut figures = job.result.clone().unwrap_or_default();
    if let Some(figures) = figures.as_object_mut() {
        figures.remove("examples");
    }
    figures
}

fn entry_of_end(job: &JobShown) -> Entry {
    let (result, why) = match job.state {
        JobState::Done => (Act::Done, String::new()),
        _ => (Act::Failed, job.error.clone().unwrap_or_else(|| "it was ended early".to_owned())),
    };
    let scope = json!({ "job": job.id, "kind": job.kind, "state": job.state, "result": figures(job) });
    Entry { actor: actor(&job.actor), act: "job-ended".to_owned(), result, why, scope, ..Entry::default() }
}

/// Who has begun a job of an earlier process.
fn actor(text: &str) -> Actor {
    match text.split_once(':') {
        Some(("user", name)) => Actor::User(name.to_owned()),
        Some(("token", name)) => Actor::Token(name.to_owned(), String::new()),
        _ => Actor::Configuration,
    }
}
