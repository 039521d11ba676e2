//! `weir log`: prints requests as they end, a line each.

mod lines;

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use weir_control::{LogKind, LogOrder};

use super::find::Find;
use super::live;
use crate::print::{plain, say};

/// The command line of `weir log`.
#[derive(Debug, Args)]
pub(crate) struct ShowLog {
    /// Only requests that fit, as 'status >= 500 and site == shop and first_byte > 200ms and url ~ "^/api"'.
    /// The names are those of the log.
    #[arg(short, long = "query", value_name = "CONDITION")]
    query: Option<String>,
    /// Only of this site, by its name or one of its hosts.
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// The requests to origins in place of those of clients: a line for each attempt.
    #[arg(long, alias = "upstream")]
    origin: bool,
    #[command(flatten)]
    find: Find,
}

impl ShowLog {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let kind = if self.origin { LogKind::Origin } else { LogKind::Access };
        let order = LogOrder { site: self.site, kind, condition: self.query };
        let form = if self.find.json { Form::Json } else { Form::Lines(lines::Columns::default()) };
        let mut printing = Printing { form, kind };
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

/// How lines are printed.
enum Form {
    Json,
    Lines(lines::Columns),
}

struct Printing {
    form: Form,
    kind: LogKind,
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
        say(&(line + "\n"))
    }
}

/// Whether lines are coloured.
fn is_coloured() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}
