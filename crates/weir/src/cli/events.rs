//! `weir events`: prints events of what is stored as they happen.

use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::Args;
use weir_control::LiveOrder;

use super::find::Find;
use super::live;
use crate::print::{plain, say};

/// The command line of `weir events`.
#[derive(Debug, Args)]
pub(crate) struct ShowEvents {
    /// Only of this site, by its name or one of its hosts.
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// Only of this kind; may be given several times: stored, revalidated, evicted, expired, purged, volume,
    /// origin, certificate.
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    #[command(flatten)]
    find: Find,
}

impl ShowEvents {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        print(&self.find, "/v1/events", &LiveOrder { site: self.site, kinds: self.kind })
    }
}

/// Prints the lines of a stream until the program is ended.
pub(super) fn print(find: &Find, path: &str, order: &LiveOrder) -> anyhow::Result<ExitCode> {
    let mut failed = None;
    live::follow(find, &order.write(path), &mut |line| {
        let mut text = plain(&String::from_utf8_lossy(line));
        text.push('\n');
        match say(&text) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}
