//! The program `weir`: the commands, and the one place where the parts of the server are joined.
//!
//! `cli` reads the command line, one file a command; [`wire_up`] joins edge and control for `weir run`;
//! `demo` is the built-in origin. `anyhow` is for this crate alone: what reaches `main` is printed as one
//! sentence.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod accounts;
mod acme;
mod answering;
mod banner;
mod build;
mod certificates;
mod checked;
mod cli;
mod content;
mod demo;
mod diagnostics;
mod distributors;
mod events;
mod explained;
mod logs;
mod metrics;
mod origins;
mod print;
mod process;
mod service;
mod upgrade;
mod volumes;
mod warming;
mod wire_up;
mod written_picks;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

/// A miss makes many small short-lived allocations on several threads: a third of it was the C library's
/// allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    process::refuse_huge_pages();
    let cli = cli::Cli::parse();
    diagnostics::start();
    match cli.command.run() {
        Ok(code) => code,
        Err(error) => {
            let said = print::plain(print::sentence(&error).trim_end());
            let _ = writeln!(std::io::stderr(), "weir: {said}");
            ExitCode::FAILURE
        }
    }
}
