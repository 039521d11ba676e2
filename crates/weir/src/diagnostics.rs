//! Diagnostics: `tracing` to the standard error. `WEIR_LOG` sets the level, for example `WEIR_LOG=debug` or
//! `WEIR_LOG=weir_upstream=trace,info`; the default is `info`, without what the crate `h2` says of clients.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// A client could fill the log with warnings about itself.
const DEFAULT: &str = "info,h2=off";

/// Whether the standard error is a terminal that takes colours (<https://no-color.org>).
pub(crate) fn is_coloured() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

/// Starts the diagnostics. Called once.
pub(crate) fn start() {
    let wanted = std::env::var("WEIR_LOG").unwrap_or_else(|_| DEFAULT.to_owned());
    let filter = EnvFilter::try_new(wanted).unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(is_coloured())
        .with_target(false)
        .init();
}
