//! The commands of the control plane, from the API and from signals: reload, status, explain, purge.

mod marking;
mod reload;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use weir_config::value::HostPattern;
use weir_observe::{Entry, HistoryState, Observatory, RECORD_PATIENCE, Snapshot};

use crate::answer::Refusal;
use crate::call::{Caller, Door};
use crate::clock;
use crate::data_plane::{
    ContentListing, ContentOrder, ContentRefusal, ContentShown, ContentSites, ContentUpload, ContentWanted,
    Counted, DataPlane, Explained, Inventory, ListOrder, Listing, Phase, PurgeOrder, Question,
    RetentionRefusal, Retentions, SwapError, UpgradeOrder, Upgraded, Verified, VolumeStanding,
};
use crate::guesses::Guesses;
use crate::history::{self, Found, HistoryOrder, HistoryShown, Own};
use crate::jobs::Jobs;
use crate::metrics::Seen;
use crate::origins::{OriginChanged, OriginOrder, OriginRefusal, OriginsOf};
use crate::progress::Progress;
use crate::rates::Rates;
use crate::readings::{MetricsOrder, MetricsPushed, MetricsShown};
use crate::reloads::{Figures, Reloads};
use crate::retentions;
use crate::sites::{Sites, SitesOrder};
use crate::status::Status;
use crate::streams::{Form, Sending, Stream, Streams};
use crate::tokens::Tokens;
use crate::turns::Turns;
use crate::unsent::Unsent;

/// How long a job waits for volumes that will soon be up, as after an upgrade, and between two looks.
const OPENING_TIME_MAX: Duration = Duration::from_secs(60);
const OPENING_PAUSE: Duration = Duration::from_millis(50);

/// Where the configuration came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file, which can be loaded again.
    File(PathBuf),
    /// Flags of the command line.
    Flags,
}

/// A reload that succeeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reloaded {
    /// The number of the plan now in force.
    pub plan: u64,
    /// Its sites.
    pub sites: usize,
    /// Its routes.
    pub routes: usize,
    /// How long it took.
    pub took_ms: u64,
    /// What needs a restart to be in force, and other warnings.
    pub warnings: Vec<String>,
}

/// A reload that failed. The old configuration is still in force.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// There is no file.
    #[error(
        "this Weir was started with flags and has no file to load again; restart it, or start it with \
         --config FILE"
    )]
    NoFile,
    /// The file has mistakes; the text shows them all.
    #[error("{mistakes}")]
    Mistakes {
        /// The mistakes, rendered, with lines of the file, which may have secrets.
        mistakes: String,
        /// The same without them.
        sentences: String,
    },
    /// The file has no mistakes and cannot be put in force.
    #[error(transparent)]
    Swap(#[from] SwapError),
    /// It takes longer than anybody waits.
    #[error(
        "the configuration is not loaded within {} s: it, or a file that it names, may lie on a drive that \
         does not answer; the old one stays in force until it is loaded",
        reload::TIME_MAX.as_secs()
    )]
    Hangs,
    /// There is no thread for it.
    #[error("no thread can be started for it: {0}")]
    Thread(#[source] io::Error),
}

/// A purge that failed, or will not outlast a restart.
#[derive(Debug, thiserror::Error)]
pub enum PurgeError {
    /// The order makes no sense.
    #[error("{0}")]
    Order(String),
    /// It is in force, but not on disk.
    #[error("purged until a restart only: {0}; mend the disk of the state folder and purge again")]
    Unwritten(String),
}

/// A retention that failed, or will not outlast a restart.
#[derive(Debug)]
pub enum RetainError {
    /// It is refused.
    Refused(RetentionRefusal),
    /// It is in force, but not on disk.
    Unwritten(String),
}

/// The control plane of one Weir.
pub struct Control {
    data_plane: Arc<dyn DataPlane>,
    source: Source,
    started: (Instant, SystemTime),
    reloads: Arc<Reloads>,
    state: PathBuf,
    tokens: Tokens,
    guesses: Guesses,
    jobs: Jobs,
    streams: Arc<Streams>,
    turns: Turns,
    searches: Turns,
    rates: Rates,
    unsent: [Arc<Unsent>; 2],
}

impl Control {
    /// The control plane over a running data plane, with its state folder.
    pub fn new(data_plane: Arc<dyn DataPlane>, source: Source, state: &Path) -> Arc<Control> {
        let started = (clock::mono(), clock::wall());
        let (reloads, guesses) = (Arc::default(), Guesses::default());
        let (tokens, state) = (Tokens::of(state), state.to_owned());
        let (jobs, streams) = (Jobs::default(), Arc::default());
        let (turns, searches) = (Turns::default(), Turns::default());
        Arc::new(Control {
            data_plane,
            source,
            started,
            reloads,
            state,
            tokens,
            guesses,
            jobs,
            streams,
            turns,
            searches,
            rates: Rates::default(),
            unsent: Default::default(),
        })
    }

    pub(crate) fn data_plane(&self) -> &dyn DataPlane {
        &*self.data_plane
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    pub(crate) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    pub(crate) fn rates(&self) -> &Rates {
        &self.rates
    }

    pub(crate) fn unsent(&self, door: Door) -> &Arc<Unsent> {
        &self.unsent[door as usize]
    }

    /// The turns of searches, which take long: no other operation waits for them.
    pub(crate) fn searches(&self) -> &Turns {
        &self.searches
    }

    /// Opens a stream to a caller, for as long as its token is good. Call it on a runtime.
    ///
    /// # Errors
    /// 503 where there are too many.
    pub(crate) fn open_stream(
        self: &Arc<Control>,
        caller: &Caller,
        form: Form,
    ) -> Result<(Sending, Stream), Refusal> {
        let (control, identity) = (self.clone(), caller.identity.clone());
        let is_user = caller.door == Door::Socket;
        let is_good = move || {
            // The next look hears of what is read now.
            if !is_user {
                control.tokens.read_soon();
            }
            is_user || control.tokens.is_good(&identity, clock::wall())
        };
        self.streams.open(caller, form, is_good)
    }

    pub(crate) fn observatory(&self) -> &Observatory {
        self.data_plane.observatory()
    }

    /// Ends jobs and streams: a new process takes over.
    pub(crate) fn leave(&self) {
        self.jobs.interrupt();
        self.streams.end();
    }

    pub(crate) fn guesses(&self) -> &Guesses {
        &self.guesses
    }

    /// Records an entry in the history, and waits until it is written, or the disk has failed.
    pub(crate) async fn record(&self, entry: Entry) {
        let (written, wait) = oneshot::channel();
        let history = &self.observatory().history;
        history.record_then(entry, Box::new(move |result| drop(written.send(result))));
        let _ = tokio::time::timeout(RECORD_PATIENCE, wait).await;
    }

    /// As [`Control::record`], for a thread that may block.
    pub fn record_now(&self, entry: Entry) {
        let (written, wait) = mpsc::channel();
        let history = &self.observatory().history;
        history.record_then(entry, Box::new(move |result| drop(written.send(result))));
        let _ = wait.recv_timeout(RECORD_PATIENCE);
    }

    /// Records an attempt that was refused. Does not wait.
    pub(crate) fn note_refused(&self, entry: Entry) {
        self.observatory().history.record(entry);
    }

    /// Some of the history; what `own` sees alone, where it is given. Also whether the site that is asked for
    /// is in it. Blocks.
    pub(crate) fn history(
        &self,
        order: &HistoryOrder,
        own: Option<&Own<'_>>,
    ) -> io::Result<(HistoryShown, bool)> {
        let HistoryState { failure, lost } = self.observatory().history.state();
        let Found { entries, has_site } = history::read(&self.state, order, own)?;
        Ok((HistoryShown { entries: entries.into(), failure, lost }, has_site))
    }

    /// The name of the site that has this name or this host.
    pub(crate) fn site_named(&self, name: &str) -> Option<String> {
        self.data_plane.site_named(name)
    }

    /// Says to a caller that no site has this name. One of some sites hears of these alone.
    pub(crate) fn unknown_site(&self, caller: &Caller, name: &str) -> Refusal {
        Refusal::unfit(match &caller.sites {
            None => self.data_plane.unknown_site(name),
            Some(own) => format!("no site is named {name}; this token is for {} alone", own.join(", ")),
        })
    }

    /// The name of the site that a URL leads to.
    pub(crate) fn site_of_url(&self, url: &str) -> Option<String> {
        self.data_plane.site_of_url(url)
    }

    /// Everything that `weir status` shows.
    pub fn status(&self) -> Status {
        let Figures { done, refused, last } = self.reloads.figures();
        let uptime = clock::mono().saturating_duration_since(self.started.0);
        let mut status = Status::of(&self.snapshot(), self.inventory(), self.phase());
        status.config = self.file().map(|path| path.display().to_string());
        status.uptime_s = uptime.as_secs();
        status.started = crate::status::rfc3339(self.started.1);
        status.reloads = done;
        status.reloads_refused = refused;
        status.last_reload = last;
        status
    }

    /// What would happen to a request; with orders of lifetimes that `own` may see alone, where it is given.
    /// Blocks for a short time.
    ///
    /// # Errors
    /// A sentence, when the question is not a request.
    pub(crate) fn explain(&self, question: &Question, own: Option<&Own<'_>>) -> Result<Explained, String> {
        let mut explained = self.data_plane.explain(question)?;
        self.tell_retentions(&mut explained, own);
        // What the configuration adds may be a secret; what the question has itself is none.
        if let Some(asked) = &mut explained.origin_request {
            let added = asked.headers.iter_mut().filter(|field| !question.headers.contains(field));
            for (name, value) in added {
                if weir_config::is_secret(name) {
                    *value = weir_config::HIDDEN.to_owned();
                }
            }
        }
        Ok(explained)
    }

    /// Says which order gave what is stored its lifetime. What cannot be read is left out.
    fn tell_retentions(&self, explained: &mut Explained, own: Option<&Own<'_>>) {
        let (Some(site), Some(key)) = (&explained.site, &explained.key) else { return };
        for variant in &mut explained.stored {
            let concerns = |scope: &_, tags: &[String]| self.data_plane.concerns(scope, site, key, tags);
            if let Err(error) = retentions::tell(&self.state, clock::wall(), own, variant, concerns) {
                tracing::warn!(%error, "cannot read the history");
            }
        }
    }

    /// The retentions in force; those that `own` may see alone, where it is given. Blocks.
    ///
    /// # Errors
    /// The history cannot be read.
    pub(crate) fn retentions(&self, own: Option<&Own<'_>>) -> io::Result<Retentions> {
        retentions::in_force(&self.state, clock::wall(), own)
    }

    /// Refuses an order that makes no sense.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn check_order(&self, order: &PurgeOrder) -> Result<(), String> {
        self.data_plane.check_order(order)
    }

    /// Waits while volumes are being opened, at most for a minute: what they hold is not known before.
    /// Blocks.
    pub(crate) fn await_volumes(&self, progress: &Progress) {
        let until = clock::mono() + OPENING_TIME_MAX;
        let is_opening = || {
            let volumes = self.inventory().volumes;
            volumes.iter().any(|volume| volume.state == VolumeStanding::Probing)
        };
        while progress.ends().is_none() && clock::mono() < until && is_opening() {
            std::thread::sleep(OPENING_PAUSE);
        }
    }

    /// What a purge would take. Blocks.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn count_purged(&self, order: &PurgeOrder, progress: &Progress) -> Result<Counted, String> {
        self.await_volumes(progress);
        self.data_plane.count_purged(order, progress)
    }

    /// Whether there are volumes to verify.
    pub(crate) fn has_volumes(&self) -> bool {
        self.data_plane.has_volumes()
    }

    /// Verifies the volumes. Blocks.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn verify(&self, progress: &Progress) -> Result<Verified, String> {
        self.await_volumes(progress);
        let verified = self.data_plane.verify(progress)?;
        tracing::info!(objects = verified.objects, damaged = verified.damaged, "volumes verified");
        Ok(verified)
    }

    /// Upgrades: a new process takes over. Blocks.
    ///
    /// # Errors
    /// Why it failed. Then everything is as before.
    pub fn upgrade(&self, order: &UpgradeOrder) -> Result<Upgraded, String> {
        self.data_plane.upgrade(order)
    }

    /// The origins of each upstream.
    pub fn origins(&self) -> Vec<OriginsOf> {
        self.data_plane.origins()
    }

    /// Changes an origin. Blocks.
    ///
    /// # Errors
    /// See [`OriginRefusal`].
    pub fn change_origin(&self, order: &OriginOrder) -> Result<OriginChanged, OriginRefusal> {
        order.check().map_err(OriginRefusal::Unfit)?;
        let changed = self.data_plane.change_origin(order)?;
        let (OriginOrder { upstream, origin, weight, keep, .. }, act) = (order, order.act.word());
        tracing::info!(upstream, origin, act, weight, keep, "origin changed");
        Ok(changed)
    }

    /// The metrics of all origins.
    pub fn origin_metrics(&self) -> MetricsShown {
        self.data_plane.origin_metrics()
    }

    /// Pushes metrics of an origin.
    ///
    /// # Errors
    /// See [`OriginRefusal`].
    pub fn push_metrics(&self, order: &MetricsOrder) -> Result<MetricsPushed, OriginRefusal> {
        order.check().map_err(OriginRefusal::Unfit)?;
        self.data_plane.push_metrics(order)
    }

    /// Lists what is cached. Blocks for as long as that takes.
    ///
    /// # Errors
    /// A sentence.
    pub fn list(&self, order: &ListOrder, progress: &Progress) -> Result<Listing, String> {
        self.data_plane.list(order, progress)
    }

    /// Begins to lay content by hand. Blocks.
    pub(crate) fn begin_content(
        &self,
        order: &ContentOrder,
    ) -> Result<Box<dyn ContentUpload>, ContentRefusal> {
        self.data_plane.begin_content(order)
    }

    /// Resets a URL. Blocks.
    pub(crate) fn reset_content(
        &self,
        url: &str,
        sites: Option<&[String]>,
    ) -> Result<Option<ContentShown>, ContentRefusal> {
        self.data_plane.reset_content(url, sites)
    }

    /// A page of content by hand; of the site that is wanted, by its name or one of its hosts.
    pub(crate) fn content(&self, wanted: &ContentWanted) -> Result<ContentListing, String> {
        let mut wanted = wanted.clone();
        if let Some(named) = wanted.site.take() {
            // Sites that the configuration no longer has may have content still.
            let name = self.site_named(&named).unwrap_or(named);
            wanted.sites = Some(vec![name]);
        }
        self.data_plane.content(&wanted)
    }

    /// The sites that content over a URL has to do with.
    pub(crate) fn sites_of_content(&self, url: &str) -> Result<ContentSites, ContentRefusal> {
        self.data_plane.sites_of_content(url)
    }

    /// The name of the only site.
    pub(crate) fn only_site(&self) -> Option<String> {
        self.data_plane.only_site()
    }

    /// The accounts of sites.
    ///
    /// # Errors
    /// A sentence.
    pub fn sites(&self, order: &SitesOrder) -> Result<Sites, String> {
        self.data_plane.sites(order)
    }

    /// Whether requests are taken.
    pub fn phase(&self) -> Phase {
        self.data_plane.phase()
    }

    /// The names that the admin listener answers to.
    pub(crate) fn admin_hosts(&self) -> Vec<HostPattern> {
        self.data_plane.admin_hosts()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.data_plane.snapshot()
    }

    pub(crate) fn inventory(&self) -> Inventory {
        self.data_plane.inventory()
    }

    /// What a scrape of the metrics sees.
    pub(crate) fn seen(&self) -> Seen {
        let Figures { done, refused, .. } = self.reloads.figures();
        let since_epoch = self.started.1.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Seen {
            snapshot: self.snapshot(),
            inventory: self.inventory(),
            held: self.data_plane.held(),
            reloads: (done, refused),
            started_s: since_epoch.as_secs_f64(),
            is_serving: self.phase() == Phase::Serving,
        }
    }

    fn file(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Flags => None,
        }
    }
}
