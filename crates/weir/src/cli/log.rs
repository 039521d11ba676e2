//! `weir log`: prints log records as they are made.

use std::process::ExitCode;

use clap::Args;
use weir_control::LiveOrder;

use super::events;
use super::find::Find;

/// The command line of `weir log`.
#[derive(Debug, Args)]
pub(crate) struct ShowLog {
    /// Only of this site, by its name or one of its hosts.
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// The requests to origins in place of those of clients.
    #[arg(long)]
    upstream: bool,
    #[command(flatten)]
    find: Find,
}

impl ShowLog {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let kinds = self.upstream.then(|| "upstream".to_owned()).into_iter().collect();
        events::print(&self.find, "/v1/log", &LiveOrder { site: self.site, kinds })
    }
}
