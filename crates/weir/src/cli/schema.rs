//! `weir schema`.

use std::process::ExitCode;

use clap::Args;

/// The command line of `weir schema`.
#[derive(Debug, Args)]
pub(crate) struct Schema {}

impl Schema {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        crate::print::say(weir_config::JSON_SCHEMA)?;
        Ok(ExitCode::SUCCESS)
    }
}
