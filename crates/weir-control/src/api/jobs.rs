//! The operations on jobs, and those that begin one.

use std::sync::Arc;

use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use weir_observe::{Act as Ended, Entry};

use super::acts::{self, entry, settled};
use super::operation::VERSION;
use crate::answer::{self, Answer, Refusal, Waiting};
use crate::call::{Call, Role};
use crate::control::Control;
use crate::jobs::{Job, JobError, JobShown, JobState, Wanted, Work};

/// Begins the verification of all volumes. The history also gets an entry of how it ended.
pub(super) fn verify(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let (own, mut entry_of_end) = (control.clone(), entry(call, "job-ended"));
    let ended = Box::new(move |job: &JobShown| {
        entry_of_end.scope =
            json!({ "job": job.id, "kind": job.kind, "state": job.state, "result": job.result });
        if job.state != JobState::Done {
            entry_of_end.result = Ended::Failed;
            entry_of_end.why = job.error.clone().unwrap_or_else(|| "it was ended early".to_owned());
        }
        own.record_now(entry_of_end);
    });
    let own = control.clone();
    let work: Work = Box::new(move |progress| Ok(json!(own.verify(progress)?)));
    let begun = match control.has_volumes() {
        true => begin(control, Wanted { is_alone: true, ended, ..wanted(call, "verify", work) }),
        false => Err(Refusal::new(StatusCode::CONFLICT, "unverifiable", "this Weir has no volume")),
    };
    let mut entry = entry(call, "verify");
    entry.scope = begun.as_ref().map_or(Value::Null, |job| Value::from(job.shown().id));
    settled(control, entry, begun.as_ref().map(|_| ()).map_err(Clone::clone))?;
    begun.map(|job| accepted(&job.shown()))
}

/// Begins to count what a purge would take.
pub(super) fn count_purged(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let order = acts::ordered(call)?;
    acts::check(control, &call.caller, &order, &mut Entry::default())?;
    control.check_order(&order).map_err(Refusal::unfit)?;
    let own = control.clone();
    let work: Work = Box::new(move |progress| Ok(json!(own.count_purged(&order, progress)?)));
    begin(control, wanted(call, "purge-dry-run", work)).map(|job| accepted(&job.shown()))
}

/// A job of the caller, which leaves no entry when it ends.
fn wanted(call: &Call, kind: &'static str, work: Work) -> Wanted {
    let (actor, owner) = (call.caller.actor.to_string(), call.caller.identity.clone());
    let (is_of_sites, ended) = (call.caller.sites.is_some(), Box::new(|_: &JobShown| {}));
    Wanted { id: None, kind, unit: "objects", is_alone: false, actor, owner, is_of_sites, work, ended }
}

fn begin(control: &Control, wanted: Wanted) -> Result<Arc<Job>, Refusal> {
    control.jobs().begin(wanted).map_err(|error| refusal(&error))
}

/// What is answered where no job can begin.
pub(crate) fn refusal(error: &JobError) -> Refusal {
    let status = match error {
        JobError::TooMany(_) | JobError::TooManyOfSites(_) | JobError::Same(_) => StatusCode::CONFLICT,
        JobError::Thread(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Refusal::new(status, "job", error.to_string()).help("see `weir jobs`")
}

pub(super) fn accepted(job: &JobShown) -> Answer {
    let mut answer = answer::json(StatusCode::ACCEPTED, job);
    if let Ok(place) = HeaderValue::from_str(&format!("{}/jobs/{}", VERSION, job.id)) {
        answer.headers_mut().insert(LOCATION, place);
    }
    answer
}

pub(super) fn list(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    Ok(answer::ok(&control.jobs().list(&call.caller)))
}

/// A job as it is now; as a stream, until it has ended.
pub(super) fn show(control: Arc<Control>, call: Call) -> Waiting {
    Box::pin(async move {
        let job = find(&control, &call)?;
        let Some(form) = call.form else {
            return Ok(answer::ok(&job.shown()));
        };
        let (sending, stream) = control.open_stream(&call.caller, form)?;
        job.follow(sending);
        Ok(answer::stream(stream))
    })
}

pub(super) fn cancel(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let mut entry = entry(call, "job-cancel");
    entry.scope = Value::from(call.name.as_str());
    let cancelled = find(control, call).and_then(|job| {
        if !job.is_of(&call.caller) && call.caller.role != Role::Admin {
            let message = "another has begun the job";
            return Err(
                Refusal::new(StatusCode::FORBIDDEN, "role", message).help("use a token with the role admin")
            );
        }
        if !job.is_running() {
            return Err(Refusal::new(StatusCode::CONFLICT, "ended", "the job has ended"));
        }
        job.cancel();
        if job.kind() == "warm" {
            // The next process must not go on with it, however this one ends.
            control.data_plane().warm_cancel(job.id());
        }
        Ok(job.shown())
    });
    settled(control, entry, cancelled)
}

/// The job of this id, if the caller has begun it.
pub(super) fn find_own(control: &Control, call: &Call) -> Result<Arc<Job>, Refusal> {
    let job = find(control, call)?;
    match job.is_of(&call.caller) {
        true => Ok(job),
        false => Err(Refusal::new(StatusCode::CONFLICT, "job", "another has begun the job")),
    }
}

fn find(control: &Control, call: &Call) -> Result<Arc<Job>, Refusal> {
    control.jobs().find(&call.name, &call.caller).ok_or_else(|| {
        Refusal::new(StatusCode::NOT_FOUND, "unknown-job", "there is no such job")
            .help("jobs end with the process: after an upgrade begin it again")
    })
}
