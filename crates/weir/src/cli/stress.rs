//! `weir stress`: the load generator, bounded and verifying, and its scenarios. Exit status 0 when everything
//! was as it should be, 1 when something was not, 2 when it could not run.

use std::io::Write;
use std::process::ExitCode;

use weir_stress::StressArgs;

/// Of a load or scenario that could not run, or not to its end.
const COULD_NOT: u8 = 2;

/// Runs the load or the scenario and prints its report, also if it could not run to its end.
pub(super) fn run(args: &StressArgs) -> anyhow::Result<ExitCode> {
    let mut report = Vec::new();
    let done = weir_stress::perform(args, &mut report);
    crate::print::say(&String::from_utf8_lossy(&report))?;
    match done {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(error) => {
            let said = crate::print::plain(&crate::print::sentence(&error.into()));
            let _ = writeln!(std::io::stderr(), "weir: {}", said.trim_end());
            Ok(ExitCode::from(COULD_NOT))
        }
    }
}
