//! `weir log`: prints requests as they end, a line each or with all that was decided; and those that were
//! kept of the past.

mod full;
mod lines;

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use http::Method;
use serde_json::Value;
use weir_control::{LogKind, LogOrder, PastShown};
use weir_observe::Detail;

use super::find::Find;
use super::live;
use crate::print::{counted, plain, say};

/// The command line of `weir log`.
#[derive(Debug, Args)]
pub(crate) struct ShowLog {
    /// Only requests that fit, as 'status >= 500 and site == shop and first_byte > 200ms and url ~ "^/api"'.
    /// The names are those of the log.
    #[arg(short, long = "query", value_name = "CONDITION")]
    query: Option<String>,
    /// Only of this site, by its name (its first host) or another of its hosts.
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// The requests to origins in place of those of clients: a line for each attempt.
    #[arg(long, alias = "upstream")]
    origin: bool,
    /// All that was decided about a request, and when: the key, what was found, attempts at origins, whether
    /// it was stored.
    #[arg(long, conflicts_with = "origin")]
    full: bool,
    /// The last requests that failed, were cut, whose client left, or that were slow, also of the time when
    /// nobody read the log.
    #[arg(long, conflicts_with = "origin")]
    past: bool,
    #[command(flatten)]
    find: Find,
}

impl ShowLog {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let kind = if self.origin { LogKind::Origin } else { LogKind::Access };
        let detail = if self.full { Detail::Full } else { Detail::Line };
        let order = LogOrder { site: self.site, kind, condition: self.query, detail };
        let clock = if self.past { lines::Clock::Days } else { lines::Clock::Hours };
        let form = if self.find.json { Form::Json } else { Form::Lines(lines::Columns::new(clock)) };
        let mut printing = Printing { form, kind, detail };
        if self.past {
            return past(&self.find, &order, &mut printing);
        }
        let mut failed = None;
        live::follow(&self.find, &order.write(), &mut |line| match printing.print(line) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        })?;
        match failed {
            // The reader of the lines has seen enough.
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}

/// Prints what was kept of the past.
fn past(find: &Find, order: &LogOrder, printing: &mut Printing) -> anyhow::Result<ExitCode> {
    let asked = find.ask(Method::GET, &order.write_past(), Vec::new())?;
    if let Some(refusal) = asked.refusal() {
        anyhow::bail!(plain(&refusal));
    }
    let shown: PastShown = serde_json::from_slice(&asked.body)
        .context("cannot read the running Weir's answer; is it of another version?")?;
    for request in &shown.requests {
        printing.print(&serde_json::to_vec(request)?)?;
    }
    let found = counted(shown.requests.len(), "request");
    let since = plain(&shown.since);
    writeln!(io::stderr(), "{found} of the past since {since}, when this process began to keep them")?;
    Ok(ExitCode::SUCCESS)
}

/// How lines are printed.
enum Form {
    Json,
    Lines(lines::Columns),
}

struct Printing {
    form: Form,
    kind: LogKind,
    detail: Detail,
}

impl Printing {
    /// Prints an object that has come.
    fn print(&mut self, line: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(line);
        let Form::Lines(columns) = &mut self.form else { return say(&format!("{}\n", plain(&text))) };
        let Ok(object) = serde_json::from_str::<Value>(&text) else { return Ok(()) };
        if object["event"] == "dropped" {
            let count = object["count"].as_u64().unwrap_or_default();
            return writeln!(io::stderr(), "{count} lines were lost on the way; ask for fewer with -q");
        }
        let line = match self.kind {
            LogKind::Access => columns.request(&object),
            LogKind::Origin => columns.attempt(&object),
        };
        let block = if self.detail == Detail::Full { full::block(&object) } else { String::new() };
        say(&format!("{line}\n{block}"))
    }
}

/// Whether lines are coloured.
fn is_coloured() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}
