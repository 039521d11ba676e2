//! The program `weir`: the commands, and the one place where the parts of the house are joined.
//!
//! `cli` reads the command line, one file a command; [`wire_up`] joins edge and control for `weir run`; `demo` is the
//! built-in origin. `anyhow` is for this crate alone: what reaches `main` is printed as one sentence.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod banner;
mod cli;
mod demo;
mod diagnostics;
mod logs;
mod process;
mod wire_up;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    diagnostics::start();
    match cli.command.run() {
        Ok(code) => code,
        Err(error) => {
            // A sentence that has its own lines, such as a report of mistakes, is printed as it is.
            let said = format!("{error:#}");
            let prefix = if said.starts_with("error") { "" } else { "weir: " };
            let _ = writeln!(std::io::stderr(), "{prefix}{}", said.trim_end());
            ExitCode::FAILURE
        }
    }
}
