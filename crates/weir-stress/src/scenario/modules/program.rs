//! `program`: a module in any language. It gets one line of JSON that says what to do, and prints lines of
//! JSON that say what happened. The protocol is in `docs/guide/stress.md`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::plan::StressError;
use crate::scenario::client::failure;
use crate::scenario::module::{Module, check_time};
use crate::scenario::settings::Words;
use crate::scenario::stage::{Measured, Stage};
use crate::tally::Fault;

/// A longer line ends the program.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Lines that have been read and not looked at.
const LINES_MAX: usize = 1000;
/// The most names of figures.
const FIGURES_MAX: usize = 200;
/// How long it is waited for a line before the time is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// What a program gets beyond its seconds to end by itself.
const GRACE_S: f64 = 10.0;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Program {
    command: Words,
    #[serde(default = "ten_seconds")]
    seconds: f64,
    #[serde(default = "ten")]
    users: usize,
    /// Whatever else the program wants to know.
    #[serde(default)]
    settings: BTreeMap<String, toml::Value>,
}

fn ten_seconds() -> f64 {
    10.0
}

fn ten() -> usize {
    10
}

/// A line that a program prints.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
enum Line {
    Response(Said),
    Fault {
        kind: String,
        #[serde(default)]
        detail: String,
    },
    Figure {
        name: String,
        value: f64,
    },
    Note(String),
}

/// A whole response, times in microseconds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    status: u16,
    bytes: u64,
    #[serde(default)]
    connect_us: Option<f64>,
    first_byte_us: f64,
    whole_us: f64,
}

impl Module for Program {
    fn check(&self) -> Result<(), String> {
        check_time("seconds", self.seconds)?;
        crate::scenario::module::check_users(self.users)
    }

    fn run(&self, stage: &Stage) -> Result<Measured, StressError> {
        let mut measured = Measured::new(stage);
        let begun_ns = stage.clock.nanoseconds();
        let end_ns = stage.end_ns(self.seconds + GRACE_S);
        // Others beside it, or behind it, are measured nevertheless.
        let mut child = match self.start(stage) {
            Ok(child) => child,
            Err(what) => {
                measured.fault(&failure(Fault::Program, what));
                measured.tally.seconds = f64::MIN_POSITIVE;
                return Ok(measured);
            }
        };
        let lines = read(&mut child);
        let mut has_ended = false;
        while !has_ended {
            match lines.recv_timeout(LOOK) {
                Ok(Ok(line)) => take(&line, &mut measured),
                Ok(Err(what)) => {
                    measured.fault(&failure(Fault::Program, what));
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => has_ended = true,
                Err(RecvTimeoutError::Timeout) if stage.is_past(end_ns) => {
                    let what = format!("it did not end {GRACE_S} s after its time");
                    measured.fault(&failure(Fault::Program, what));
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        if !has_ended && let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
        match child.wait() {
            Ok(status) if !status.success() && has_ended => {
                measured.fault(&failure(Fault::Program, format!("it failed: {status}")));
            }
            _ => {}
        }
        measured.tally.seconds = (stage.clock.nanoseconds() - begun_ns) as f64 / 1e9;
        Ok(measured)
    }
}

impl Program {
    fn start(&self, stage: &Stage) -> Result<Child, String> {
        let words = match &self.command {
            Words::Line(line) => crate::scenario::server::shell(line),
            Words::List(all) => all.clone(),
        };
        let (program, arguments) = words.split_first().ok_or("`command` names no program")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| format!("cannot start `{program}`: {error}"))?;
        let job = format!("{}\n", self.job(stage));
        if let Some(mut input) = child.stdin.take() {
            // A program may need no job, and end without reading it.
            let _ = input.write_all(job.as_bytes());
        }
        Ok(child)
    }

    fn job(&self, stage: &Stage) -> Value {
        let settings: BTreeMap<&String, Value> =
            self.settings.iter().map(|(name, value)| (name, plain(value))).collect();
        json!({
            "protocol": 1,
            "module": stage.name,
            "server": stage.base(),
            "origin": format!("http://{}", stage.origin.address()),
            "cold": stage.cold(&stage.name),
            "seed": stage.seed,
            "seconds": self.seconds,
            "users": self.users,
            "settings": settings,
        })
    }
}

/// A value of TOML as JSON.
fn plain(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => json!(text),
        toml::Value::Integer(number) => json!(number),
        toml::Value::Float(number) => json!(number),
        toml::Value::Boolean(yes) => json!(yes),
        toml::Value::Datetime(time) => json!(time.to_string()),
        toml::Value::Array(all) => all.iter().map(plain).collect(),
        toml::Value::Table(all) => {
            Value::Object(all.iter().map(|(name, value)| (name.clone(), plain(value))).collect())
        }
    }
}

/// Reads the program's lines on a thread, which ends with its output.
fn read(child: &mut Child) -> Receiver<Result<String, String>> {
    let (send, lines) = sync_channel(LINES_MAX);
    let Some(output) = child.stdout.take() else { return lines };
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            let read = (&mut output).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let said = match read {
                Ok(0) | Err(_) => return,
                Ok(_) if !line.ends_with(b"\n") && line.len() as u64 == LINE_BYTES_MAX => {
                    Err(format!("a line of more than {LINE_BYTES_MAX} bytes"))
                }
                Ok(_) => Ok(String::from_utf8_lossy(&line).trim().to_owned()),
            };
            let is_end = said.is_err();
            if send.send(said).is_err() || is_end {
                return;
            }
        }
    });
    lines
}

/// Counts what a line says.
fn take(line: &str, measured: &mut Measured) {
    if line.is_empty() {
        return;
    }
    match serde_json::from_str(line) {
        Ok(Line::Response(said)) => {
            let nanoseconds = |us: f64| (us.clamp(0.0, 1e12) * 1e3) as u64;
            if let Some(connect_us) = said.connect_us {
                measured.tally.connections += 1;
                measured.tally.connect_ns.saturating_record(nanoseconds(connect_us).max(1));
            }
            let (first, whole) = (nanoseconds(said.first_byte_us), nanoseconds(said.whole_us));
            measured.tally.response(said.status, said.bytes, first, whole);
        }
        Ok(Line::Fault { kind, detail }) => {
            let fault = Fault::ALL.into_iter().find(|fault| fault.word() == kind).unwrap_or(Fault::Program);
            measured.fault(&failure(fault, format!("{kind}: {detail}")));
        }
        Ok(Line::Figure { name, value }) => {
            let is_known = measured.figures.iter().any(|(known, _)| *known == name);
            if is_known || measured.figures.len() < FIGURES_MAX {
                measured.count(&name, value);
            } else {
                let what = format!("`{name}` is one of more than {FIGURES_MAX} figures");
                measured.fault(&failure(Fault::Program, what));
            }
        }
        Ok(Line::Note(text)) => measured.note(text),
        Err(error) => {
            let shown: String = line.chars().take(100).collect();
            measured
                .fault(&failure(Fault::Program, format!("`{shown}` is no line of the protocol: {error}")));
        }
    }
}
