//! `weir run`: starts everything, then waits for signals.
//!
//! The start goes in the order of possible mistakes: configuration, state folder, admin address, logs,
//! listeners. Weir accepts a client's connection only when nothing can fail any more.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{ArgGroup, Args};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use weir_config::{Flags, Loaded, Mistakes, from_flags};
use weir_control::{AdminListener, Control, ControlThread, Source, StateFolder, UpgradeOrder};
use weir_observe::{Act, Actor, Entry};

use super::check::report;
use super::find::default_state;
use crate::banner::{self, Before};
use crate::logs::{LogChoice, Terminal};
use crate::print::say;
use crate::print::sentence;
use crate::process::{self, Signals, Wish};
use crate::service::{self, Service};
use crate::upgrade::leaving;
use crate::upgrade::new::{UpgradeOffer, settled};
use crate::upgrade::old::{ControlSockets, Invocation, Upgrader};
use crate::warming;
use crate::wire_up::{Handover, Replaces, Server};

/// How long the end waits for what is still to be written.
const WRITE_PATIENCE: Duration = Duration::from_secs(2);

/// The command line of `weir run`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("origins").required(true).args(["origin", "config", "demo"])))]
pub(crate) struct Run {
    /// Run in front of this origin: `https://www.example.com`, `http://127.0.0.1:3000`, `unix:/run/app.sock`.
    #[arg(long, value_name = "URL")]
    origin: Option<String>,
    /// Use this configuration file (see `weir check`).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Run in front of a built-in origin with sample pages.
    #[arg(long)]
    demo: bool,
    /// Where clients connect; may be given several times [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    listen: Vec<String>,
    /// Order a certificate for this host from Let's Encrypt, to whose terms of service you agree by it, and
    /// listen on the ports 80 and 443; may be given several times.
    #[arg(long, value_name = "NAME", requires = "origin", conflicts_with_all = ["config", "listen"])]
    host: Vec<String>,
    /// Where metrics and health are [default: 127.0.0.1:9180].
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    admin: Option<String>,
    /// The ceiling of the cache's memory [default: 256MiB, or a quarter of what the cgroup's limit leaves].
    #[arg(long, value_name = "SIZE", conflicts_with = "config")]
    memory: Option<String>,
    /// Keep responses on disk as well, in DIR/volume, and the state folder in DIR/state.
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

/// What has started and is not yet reachable.
struct Begun {
    server: Arc<Server>,
    state: StateFolder,
    admin: AdminListener,
    socket: UnixListener,
    start: Start,
    signals: Signals,
    runtime: Runtime,
    terminal: Option<Terminal>,
    /// The admin listener's address, as the configuration has it.
    admin_address: String,
    admin_tls: bool,
}

impl Run {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let invocation = Invocation::of_this_process();
        process::survive_the_limit_of_file_size();
        process::raise_open_files();
        let mut offer = UpgradeOffer::offered()?;
        let begun = match self.begin(&mut offer) {
            Ok(Some(begun)) => begun,
            Ok(None) => return Ok(ExitCode::FAILURE),
            Err(error) => {
                if let Some(offer) = &offer {
                    offer.fail(&sentence(&error));
                }
                return Err(error);
            }
        };
        let old_pid = offer.as_ref().map(|offer| offer.pid);
        let old = offer.map(UpgradeOffer::ready).transpose()?;
        if old.is_some() {
            begun.state.take();
        }
        let Begun { server, state, admin, socket, start, signals, runtime, terminal, .. } = begun;
        let (admin_address, admin_tls) = (begun.admin_address, begun.admin_tls);
        crate::events::watch(&server);
        let source = self.config.clone().map_or(Source::Flags, Source::File);
        let control = Control::new(server.clone(), source, state.path());
        let sockets = ControlSockets { control: socket.as_fd().try_clone_to_owned()?, admin: admin.copy()? };
        let certificates = admin_tls.then(|| server.certificates.handle());
        let upgrader = Arc::new(Upgrader {
            invocation,
            server: server.clone(),
            state: Arc::new(state),
            service: Arc::new(Service::of_environment()),
            control: ControlThread::start(control.clone(), admin, socket, certificates)?,
            sockets: Mutex::new(Some(sockets)),
            admin_address,
            handed_over: Arc::default(),
            new_process: Mutex::default(),
            told: Mutex::default(),
            coming: Mutex::default(),
        });
        // The folder is released when this function ends, even if something still has the server.
        let weak = Arc::downgrade(&upgrader);
        server.upgrade_by(move |order| match weak.upgrade() {
            Some(upgrader) => upgrader.upgrade(order),
            None => Err("this Weir is ending".to_owned()),
        });
        let own = server.clone();
        let is_over = move || own.edge.is_draining() || own.warmings.is_leaving();
        warming::attend(server.warmings.clone(), control.clone(), is_over)
            .context("cannot start a thread for warmings")?;
        old.into_iter().for_each(|old| server.admit(settled(old)));
        upgrader.service.ready(start.line());
        start.say(old_pid)?;
        process::warn_of_root();
        process::warn_of_huge_pages();
        let hangup = if self.config.is_none() && terminal.is_some() { Hangup::Ends } else { Hangup::Reloads };
        let running = Running { upgrader: &upgrader, control: &control, hangup };
        let code = runtime.block_on(running.attend(signals));
        upgrader.end_coming();
        server.finish_accounts(WRITE_PATIENCE);
        server.finish_store(WRITE_PATIENCE);
        server.finish_logs(WRITE_PATIENCE);
        upgrader.control.finish(WRITE_PATIENCE);
        // Blocking work that a second signal left behind is not waited for.
        runtime.shutdown_background();
        Ok(code)
    }

    /// Starts everything but the control plane. `None` where the configuration has mistakes, which are
    /// printed.
    fn begin(&self, offer: &mut Option<UpgradeOffer>) -> anyhow::Result<Option<Begun>> {
        let before = self.before()?;
        let loaded = match self.load(&before) {
            Ok(loaded) => loaded,
            Err(mistakes) => {
                report(&mistakes)?;
                if let Some(offer) = offer {
                    offer.fail(&mistakes.to_string());
                }
                return Ok(None);
            }
        };
        self.check_hosts(&loaded)?;
        if loaded.config.distributor.is_some() && loaded.resolved().is_empty() {
            tracing::warn!("there is [distributor] and no site: did you mean `weir distributor`?");
        }
        let path = self.state_path(&loaded)?;
        let listen = &loaded.config.admin.listen;
        let tickets = offer.as_mut().map(UpgradeOffer::tickets).unwrap_or_default();
        let origins = offer.as_mut().and_then(UpgradeOffer::origins);
        let (state, admin, socket, listeners) = match offer {
            Some(offer) => {
                let (state, socket) = offer.state(&path)?;
                let admin = offer.admin(listen).map_or_else(|| AdminListener::bind(listen), Ok)?;
                (state, admin, socket, offer.listeners())
            }
            None => {
                let state = StateFolder::open(&path)?;
                let admin = AdminListener::bind(listen)?;
                let socket = state.bind_socket()?;
                (state, admin, socket, service::listeners()?)
            }
        };
        let terminal = Terminal::at_stdout();
        let start = Start::of(&loaded, &before, &admin.address(loaded.config.admin.tls), terminal);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the main runtime")?;
        // Weir listens to signals before it accepts anything, so that none can take its default effect
        // meanwhile.
        let signals = runtime.block_on(async { Signals::new() })?;
        let choice = self.log.clone().unwrap_or_default();
        let until_ledger_is_free = || offer.as_ref().map_or(Ok(()), UpgradeOffer::prepared);
        let before = offer.as_ref().map_or(Replaces::Nothing, |offer| match offer.level {
            0 => Replaces::Silent,
            _ => Replaces::Telling,
        });
        let handover =
            Handover { listeners, before, tickets, origins, until_ledger_is_free: &until_ledger_is_free };
        let server = Server::start(&loaded, self.workers(), choice, terminal, state.path(), handover)?;
        let (server, admin_address) = (Arc::new(server), loaded.config.admin.listen.to_string());
        let admin_tls = loaded.config.admin.tls;
        Ok(Some(Begun {
            server,
            state,
            admin,
            socket,
            start,
            signals,
            runtime,
            terminal,
            admin_address,
            admin_tls,
        }))
    }

    /// Each `--host` is to have a certificate from the authority.
    ///
    /// # Errors
    /// There is one that it issues none for.
    fn check_hosts(&self, loaded: &Loaded) -> anyhow::Result<()> {
        for host in &self.host {
            if let Some(Err(why)) = crate::acme::orderable(loaded, host) {
                anyhow::bail!(
                    "--host {host}: {why}; for a name of this machine or network use --config with \
                     `certificate = \"self\"` in a site, or with `[[certificate]]`"
                );
            }
        }
        Ok(())
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
            Before::File(path) => return crate::build::load(path),
            Before::Origin(origin) => origin.clone(),
            Before::Demo(address) => format!("http://{address}"),
        };
        from_flags(&Flags {
            origin,
            listen: self.listen_on(80, &self.listen),
            listen_tls: self.listen_on(443, &[]),
            hosts: self.host.clone(),
            admin: self.admin.clone(),
            memory: self.memory.clone(),
            cache: self.cache.as_ref().map(|folder| folder.to_string_lossy().into_owned()),
            disk: self.disk.clone(),
            ttl: self.ttl.clone(),
            ..Flags::default()
        })
    }

    /// The given addresses, or with `--host` a port of every address of this machine.
    fn listen_on(&self, port: u16, given: &[String]) -> Vec<String> {
        if self.host.is_empty() {
            return given.to_vec();
        }
        let all = [IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)];
        // Not every machine has IPv6.
        let is_there = |address: &IpAddr| address.is_ipv4() || TcpListener::bind((*address, 0)).is_ok();
        all.into_iter()
            .filter(is_there)
            .map(|address| SocketAddr::from((address, port)).to_string())
            .collect()
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
            return Start::People(line + banner::demo_lines(loaded, admin).as_str());
        }
        match terminal {
            Some(_) => Start::People(line),
            None => Start::Program { line, admin: admin.to_owned() },
        }
    }

    /// In one line.
    fn line(&self) -> &str {
        let (Start::People(text) | Start::Program { line: text, .. }) = self;
        text.lines().next().unwrap_or_default()
    }

    fn say(self, old_pid: Option<u32>) -> anyhow::Result<()> {
        match self {
            Start::People(text) => say(&text)?,
            Start::Program { line, admin } => tracing::info!(admin, "{}", line.trim_end()),
        }
        if let Some(old_pid) = old_pid {
            tracing::info!(old_pid, "taken over from the old process");
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

/// The entry in the history of what a signal has asked for.
fn by_signal(act: &str, failure: Option<String>) -> Entry {
    let result = if failure.is_some() { Act::Failed } else { Act::Done };
    let why = failure.as_deref().and_then(|why| why.lines().next()).unwrap_or_default().to_owned();
    Entry { actor: Actor::Signal, act: act.to_owned(), result, why, ..Entry::default() }
}

/// A running Weir.
struct Running<'a> {
    upgrader: &'a Arc<Upgrader>,
    control: &'a Arc<Control>,
    hangup: Hangup,
}

impl Running<'_> {
    /// Obeys signals until the end; returns the exit code of the process.
    async fn attend(self, mut signals: Signals) -> ExitCode {
        let handed_over = self.upgrader.handed_over.clone();
        loop {
            let wish = tokio::select! {
                () = handed_over.notified() => return leaving::leave(self.upgrader, signals).await,
                wish = signals.next() => wish,
            };
            match wish {
                Wish::ReopenLogs => {
                    self.upgrader.server.reopen_logs();
                    self.upgrader.server.before.reopen_logs();
                }
                // Closing a terminal sends the same signal; without a file it can mean nothing else.
                Wish::Reload if self.hangup == Hangup::Ends => return self.drain(signals).await,
                Wish::Reload => {
                    let (control, service) = (self.control.clone(), self.upgrader.service.clone());
                    // The command logs its own result; the next signal does not wait for it.
                    drop(tokio::task::spawn_blocking(move || {
                        service.reloading();
                        let reloaded = control.reload().map_err(|error| error.to_string());
                        let how = if reloaded.is_ok() { "reloaded" } else { "a reload was refused" };
                        control.record_now(by_signal("reload", reloaded.err()));
                        service.ready(how);
                    }));
                }
                Wish::Upgrade => {
                    let control = self.control.clone();
                    // As above.
                    drop(tokio::task::spawn_blocking(move || {
                        let upgraded = control.upgrade(&UpgradeOrder::default());
                        control.record_now(by_signal("upgrade", upgraded.err()));
                    }));
                }
                Wish::End => return self.drain(signals).await,
            }
        }
    }

    /// Lets the requests under way finish, unless a second signal comes.
    async fn drain(self, mut signals: Signals) -> ExitCode {
        let server = &self.upgrader.server;
        self.upgrader.service.stopping();
        let patience_s = server.patience().as_secs();
        tracing::info!("ending: requests under way have {patience_s} s; a second signal ends at once");
        let draining = server.clone();
        let mut drained = tokio::task::spawn_blocking(move || draining.drain());
        loop {
            tokio::select! {
                _ = &mut drained => return ExitCode::SUCCESS,
                wish = signals.next() => match wish {
                    Wish::End => {
                        server.before.end_all(Duration::ZERO);
                        return ExitCode::FAILURE;
                    }
                    Wish::ReopenLogs => server.reopen_logs(),
                    Wish::Reload | Wish::Upgrade => {}
                },
            }
        }
    }
}
