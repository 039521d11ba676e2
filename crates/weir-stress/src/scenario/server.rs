//! The server under test: started from its command, watched by its pid, stopped; or one that others run.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::clock::Clock;
use crate::plan::StressError;
use crate::scenario::client::{self, Client};
use crate::scenario::memcheck;
use crate::scenario::process::{self, Usage};
use crate::scenario::settings::{ServerSettings, Text, Words};

/// How often it is looked whether a server is ready, or has ended.
const LOOK: Duration = Duration::from_millis(10);
/// What of a log is shown.
const TAIL_BYTES: u64 = 2000;
/// How long a command that is run to its end may take.
const COMMAND_S: f64 = 60.0;
/// The most files of a server whose pages are dropped.
const FILES_MAX: u64 = 10_000_000;
/// What of a command's output is read.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;

/// How a server is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ending {
    /// It is told, and has time.
    Told,
    /// At once, as in a crash.
    Killed,
}

/// A server of a scenario.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) settings: ServerSettings,
    /// The folder for its files, its log and what it keeps.
    pub(crate) scratch: PathBuf,
    origin: String,
    child: Option<Child>,
    /// What a memory checker or the like has said about it.
    pub(crate) findings: Vec<memcheck::Finding>,
    clock: Clock,
}

impl Server {
    pub(crate) fn new(settings: ServerSettings, scratch: &Path, origin: &str) -> Self {
        let scratch = scratch.join(&settings.name);
        let origin = origin.to_owned();
        Self { settings, scratch, origin, child: None, findings: Vec::new(), clock: Clock::start() }
    }

    /// Replaces what stands for this run's addresses and folders.
    pub(crate) fn filled(&self, text: &str) -> String {
        let origin_port = self.origin.rsplit_once(':').map_or("", |(_, port)| port);
        let text = text
            .replace("{origin}", &self.origin)
            .replace("{origin_port}", origin_port)
            .replace("{scratch}", &self.scratch.to_string_lossy())
            .replace("{url}", self.settings.url.trim_end_matches('/'))
            .replace("{listen}", self.settings.place());
        let values = self.settings.values.iter();
        values.fold(text, |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    /// The process's id, of one that this run started or that the settings name.
    pub(crate) fn pid(&self) -> Option<u32> {
        let from_file = || {
            let path = self.filled(self.settings.pid_file.as_deref()?);
            std::fs::read_to_string(path).ok()?.trim().parse().ok()
        };
        from_file().or(self.settings.pid).or(self.child.as_ref().map(Child::id))
    }

    pub(crate) fn usage(&self) -> Option<Usage> {
        let usage = Usage::of(self.pid()?)?;
        Some(Usage { drive_reads: process::drive_reads(&self.scratch), ..usage })
    }

    /// Writes its files and starts its command, if it has one; waits until it is ready.
    ///
    /// # Errors
    /// It ends, or does not become ready in time; what it said is told.
    pub(crate) fn start(&mut self) -> Result<(), StressError> {
        let failed = |what: String| StressError::Scenario(format!("server `{}`: {what}", self.settings.name));
        if self.settings.command.is_some() {
            if client::is_taken(&self.settings)? {
                // It would be tested in place of the one that is started, which cannot listen there.
                let place = self.settings.place();
                return Err(failed(format!(
                    "something else listens on {place} already; end it, or give this server another port"
                )));
            }
            self.write_files().map_err(|error| failed(format!("its files cannot be written: {error}")))?;
            if let Some(prepare) = &self.settings.prepare {
                run(&self.filled_words(prepare)).map_err(|what| failed(format!("`prepare`: {what}")))?;
            }
            self.launch()?;
        }
        self.wait_until_ready()
    }

    fn write_files(&self) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.scratch)?;
        for (name, text) in &self.settings.files {
            let Text::Here(text) = text else { continue };
            std::fs::write(self.scratch.join(name), self.filled(text))?;
        }
        Ok(())
    }

    fn launch(&mut self) -> Result<(), StressError> {
        let Some(command) = &self.settings.command else { return Ok(()) };
        let failed = |what: String| StressError::Scenario(format!("server `{}`: {what}", self.settings.name));
        let mut words = self.filled_words(command);
        if let Some(wrap) = &self.settings.wrap {
            let mut wrapped = self.filled_words(wrap);
            wrapped.append(&mut words);
            words = wrapped;
        }
        let log = File::create(self.log());
        let log = log.map_err(|error| failed(format!("its log: {error}")))?;
        let for_errors = log.try_clone().map_err(|error| failed(format!("its log: {error}")))?;
        let (program, arguments) =
            words.split_first().ok_or_else(|| failed("`command` names no program".to_owned()))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(log).stderr(for_errors).process_group(0);
        let child = command.spawn().map_err(|error| failed(format!("cannot start `{program}`: {error}")))?;
        self.child = Some(child);
        Ok(())
    }

    fn wait_until_ready(&mut self) -> Result<(), StressError> {
        let name = self.settings.name.clone();
        let end_ns = self.clock.nanoseconds() + crate::clock::nanoseconds(self.settings.ready_within);
        loop {
            let said = Client::ready(&self.settings);
            let Err(why) = said else { return Ok(()) };
            if let Some(Ok(Some(status))) = self.child.as_mut().map(Child::try_wait) {
                self.child = None;
                let what = format!("server `{name}` ended at once ({status}): {}", self.said());
                return Err(StressError::Scenario(what));
            }
            if self.clock.nanoseconds() > end_ns {
                let what = format!(
                    "server `{name}` did not answer {} in {} s: {why}; {}",
                    self.settings.ready,
                    self.settings.ready_within,
                    self.said()
                );
                self.stop();
                return Err(StressError::Scenario(what));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Ends the process that this run started, politely first, and reads what a checker said.
    pub(crate) fn stop(&mut self) {
        self.end(Ending::Told);
    }

    /// Ends it in this way.
    pub(crate) fn end(&mut self, ending: Ending) {
        let Some(mut child) = self.child.take() else { return };
        let by_itself = child.try_wait().ok().flatten();
        if let Some(status) = by_itself {
            let title = format!("ended by itself ({status}): {}", self.said());
            self.findings.push(memcheck::Finding { lines: vec![title.clone()], title });
        }
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let tell = |signal| group.map(|group| rustix::process::kill_process_group(group, signal));
        // The program itself first: some checkers and supervisors pass the signal on, and some would get it
        // twice.
        if ending == Ending::Told {
            let _ = group.map(|pid| rustix::process::kill_process(pid, Signal::TERM));
        }
        let within = if ending == Ending::Told { self.settings.stop_within } else { 0.0 };
        let end_ns = self.clock.nanoseconds() + crate::clock::nanoseconds(within);
        while matches!(child.try_wait(), Ok(None)) && self.clock.nanoseconds() < end_ns {
            std::thread::sleep(LOOK);
        }
        // What is left of the group.
        let _ = tell(Signal::KILL);
        let status = child.wait().ok().filter(|_| by_itself.is_none());
        self.findings.extend(memcheck::collect(&self.scratch, &self.log(), status));
    }

    /// Starts it with what it has kept.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(crate) fn start_again(&mut self) -> Result<(), StressError> {
        self.launch()?;
        self.wait_until_ready()
    }

    /// Whether this run can restart it.
    pub(crate) fn is_ours(&self) -> bool {
        self.settings.command.is_some()
    }

    /// Writes out what its folder has, and drops it from the page cache, so that it is read from the drive
    /// again. Directories and the sizes and places of files stay known to the kernel.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub(crate) fn chill(&self) -> std::io::Result<()> {
        rustix::fs::sync();
        let (mut folders, mut files) = (vec![self.scratch.clone()], 0);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() && files < FILES_MAX {
                    files += 1;
                    // A file that has gone meanwhile holds no pages.
                    let Ok(file) = File::open(entry.path()) else { continue };
                    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
                }
            }
        }
        Ok(())
    }

    /// Its version in its own words.
    pub(crate) fn version(&self) -> Option<String> {
        let words = self.filled_words(self.settings.version.as_ref()?);
        let said = run(&words).unwrap_or_else(|what| what);
        said.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }

    fn log(&self) -> PathBuf {
        self.scratch.join("output.log")
    }

    /// The end of its log.
    fn said(&self) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(self.log())?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
            let mut bytes = Vec::new();
            file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
        };
        match read() {
            Ok(text) if !text.is_empty() => format!("it said: {text}"),
            _ => "it said nothing".to_owned(),
        }
    }

    pub(crate) fn filled_words(&self, words: &Words) -> Vec<String> {
        match words {
            Words::Line(line) => shell(&self.filled(line)),
            Words::List(all) => all.iter().map(|word| self.filled(word)).collect(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A line without anything that only a shell understands becomes its words, so that the process is the
/// program itself; any other goes to the shell.
pub(crate) fn shell(line: &str) -> Vec<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+% \t\n".contains(c);
    match line.chars().all(plain) {
        true => line.split_ascii_whitespace().map(str::to_owned).collect(),
        false => ["sh", "-c", line].map(str::to_owned).to_vec(),
    }
}

/// Runs a command to its end and returns what it printed.
///
/// # Errors
/// In words: it cannot start, fails, or takes too long.
pub(crate) fn run(words: &[String]) -> Result<String, String> {
    let (program, arguments) = words.split_first().ok_or("no program is named")?;
    let mut output = tempfile().map_err(|error| error.to_string())?;
    let copy = || output.try_clone().map_err(|error| error.to_string());
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(copy()?).stderr(copy()?);
    let mut child = command.spawn().map_err(|error| format!("cannot start `{program}`: {error}"))?;
    let clock = Clock::start();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if clock.nanoseconds() > crate::clock::nanoseconds(COMMAND_S) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("`{program}` took more than {COMMAND_S} s"));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let mut bytes = Vec::new();
    output.rewind().map_err(|error| error.to_string())?;
    output.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&bytes).into_owned();
    match status.success() {
        true => Ok(said),
        false => Err(format!("`{program}` failed ({status}): {}", said.trim())),
    }
}

/// A file without a name.
fn tempfile() -> std::io::Result<File> {
    let fd = rustix::fs::memfd_create("stress", rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(File::from(fd))
}
