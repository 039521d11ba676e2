//! `weir jobs`: what takes long. Commands that begin a job wait for it here; after an upgrade they begin it
//! again.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use anyhow::Context;
use bytes::Bytes;
use clap::Args;
use http::{Method, StatusCode};
use weir_control::{Asked, Followed, JobShown, JobState, Refused};

use super::find::Find;
use super::live;
use crate::print::plain;

/// The path.
pub(super) const JOBS: &str = "/v1/jobs";
/// How often a job is begun again, after so many upgrades.
const BEGUN_MAX: u32 = 10;

/// The command line of `weir jobs`.
#[derive(Debug, Args)]
pub(crate) struct Jobs {
    /// Only this job.
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Show its progress until it has ended.
    #[arg(long, requires = "id")]
    follow: bool,
    /// Make it end.
    #[arg(long, requires = "id", conflicts_with = "follow")]
    cancel: bool,
    #[command(flatten)]
    find: Find,
}

impl Jobs {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let Some(id) = &self.id else {
            let asked = self.find.ask(Method::GET, JOBS, Vec::new())?;
            return self.find.answer(&asked, |jobs: &Vec<JobShown>| list(jobs));
        };
        let path = format!("{JOBS}/{id}");
        if self.follow {
            wait(&self.find, &path)?;
        }
        let method = if self.cancel { Method::DELETE } else { Method::GET };
        let asked = self.find.ask(method, &path, Vec::new())?;
        let is_cancelled = self.cancel;
        self.find.answer(&asked, |job: &JobShown| {
            if is_cancelled {
                format!("the job {} ends soon\n", job.id)
            } else {
                show(job) + found(job).as_str()
            }
        })
    }
}

/// Begins a job and waits for it. Returns what it found, or why it failed, as the answer of a command.
///
/// # Errors
/// No Weir can be asked.
pub(super) fn carry_out(find: &Find, path: &str, body: Vec<u8>) -> anyhow::Result<Asked> {
    for _ in 0..BEGUN_MAX {
        let begun = live::ask_again(find, &Method::POST, path, &body)?;
        if begun.status != StatusCode::ACCEPTED {
            return Ok(begun);
        }
        let job: JobShown = serde_json::from_slice(&begun.body)
            .context("cannot read the running Weir's answer; is it of another version?")?;
        if let Some(ended) = wait(find, &format!("{JOBS}/{}", job.id))? {
            return outcome(&ended);
        }
        writeln!(io::stderr(), "a new process has taken over: begun again")?;
    }
    anyhow::bail!("new processes take over faster than this takes")
}

/// Waits until the job at a path has ended. `None` where that was by an upgrade.
pub(super) fn wait(find: &Find, path: &str) -> anyhow::Result<Option<JobShown>> {
    let way = find.way()?;
    let mut progress = Progress { is_shown: io::stderr().is_terminal(), columns: 0 };
    loop {
        let mut last: Option<JobShown> = None;
        let followed = live::once(&way, path, &mut |line| {
            last = serde_json::from_slice(line).ok();
            if let Some(job) = &last {
                progress.show(job);
            }
            ControlFlow::Continue(())
        });
        progress.clear();
        match (followed, last) {
            (_, Some(job)) if job.state == JobState::Interrupted => return Ok(None),
            (_, Some(job)) if job.state != JobState::Running => return Ok(Some(job)),
            (Ok(Followed::Refused(asked)), _) if asked.status == StatusCode::NOT_FOUND => return Ok(None),
            (Ok(Followed::Refused(asked)), _) => anyhow::bail!(asked.refusal().unwrap_or_default()),
            // The process may have gone, or only the connection.
            _ => {
                let asked = live::ask_again(find, &Method::GET, path, &[])?;
                if asked.status == StatusCode::NOT_FOUND {
                    return Ok(None);
                }
            }
        }
    }
}

/// What a job found, as the answer of a command.
pub(super) fn outcome(job: &JobShown) -> anyhow::Result<Asked> {
    let answer = |status, body: Vec<u8>| Asked { status, body: Bytes::from(body) };
    let message = match (job.state, &job.result) {
        (JobState::Done, Some(found)) => return Ok(answer(StatusCode::OK, serde_json::to_vec(found)?)),
        (JobState::Cancelled, _) => "the job was cancelled".to_owned(),
        _ => job.error.clone().unwrap_or_default(),
    };
    let refused = Refused { error: "job".to_owned(), message, help: String::new() };
    Ok(answer(StatusCode::INTERNAL_SERVER_ERROR, serde_json::to_vec(&refused)?))
}

/// A line on the terminal that is written again and again.
struct Progress {
    is_shown: bool,
    columns: usize,
}

impl Progress {
    fn show(&mut self, job: &JobShown) {
        if !self.is_shown || job.state != JobState::Running {
            return;
        }
        let text = amount(job);
        let width = self.columns.max(text.len());
        self.columns = text.len();
        let _ = write!(io::stderr(), "\r{text:<width$}");
    }

    fn clear(&mut self) {
        if self.columns > 0 {
            let _ = write!(io::stderr(), "\r{:1$}\r", "", self.columns);
        }
        self.columns = 0;
    }
}

/// `1200 of 40000 objects, 600 a second`.
fn amount(job: &JobShown) -> String {
    let total = job.total.map(|total| format!(" of {total}")).unwrap_or_default();
    let waits = job.waits_for.as_ref().map(|what| format!(", waits for {what}")).unwrap_or_default();
    plain(&format!("{}{total} {}, {:.0} a second{waits}", job.done, job.unit, job.rate))
}

fn list(jobs: &[JobShown]) -> String {
    if jobs.is_empty() {
        return "no job is under way, and none has ended\n".to_owned();
    }
    jobs.iter().map(show).collect()
}

fn show(job: &JobShown) -> String {
    let state = serde_json::to_value(job.state).unwrap_or_default();
    let state = state.as_str().unwrap_or_default().to_owned();
    let why = job.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    let JobShown { id, kind, actor, started, .. } = job;
    plain(&format!("{id}  {kind}  {state}  {}  {actor}  {started}{why}", amount(job))) + "\n"
}

/// What a job has found, where people can read that.
fn found(job: &JobShown) -> String {
    let result = job.result.clone().filter(|_| job.kind == "warm");
    let warmed = result.and_then(|result| serde_json::from_value(result).ok());
    warmed.map(|warmed| super::warm::show(&warmed)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_a_line() {
        let mut job = JobShown {
            id: "1f".to_owned(),
            kind: "verify".to_owned(),
            actor: "token:a\u{1b}[2J".to_owned(),
            started: "2026-11-23T10:00:00Z".to_owned(),
            done: 12,
            total: Some(40),
            unit: "objects".to_owned(),
            rate: 6.04,
            ..JobShown::default()
        };
        let expect = "1f  verify  running  12 of 40 objects, 6 a second  token:a\\u001b[2J  \
                      2026-11-23T10:00:00Z\n";
        assert_eq!(show(&job), expect);
        job.waits_for = Some("an answer of the upstream main".to_owned());
        assert!(show(&job).contains("6 a second, waits for an answer of the upstream main  token"));
        let report = serde_json::json!({ "stored": 2, "confirmed": 0, "fresh": 0, "not_stored": {},
            "failed": { "503": 1 }, "examples": [] });
        let warmed = JobShown { kind: "warm".to_owned(), result: Some(report), ..JobShown::default() };
        let expect = "stored 2, confirmed by the origin 0, fresh already 0\nfailed 1: 503 1\n";
        assert_eq!((found(&warmed).as_str(), found(&job).as_str()), (expect, ""));
        (job.state, job.total, job.waits_for) = (JobState::Failed, None, None);
        job.error = Some("the drive fails\nnow".to_owned());
        assert!(show(&job).contains("  failed  12 objects, 6 a second  "));
        assert_eq!(outcome(&job).unwrap().status, 500);
        (job.state, job.result) = (JobState::Done, Some(serde_json::json!({ "objects": 3 })));
        assert_eq!(outcome(&job).unwrap().body, r#"{"objects":3}"#);
    }
}
