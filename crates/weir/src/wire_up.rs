//! The one place where the parts are joined: it compiles the configuration to a plan, starts the edge with
//! it, and gives the edge to the control plane as its [`DataPlane`].

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use weir_accounts::Accounts;
use weir_config::Loaded;
use weir_config::model::{Listen, Log, Protocol};
use weir_config::value::{HostPattern, PathText};
use weir_control::{
    CacheUse, CachedObject, CertificatesUse, Counted, DataPlane, Explained, HedgesState, Holding, Inventory,
    LedgerState, ListOrder, Listening, Listing, MetricsOrder, MetricsPushed, MetricsShown, OriginChanged,
    OriginOrder, OriginRefusal, OriginState, OriginsOf, Phase, PicksCount, Progress, PurgeDone, PurgeOrder,
    PurgeScope, Question, SessionsState, Sites, SitesOrder, SwapError, Swapped, UpgradeOrder, Upgraded,
    UpstreamState, Verified, rfc3339,
};
use weir_edge::plan::Plan;
use weir_edge::{Cached, Edge, FromOutside, HttpProofs};
use weir_edge::{PurgeOrder as EdgeOrder, PurgeTarget};
use weir_front::listen::PassedListener;
use weir_metrics::Collector;
use weir_observe::{LogSettings, Observatory, OpenLogs, Snapshot};
use weir_store::drives::{Begin, Drives};
use weir_store::{Disk, Force, Ledger, MARKS_MAX, OsDisk, Past, Register, Settings, Stamp, Store, Unwritten};

use crate::accounts;
use crate::acme::Ordering;
use crate::certificates::Keeper;
use crate::checked;
use crate::events;
use crate::explained::{self, explained};
use crate::logs::{self, LogChoice, Terminal};
use crate::metrics;
use crate::origins::Origins;
use crate::upgrade;
use crate::volumes;
use crate::written_picks;

/// The data plane as it runs in this process.
pub(crate) struct Server {
    pub(crate) edge: Edge,
    pub(crate) drives: Drives,
    pub(crate) observatory: Arc<Observatory>,
    pub(crate) accounts: Accounts,
    pub(crate) certificates: Keeper,
    pub(crate) ordering: Ordering,
    pub(crate) origins: Origins,
    collector: Collector,
    picks: written_picks::Maker,
    choice: LogChoice,
    terminal: Option<Terminal>,
    logs: Mutex<Vec<LogSettings>>,
    at_start: Fixed,
    extent: Mutex<Extent>,
    /// The configuration in force, for questions about it.
    loaded: Mutex<Arc<Loaded>>,
    pub(crate) upgrader: OnceLock<UpgradeFn>,
}

/// Upgrades: a new process takes over.
pub(crate) type UpgradeFn = Box<dyn Fn(&UpgradeOrder) -> Result<Upgraded, String> + Send + Sync>;

/// What a new process gets from an old one, or from the service manager.
pub(crate) struct Handover<'a> {
    /// Listening sockets.
    pub(crate) listeners: Vec<PassedListener>,
    /// Another process still has the volumes.
    pub(crate) has_volumes: bool,
    /// The keys of session tickets; empty where there are none.
    pub(crate) tickets: Vec<u8>,
    /// Where another process says what it knows of origins, once the ledger is free.
    pub(crate) origins: Option<OwnedFd>,
    /// Returns when the ledger may be opened.
    pub(crate) until_ledger_is_free: &'a dyn Fn() -> anyhow::Result<()>,
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
        let configured = &loaded.config.cache.volume;
        let admission = volumes::admission(loaded, state);
        let settings = Settings { admission, ..Settings::of(memory_bytes) };
        let store = Store::with_ledger(settings, ledger);
        store.set_quotas(accounts::quotas(loaded));
        let begin = if handover.has_volumes { Begin::Later } else { Begin::Now };
        let drives = Drives::start(
            store.clone(),
            register,
            &volumes::wanted(configured),
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
            collector,
            picks,
            choice,
            terminal,
            at_start: Fixed::of(loaded),
            logs: Mutex::new(logs),
            extent: Mutex::new(Extent::of(loaded)),
            loaded: Mutex::new(Arc::new(loaded.clone())),
            upgrader: OnceLock::new(),
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

    /// Accepts no more connections and lets existing ones finish. Blocks.
    pub(crate) fn drain(&self) {
        self.ordering.stop();
        self.edge.drain(self.patience());
    }

    fn ledger(&self) -> LedgerState {
        let weir_store::LedgerState { number, durable, marks, failure } = self.edge.ledger();
        LedgerState { number, durable, marks, failure }
    }

    fn certificates_in_use(&self) -> CertificatesUse {
        let mut shown = self.certificates.in_use();
        self.ordering.add_to(&mut shown);
        shown
    }

    fn upstreams(&self) -> Vec<UpstreamState> {
        let all = self.edge.upstreams().into_iter().map(|upstream| {
            let (panic, panics) = (upstream.is_panicking, upstream.panics);
            let retries =
                upstream.retries.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
            let retries_refused = upstream.retries_refused;
            let hedges = upstream.hedges.map(|hedges| HedgesState {
                sent: hedges.sent,
                won: hedges.won,
                refused: hedges.refused,
            });
            let origins = upstream.origins.into_iter().map(|origin| OriginState {
                available: origin.standing.takes_share(),
                standing: origin.standing.word().to_owned(),
                why: origin.why,
                check: origin.check.map(checked::check),
                agent: origin.agent.map(checked::agent),
                ejected_s: origin.ejected_for.map(|left| left.as_secs()),
                name: origin.name,
                requests: origin.requests,
                failures: origin.failures,
                retries: origin.retries,
                connections_opened: origin.connects,
                connections_reused: origin.reuses,
                busy: origin.busy,
                ejections: origin.ejections.iter().map(|(_, count)| count).sum(),
                connections_open: origin.connections_open,
                connections_idle: origin.connections_idle,
                queued: origin.waiting,
                streams: origin.streams,
                picks: origin
                    .picks
                    .into_iter()
                    .map(|(pick, reason, count)| PicksCount {
                        pick: pick.word().to_owned(),
                        reason: reason.word().to_owned(),
                        count,
                    })
                    .collect(),
                ejections_by_cause: origin
                    .ejections
                    .iter()
                    .map(|(cause, count)| ((*cause).to_owned(), *count))
                    .collect(),
            });
            let sessions = upstream.sessions.map(|sessions| SessionsState {
                created: sessions.created,
                kept: sessions.kept,
                moved: sessions.moved,
                refused: sessions.refused,
            });
            UpstreamState {
                origins: origins.collect(),
                name: upstream.name,
                panic,
                panics,
                retries,
                retries_refused,
                hedges,
                sessions,
            }
        });
        all.collect()
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

fn compile(loaded: &Loaded, observatory: &Observatory, picks: &written_picks::Maker) -> Result<Plan, String> {
    Ok(Plan::compile_with(loaded, &|name| observatory.site(name), &picks.make(&loaded.config)?))
}

/// How clients connect to an address.
fn listening(loaded: &Loaded, address: String) -> Listening {
    let listen = loaded.config.listen.iter().find(|listen| listen.address.to_string() == address);
    let protocols = listen.map_or(&[][..], Listen::protocols).iter().map(|protocol| match protocol {
        Protocol::H2 => "h2".to_owned(),
        Protocol::Http1 => "http/1.1".to_owned(),
    });
    Listening { address, tls: listen.is_some_and(|listen| listen.tls), protocols: protocols.collect() }
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

impl DataPlane for Server {
    fn swap(&self, loaded: Loaded) -> Result<Swapped, SwapError> {
        let mut warnings = self.at_start.warnings(&Fixed::of(&loaded));
        warnings.extend(loaded.warnings());
        let logs = self.other_logs(&loaded.config.log)?;
        let certificates = self.certificates.prepare(&loaded).map_err(SwapError)?;
        let plan = compile(&loaded, &self.observatory, &self.picks).map_err(SwapError)?;
        self.edge.swap(plan).map_err(|error| SwapError(error.to_string()))?;
        warnings.extend(self.certificates.configure(&loaded, certificates));
        warnings.extend(self.ordering.configure(&loaded));
        metrics::configure(&self.collector, &loaded, &self.edge);
        warnings.extend(self.edge.origin_warnings());
        self.edge.store().set_admission(volumes::admission_of(&loaded));
        self.edge.store().set_quotas(accounts::quotas(&loaded));
        self.drives.configure(&volumes::wanted(&loaded.config.cache.volume));
        *self.extent.lock() = Extent::of(&loaded);
        let events = events::settings(&loaded.config.events);
        let before = std::mem::replace(&mut *self.loaded.lock(), Arc::new(loaded));
        let events_before = events::settings(&before.config.events);
        if events != events_before
            && let Err(error) = self.observatory.events.set(events.as_ref())
        {
            warnings.push(format!("[events] stay as they were: {error}"));
        }
        if let Some((settings, open)) = logs {
            self.observatory.set_logs(open);
            *self.logs.lock() = settings;
        }
        Ok(Swapped { warnings })
    }

    fn snapshot(&self) -> Snapshot {
        self.edge.snapshot()
    }

    fn inventory(&self) -> Inventory {
        let Extent { sites, routes } = *self.extent.lock();
        let usage = self.edge.usage();
        let loaded = self.loaded.lock().clone();
        Inventory {
            plan: self.edge.plan().number,
            sites,
            routes,
            workers: self.edge.workers(),
            listening: self
                .edge
                .listening()
                .iter()
                .map(|address| listening(&loaded, address.to_string()))
                .collect(),
            listeners: self.edge.listening().iter().map(ToString::to_string).collect(),
            cache: CacheUse {
                objects: usage.generations,
                memory_bytes: usage.used_bytes,
                memory_bytes_max: usage.limit_bytes,
                evicted: usage.evicted,
                not_admitted: self.edge.store().admission_usage().refused,
            },
            volumes: self.drives.reports().into_iter().map(volumes::told).collect(),
            ledger: self.ledger(),
            accounts: accounts::in_use(&self.accounts),
            upstreams: self.upstreams(),
            picks: self.picks.states(),
            sources: metrics::sources(&self.collector),
            certificates: self.certificates_in_use(),
        }
    }

    fn explain(&self, question: &Question) -> Result<Explained, String> {
        let Question { method, url, headers, client } = question.clone();
        let explanation = self.edge.explain(&weir_edge::Question { method, url, headers, client })?;
        let loaded = self.loaded.lock().clone();
        let site = explanation.site.clone();
        let tls = explained::tls(&question.url, site.as_deref(), &loaded, &self.certificates);
        Ok(Explained { tls, ..explained(explanation, &loaded) })
    }

    fn purge(&self, order: &PurgeOrder, done: PurgeDone) -> Result<Option<u64>, String> {
        let acknowledge = move |written: Result<Stamp, Unwritten>| {
            done(written.map(Stamp::number).map_err(|error| error.to_string()));
        };
        self.edge.purge(&purges(order), Box::new(acknowledge))
    }

    fn check_order(&self, order: &PurgeOrder) -> Result<(), String> {
        self.edge.check_purge(&purges(order))
    }

    fn count_purged(&self, order: &PurgeOrder, progress: &Progress) -> Result<Counted, String> {
        let store = self.edge.store();
        progress.expect(store.usage().objects + store.objects_on_volumes());
        let stock = self.edge.count_purged(&purges(order), &|| progress.step())?;
        Ok(Counted { objects: stock.objects, bytes: stock.bytes })
    }

    fn has_volumes(&self) -> bool {
        !self.drives.reports().is_empty()
    }

    fn verify(&self, progress: &Progress) -> Result<Verified, String> {
        progress.expect(self.edge.store().objects_on_volumes());
        let all = self.edge.store().verify(&|| progress.step());
        if all.is_empty() {
            return Err("no volume is open".to_owned());
        }
        let mut sum = Verified::default();
        for (name, verified) in all {
            let found = verified.map_err(|error| format!("the volume {name} cannot be read: {error}"))?;
            sum.objects += found.objects;
            sum.parts += found.partial;
            sum.body_bytes += found.body_bytes;
            sum.damaged += found.damaged;
            sum.moved += found.moved;
            sum.counts_corrected += found.stocks_wrong;
            sum.rows_added += found.rows_missing;
            sum.rows_removed += found.rows_superfluous;
        }
        Ok(sum)
    }

    fn origins(&self) -> Vec<OriginsOf> {
        self.origins.list(&self.edge)
    }

    fn origin_metrics(&self) -> MetricsShown {
        metrics::shown(&self.collector, &self.edge)
    }

    fn push_metrics(&self, order: &MetricsOrder) -> Result<MetricsPushed, OriginRefusal> {
        metrics::push(&self.edge, order)
    }

    fn change_origin(&self, order: &OriginOrder) -> Result<OriginChanged, OriginRefusal> {
        self.origins.change(&self.edge, order)
    }

    fn list(&self, order: &ListOrder) -> Result<Listing, String> {
        let after = match &order.after {
            Some(text) => of_hex(text).ok_or("no page ends there; begin again")?,
            None => Vec::new(),
        };
        let ListOrder { site, prefix, tag, limit, .. } = order.clone();
        let (objects, next) = self.edge.list(&weir_edge::ListOrder { site, prefix, tag, limit, after })?;
        let next = next.map(|next| next.iter().map(|byte| format!("{byte:02x}")).collect());
        Ok(Listing { objects: objects.into_iter().map(cached).collect(), next })
    }

    fn upgrade(&self, order: &UpgradeOrder) -> Result<Upgraded, String> {
        let upgrader = self.upgrader.get().ok_or("this Weir has not started yet")?;
        upgrader(order).inspect_err(|why| tracing::error!("not upgraded: {why}"))
    }

    fn sites(&self, order: &SitesOrder) -> Result<Sites, String> {
        let loaded = self.loaded.lock().clone();
        accounts::sites(order, &self.accounts, &loaded, &self.edge)
    }

    fn held(&self) -> Vec<(String, Holding)> {
        accounts::held(&self.edge)
    }

    fn admin_hosts(&self) -> Vec<HostPattern> {
        self.loaded.lock().config.admin.hosts.clone()
    }

    fn observatory(&self) -> &Observatory {
        &self.observatory
    }

    fn site_named(&self, name: &str) -> Option<String> {
        self.edge.site_named(name)
    }

    fn site_of_url(&self, url: &str) -> Option<String> {
        self.edge.site_of_url(url)
    }

    fn phase(&self) -> Phase {
        if self.edge.is_draining() { Phase::Draining } else { Phase::Serving }
    }
}

fn cached(cached: Cached) -> CachedObject {
    let listed = cached.listed;
    let text = String::from_utf8_lossy(&listed.key.full);
    let mut lines = text.lines().map(str::to_owned);
    CachedObject {
        url: lines.next().unwrap_or_default(),
        key: lines.collect(),
        site: cached.site.map(|site| site.to_string()),
        status: listed.status,
        body_bytes: listed.body_bytes,
        held_bytes: listed.held_bytes,
        part: listed.is_part(),
        stored: rfc3339(listed.received),
        age_s: listed.age.as_secs(),
        lifetime_s: listed.lifetime.as_secs(),
        memory: listed.is_in_memory,
        volume: listed.is_on_volume,
    }
}

/// Bytes from hexadecimal digits.
fn of_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    pairs.map(byte).collect()
}

/// The purges of an order, as the edge takes them.
fn purges(order: &PurgeOrder) -> Vec<EdgeOrder> {
    let force = if order.soft { Force::Soft } else { Force::Hard };
    let target = |scope: PurgeScope| match scope {
        PurgeScope::Url(url) => PurgeTarget::Url(url),
        PurgeScope::Prefix(prefix) => PurgeTarget::Prefix(prefix),
        PurgeScope::Tags(tags) => PurgeTarget::Tags { tags, site: None },
        PurgeScope::TagsOf { site, tags } => PurgeTarget::Tags { tags, site: Some(site) },
        PurgeScope::Site(site) => PurgeTarget::Site(site),
        PurgeScope::All => PurgeTarget::All,
    };
    order.all().cloned().map(|scope| EdgeOrder { target: target(scope), force }).collect()
}
