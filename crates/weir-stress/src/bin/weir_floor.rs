//! Runs the floor server, for benchmarks.

#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use weir_stress::floor::Floor;

/// The least an HTTP server can do: fixed responses from memory. For loads on this machine.
#[derive(Debug, Parser)]
#[command(name = "weir-floor", version = weir_stress::version())]
struct FloorArgs {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
    /// Send what this server has, asked for once for each path, instead of bodies of its own
    #[arg(long)]
    origin: Option<SocketAddr>,
}

fn main() -> ExitCode {
    let args = FloorArgs::parse();
    let served = Floor::bind(args.listen).and_then(|floor| {
        let floor = match args.origin {
            Some(origin) => floor.before(origin),
            None => floor,
        };
        eprintln!("floor listens on {}", floor.address());
        floor.run()
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("floor on {}: {error}", args.listen);
            ExitCode::FAILURE
        }
    }
}
