//! The thread `weir-acme`: it asks the plan what is next for each host and does it, a few orders at once.
//! Only it writes below the folder. It knows nothing of what serves the certificates: that is told by
//! [`Outside`].

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use weir_disk::Disk;

use crate::authority::Authority;
use crate::book::{Book, Certificate, Entry};
use crate::clock::{Clock, Seconds};
use crate::fault::Fault;
use crate::names::{Name, Unorderable};
use crate::order::Attempt;
use crate::outside::{Failed, Issued, Outside, Proof};
use crate::plan::{self, Failure, Known, Next, Why};
use crate::record::{AuthorityRecord, Mishap, Record};
use crate::renewal;
use crate::settings::Settings;
use crate::transport::{TransportError, noting};

/// How many orders run at once, and how many questions about renewal.
pub const AT_ONCE_MAX: usize = 8;
/// The longest sleep: the wall clock may be set meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// How long stopping waits for the thread.
const STOP_TIME_MAX: Duration = Duration::from_secs(5);
const STOP_STEP: Duration = Duration::from_millis(5);

/// How one host stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The host, as the site names it.
    pub host: String,
    /// The directory of the CA that issued its certificate.
    pub issued_by: Option<String>,
    /// The last second of its certificate.
    pub not_after: Option<Seconds>,
    /// What is next.
    pub step: Step,
    /// The latest failure.
    pub last_error: Option<Mishap>,
}

/// What is next for a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// An order is under way, or about to begin.
    Orders,
    /// The certificate is renewed then.
    Renews(Seconds),
    /// The next attempt is made then, for that reason.
    Waits(Seconds, Why),
    /// None is ordered; the host needs a file.
    NeedsFile(Unorderable),
}

/// The running thread. Dropping it does not stop it; see [`Acme::stop`].
pub struct Acme {
    shared: Arc<Shared>,
    orders: mpsc::UnboundedSender<Order>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Order {
    Configure(Box<Settings>),
    Look,
    Stop,
}

struct Shared {
    book: Book,
    clock: Clock,
    outside: Arc<dyn Outside>,
    state: Mutex<State>,
}

struct State {
    settings: Settings,
    authorities: Vec<Arc<Authority>>,
    records: Vec<AuthorityRecord>,
    hosts: BTreeMap<String, Host>,
}

struct Host {
    name: Name,
    /// The CAs that can issue for it.
    able: Result<Vec<usize>, Unorderable>,
    entry: Entry,
    busy: Option<Busy>,
}

/// What a task is doing for a host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Busy {
    Order,
    /// The CA is asked when the certificate should be renewed.
    Question,
}

/// What a task has done for a host.
enum Done {
    Order(Box<Record>, Box<Result<Certificate, Fault>>),
    Question(Result<Option<renewal::Answer>, Fault>),
}

struct Task {
    host: String,
    directory: String,
}

/// What clients and CAs can be given before anything else starts.
#[derive(Debug, Default)]
pub struct Kept {
    /// The certificates.
    pub certificates: Vec<Issued>,
    /// The answers of orders under way, over HTTP.
    pub proofs: Vec<Proof>,
}

/// Reads what is remembered of the hosts. What [`Acme::start`] is given must be the same folder.
///
/// It does not write, so that it may be called while another process still orders.
pub fn kept(disk: Arc<dyn Disk>, settings: &Settings, clock: &Clock) -> Kept {
    let (book, mut kept) = (Book::new(disk), Kept::default());
    for (host, name) in settings.hosts.iter().filter_map(|host| Some((host, Name::of(host).ok()?))) {
        let entry = book.host(&name, clock.now());
        kept.proofs.extend(proof_of(&name, &entry.record));
        kept.certificates.extend(entry.certificate.map(|certificate| issued(host, &certificate)));
    }
    kept
}

/// The answer of the order under way.
fn proof_of(name: &Name, record: &Record) -> Option<Proof> {
    let proof = record.order.as_ref()?.proof.clone()?;
    Some(Proof::Http { host: name.host(), proof })
}

fn issued(host: &str, certificate: &Certificate) -> Issued {
    let Certificate { chain_pem, key_pem, held } = certificate.clone();
    Issued { host: host.to_owned(), chain_pem, key_pem, not_after: held.not_after }
}

impl Acme {
    /// Starts the thread. The caller makes sure that no other process uses the folder of `disk`.
    ///
    /// # Errors
    /// The roots of a CA cannot be used, or no thread can be started.
    pub fn start(
        disk: Arc<dyn Disk>,
        settings: Settings,
        clock: Clock,
        outside: Arc<dyn Outside>,
    ) -> io::Result<Acme> {
        let book = Book::new(disk);
        let empty =
            Settings { hosts: Vec::new(), authorities: Vec::new(), challenges: settings.challenges.clone() };
        let state =
            State { settings: empty, authorities: Vec::new(), records: Vec::new(), hosts: BTreeMap::new() };
        let shared = Arc::new(Shared { book, clock, outside, state: Mutex::new(state) });
        shared.configure(settings).map_err(io::Error::other)?;
        let (orders, received) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let driver = Driver { shared: shared.clone(), running: JoinSet::new(), tasks: HashMap::new() };
        let thread = std::thread::Builder::new().name("weir-acme".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(driver.run(received));
            runtime.shutdown_background();
        })?;
        Ok(Acme { shared, orders, thread: Mutex::new(Some(thread)) })
    }

    /// Takes a new configuration. Orders under way go on.
    pub fn configure(&self, settings: Settings) {
        // The thread ends only by `stop`.
        let _ = self.orders.send(Order::Configure(Box::new(settings)));
    }

    /// Has the thread look again what is due, as after the clock was set.
    pub fn look(&self) {
        let _ = self.orders.send(Order::Look);
    }

    /// How each host stands.
    pub fn rows(&self) -> Vec<Row> {
        self.shared.rows()
    }

    /// Puts the orders under way down, to be taken up by the next process, and ends the thread. Nothing is
    /// written after it. Blocks for a moment.
    pub fn stop(&self) {
        let Some(thread) = self.thread.lock().take() else { return };
        // A thread that has panicked hears nothing, and writes nothing.
        let _ = self.orders.send(Order::Stop);
        let mut waited = Duration::ZERO;
        while !thread.is_finished() && waited < STOP_TIME_MAX {
            std::thread::sleep(STOP_STEP);
            waited += STOP_STEP;
        }
    }
}

impl Shared {
    /// # Errors
    /// The roots of a CA cannot be used; nothing has changed then.
    fn configure(&self, settings: Settings) -> Result<(), TransportError> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let mut authorities = Vec::new();
        for wanted in &settings.authorities {
            let known = state.authorities.iter().find(|known| known.settings == *wanted).cloned();
            authorities.push(match known {
                Some(known) => known,
                None => Arc::new(Authority::new(wanted.clone(), self.clock.clone())?),
            });
        }
        let record = |wanted: &Arc<Authority>| {
            let directory = &wanted.settings.directory;
            let known = state.records.iter().find(|known| known.directory == *directory).cloned();
            known.unwrap_or_else(|| self.book.authority(directory, now))
        };
        let records = authorities.iter().map(record).collect();
        let mut before = std::mem::take(&mut state.hosts);
        for host in &settings.hosts {
            let able = settings.able(host);
            let Ok(name) = Name::of(host) else { continue };
            let next = match before.remove(host) {
                Some(known) => Host { able, ..known },
                None => Host { entry: self.book.host(&name, now), able, busy: None, name },
            };
            self.show_again(&next);
            state.hosts.insert(host.clone(), next);
        }
        (state.settings, state.authorities, state.records) = (settings, authorities, records);
        Ok(())
    }

    /// Shows the answer of an order that another process began: the CA may ask for it before the order is
    /// taken up.
    fn show_again(&self, host: &Host) {
        if let Some(proof) = proof_of(&host.name, &host.entry.record).filter(|_| host.busy.is_none()) {
            self.outside.show(&proof);
        }
    }

    fn rows(&self) -> Vec<Row> {
        let now = self.clock.now();
        let state = self.state.lock();
        let unnamed = |text: &String| Row {
            host: text.clone(),
            issued_by: None,
            not_after: None,
            step: Step::NeedsFile(Name::of(text).err().unwrap_or(Unorderable::Malformed)),
            last_error: None,
        };
        let row = |(text, host): (&String, &Host)| Row {
            host: text.clone(),
            issued_by: host.entry.record.issued_by.clone(),
            not_after: host.entry.certificate.as_ref().map(|certificate| certificate.held.not_after),
            step: host.step(&state.records, now),
            last_error: host.entry.record.last_error.clone(),
        };
        let others = state.settings.hosts.iter().filter(|text| !state.hosts.contains_key(*text));
        state.hosts.iter().map(row).chain(others.map(unnamed)).collect()
    }

    /// Notes that a CA is asked for an account.
    fn register(&self, directory: &str) -> Result<(), Fault> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let Some(record) = state.records.iter_mut().find(|record| record.directory == directory) else {
            return Err(Fault::outage("the CA is configured no more"));
        };
        if !plan::may_register(record, now) {
            return Err(Fault::outage("the day's budget of new accounts is used"));
        }
        plan::registering(record, now);
        Ok(self.book.write_authority(record)?)
    }
}

impl Host {
    fn known<'a>(&'a self, able: &'a [usize]) -> Known<'a> {
        let held = self.entry.certificate.as_ref().map(|certificate| &certificate.held);
        Known { record: &self.entry.record, held, able }
    }

    fn step(&self, records: &[AuthorityRecord], now: Seconds) -> Step {
        let able = match &self.able {
            Ok(able) => able,
            Err(why) => return Step::NeedsFile(*why),
        };
        if self.busy == Some(Busy::Order) {
            return Step::Orders;
        }
        let renews =
            self.entry.certificate.as_ref().map(|held| plan::renew_at(&held.held, &self.entry.record));
        match (plan::next(self.known(able), records, now), renews) {
            (Next::Order { .. }, _) => Step::Orders,
            (Next::Ask { .. } | Next::Wait { why: Why::Question | Why::Renewal, .. }, Some(at)) => {
                Step::Renews(at)
            }
            (Next::Wait { until, why }, _) => Step::Waits(until, why),
            (Next::Ask { .. }, None) => Step::Orders,
        }
    }
}

/// The thread's side.
struct Driver {
    shared: Arc<Shared>,
    running: JoinSet<Done>,
    tasks: HashMap<Id, Task>,
}

impl Driver {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        loop {
            let sleep = self.begin_due();
            tokio::select! {
                Some(done) = self.running.join_next_with_id() => self.settle(done),
                order = orders.recv() => match order {
                    Some(Order::Configure(settings)) => {
                        if let Err(error) = self.shared.configure(*settings) {
                            tracing::error!(%error, "[acme] stays as it was");
                        }
                    }
                    Some(Order::Look) => {}
                    Some(Order::Stop) | None => return self.put_down().await,
                },
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }

    /// Begins what is due, as far as there is room. Returns how long to sleep at most.
    fn begin_due(&mut self) -> Duration {
        let shared = self.shared.clone();
        let now = shared.clock.now();
        let mut state = shared.state.lock();
        let state = &mut *state;
        let mut sleep_s = SLEEP_MAX.as_secs();
        let mut due = Vec::new();
        for (text, host) in state.hosts.iter().filter(|(_, host)| host.busy.is_none()) {
            let Ok(able) = &host.able else { continue };
            let (authority, busy) = match plan::next(host.known(able), &state.records, now) {
                Next::Wait { until, .. } => {
                    sleep_s = sleep_s.min(until.saturating_sub(now));
                    continue;
                }
                Next::Order { authority } => (authority, Busy::Order),
                Next::Ask { authority } => (authority, Busy::Question),
            };
            due.push((busy, text.clone(), authority));
        }
        // Where a CA is asked for one thing at a time, a question that it cannot answer holds no order up.
        due.sort_by_key(|(busy, ..)| *busy);
        for (busy, text, authority) in due {
            let Some(host) = state.hosts.get_mut(&text) else { continue };
            let directory = &state.records[authority].directory;
            let running = self.tasks.values().filter(|task| task.directory == *directory).count();
            if running >= plan::orders_at_once(&state.records[authority], AT_ONCE_MAX) {
                continue;
            }
            let task = Task { host: text, directory: directory.clone() };
            let (settings, authority) = (&state.settings, state.authorities[authority].clone());
            host.busy = Some(busy);
            let begun = match busy {
                Busy::Order => self.order(host, settings, authority, now),
                Busy::Question => self.question(host, authority),
            };
            match begun {
                Some(id) => drop(self.tasks.insert(id, task)),
                None => host.busy = None,
            }
        }
        Duration::from_secs(sleep_s.max(1))
    }

    fn order(
        &mut self,
        host: &mut Host,
        settings: &Settings,
        authority: Arc<Authority>,
        now: Seconds,
    ) -> Option<Id> {
        let record = &mut host.entry.record;
        let turn = record.failures as usize % settings.challenges.len();
        plan::begun(record, now);
        if let Err(error) = self.shared.book.write_host(&host.name, record) {
            tracing::error!(%error, "no certificate is ordered, since it could not be remembered");
            record.last_error = Some(Mishap { at: now, what: error.to_string() });
            return None;
        }
        let is_issuer = record.issued_by.as_ref() == Some(&authority.settings.directory);
        let held = host.entry.certificate.as_ref().filter(|_| is_issuer);
        let mut attempt = Attempt {
            name: host.name.clone(),
            record: record.clone(),
            challenge: settings.challenges[turn],
            replaces: held.and_then(|certificate| certificate.held.id.clone()),
            authority: authority.clone(),
            book: self.shared.book.clone(),
            clock: self.shared.clock.clone(),
            outside: self.shared.outside.clone(),
            shown: Vec::new(),
        };
        let shared = self.shared.clone();
        let task = self.running.spawn(async move {
            let directory = authority.settings.directory.clone();
            let (result, asked) = noting(attempt.run(|| shared.register(&directory))).await;
            let result = result.map_err(|fault| fault.wait(asked));
            if let Err(fault) = &result {
                if fault.is_account_lost {
                    // It is asked for again by the next attempt; without a file it would be found missing
                    // again.
                    let _ = authority.forget(&shared.book).await;
                } else if matches!(fault.failure, Failure::Outage { .. }) {
                    authority.close().await;
                }
            }
            Done::Order(Box::new(attempt.record), Box::new(result))
        });
        Some(task.id())
    }

    fn question(&mut self, host: &Host, authority: Arc<Authority>) -> Option<Id> {
        let id = host.entry.certificate.as_ref()?.held.id.clone()?;
        let shared = self.shared.clone();
        let task = self.running.spawn(async move {
            let directory = authority.settings.directory.clone();
            let asked = renewal::ask(&authority, &shared.book, &id, || shared.register(&directory));
            let (answer, wait) = noting(asked).await;
            Done::Question(answer.map_err(|fault| fault.wait(wait)))
        });
        Some(task.id())
    }

    fn settle(&mut self, done: Result<(Id, Done), JoinError>) {
        let (id, done) = match done {
            Ok((id, done)) => (id, Some(done)),
            Err(error) => (error.id(), None),
        };
        let Some(task) = self.tasks.remove(&id) else { return };
        let shared = self.shared.clone();
        let now = shared.clock.now();
        let mut state = shared.state.lock();
        let State { hosts, records, .. } = &mut *state;
        let Some(host) = hosts.get_mut(&task.host) else { return };
        host.busy = None;
        let mut gone = AuthorityRecord { directory: task.directory.clone(), ..AuthorityRecord::default() };
        let known = records.iter_mut().find(|record| record.directory == task.directory);
        let authority = known.unwrap_or(&mut gone);
        match done {
            Some(Done::Order(record, result)) => {
                host.entry.record = *record;
                match *result {
                    Ok(certificate) => shared.succeeded(&task, host, authority, certificate),
                    Err(fault) => shared.failed(&task, host, authority, fault, now),
                }
            }
            Some(Done::Question(answer)) => shared.answered(&task, host, authority, answer, now),
            None => shared.failed(&task, host, authority, Fault::refused("the order's task panicked"), now),
        }
    }

    /// Puts all orders down.
    async fn put_down(mut self) {
        self.running.shutdown().await;
        let mut state = self.shared.state.lock();
        for host in state.hosts.values_mut().filter(|host| host.busy.is_some()) {
            // A task may have written more than is known here.
            let mut record = self.shared.book.host(&host.name, self.shared.clock.now()).record;
            if record.failures > 0 {
                plan::put_down(&mut record);
                self.shared.write(&host.name, &record);
            }
        }
    }
}

impl Shared {
    fn write(&self, name: &Name, record: &Record) {
        if let Err(error) = self.book.write_host(name, record) {
            tracing::error!(%error, "cannot remember how an order ended");
        }
    }

    fn write_authority(&self, record: &AuthorityRecord) {
        if let Err(error) = self.book.write_authority(record) {
            tracing::error!(%error, "cannot remember how a CA answered");
        }
    }

    fn succeeded(
        &self,
        task: &Task,
        host: &mut Host,
        authority: &mut AuthorityRecord,
        certificate: Certificate,
    ) {
        let was = (authority.outages, authority.limited);
        plan::issued(&mut host.entry.record, authority, fastrand::u32(0..=1000));
        self.write(&host.name, &host.entry.record);
        if was != (0, 0) {
            self.write_authority(authority);
        }
        tracing::info!(host = task.host, directory = task.directory, "a certificate has come");
        self.outside.issued(issued(&task.host, &certificate));
        host.entry.certificate = Some(certificate);
    }

    fn failed(
        &self,
        task: &Task,
        host: &mut Host,
        authority: &mut AuthorityRecord,
        fault: Fault,
        now: Seconds,
    ) {
        let mishap = Mishap { at: now, what: fault.what.clone() };
        let before = authority.clone();
        plan::failed(&mut host.entry.record, authority, &fault.failure, mishap);
        self.write(&host.name, &host.entry.record);
        if *authority != before {
            self.write_authority(authority);
        }
        let again_at = host.entry.record.not_before.max(authority.not_before);
        let again_s = again_at.saturating_sub(now);
        tracing::warn!(
            host = task.host,
            directory = task.directory,
            again_s,
            "no certificate: {}",
            fault.what
        );
        self.outside.failed(Failed {
            host: task.host.clone(),
            directory: task.directory.clone(),
            what: fault.what,
            again_at,
            not_after: host.entry.certificate.as_ref().map(|certificate| certificate.held.not_after),
        });
    }

    fn answered(
        &self,
        task: &Task,
        host: &mut Host,
        authority: &mut AuthorityRecord,
        answer: Result<Option<renewal::Answer>, Fault>,
        now: Seconds,
    ) {
        let record = &mut host.entry.record;
        match answer {
            Ok(Some(answer)) => {
                if !plan::asked(record, answer.window, answer.again_s, now) {
                    tracing::warn!(host = task.host, "the CA's window for renewal ends before it begins");
                } else if let Some(why) = answer.explanation {
                    tracing::info!(host = task.host, why, "the CA explains when to renew");
                }
            }
            Ok(None) => plan::unknown(record, now),
            Err(fault) => {
                plan::unanswered(record, now);
                if let Failure::Outage { retry_after } = fault.failure {
                    plan::paused(authority, retry_after, Mishap { at: now, what: fault.what.clone() });
                    self.write_authority(authority);
                }
                tracing::warn!(host = task.host, "the CA does not say when to renew: {}", fault.what);
            }
        }
        self.write(&host.name, &host.entry.record);
    }
}
