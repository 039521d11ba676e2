//! The load generator and its scenarios; `weir stress` runs it. Exit status 0 when everything was as it
//! should be, 1 when something was not, 2 when it could not run.

#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;
use weir_stress::StressArgs;

/// Of a load or scenario that could not run, or not to its end.
const COULD_NOT: u8 = 2;

/// Loads an HTTP server of this machine, verifies what comes back, and measures it.
#[derive(Debug, Parser)]
#[command(name = "weir-stress", version = weir_stress::version())]
struct Command {
    #[command(flatten)]
    args: StressArgs,
}

fn main() -> ExitCode {
    let args = Command::parse().args;
    if let Some(warning) = weir_stress::warning().filter(|_| !args.scenario.quiet) {
        complain(&format!("warning: {warning}"));
    }
    // The report is printed also of what did not run to its end.
    let mut report = Vec::new();
    let done = weir_stress::perform(&args, &mut report);
    let written = io::stdout().lock().write_all(&report);
    let could_not = |why: &str| {
        complain(why);
        ExitCode::from(COULD_NOT)
    };
    match (done, written) {
        (Err(error), _) => could_not(&error.to_string()),
        // A reader that has gone is no error.
        (_, Err(error)) if error.kind() != ErrorKind::BrokenPipe => could_not(&error.to_string()),
        (Ok(true), _) => ExitCode::SUCCESS,
        (Ok(false), _) => ExitCode::FAILURE,
    }
}

/// Says something on the standard error; what a server has sent does nothing to a terminal.
fn complain(what: &str) {
    let mut said = String::new();
    for c in what.trim_end().chars() {
        match c.is_control() && c != '\n' {
            true => said.extend(c.escape_unicode()),
            false => said.push(c),
        }
    }
    // Where nobody can hear it, there is nobody to tell.
    let _ = writeln!(io::stderr(), "weir-stress: {said}");
}
