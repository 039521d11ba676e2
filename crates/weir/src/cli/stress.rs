//! `weir stress`: the load generator, bounded and verifying, and its scenarios. Exit status 0 when everything
//! was as it should be, 1 when something was not.

use std::process::ExitCode;

use weir_stress::StressArgs;

/// Runs the load or the scenario and prints its report.
pub(super) fn run(args: &StressArgs) -> anyhow::Result<ExitCode> {
    let mut report = Vec::new();
    let is_good = weir_stress::perform(args, &mut report)?;
    crate::print::say(&String::from_utf8_lossy(&report))?;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
