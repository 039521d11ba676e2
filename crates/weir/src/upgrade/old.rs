//! The old process's side: it starts the new one, hands everything over, and takes everything back where the
//! new one fails to start.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use weir_control::{ControlThread, StateFolder, UpgradeOrder, Upgraded};
use weir_front::HandedOver;
use weir_front::listen::{Family, Keeper, Peer};
use weir_store::{Mark, Successor};

use super::link::{Link, Received, SOCKETS_MAX};
use super::message::{LEVEL, Message, PROTOCOL, Tls};
use super::origins;
use super::{BY_STDIN, VARIABLE};
use crate::service::Service;
use crate::wire_up::Server;

/// How long a new process may take to read its configuration.
const PREPARE_TIME_MAX: Duration = Duration::from_secs(60);
/// How long workers may take to shut their gates.
const SHUT_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a new process may take to open the ledger and to start. No request begins meanwhile.
const READY_TIME_MAX: Duration = Duration::from_secs(15);
/// How long the control plane may take to stop taking commands.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(1);
/// How long the volumes may take to write their queues.
const VOLUMES_PATIENCE: Duration = Duration::from_secs(10);
/// How long the new process may take to make marks durable.
const MARKS_TIME_MAX: Duration = Duration::from_secs(10);
/// How long to wait for the new process to answer commands before the order is answered.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a failing process may take to say why, and to end.
const LAST_WORDS_TIME_MAX: Duration = Duration::from_millis(500);
/// How long a process that was killed is waited for.
const GONE_TIME_MAX: Duration = Duration::from_secs(5);
/// Between two looks whether the process has ended.
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// Marks in one message.
const MARKS_MAX: usize = 1024;

/// How this process was started, to start the new one the same way.
#[derive(Debug)]
pub(crate) struct Invocation {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Invocation {
    /// Call it before the file can have been replaced.
    pub(crate) fn of_this_process() -> Invocation {
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("weir"));
        Invocation { program, arguments: std::env::args_os().skip(1).collect() }
    }
}

/// The listening sockets of the control plane, until they are another process's.
pub(crate) struct ControlSockets {
    pub(crate) control: OwnedFd,
    pub(crate) admin: OwnedFd,
}

/// The process that has taken over, as this one knows it.
#[derive(Clone)]
pub(crate) struct NewProcess {
    pub(crate) link: Arc<Link>,
    /// See [`LEVEL`].
    pub(crate) level: u32,
}

/// What the new process tells this one to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// End within that time.
    EndWithin(Duration),
    /// Open the log files again.
    ReopenLogs,
}

/// Everything that an upgrade hands over.
pub(crate) struct Upgrader {
    pub(crate) invocation: Invocation,
    pub(crate) server: Arc<Server>,
    pub(crate) state: Arc<StateFolder>,
    pub(crate) service: Arc<Service>,
    pub(crate) control: ControlThread,
    pub(crate) sockets: Mutex<Option<ControlSockets>>,
    pub(crate) admin_address: String,
    /// Notified once everything is handed over.
    pub(crate) handed_over: Arc<Notify>,
    pub(crate) new_process: Mutex<Option<NewProcess>>,
    /// What the new process says; nothing more comes once that has gone.
    pub(crate) told: Mutex<Option<UnboundedReceiver<Told>>>,
    /// The link to a process that is to take over and has not yet.
    pub(crate) coming: Mutex<Option<Arc<Link>>>,
}

impl Upgrader {
    /// Starts a new process and hands everything over to it. Blocks.
    ///
    /// # Errors
    /// Why the new process failed. Then everything is as before.
    pub(crate) fn upgrade(&self, order: &UpgradeOrder) -> Result<Upgraded, String> {
        let mut new_process = self.new_process.try_lock().ok_or("an upgrade is already under way")?;
        if new_process.is_some() {
            return Err("this process has been replaced already".to_owned());
        }
        let begun = weir_clock::now().mono;
        let since = |from: std::time::Instant| {
            u64::try_from((weir_clock::now().mono - from).as_millis()).unwrap_or(u64::MAX)
        };
        // Before the gates are shut: a drive that hangs would keep all requests waiting behind them.
        self.server.prove_state()?;
        let (link, there) = Link::pair().map_err(|error| format!("cannot make a socket pair: {error}"))?;
        let link = Arc::new(link);
        let mut child = Started::start(&self.invocation, order.program.as_deref(), there)?;
        let origins = origins::file().map_err(|error| format!("cannot make a file in memory: {error}"))?;
        let offered =
            self.offer(&link, &origins).map_err(|error| format!("cannot offer the sockets: {error}"));
        offered.map_err(|why| child.failed(&link, why))?;
        *self.coming.lock() = Some(link.clone());
        let (version, level) = child.expect(&link, PREPARE_TIME_MAX, |message| match message {
            Message::Prepared { version, level } => Some((version, level)),
            _ => None,
        })?;
        let paused = weir_clock::now().mono;
        if let Err(why) = self.pause(&origins).and_then(|()| child.release(&link)) {
            let why = child.failed(&link, why);
            // The new process is gone: the ledger belongs to this one again.
            self.server.resume();
            return Err(why);
        }
        let pid = child.pid();
        self.hand_over(&link, pid);
        *new_process = Some(NewProcess { link, level });
        let upgraded = Upgraded {
            pid,
            version,
            old_pid: std::process::id(),
            took_ms: since(begun),
            paused_ms: since(paused),
        };
        tracing::info!(
            pid,
            version = upgraded.version,
            paused_ms = upgraded.paused_ms,
            "a new process has taken over"
        );
        self.handed_over.notify_one();
        Ok(upgraded)
    }

    /// This process was told to end, so the new one must end too. The new one must not believe that this one
    /// was killed.
    pub(crate) fn end_coming(&self) {
        if let Some(coming) = self.coming.lock().take() {
            // A process that has gone need not be told.
            let _ = coming.say(&Message::Ends);
        }
    }

    /// Has the new process attend the old ones before this one. Blocks.
    pub(crate) fn hand_on_others(&self) {
        let Some(new_process) = self.new_process.lock().clone() else { return };
        if new_process.level > 0 {
            self.server.hand_on(&new_process.link);
        }
    }

    /// Closes the volumes and says so to the new process. Blocks.
    pub(crate) fn hand_over_volumes(&self) {
        let Some(new_process) = self.new_process.lock().clone() else { return };
        self.server.close_volumes(VOLUMES_PATIENCE);
        if let Err(error) = new_process.link.say(&Message::Volumes) {
            tracing::error!(%error, "cannot tell the new process that the volumes are closed");
        }
    }

    fn offer(&self, link: &Link, origins: &File) -> io::Result<()> {
        let (state, pid) = (self.state.path().canonicalize()?, std::process::id());
        let offer = Message::Offer { protocol: PROTOCOL, state, pid, level: LEVEL };
        let tickets = self.server.certificates.export_tickets();
        let known = origins.try_clone()?.into();
        let (control, admin) = match &*self.sockets.lock() {
            Some(sockets) => (sockets.control.try_clone()?, sockets.admin.try_clone()?),
            None => return Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        link.send(&offer, &tickets, &[known, self.state.copy_lock()?, control])?;
        link.send(&Message::Admin { address: self.admin_address.clone() }, &[], &[admin])?;
        for listener in self.server.copy_listeners()? {
            let managed = listener.keeper == Keeper::Manager;
            for sockets in listener.sockets.chunks(SOCKETS_MAX) {
                let listener = Message::Listener { address: listener.address.to_string(), managed };
                link.send(&listener, &[], sockets)?;
            }
        }
        link.say(&Message::Offered)
    }

    /// Lets no request begin, says what is known of origins, and closes the ledger.
    fn pause(&self, origins: &File) -> Result<(), String> {
        if !self.server.shut(SHUT_TIME_MAX) {
            return Err("the workers are too busy to stop; try again".to_owned());
        }
        if let Err(error) = origins::write(origins, &self.server) {
            tracing::warn!(%error, "cannot hand over what is known of origins");
        }
        self.server.release_ledger()
    }

    /// The new process is running: everything belongs to it now.
    fn hand_over(&self, link: &Arc<Link>, pid: u32) {
        if !self.control.close(CLOSE_TIME_MAX) {
            tracing::warn!("the control plane is busy; the old process may still answer a command");
        }
        self.state.hand_over();
        // Should the new process fail, another one can have them at once.
        drop(self.sockets.lock().take());
        self.server.observatory.history.leave();
        self.service.main_is_now(pid);
        let (handover, departing) = mpsc::channel();
        if let Err(error) = attend_departures(link.clone(), departing) {
            tracing::error!(%error, "cannot start the thread for connections; they are closed instead");
        }
        if let Err(error) = link.say(&Message::Yours) {
            tracing::error!(%error, "the new process has ended at once");
        }
        *self.coming.lock() = None;
        self.server.leave(&handover);
        match link.receive(Some(SETTLE_TIME_MAX)) {
            Ok(Some(Received { message: Message::Settled, .. })) => {}
            other => tracing::warn!(?other, "the new process did not report that it answers commands"),
        }
        let ((answers, taken), (tells, told)) = (mpsc::channel(), unbounded_channel());
        *self.told.lock() = Some(told);
        if let Err(error) = attend_answers(link.clone(), answers, tells) {
            tracing::error!(%error, "cannot start the thread for the ledger; marks made here are lost when \
                                     this process ends");
        }
        self.server.hand_over_ledger(Box::new(Marker { link: link.clone(), taken }));
    }
}

/// A process that is to take over.
struct Started(Option<Child>);

impl Started {
    fn start(invocation: &Invocation, program: Option<&Path>, there: OwnedFd) -> Result<Started, String> {
        let program = program.unwrap_or(&invocation.program);
        let child = Command::new(program)
            .args(&invocation.arguments)
            .env(VARIABLE, BY_STDIN)
            .stdin(Stdio::from(there))
            .spawn();
        let child = child.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        Ok(Started(Some(child)))
    }

    fn pid(&self) -> u32 {
        self.0.as_ref().map_or(0, Child::id)
    }

    /// Lets the new process open the ledger, and waits until it takes connections.
    fn release(&mut self, link: &Link) -> Result<(), String> {
        let said = link.say(&Message::Released).map_err(|error| error.to_string());
        said.map_err(|why| self.failed(link, why))?;
        self.expect(link, READY_TIME_MAX, |message| matches!(message, Message::Ready).then_some(()))
    }

    /// Waits for one message. Ends the process if the message does not come.
    fn expect<T>(
        &mut self,
        link: &Link,
        patience: Duration,
        read: impl FnOnce(Message) -> Option<T>,
    ) -> Result<T, String> {
        let why = match link.receive(Some(patience)) {
            Ok(Some(received)) => match received.message {
                Message::Failed { why } => return Err(self.end(why)),
                message => match read(message) {
                    Some(read) => return Ok(read),
                    None => "it said something unexpected".to_owned(),
                },
            },
            Ok(None) => String::new(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                format!("it was not ready within {} s", patience.as_secs())
            }
            Err(error) => error.to_string(),
        };
        Err(self.failed(link, why))
    }

    /// Ends the process, if it does not end by itself, and returns what happened. The process writes nothing
    /// after this returns.
    fn failed(&mut self, link: &Link, why: String) -> String {
        if self.0.is_none() {
            return why;
        }
        // Its own last words say more than what was noticed here.
        let why = match link.receive(Some(LAST_WORDS_TIME_MAX)) {
            Ok(Some(Received { message: Message::Failed { why }, .. })) => why,
            Ok(None) => String::new(),
            _ => why,
        };
        self.end(why)
    }

    /// As [`Started::failed`], when the reason is known; with an empty reason its exit status is reported.
    fn end(&mut self, why: String) -> String {
        let Some(mut child) = self.0.take() else { return why };
        let until = weir_clock::now().mono + LAST_WORDS_TIME_MAX;
        let ended = loop {
            match child.try_wait() {
                Ok(None) if why.is_empty() && weir_clock::now().mono < until => {
                    std::thread::sleep(LOOK_PAUSE)
                }
                ended => break ended.ok().flatten(),
            }
        };
        let _ = child.kill();
        let how = ended.or_else(|| gone(&mut child)).map_or_else(
            || "it waits for a drive, and ends when that answers".to_owned(),
            |how| how.to_string(),
        );
        match why.is_empty() {
            true => format!("the new process ended before it was ready ({how}); the old one goes on"),
            false => format!("the new process did not start, the old one goes on: {}", why.trim_end()),
        }
    }
}

/// Waits for the end of a process that was killed. One that waits for a drive in the kernel may take long,
/// and does nothing more than that.
fn gone(child: &mut Child) -> Option<ExitStatus> {
    let until = weir_clock::now().mono + GONE_TIME_MAX;
    loop {
        match child.try_wait() {
            Ok(None) if weir_clock::now().mono < until => std::thread::sleep(LOOK_PAUSE),
            ended => return ended.ok().flatten(),
        }
    }
}

/// Sends connections to the new process until there are none left.
fn attend_departures(link: Arc<Link>, departing: Receiver<HandedOver>) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("weir-handover".to_owned());
    thread.spawn(move || {
        for HandedOver { socket, family, peer, port, input, relayed, held } in departing {
            let peer = match peer {
                Peer::Ip(at) => Some(at),
                Peer::Unix | Peer::Itself => None,
            };
            let (unix, tls) = (family == Family::Unix, relayed.map(Tls::of));
            let connection = Message::Connection { peer, unix, port, tls };
            if let Err(error) = link.send(&connection, &input, &[socket]) {
                tracing::debug!(%error, "connection lost on its way to the new process");
            }
            // This process may end from now on.
            drop(held);
        }
    })?;
    Ok(())
}

/// Reads what the new process says until it has gone.
fn attend_answers(
    link: Arc<Link>,
    answers: mpsc::Sender<Option<String>>,
    tells: UnboundedSender<Told>,
) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("weir-new-link".to_owned());
    thread.spawn(move || {
        while let Ok(Some(received)) = link.receive(None) {
            // What nobody waits for any more need not be known.
            let _ = match received.message {
                Message::Taken { failure } => answers.send(failure).is_ok(),
                Message::EndWithin { ms } => tells.send(Told::EndWithin(Duration::from_millis(ms))).is_ok(),
                Message::ReopenLogs => tells.send(Told::ReopenLogs).is_ok(),
                _ => false,
            };
        }
    })?;
    Ok(())
}

/// Sends marks to the process that writes the ledger.
struct Marker {
    link: Arc<Link>,
    taken: Receiver<Option<String>>,
}

impl Successor for Marker {
    fn take(&mut self, marks: &[Mark]) -> io::Result<()> {
        for marks in marks.chunks(MARKS_MAX) {
            self.link.send(&Message::Marks, &Mark::to_bytes(marks), &[])?;
            match self.taken.recv_timeout(MARKS_TIME_MAX) {
                Ok(None) => {}
                Ok(Some(failure)) => return Err(io::Error::other(failure)),
                Err(RecvTimeoutError::Timeout) => return Err(io::Error::from(io::ErrorKind::TimedOut)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("the new process has gone"));
                }
            }
        }
        Ok(())
    }
}
