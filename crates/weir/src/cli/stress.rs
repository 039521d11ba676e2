//! `weir stress`: the load generator, bounded and verifying. Exit status 0 when every response was right,
//! 1 when some were not.

use std::process::ExitCode;

use weir_stress::StressArgs;

/// Runs the load and prints its report.
pub(super) fn run(args: &StressArgs) -> anyhow::Result<ExitCode> {
    let report = weir_stress::run(args)?;
    match args.json {
        true => crate::print::say(&format!("{}\n", report.json()))?,
        false => crate::print::say(&report.to_string())?,
    }
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
