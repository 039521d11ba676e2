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
    match weir_stress::run(&args) {
        Ok(report) if args.json => {
            println!("{}", report.json());
            exit(report.is_clean())
        }
        Ok(report) => {
            print!("{report}");
            exit(report.is_clean())
        }
        Err(error) => {
            eprintln!("weir-stress: {error}");
            ExitCode::from(2)
        }
    }
}

fn exit(is_clean: bool) -> ExitCode {
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
