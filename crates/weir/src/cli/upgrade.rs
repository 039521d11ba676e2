//! `weir upgrade`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use http::Method;
use weir_control::{UpgradeOrder, Upgraded};

use super::find::Find;

/// Longer than the running Weir waits for the new one.
const PATIENCE: Duration = Duration::from_secs(120);

/// The command line of `weir upgrade`.
#[derive(Debug, Args)]
pub(crate) struct Upgrade {
    /// The new program [default: the one that now lies where the running one was started from].
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    #[command(flatten)]
    find: Find,
}

impl Upgrade {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let program = self.program.as_ref().map(|program| program.canonicalize());
        let program = program.transpose().context("cannot use the new program")?;
        let order = serde_json::to_vec(&UpgradeOrder { program })?;
        let asked = self.find.ask_for(Method::POST, "/v1/upgrade", order, PATIENCE)?;
        match asked.refusal() {
            // A report of mistakes has its own lines.
            Some(refusal) if !self.find.json => {
                writeln!(io::stderr(), "weir: {}", crate::print::plain(&refusal))?;
                Ok(ExitCode::FAILURE)
            }
            _ => self.find.answer(&asked, show),
        }
    }
}

fn show(upgraded: &Upgraded) -> String {
    let Upgraded { pid, version, old_pid, took_ms, paused_ms } = upgraded;
    format!(
        "upgraded in {took_ms} ms, of which requests waited for {paused_ms} ms: weir {version} (pid {pid}) \
         has taken \
         over from pid {old_pid}, which finishes its requests\n"
    )
}
