//! The program `weir`: the commands, and the one place where the parts of the house are joined.
//!
//! `cli` reads the command line, one file a command; [`wire_up`] joins edge and control for `weir run`; `demo` is the
//! built-in origin. `anyhow` is for this crate alone: what reaches `main` is printed as one sentence.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod accounts;
mod banner;
mod cli;
mod demo;
mod diagnostics;
mod drives;
mod events;
mod logs;
mod process;
mod service;
mod upgrade;
mod volume;
mod wire_up;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

/// Many short-lived small pieces on several threads: a third of a miss was the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    process::refuse_huge_pages();
    let cli = cli::Cli::parse();
    diagnostics::start();
    match cli.command.run() {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "weir: {}", sentence(&error).trim_end());
            ExitCode::FAILURE
        }
    }
}

/// An error with its causes, without those that it names itself.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let mut said = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::Context;

    #[test]
    fn causes_are_said_once() {
        let told = io::Error::other("disk on fire");
        let error = anyhow::Error::new(told).context("cannot write: disk on fire; use water");
        assert_eq!(super::sentence(&error), "cannot write: disk on fire; use water");
        let untold: Result<(), _> = Err(io::Error::other("disk on fire")).context("cannot write");
        assert_eq!(super::sentence(&untold.unwrap_err()), "cannot write: disk on fire");
    }
}
