//! `weir run`: starts everything, then waits for signals.
//!
//! The order at the start is that of the mistakes: configuration, state folder, admin address, logs and listeners; only
//! when nothing can fail any more is a client's connection accepted.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{ArgGroup, Args};
use weir_config::{Flags, Loaded, Mistakes, from_flags};
use weir_control::{AdminListener, Control, ControlThread, Source, StateFolder};

use super::check::report;
use super::find::default_state;
use super::say;
use crate::banner::{self, Before};
use crate::logs::{LogChoice, Terminal};
use crate::process::{self, Signals, Wish};
use crate::wire_up::House;

/// How long is waited at the end for what is still to be written.
const WRITE_PATIENCE: Duration = Duration::from_secs(2);

/// The command line of `weir run`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("origins").required(true).args(["origin", "config", "demo"])))]
pub(crate) struct Run {
    /// Stand in front of this origin: `https://www.example.com`, `http://127.0.0.1:3000`, `unix:/run/app.sock`.
    #[arg(long, value_name = "URL")]
    origin: Option<String>,
    /// Do what this file says (see `weir check`).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Stand in front of a built-in origin with sample pages.
    #[arg(long)]
    demo: bool,
    /// Where clients connect, any number of times [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    listen: Vec<String>,
    /// Where metrics and health are [default: 127.0.0.1:9180].
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    admin: Option<String>,
    /// The ceiling of the cache's memory [default: 256MiB, or a quarter of the cgroup's limit].
    #[arg(long, value_name = "SIZE", conflicts_with = "config")]
    memory: Option<String>,
    /// Keep responses on disk as well, in DIR/volume, and what must be remembered in DIR/state.
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    cache: Option<PathBuf>,
    /// The ceiling of what is on disk [default: 10GiB, or a quarter of what is free there].
    #[arg(long, value_name = "SIZE", requires = "cache")]
    disk: Option<String>,
    /// The lifetime of responses for which the origin names none [default: they are not stored].
    #[arg(long, value_name = "DURATION", conflicts_with = "config")]
    ttl: Option<String>,
    /// The folder for the control socket and what must be remembered
    /// [default: $STATE_DIRECTORY, else /var/lib/weir for root, ~/.local/state/weir for others].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Worker threads [default: one a core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    workers: Option<u16>,
    /// The access log: json, combined, json:FILE, combined:FILE, terminal or off
    /// [default: as the file says; on a terminal, lines for people].
    #[arg(long, value_name = "FORMAT")]
    log: Option<LogChoice>,
}

impl Run {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        process::raise_open_files();
        let before = self.before()?;
        let loaded = match self.load(&before) {
            Ok(loaded) => loaded,
            Err(mistakes) => {
                report(&mistakes)?;
                return Ok(ExitCode::FAILURE);
            }
        };
        let state = StateFolder::open(&self.state_path(&loaded)?)?;
        let admin = AdminListener::bind(&loaded.config.admin.listen)?;
        let socket = state.bind_socket()?;
        let terminal = Terminal::at_stdout();
        let start = Start::of(&loaded, &before, &admin.address(), terminal);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the main runtime")?;
        // Signals are listened to before anything is accepted, so that none can hit the defaults meanwhile.
        let signals = runtime.block_on(async { Signals::new() })?;
        let choice = self.log.clone().unwrap_or_default();
        let house = Arc::new(House::start(&loaded, self.workers(), choice, terminal, state.path())?);
        let hangup = if self.config.is_none() && terminal.is_some() { Hangup::Ends } else { Hangup::Reloads };
        let source = self.config.clone().map_or(Source::Flags, Source::File);
        let control = Control::new(house.clone(), source);
        ControlThread::start(control.clone(), admin, socket)?;
        start.say()?;
        process::warn_of_root();
        let code = runtime.block_on(attend(signals, hangup, &house, &control));
        house.finish_store(WRITE_PATIENCE);
        house.finish_logs(WRITE_PATIENCE);
        // Blocking acts that a second signal left behind are not waited for.
        runtime.shutdown_background();
        Ok(code)
    }

    fn before(&self) -> anyhow::Result<Before> {
        match (&self.config, &self.origin) {
            (Some(path), _) => Ok(Before::File(path.clone())),
            (None, Some(origin)) => Ok(Before::Origin(origin.clone())),
            (None, None) => Ok(Before::Demo(crate::demo::start().context("cannot start the demo origin")?)),
        }
    }

    fn load(&self, before: &Before) -> Result<Loaded, Mistakes> {
        let origin = match before {
            Before::File(path) => return weir_config::load(path),
            Before::Origin(origin) => origin.clone(),
            Before::Demo(address) => format!("http://{address}"),
        };
        from_flags(&Flags {
            origin,
            listen: self.listen.clone(),
            admin: self.admin.clone(),
            memory: self.memory.clone(),
            cache: self.cache.as_ref().map(|folder| folder.to_string_lossy().into_owned()),
            disk: self.disk.clone(),
            ttl: self.ttl.clone(),
            ..Flags::default()
        })
    }

    fn state_path(&self, loaded: &Loaded) -> anyhow::Result<PathBuf> {
        match (&self.state, &loaded.config.state.path) {
            (Some(state), _) => Ok(state.clone()),
            (None, Some(path)) => Ok(path.0.clone()),
            (None, None) => default_state(),
        }
    }

    fn workers(&self) -> usize {
        match self.workers {
            Some(workers) => usize::from(workers),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// What is said once everything runs: people get the banner, programs a line of diagnostics.
enum Start {
    People(String),
    Program { line: String, admin: String },
}

impl Start {
    fn of(loaded: &Loaded, before: &Before, admin: &str, terminal: Option<Terminal>) -> Start {
        let line = banner::first_line(loaded, before);
        if matches!(before, Before::Demo(_)) {
            return Start::People(line + &banner::demo_lines(loaded, admin));
        }
        match terminal {
            Some(_) => Start::People(line),
            None => Start::Program { line, admin: admin.to_owned() },
        }
    }

    fn say(self) -> anyhow::Result<()> {
        match self {
            Start::People(text) => say(&text)?,
            Start::Program { line, admin } => tracing::info!(admin, "{}", line.trim_end()),
        }
        Ok(())
    }
}

/// What SIGHUP means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hangup {
    Reloads,
    Ends,
}

/// Does what signals ask until the end; the code is that of the process.
async fn attend(
    mut signals: Signals,
    hangup: Hangup,
    house: &Arc<House>,
    control: &Arc<Control>,
) -> ExitCode {
    loop {
        match signals.next().await {
            Wish::ReopenLogs => house.reopen_logs(),
            // A terminal that is closed sends the same signal; without a file there is nothing else it could mean.
            Wish::Reload if hangup == Hangup::Ends => return drain(signals, house).await,
            Wish::Reload => {
                let control = control.clone();
                // Its result is logged by the act itself; the next signal does not wait for it.
                drop(tokio::task::spawn_blocking(move || control.reload().is_ok()));
            }
            Wish::End => return drain(signals, house).await,
        }
    }
}

/// Lets the requests under way finish; a second signal does not.
async fn drain(mut signals: Signals, house: &Arc<House>) -> ExitCode {
    let patience_s = house.patience().as_secs();
    tracing::info!("ending: requests under way have {patience_s} s; a second signal ends at once");
    let draining = house.clone();
    let mut drained = tokio::task::spawn_blocking(move || draining.drain());
    loop {
        tokio::select! {
            _ = &mut drained => return ExitCode::SUCCESS,
            wish = signals.next() => match wish {
                Wish::End => return ExitCode::FAILURE,
                Wish::ReopenLogs => house.reopen_logs(),
                Wish::Reload => {}
            },
        }
    }
}
