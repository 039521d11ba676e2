//! The one place where the parts are joined: it compiles the configuration to a plan, starts the edge with
//! it, and gives the edge to the control plane (`plane`, `shown`).

mod inventory;
mod plane;
mod shown;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use weir_accounts::Accounts;
use weir_config::Loaded;
use weir_config::model::Log;
use weir_config::value::PathText;
use weir_control::{SwapError, UpgradeOrder, Upgraded};
use weir_edge::plan::Plan;
use weir_edge::{Edge, FromOutside, HttpProofs};
use weir_front::listen::PassedListener;
use weir_metrics::Collector;
use weir_observe::{LogSettings, Observatory, OpenLogs};
use weir_store::drives::{Begin, Drives};
use weir_store::{Disk, Ledger, MARKS_MAX, OsDisk, Past, Register, Settings, Store};

use crate::accounts;
use crate::acme::Ordering;
use crate::certificates::Keeper;
use crate::content;
use crate::events;
use crate::logs::{self, LogChoice, Terminal};
use crate::metrics;
use crate::origins::Origins;
use crate::upgrade;
use crate::upgrade::before::{Before, elsewhere_bytes_max};
use crate::volumes;
use crate::warming::Warmings;
use crate::written_picks;

/// How long connections may take to end once they are told to.
pub(crate) const FAREWELL_PATIENCE: Duration = Duration::from_secs(3);
/// How much longer than this process those before it may take to end.
const OTHERS_PATIENCE: Duration = Duration::from_secs(10);

/// The data plane as it runs in this process.
pub(crate) struct Server {
    pub(crate) edge: Edge,
    pub(crate) drives: Drives,
    pub(crate) observatory: Arc<Observatory>,
    pub(crate) accounts: Accounts,
    pub(crate) certificates: Keeper,
    pub(crate) ordering: Ordering,
    pub(crate) origins: Origins,
    pub(crate) warmings: Arc<Warmings>,
    pub(crate) collector: Collector,
    picks: written_picks::Maker,
    choice: LogChoice,
    terminal: Option<Terminal>,
    logs: Mutex<Vec<LogSettings>>,
    at_start: Fixed,
    extent: Mutex<Extent>,
    /// The configuration in force, for questions about it.
    loaded: Mutex<Arc<Loaded>>,
    pub(crate) upgrader: OnceLock<UpgradeFn>,
    /// The processes before this one, while they finish their requests.
    pub(crate) before: Before,
}

/// Upgrades: a new process takes over.
pub(crate) type UpgradeFn = Box<dyn Fn(&UpgradeOrder) -> Result<Upgraded, String> + Send + Sync>;

/// What a new process gets from an old one, or from the service manager.
pub(crate) struct Handover<'a> {
    /// Listening sockets.
    pub(crate) listeners: Vec<PassedListener>,
    /// The process that is replaced.
    pub(crate) before: Replaces,
    /// The keys of session tickets; empty where there are none.
    pub(crate) tickets: Vec<u8>,
    /// Where another process says what it knows of origins, once the ledger is free.
    pub(crate) origins: Option<OwnedFd>,
    /// Returns when the ledger may be opened.
    pub(crate) until_ledger_is_free: &'a dyn Fn() -> anyhow::Result<()>,
}

/// Which process a new one replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replaces {
    Nothing,
    /// One that still has the volumes, and reads content by hand. It does not say what it holds.
    Silent,
    /// The same; it says what it holds of the memory.
    Telling,
}

/// What a reload cannot change.
#[derive(Clone, Debug, PartialEq)]
struct Fixed {
    /// The configured value; the default depends on the volumes, which may change.
    memory: Option<u64>,
    admin: String,
    admin_tls: bool,
    state: Option<PathText>,
}

impl Fixed {
    fn of(loaded: &Loaded) -> Fixed {
        Fixed {
            memory: loaded.config.cache.memory.map(|size| size.0),
            admin: loaded.config.admin.listen.to_string(),
            admin_tls: loaded.config.admin.tls,
            state: loaded.config.state.path.clone(),
        }
    }

    fn warnings(&self, wanted: &Fixed) -> Vec<String> {
        [
            (self.memory != wanted.memory, "[cache] memory"),
            (self.admin != wanted.admin, "[admin] listen"),
            (self.admin_tls != wanted.admin_tls, "[admin] tls"),
            (self.state != wanted.state, "[state] path"),
        ]
        .into_iter()
        .filter(|(changed, _)| *changed)
        .map(|(_, key)| format!("{key} has changed and needs a restart; the old value stays"))
        .collect()
    }
}

/// What the state folder remembers of volumes and purges; logs what is amiss with it.
fn memory_of(state: &Path) -> anyhow::Result<(Register, Ledger)> {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::at(state));
    let (register, is_damaged) = Register::open(Arc::clone(&disk))
        .with_context(|| format!("cannot read the register of volumes in {}", state.display()))?;
    if is_damaged {
        tracing::error!(
            "the register of volumes is damaged: Weir revalidates what they hold before it uses it"
        );
    }
    let ledger = Ledger::open(MARKS_MAX, disk, register.ledger_number(), weir_clock::now())
        .with_context(|| format!("cannot use the state folder {}", state.display()))?;
    match ledger.past() {
        Past::Whole | Past::New => {}
        past => tracing::error!("{}", past.sentence()),
    }
    if let Some(why) = ledger.state().failure {
        tracing::error!("{why}; purges are in force, but answered 500 until the ledger can be written");
    }
    Ok((register, ledger))
}

impl Server {
    /// Opens the ledger in the state folder and the logs, binds the listeners and starts the workers.
    ///
    /// # Errors
    /// A sentence that says what to do.
    pub(crate) fn start(
        loaded: &Loaded,
        workers: usize,
        choice: LogChoice,
        terminal: Option<Terminal>,
        state: &Path,
        handover: Handover<'_>,
    ) -> anyhow::Result<Server> {
        let logs = logs::settings(&choice, &loaded.config.log, terminal);
        let observatory = Observatory::start(workers, &logs)?;
        observatory.history.open(state).context("cannot start the thread of the history")?;
        let events = events::settings(&loaded.config.events);
        observatory.events.set(events.as_ref()).context("cannot open the file of [events]")?;
        let certificates = Keeper::start(loaded, &observatory, &handover.tickets)?;
        (handover.until_ledger_is_free)()?;
        let accounts = accounts::start(&observatory, state)?;
        let (register, ledger) = memory_of(state)?;
        let memory_bytes = loaded.memory_bytes();
        loaded.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        let is_upgrade = handover.before != Replaces::Nothing;
        let content = content::open(loaded, state, is_upgrade);
        let store = store(loaded, state, ledger, handover.before);
        let begin = if is_upgrade { Begin::Later } else { Begin::Now };
        let drives = Drives::start(
            store.clone(),
            register,
            &volumes::wanted(&loaded.config.cache.volume),
            volumes::settings(memory_bytes),
            begin,
        )?;
        let proofs = HttpProofs::default();
        let ordering = Ordering::prepare(loaded, state, &certificates, &proofs, &observatory)?;
        let picks = written_picks::Maker::default();
        let plan = compile(loaded, &observatory, &picks).map_err(anyhow::Error::msg)?;
        let (origins, known) = (Origins::open(state), upgrade::origins::read(handover.origins));
        let from_outside = FromOutside {
            passed: handover.listeners,
            certificates: certificates.handle(),
            proofs,
            adjustments: known.changed.unwrap_or_else(|| origins.kept()),
            carried: known.carried,
            content,
        };
        let edge = Edge::start(plan, workers, observatory.clone(), store, from_outside)?;
        let collector = metrics::start(loaded, &edge)?;
        edge.origin_warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        ordering.resume().context("cannot order certificates")?;
        Ok(Server {
            edge,
            drives,
            observatory,
            accounts,
            certificates,
            ordering,
            origins,
            warmings: Arc::new(Warmings::of(state, loaded)),
            collector,
            picks,
            choice,
            terminal,
            at_start: Fixed::of(loaded),
            logs: Mutex::new(logs),
            extent: Mutex::new(Extent::of(loaded)),
            loaded: Mutex::new(Arc::new(loaded.clone())),
            upgrader: OnceLock::new(),
            before: Before::default(),
        })
    }

    /// Opens the log files again.
    pub(crate) fn reopen_logs(&self) {
        self.observatory.reopen();
    }

    /// Writes the accounts, and counts nothing more.
    pub(crate) fn finish_accounts(&self, patience: Duration) {
        self.accounts.finish(patience);
    }

    /// Writes what is still queued for the logs.
    pub(crate) fn finish_logs(&self, patience: Duration) {
        self.observatory.finish(patience);
        self.observatory.events.finish(patience);
        self.observatory.history.finish(patience);
    }

    /// Waits until the ledger and what was stored are on disk.
    pub(crate) fn finish_store(&self, patience: Duration) {
        self.edge.finish_ledger(patience);
        self.edge.store().finish_admission();
        self.drives.close(patience);
    }

    /// How long requests under way may go on when Weir ends.
    pub(crate) fn patience(&self) -> Duration {
        self.edge.plan().drain()
    }

    /// How long requests under way may go on here once another process has taken over.
    pub(crate) fn upgrade_patience(&self) -> Duration {
        self.edge.plan().upgrade_drain()
    }

    /// Accepts no more connections, lets existing ones finish, and ends those that do not; so do the
    /// processes before this one. Blocks.
    pub(crate) fn drain(&self) {
        self.before.end_all(self.patience());
        self.ordering.stop();
        self.edge.stop_warming();
        self.edge.drain(self.patience());
        if self.edge.connections() > 0 {
            self.edge.end_requests(FAREWELL_PATIENCE);
        }
        self.before.await_end(OTHERS_PATIENCE);
    }

    /// The opened logs of a configuration, if they differ from those in use.
    fn other_logs(&self, log: &Log) -> Result<Option<(Vec<LogSettings>, OpenLogs)>, SwapError> {
        let wanted = logs::settings(&self.choice, log, self.terminal);
        if *self.logs.lock() == wanted {
            return Ok(None);
        }
        let open = OpenLogs::open(&wanted).map_err(|error| SwapError(error.to_string()))?;
        Ok(Some((wanted, open)))
    }
}

/// The store of a configuration, without volumes.
fn store(loaded: &Loaded, state: &Path, ledger: Ledger, before: Replaces) -> Store {
    let (admission, memory_bytes) = (volumes::admission(loaded, state), loaded.memory_bytes());
    let settings = Settings { admission, ..Settings::of(memory_bytes) };
    let store = Store::with_ledger(settings, ledger);
    store.set_quotas(accounts::quotas(loaded));
    if before == Replaces::Telling {
        // Until that process has said what it holds.
        store.leave_to_others(elsewhere_bytes_max(memory_bytes));
    }
    store
}

fn compile(loaded: &Loaded, observatory: &Observatory, picks: &written_picks::Maker) -> Result<Plan, String> {
    Ok(Plan::compile_with(loaded, &|name| observatory.site(name), &picks.make(&loaded.config)?))
}

/// How many sites and routes a configuration has.
#[derive(Clone, Copy, Debug)]
struct Extent {
    sites: usize,
    routes: usize,
}

impl Extent {
    fn of(loaded: &Loaded) -> Extent {
        let sites = loaded.resolved();
        Extent { sites: sites.len(), routes: sites.iter().map(|site| site.routes.len()).sum() }
    }
}
