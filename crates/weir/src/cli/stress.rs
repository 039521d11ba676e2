//! `weir stress`: becomes the program `weir-stress`, which is beside this one or in `PATH`. It must not know
//! that program's arguments.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;

/// The program.
const PROGRAM: &str = "weir-stress";
/// How it calls itself in its help: as it was called.
const CALLED: &str = "weir stress";
/// The exit status where it cannot run.
const COULD_NOT: u8 = 2;

/// The command line of `weir stress`: that of weir-stress, which answers `--help` as well.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Stress {
    /// What weir-stress takes; --help shows it.
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    given: Vec<OsString>,
}

impl Stress {
    /// Returns only where there is no such program, or it cannot be run.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let beside = beside();
        for program in beside.iter().cloned().chain([PathBuf::from(PROGRAM)]) {
            let error = Command::new(&program).arg0(CALLED).args(&self.given).exec();
            if error.kind() != ErrorKind::NotFound {
                return could_not(&format!("cannot run {}: {error}", program.display()));
            }
        }
        let folder = beside.as_deref().and_then(|program| program.parent());
        let folder = folder.map_or_else(String::new, |folder| format!("in {} nor ", folder.display()));
        could_not(&format!(
            "`weir stress` is the program {PROGRAM}, which is neither {folder}in PATH; `make build` builds \
             both, and the package and the tarball of Weir have it"
        ))
    }
}

/// Where it is if it was built or installed with this one.
fn beside() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.with_file_name(PROGRAM))
}

fn could_not(why: &str) -> anyhow::Result<ExitCode> {
    writeln!(io::stderr(), "weir: {}", crate::print::plain(why))?;
    Ok(ExitCode::from(COULD_NOT))
}
