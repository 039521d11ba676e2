//! `weir picks` in a build without the feature `script`: it says so, whatever it is given.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

use crate::build::Feature;

/// The command line of `weir picks`.
#[derive(Debug, Args)]
pub(crate) struct Picks {
    /// What a build with scripts would take.
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    given: Vec<OsString>,
}

impl Picks {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        drop(self.given);
        anyhow::bail!(Feature::Script.lack())
    }
}
