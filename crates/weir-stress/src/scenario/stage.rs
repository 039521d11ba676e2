//! What a module finds when it runs, and what it leaves: the server and the origin, crowds of users, and the
//! judgement of responses.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use tokio::task::LocalSet;

use crate::body::{Body, Content, Expected};
use crate::clock::Clock;
use crate::head::{Head, VERSION};
use crate::load::give_way;
use crate::plan::{Plan, StressError};
use crate::recorder::Recorder;
use crate::scenario::catalogue::Catalogue;
use crate::scenario::client::{self, Client, Endpoint, Failure, Response, failure};
use crate::scenario::origin::Origin;
use crate::scenario::server::{Ending, Server};
use crate::scenario::settings::ServerSettings;
use crate::scenario::span::{Point, Span};
use crate::tally::{Fault, Tally};

/// The most notes of a module.
const NOTES_MAX: usize = 200;

/// Where a module runs.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    /// The module's name.
    pub(crate) name: String,
    pub(crate) settings: Arc<ServerSettings>,
    pub(crate) server: Arc<Mutex<Server>>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) origin: Arc<Origin>,
    pub(crate) recorder: Arc<Recorder>,
    /// Set when the run is to end early.
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) clock: Clock,
    pub(crate) seed: u64,
    /// What no other turn, server or run has in its paths.
    pub(crate) nonce: String,
    /// What no other server, module or run has in its paths.
    pub(crate) lasting: String,
    /// Which round of turns this is.
    pub(crate) round: u64,
    pub(crate) span: Arc<Mutex<Span>>,
}

/// What a module has measured and found.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) tally: Tally,
    /// Its own figures.
    pub(crate) figures: Vec<(String, f64)>,
    /// What people should know.
    pub(crate) notes: Vec<String>,
}

/// Measurements that the users of a module share.
pub(crate) type Sheet = Rc<RefCell<Measured>>;

impl Measured {
    pub(crate) fn new(stage: &Stage) -> Self {
        let tally = Tally::recorded(Some(stage.recorder.clone()));
        Self { tally, figures: Vec::new(), notes: Vec::new() }
    }

    /// What the thread of a module, or of some of its users, came to. One that panicked is an error.
    ///
    /// # Errors
    /// Its own.
    pub(crate) fn join(
        running: ScopedJoinHandle<'_, Result<Self, StressError>>,
    ) -> Result<Self, StressError> {
        running
            .join()
            .unwrap_or_else(|_| Err(StressError::Scenario("a module panicked; please report it".to_owned())))
    }

    pub(crate) fn fault(&mut self, failure: &Failure) {
        self.tally.fault(failure.fault, || failure.detail.clone());
    }

    /// Counts a whole response.
    pub(crate) fn response(&mut self, response: &Response) {
        let bytes = response.body.received;
        if let Some(connect_ns) = response.connect_ns {
            self.tally.connections += 1;
            self.tally.connect_ns.saturating_record(connect_ns.max(1));
        }
        self.tally.response(response.status, bytes, response.first_byte_ns, response.whole_ns);
    }

    pub(crate) fn figure(&mut self, name: impl Into<String>, value: f64) {
        self.figures.push((name.into(), value));
    }

    /// Adds to a figure that counts.
    pub(crate) fn count(&mut self, name: &str, by: f64) {
        match self.figures.iter_mut().find(|(known, _)| known == name) {
            Some((_, value)) => *value += by,
            None => self.figure(name, by),
        }
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(text.into());
        }
    }
}

/// Runs a crowd that is measured in this thread, and another beside it, in one that gives way to it.
///
/// # Errors
/// That of either.
pub(crate) fn beside(
    measured: impl FnOnce() -> Result<Measured, StressError>,
    other: impl FnOnce() -> Result<Measured, StressError> + Send,
) -> Result<(Measured, Measured), StressError> {
    let (measured, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            give_way();
            other()
        });
        (measured(), Measured::join(other))
    });
    Ok((measured?, other?))
}

impl Stage {
    /// The server's URL without a final slash.
    pub(crate) fn base(&self) -> &str {
        self.settings.url.trim_end_matches('/')
    }

    /// A path that nobody has asked for before.
    pub(crate) fn cold(&self, name: &str) -> String {
        format!("/{}/{name}/", self.nonce)
    }

    /// A path that nobody but this module has asked this server for, in any of its turns.
    pub(crate) fn kept(&self, name: &str) -> String {
        format!("/{}/{name}/", self.lasting)
    }

    /// What is measured begins here: what the server has used in this turn before does not count.
    pub(crate) fn begin_span(&self) {
        let now = self.point();
        self.span.lock().unwrap_or_else(PoisonError::into_inner).begin(now);
    }

    /// What is measured ends here.
    pub(crate) fn end_span(&self) {
        let now = self.point();
        self.span.lock().unwrap_or_else(PoisonError::into_inner).end(now);
    }

    fn point(&self) -> Point {
        Point { usage: self.server().usage(), origin: self.catalogue.totals() }
    }

    /// Drops the pages of the server's files.
    ///
    /// # Errors
    /// It is not ours, or a folder cannot be read.
    pub(crate) fn chill(&self) -> Result<(), StressError> {
        let server = self.own()?;
        server.chill().map_err(|source| StressError::System { act: "dropping the server's pages", source })
    }

    /// Ends the server and starts it again with what it has kept. Returns how long it took from its start
    /// until it was ready.
    ///
    /// # Errors
    /// It is not ours, or does not come back.
    pub(crate) fn restart(&self, ending: Ending) -> Result<Duration, StressError> {
        let mut server = self.own()?;
        server.end(ending);
        let begun_ns = self.clock.nanoseconds();
        server.start_again()?;
        Ok(Duration::from_nanos(self.clock.nanoseconds() - begun_ns))
    }

    /// The server, if this run has started it.
    fn own(&self) -> Result<MutexGuard<'_, Server>, StressError> {
        let server = self.server();
        match server.is_ours() {
            true => Ok(server),
            false => Err(StressError::Scenario(format!(
                "`{}` needs a server that this scenario starts: `{}` has no `command`",
                self.name, self.settings.name
            ))),
        }
    }

    pub(crate) fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn client(&self, timeout_s: f64) -> Client {
        Client::new(self.endpoint.clone(), Duration::from_nanos(crate::clock::nanoseconds(timeout_s)))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// When something that begins now and takes so long ends, by the stage's clock.
    pub(crate) fn end_ns(&self, seconds: f64) -> u64 {
        self.clock.nanoseconds().saturating_add(crate::clock::nanoseconds(seconds))
    }

    pub(crate) fn is_past(&self, end_ns: u64) -> bool {
        self.is_stopped() || self.clock.nanoseconds() >= end_ns
    }

    /// Waits until a request is due. Returns by how much it is late because the user was busy until now. That
    /// a timer has a grain says nothing of the server.
    ///
    /// # Errors
    /// It is late by its timeout already. So a server that hangs ends no later than its requests do.
    pub(crate) async fn due(&self, due_ns: u64, timeout_s: f64) -> Result<u64, Failure> {
        let now_ns = self.clock.nanoseconds();
        if due_ns > now_ns {
            tokio::time::sleep(Duration::from_nanos(due_ns - now_ns)).await;
            return Ok(0);
        }
        match now_ns - due_ns {
            late_ns if late_ns < crate::clock::nanoseconds(timeout_s) => Ok(late_ns),
            _ => Err(failure(Fault::Timeout, format!("not asked: no user was free for {timeout_s} s"))),
        }
    }

    /// Makes the body that checks a response for `path`: whole, a range, or kept where it has several.
    pub(crate) fn expect(&self, path: &str) -> impl Fn(&Head, &[(String, String)]) -> Body + use<> {
        let (catalogue, path) = (self.catalogue.clone(), path.to_owned());
        move |head: &Head, fields: &[(String, String)]| {
            let several = head.status == 206 && head.range.is_none();
            if several {
                return Body::new(head.framing, 0, Content::Kept);
            }
            let is_content = matches!(head.status, 200 | 203 | 206);
            match catalogue.expected(path.as_bytes(), version(fields)).filter(|_| is_content) {
                Some(expected) => {
                    let begin = head.range.map_or(0, |one| one.0);
                    Body::expecting(head.framing, begin, expected, Content::Counted)
                }
                None => Body::new(head.framing, 0, Content::Counted),
            }
        }
    }

    /// Says so where bodies are compared with nothing: another origin has this path.
    pub(crate) fn note_uncompared(&self, path: &str, measured: &mut Measured) {
        if self.catalogue.part(path.as_bytes()).is_none() {
            measured.note(format!("bodies of {path} are compared with nothing: no part of [origin] has it"));
        }
    }

    /// What the origin has at `path`, of the version that the response says.
    pub(crate) fn expected(&self, path: &str, response: &Response) -> Option<Expected> {
        self.catalogue.expected(path.as_bytes(), version(&response.fields))
    }

    /// Judges a response for a whole object of the origin.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn judge(&self, path: &str, response: &Response) -> Result<(), Failure> {
        if response.status != 200 {
            return Err(failure(Fault::Status, format!("{} for {path}", response.status)));
        }
        judge_bytes(path, response)?;
        let received = response.body.received;
        match response.body.expected_bytes {
            Some(bytes) if bytes != received && !response.is_left => {
                Err(failure(Fault::Length, format!("{received} of {bytes} bytes for {path}")))
            }
            _ => Ok(()),
        }
    }

    /// Runs a crowd of users to their ends, in this thread.
    ///
    /// # Errors
    /// No runtime.
    pub(crate) fn crowd<F: Future<Output = ()> + 'static>(
        &self,
        users: usize,
        user: impl Fn(usize) -> F,
    ) -> Result<(), StressError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| StressError::System { act: "making a runtime", source })?;
        let tasks = LocalSet::new();
        let handles: Vec<_> = (0..users).map(|at| tasks.spawn_local(user(at))).collect();
        runtime.block_on(tasks.run_until(async {
            for handle in handles {
                if let Err(error) = handle.await {
                    return Err(StressError::Scenario(format!("`{}`: a user failed: {error}", self.name)));
                }
            }
            Ok(())
        }))
    }

    /// Runs a crowd that shares a sheet, and returns what stands on it.
    ///
    /// # Errors
    /// No runtime.
    pub(crate) fn measure<F: Future<Output = ()> + 'static>(
        &self,
        users: usize,
        user: impl Fn(usize, Sheet) -> F,
    ) -> Result<Measured, StressError> {
        let sheet: Sheet = Rc::new(RefCell::new(Measured::new(self)));
        let begun_ns = self.clock.nanoseconds();
        let cpu_before = crate::load::cpu_seconds();
        self.crowd(users, |at| user(at, sheet.clone()))?;
        let mut measured = sheet.replace(Measured::new(self));
        measured.tally.seconds = (self.clock.nanoseconds() - begun_ns) as f64 / 1e9;
        measured.tally.cpu_seconds = crate::load::cpu_seconds() - cpu_before;
        Ok(measured)
    }

    /// Runs a load of this server, and checks its bodies by the catalogue.
    ///
    /// # Errors
    /// The load's arguments are wrong. A load that has failed altogether is a fault.
    pub(crate) fn load(&self, args: &crate::args::StressArgs) -> Result<Tally, StressError> {
        self.load_with(args, Some(self.recorder.clone()))
    }

    /// Runs a load that is not counted.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub(crate) fn load_unseen(&self, args: &crate::args::StressArgs) -> Result<Tally, StressError> {
        self.load_with(args, None)
    }

    fn load_with(
        &self,
        args: &crate::args::StressArgs,
        recorder: Option<Arc<Recorder>>,
    ) -> Result<Tally, StressError> {
        let mut plan = Plan::new(args, &args.url)?;
        plan.catalogue = Some(self.catalogue.clone());
        plan.recorder = recorder;
        plan.stop = Some(self.stop.clone());
        match crate::versus::load(&plan, self.seed) {
            Err(StressError::Hopeless { first, .. }) => {
                let mut tally = Tally::new();
                tally.seconds = f64::MIN_POSITIVE;
                let (word, detail) = first.split_once(": ").unwrap_or(("closed", &first));
                let fault = Fault::ALL.into_iter().find(|fault| fault.word() == word);
                tally.fault(fault.unwrap_or(Fault::Closed), || format!("{detail}, and nothing else"));
                Ok(tally)
            }
            other => other,
        }
    }

    /// The arguments of a load of this server.
    pub(crate) fn load_args(&self, path: &str) -> crate::args::StressArgs {
        let mut args = client::args(&self.settings, &format!("{}{path}", self.base()));
        args.seed = self.seed;
        args
    }
}

/// Judges a response's version and bytes.
pub(crate) fn judge_bytes(path: &str, response: &Response) -> Result<(), Failure> {
    if response.body.is_old {
        let version = version(&response.fields);
        return Err(failure(Fault::Old, format!("version {version} of {path} may not be served any more")));
    }
    if !response.body.is_right() {
        let at = response.body.wrong_at.unwrap_or_default();
        return Err(failure(Fault::Content, format!("wrong bytes of {path} from byte {at} on")));
    }
    Ok(())
}

/// The version that a head says.
pub(crate) fn version(fields: &[(String, String)]) -> u64 {
    let said = fields.iter().find(|(name, _)| name == VERSION);
    said.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}
