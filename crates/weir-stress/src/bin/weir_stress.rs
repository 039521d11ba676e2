//! The load generator by itself; the same as `weir stress`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use weir_stress::StressArgs;

/// Loads an HTTP server on this machine and verifies what comes back.
#[derive(Debug, Parser)]
#[command(name = "weir-stress")]
struct Command {
    #[command(flatten)]
    args: StressArgs,
}

fn main() -> ExitCode {
    let args = Command::parse().args;
    match weir_stress::perform(&args, &mut std::io::stdout()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("weir-stress: {error}");
            ExitCode::from(2)
        }
    }
}
