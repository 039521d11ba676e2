//! Runs a scenario: servers are started, modules take their turns on them, A B C C B A, and everything is
//! ended.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::args::StressArgs;
use crate::clock::{self, Clock};
use crate::plan::StressError;
use crate::recorder::Recorder;
use crate::scenario::catalogue::Catalogue;
use crate::scenario::client::Endpoint;
use crate::scenario::file::{Extent, ModuleSettings, Scenario};
use crate::scenario::machine;
use crate::scenario::memcheck;
use crate::scenario::origin::Origin;
use crate::scenario::outcome::{ModuleOutcome, Outcome, ServerOutcome, Side, Turn};
use crate::scenario::server::{self, Server};
use crate::scenario::settings::{ServerSettings, Words};
use crate::scenario::span::Span;
use crate::scenario::stage::{Measured, Stage};
use crate::scenario::watch::Watch;
use crate::versus::in_turn;

/// Whether the argument names a scenario rather than a URL.
pub fn is_scenario(argument: &str) -> bool {
    argument.ends_with(".toml") && !argument.contains("://")
}

/// Runs the scenario whose file the arguments name, to its end or until the process is told to end.
///
/// # Errors
/// [`StressError`] if the file is wrong or a server does not start. What is wrong with responses, and limits
/// that are not kept, are in the outcome ([`Outcome::is_good`]), and so is why a module could not go on: what
/// was measured until then is not lost.
pub fn run(args: &StressArgs) -> Result<Outcome, StressError> {
    let extent = if args.scenario.quick { Extent::Quick } else { Extent::Whole };
    let mut scenario = Scenario::read(Path::new(&args.url), extent)?;
    choose(&mut scenario, args)?;
    let scratch = Scratch::new(args.scenario.scratch.as_deref())?;
    let stop = Arc::new(AtomicBool::new(false));
    end_on_signals(&stop)?;
    Runner::start(&scenario, args, &scratch.folder, stop)?.run(&scenario)
}

/// Applies what the command line says of servers and modules.
fn choose(scenario: &mut Scenario, args: &StressArgs) -> Result<(), StressError> {
    let bad = |what: String| StressError::File { file: args.url.clone(), what };
    let written = scenario.servers.len();
    for url in &args.vs {
        scenario.servers.push(ServerSettings::elsewhere(url, args.i_own_this_host));
    }
    scenario.check_limits().map_err(bad)?;
    let only = &args.scenario;
    for (named, known) in [
        (&only.servers, scenario.servers.iter().map(|one| one.name.clone()).collect::<Vec<_>>()),
        (&only.only, scenario.modules.iter().map(|one| one.name.clone()).collect()),
    ] {
        if let Some(name) = named.iter().find(|name| !known.contains(name)) {
            return Err(bad(format!("nothing is called `{name}`; there are {}", known.join(", "))));
        }
    }
    // Who is named by its URL is meant in any case.
    let of_command: Vec<String> = scenario.servers[written..].iter().map(|one| one.name.clone()).collect();
    let is_meant = |name: &String| only.servers.contains(name) || of_command.contains(name);
    scenario.servers.retain(|one| only.servers.is_empty() || is_meant(&one.name));
    scenario.modules.retain(|one| only.only.is_empty() || only.only.contains(&one.name));
    // A server that no module runs on is not started, and a module without a server is left out.
    scenario.servers.retain(|server| scenario.modules.iter().any(|one| one.is_for(&server.name)));
    scenario.modules.retain(|one| scenario.servers.iter().any(|server| one.is_for(&server.name)));
    if scenario.servers.is_empty() {
        return Err(bad("it has no [[server]]; add one, or name one with --vs URL".to_owned()));
    }
    let wrap = match (only.valgrind, &only.wrap) {
        (true, Some(_)) => return Err(bad("--valgrind and --wrap exclude each other".to_owned())),
        (true, None) => Some(Words::List(memcheck::VALGRIND.map(str::to_owned).to_vec())),
        (false, Some(line)) => Some(Words::Line(line.clone())),
        (false, None) => None,
    };
    for server in &mut scenario.servers {
        if wrap.is_some() {
            server.wrap.clone_from(&wrap);
        }
    }
    for group in groups(&scenario.modules) {
        if let Some(one) = group.iter().find(|one| group.len() > 1 && one.module.runs_alone()) {
            let name = &one.name;
            return Err(bad(format!("module `{name}` runs alone; take `beside` from it and its neighbours")));
        }
        if group.iter().any(|one| one.shared.servers != group[0].shared.servers) {
            let name = &group[0].name;
            return Err(bad(format!("`{name}` and those beside it have the same `servers`")));
        }
    }
    check_servers(scenario).map_err(bad)
}

/// Refuses modules on servers that lack what they need, before an hour has been measured.
fn check_servers(scenario: &Scenario) -> Result<(), String> {
    for one in &scenario.modules {
        for server in scenario.servers.iter().filter(|server| one.is_for(&server.name)) {
            one.module.check_server(server).map_err(|what| {
                let (name, server) = (&one.name, &server.name);
                format!(
                    "`{name}` cannot run on `{server}`: {what}; name the module's `servers`, or leave it out \
                     with --only"
                )
            })?;
        }
    }
    Ok(())
}

/// Modules that run side by side.
fn groups(modules: &[ModuleSettings]) -> Vec<&[ModuleSettings]> {
    modules.chunk_by(|_, next| next.shared.beside).collect()
}

/// The folder of a run.
struct Scratch {
    folder: PathBuf,
    is_ours: bool,
}

impl Scratch {
    fn new(given: Option<&Path>) -> Result<Self, StressError> {
        let made = |source| StressError::System { act: "making the scratch folder", source };
        let name = || format!("weir-stress-{}-{}", std::process::id(), clock::stamp());
        let folder = given.map_or_else(|| std::env::temp_dir().join(name()), Path::to_path_buf);
        std::fs::create_dir_all(&folder).map_err(made)?;
        // Servers may change their own folder.
        let folder = folder.canonicalize().map_err(made)?;
        Ok(Self { folder, is_ours: given.is_none() })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// Lets the run end early on SIGINT and SIGTERM, so that servers are stopped and what was measured is told.
fn end_on_signals(stop: &Arc<AtomicBool>) -> Result<(), StressError> {
    let bad = |source| StressError::System { act: "waiting for signals", source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(bad)?;
    let stop = stop.clone();
    let wait = async move {
        use tokio::signal::unix::{SignalKind, signal};
        let (Ok(mut int), Ok(mut term)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return;
        };
        tokio::select! { _ = int.recv() => {}, _ = term.recv() => {} }
        stop.store(true, Relaxed);
    };
    let spawned =
        std::thread::Builder::new().name("stress-signals".to_owned()).spawn(move || runtime.block_on(wait));
    spawned.map(|_| ()).map_err(bad)
}

/// What runs.
struct Runner {
    catalogue: Arc<Catalogue>,
    origin: Arc<Origin>,
    servers: Vec<Served>,
    stop: Arc<AtomicBool>,
    clock: Clock,
    stamp: String,
    /// When it began, as in a `Date` field.
    begun: String,
    watch: Watch,
}

impl Runner {
    fn start(
        scenario: &Scenario,
        args: &StressArgs,
        scratch: &Path,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, StressError> {
        let parts = scenario.origin.part.iter().map(|part| part.part()).collect();
        let catalogue = Arc::new(Catalogue::new(scenario.seed, parts));
        let listen = scenario.origin.listen.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
        let origin = Origin::start(listen, catalogue.clone()).map_err(|error| {
            StressError::Scenario(format!("the origin cannot listen on {listen}: {error}"))
        })?;
        let mut servers = Vec::new();
        for settings in &scenario.servers {
            let endpoint = Arc::new(Endpoint::new(settings)?);
            let server = Server::new(settings.clone(), scratch, &origin.address().to_string());
            servers.push((Arc::new(Mutex::new(server)), endpoint));
        }
        start_all(&servers)?;
        let watch = Watch::new(!args.scenario.quiet && !args.json);
        Ok(Self {
            catalogue,
            origin: Arc::new(origin),
            servers,
            stop,
            clock: Clock::start(),
            stamp: clock::stamp(),
            begun: httpdate::fmt_http_date(clock::wall()),
            watch,
        })
    }

    fn run(mut self, scenario: &Scenario) -> Result<Outcome, StressError> {
        let versions: Vec<Option<String>> =
            self.servers.iter().map(|(server, _)| lock(server).version()).collect();
        let (mut modules, mut gave_up) = (Vec::new(), None);
        for group in groups(&scenario.modules) {
            if self.stop.load(Relaxed) || gave_up.is_some() {
                break;
            }
            let outcomes;
            (outcomes, gave_up) = self.run_group(scenario, group);
            modules.extend(outcomes.into_iter().filter(ModuleOutcome::is_begun));
        }
        stop_all(&self.servers);
        let ended = |((server, _), version): (&(Arc<Mutex<Server>>, _), Option<String>)| {
            let mut server = lock(server);
            ServerOutcome {
                name: server.settings.name.clone(),
                url: server.settings.url.clone(),
                version,
                findings: std::mem::take(&mut server.findings),
            }
        };
        let servers = self.servers.iter().zip(versions).map(ended).collect();
        Ok(Outcome {
            name: scenario.name.clone(),
            machine: machine::describe(),
            begun: self.begun,
            is_whole: !self.stop.load(Relaxed) && gave_up.is_none(),
            gave_up,
            servers,
            modules,
            rows: std::mem::take(&mut self.watch.rows),
        })
    }

    /// All turns of a group of modules, and why there are no more of them, if one cannot go on.
    fn run_group(
        &mut self,
        scenario: &Scenario,
        group: &[ModuleSettings],
    ) -> (Vec<ModuleOutcome>, Option<StressError>) {
        let servers = self.servers.len();
        let working: Vec<usize> =
            (0..servers).filter(|at| group[0].is_for(&scenario.servers[*at].name)).collect();
        let rounds = scenario.rounds_of(&group[0]) * if working.len() == 1 { 1 } else { 2 };
        let side = || Side { turns: Vec::new() };
        let mut outcomes: Vec<ModuleOutcome> = group
            .iter()
            .map(|one| ModuleOutcome {
                name: one.name.clone(),
                kind: one.shared.kind.clone(),
                limits: one.shared.limits.clone(),
                sides: (0..servers).map(|_| side()).collect(),
            })
            .collect();
        for round in 0..rounds {
            for at in in_turn(working.len(), round).into_iter().map(|turn| working[turn]) {
                if self.stop.load(Relaxed) {
                    return (outcomes, None);
                }
                let turns = match self.run_turn(group, at, (round, scenario.seed.wrapping_add(round))) {
                    Ok(turns) => turns,
                    Err(error) => return (outcomes, Some(error)),
                };
                for (outcome, turn) in outcomes.iter_mut().zip(turns) {
                    outcome.sides[at].turns.push(turn);
                }
            }
        }
        (outcomes, None)
    }

    /// One turn of a group on one server.
    fn run_turn(
        &mut self,
        group: &[ModuleSettings],
        at: usize,
        (round, seed): (u64, u64),
    ) -> Result<Vec<Turn>, StressError> {
        let (server, endpoint) = self.servers[at].clone();
        let settings = Arc::new(lock(&server).settings.clone());
        let stages: Vec<Stage> = group
            .iter()
            .enumerate()
            .map(|(number, one)| Stage {
                name: one.name.clone(),
                settings: settings.clone(),
                server: server.clone(),
                endpoint: endpoint.clone(),
                catalogue: self.catalogue.clone(),
                origin: self.origin.clone(),
                recorder: Arc::new(Recorder::new()),
                stop: self.stop.clone(),
                clock: self.clock,
                seed: seed.wrapping_mul(1000).wrapping_add(number as u64),
                nonce: format!("{}-{}-{round}-{}", self.stamp, settings.name, plain(&one.name)),
                lasting: format!("{}-{}-{}", self.stamp, settings.name, plain(&one.name)),
                round,
                span: Arc::new(Mutex::new(Span::default())),
            })
            .collect();
        self.watch.begin(&stages, round);
        let measured: Vec<Result<Measured, StressError>> = std::thread::scope(|scope| {
            let running: Vec<_> = group
                .iter()
                .zip(&stages)
                .map(|(one, stage)| scope.spawn(move || one.module.run(stage)))
                .collect();
            self.watch.look_until(|| running.iter().all(std::thread::ScopedJoinHandle::is_finished), &stages);
            running.into_iter().map(Measured::join).collect()
        });
        let (used, origin) = self.watch.end(&stages);
        let measured: Vec<Measured> = measured.into_iter().collect::<Result<_, _>>()?;
        let all: u64 = measured.iter().map(|one| one.tally.requests).sum();
        let turn = |measured: Measured| Turn {
            measured,
            used,
            beside: all,
            origin_requests: origin.0,
            origin_bytes: origin.1,
        };
        Ok(measured.into_iter().map(turn).collect())
    }
}

type Served = (Arc<Mutex<Server>>, Arc<Endpoint>);

/// Starts all servers at once.
fn start_all(servers: &[Served]) -> Result<(), StressError> {
    std::thread::scope(|scope| {
        let starting: Vec<_> =
            servers.iter().map(|(server, _)| scope.spawn(move || lock(server).start())).collect();
        let panicked = |_| Err(StressError::Scenario("starting a server panicked".to_owned()));
        starting.into_iter().try_for_each(|one| one.join().unwrap_or_else(panicked))
    })
}

fn stop_all(servers: &[Served]) {
    std::thread::scope(|scope| {
        servers.iter().for_each(|(server, _)| {
            scope.spawn(move || lock(server).stop());
        });
    });
}

fn lock(server: &Mutex<server::Server>) -> MutexGuard<'_, Server> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A module's name as a part of a path.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
