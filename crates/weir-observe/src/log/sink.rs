//! A place that lines are written to: an output or a file, which is rotated where it grows too large. A place
//! that cannot be written loses lines, and counts them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;

use super::{LogError, LogFormat, LogSettings, LogTarget, Queued};
use crate::asked::Asked;
use crate::lines::{self, TerminalLines};
use crate::record::Record;

/// Appends a line.
type Writing<L> = Box<dyn FnMut(&L, &mut Vec<u8>) + Send>;

/// One open log.
pub(crate) struct Sink<L> {
    writing: Writing<L>,
    out: Out,
    lines: Vec<u8>,
    /// What has failed at the last try, and was said.
    failing: Option<Failing>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Failing {
    Writing,
    Rotating,
}

enum Out {
    Stdout,
    Stderr,
    File(Appended),
}

/// A file that is appended to.
struct Appended {
    path: PathBuf,
    file: File,
    bytes_max: Option<u64>,
}

impl Sink<Record> {
    /// Opens a log of clients' requests.
    pub(crate) fn of_records(settings: &LogSettings) -> Result<Sink<Record>, LogError> {
        let writing: Writing<Record> = match settings.format {
            LogFormat::Json | LogFormat::Upstream => Box::new(lines::json),
            LogFormat::Combined => {
                let zone = TimeZone::system();
                Box::new(move |record, lines| lines::combined(record, &zone, lines))
            }
            LogFormat::Own => Box::new(lines::own),
            LogFormat::Terminal { columns, colour } => {
                let mut terminal = TerminalLines::new(columns, colour, TimeZone::system());
                Box::new(move |record, lines| terminal.line(record, lines))
            }
        };
        Sink::open(settings, "access", writing)
    }
}

impl Sink<Asked> {
    /// Opens a log of requests to origins.
    pub(crate) fn of_asked(settings: &LogSettings) -> Result<Sink<Asked>, LogError> {
        Sink::open(settings, "upstream", Box::new(lines::json))
    }
}

impl<L> Sink<L> {
    fn open(settings: &LogSettings, log: &'static str, writing: Writing<L>) -> Result<Sink<L>, LogError> {
        let out = match &settings.target {
            LogTarget::Stdout => Out::Stdout,
            LogTarget::Stderr => Out::Stderr,
            LogTarget::File(path) => {
                let opened = open(path);
                let file = opened.map_err(|source| LogError::Open { log, path: path.clone(), source })?;
                Out::File(Appended { path: path.clone(), file, bytes_max: settings.bytes_max })
            }
        };
        Ok(Sink { writing, out, lines: Vec::new(), failing: None })
    }

    /// Opens its file again.
    pub(crate) fn reopen(&mut self) {
        if let Out::File(file) = &mut self.out
            && let Err(error) = file.reopen()
        {
            tracing::error!(path = %file.path.display(), %error, "cannot reopen the log; the old file stays \
                                                                 in use");
        }
    }

    /// Writes the batch; returns how many lines were dropped.
    pub(super) fn write(&mut self, batch: &[Queued<L>]) -> u64 {
        self.lines.clear();
        for queued in batch {
            (self.writing)(&queued.line, &mut self.lines);
        }
        if let Out::File(file) = &mut self.out
            && let Err(error) = file.rotate_for(self.lines.len() as u64)
        {
            if self.failing != Some(Failing::Rotating) {
                tracing::error!(path = %file.path.display(), %error, "cannot rotate the log; it grows on");
            }
            self.failing = Some(Failing::Rotating);
        }
        let written = match &mut self.out {
            Out::Stdout => write_all(&mut io::stdout().lock(), &self.lines),
            Out::Stderr => write_all(&mut io::stderr().lock(), &self.lines),
            Out::File(file) => write_all(&mut file.file, &self.lines),
        };
        match written {
            Ok(()) => {
                self.failing = self.failing.filter(|failing| *failing == Failing::Rotating);
                0
            }
            Err(error) => {
                if self.failing != Some(Failing::Writing) {
                    tracing::error!(%error, "cannot write a log; lines are being lost");
                }
                self.failing = Some(Failing::Writing);
                batch.len() as u64
            }
        }
    }
}

impl Appended {
    fn reopen(&mut self) -> io::Result<()> {
        self.file = open(&self.path)?;
        Ok(())
    }

    /// Begins the file again where it would grow too large with so many bytes. Another process may have done
    /// that already, in an upgrade.
    fn rotate_for(&mut self, bytes: u64) -> io::Result<()> {
        let Some(bytes_max) = self.bytes_max else { return Ok(()) };
        let here = self.file.metadata()?;
        if !here.is_file() || here.len() == 0 || here.len().saturating_add(bytes) <= bytes_max {
            return Ok(());
        }
        let is_this = fs::metadata(&self.path)
            .is_ok_and(|there| (there.dev(), there.ino()) == (here.dev(), here.ino()));
        if is_this {
            let mut rotated = self.path.clone().into_os_string();
            rotated.push(".1");
            fs::rename(&self.path, rotated)?;
        }
        self.reopen()
    }
}

fn write_all(out: &mut dyn Write, lines: &[u8]) -> io::Result<()> {
    out.write_all(lines)?;
    out.flush()
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}
