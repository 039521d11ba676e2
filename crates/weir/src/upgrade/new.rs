//! The new process's side: it takes what the old one offers, reports its progress, and handles what the old
//! one still sends.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail};
use weir_config::value::ListenAddress;
use weir_control::{AdminListener, StateFolder};
use weir_front::HandedOver;
use weir_front::listen::{Family, Keeper, PassedListener, Peer};
use weir_store::Mark;

use super::before::Old;
use super::link::{Link, Received};
use super::living::Living;
use super::message::{LEVEL, Message, PROTOCOL, Tls};
use super::{BY_STDIN, VARIABLE};
use crate::wire_up::Server;

/// How long the old process may take for each of its steps. None of them waits for a client.
const STEP_TIME_MAX: Duration = Duration::from_secs(30);

/// The error when the old process was told to end.
const ENDS: &str = "the running Weir was told to end";
/// How long an old process that has gone silent may take to end.
const END_TIME_MAX: Duration = Duration::from_secs(5);

/// What the old process offers.
pub(crate) struct UpgradeOffer {
    link: Link,
    /// The old process.
    pub(crate) pid: u32,
    /// See [`LEVEL`].
    pub(crate) level: u32,
    old: Living,
    state: PathBuf,
    lock: Option<OwnedFd>,
    control: Option<OwnedFd>,
    admin: Option<(String, OwnedFd)>,
    listeners: Vec<PassedListener>,
    tickets: Vec<u8>,
    origins: Option<OwnedFd>,
}

impl UpgradeOffer {
    /// What the process that has started this one offers; `None` where there is no offer.
    pub(crate) fn offered() -> anyhow::Result<Option<UpgradeOffer>> {
        if std::env::var_os(VARIABLE).is_none_or(|value| value != BY_STDIN) {
            return Ok(None);
        }
        let stdin = io::stdin().as_fd().try_clone_to_owned()?;
        let is_link = rustix::net::sockopt::socket_type(&stdin) == Ok(rustix::net::SocketType::SEQPACKET);
        if !is_link {
            // The parent was itself started to take over, and left the variable.
            return Ok(None);
        }
        // The link closes when this process drops its own handle.
        rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
        UpgradeOffer::receive(Link::over(stdin)?).map(Some).context("cannot take over from the running Weir")
    }

    fn receive(link: Link) -> anyhow::Result<UpgradeOffer> {
        let Received { message, mut sockets, bytes: tickets } = next(&link)?;
        let Message::Offer { protocol, state, pid, level } = message else {
            bail!("it did not begin with an offer")
        };
        let (control, lock, origins) = (sockets.pop(), sockets.pop(), sockets.pop());
        let (admin, listeners, old) = (None, Vec::new(), Living::of(pid));
        let mut offered =
            UpgradeOffer { link, pid, level, old, state, lock, control, admin, listeners, tickets, origins };
        if protocol != PROTOCOL {
            let why = format!(
                "it speaks version {protocol} of the handover, and this program version \
                               {PROTOCOL}"
            );
            offered.fail(&why);
            bail!(why);
        }
        loop {
            let Received { message, sockets, .. } = next(&offered.link)?;
            match message {
                Message::Offered => return Ok(offered),
                Message::Admin { address } => {
                    offered.admin = sockets.into_iter().next().map(|socket| (address, socket));
                }
                Message::Listener { address, managed } => offered.add(&address, managed, sockets)?,
                _ => bail!("it said something unexpected"),
            }
        }
    }

    fn add(&mut self, address: &str, managed: bool, sockets: Vec<OwnedFd>) -> anyhow::Result<()> {
        let address: weir_front::listen::Address = address.parse()?;
        let keeper = if managed { Keeper::Manager } else { Keeper::Listener };
        match self.listeners.iter_mut().find(|listener| listener.address == address) {
            Some(known) => known.sockets.extend(sockets),
            None => self.listeners.push(PassedListener { address, sockets, keeper }),
        }
        Ok(())
    }

    /// Tells the old process why this one cannot take over.
    pub(crate) fn fail(&self, why: &str) {
        // It sees this process end in any case.
        let _ = self.link.say(&Message::Failed { why: why.to_owned() });
    }

    /// The state folder with its lock and its control socket.
    pub(crate) fn state(&mut self, wanted: &Path) -> anyhow::Result<(StateFolder, UnixListener)> {
        let is_same = wanted.canonicalize().is_ok_and(|wanted| wanted == self.state);
        if !is_same {
            bail!(
                "the running Weir's state folder is {}, and this one is to use {}; stop the running one to \
                 change it",
                self.state.display(),
                wanted.display()
            );
        }
        let (Some(lock), Some(control)) = (self.lock.take(), self.control.take()) else {
            bail!("the running Weir did not offer its state folder");
        };
        Ok((StateFolder::inherit(wanted, lock)?, control.into()))
    }

    /// The admin listener, if the new address is the same.
    pub(crate) fn admin(&mut self, wanted: &ListenAddress) -> Option<AdminListener> {
        let (_, socket) = self.admin.take_if(|(address, _)| *address == wanted.to_string())?;
        Some(AdminListener::inherit(wanted, socket))
    }

    /// The listening sockets.
    pub(crate) fn listeners(&mut self) -> Vec<PassedListener> {
        std::mem::take(&mut self.listeners)
    }

    /// The file in which the old process says what it knows of origins, before it releases the ledger.
    pub(crate) fn origins(&mut self) -> Option<OwnedFd> {
        self.origins.take()
    }

    /// The keys of session tickets, so that clients resume their sessions here.
    pub(crate) fn tickets(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.tickets)
    }

    /// Reports that this process is prepared, and waits until the ledger is closed.
    pub(crate) fn prepared(&self) -> anyhow::Result<()> {
        let prepared = Message::Prepared { version: env!("CARGO_PKG_VERSION").to_owned(), level: LEVEL };
        match self.ask(&prepared)? {
            Some(Message::Released) | None => Ok(()),
            Some(Message::Ends) => bail!(ENDS),
            _ => bail!("the running Weir did not release its ledger"),
        }
    }

    /// Reports that this process takes connections, and waits until everything belongs to it. Returns what is
    /// to be attended from then on.
    pub(crate) fn ready(self) -> anyhow::Result<Old> {
        match self.ask(&Message::Ready)? {
            Some(Message::Yours) | None => Ok(Old::replaced_now(self.pid, self.link, self.level)),
            Some(Message::Ends) => bail!(ENDS),
            _ => bail!("the running Weir did not hand over"),
        }
    }

    /// Reports the progress of this process, and waits for the old one's next message; `None` where the old
    /// one has ended. It has offered everything by then: what it leaves belongs to this process, as after a
    /// kill.
    fn ask(&self, told: &Message) -> anyhow::Result<Option<Message>> {
        let answered = match self.link.say(told) {
            Err(error) if !is_gone(&error) => return Err(error.into()),
            // It may have sent something before it ended.
            _ => self.link.receive(Some(STEP_TIME_MAX))?,
        };
        if let Some(received) = answered {
            return Ok(Some(received.message));
        }
        // An old process that takes everything back ends this one first, but it may have been unable to.
        if !self.old.ends_within(END_TIME_MAX) {
            bail!("the running Weir has taken it back");
        }
        tracing::warn!(
            old_pid = self.pid,
            "the old process ended before the handover was complete; this one \
                                            goes on"
        );
        Ok(None)
    }
}

/// Whether the other end of the link is gone.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn next(link: &Link) -> anyhow::Result<Received> {
    link.receive(Some(STEP_TIME_MAX))?.context("the running Weir has taken it back")
}

/// A connection of an old process, as its message says it.
pub(crate) struct Moved {
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) unix: bool,
    pub(crate) port: Option<u16>,
    pub(crate) tls: Option<Tls>,
    pub(crate) input: Vec<u8>,
}

impl Server {
    /// Continues a connection of an old process.
    pub(crate) fn adopt_of(&self, socket: OwnedFd, moved: Moved) {
        let Moved { peer, unix, port, tls, input } = moved;
        let family = if unix { Family::Unix } else { Family::Tcp };
        let peer = peer.map_or(Peer::Unix, Peer::Ip);
        let relayed = tls.map(Tls::relayed);
        self.adopt(HandedOver { socket, family, peer, port, input, relayed, held: None });
    }
}

/// Reports that this process answers commands.
pub(crate) fn settled(old: Old) -> Old {
    if let Err(error) = old.link.say(&Message::Settled) {
        tracing::warn!(%error, "cannot tell the old process that it has been replaced");
    }
    old
}

/// Makes marks of the old process durable; blocks.
pub(crate) fn mark(server: &Server, bytes: &[u8]) -> Result<(), String> {
    let marks = Mark::of_bytes(bytes).ok_or("marks that are none")?;
    let (done, durable) = mpsc::channel();
    let acknowledge = move |written: Result<_, weir_store::Unwritten>| {
        // A caller that no longer waits need not know.
        let _ = done.send(written.map(|_| ()).map_err(|error| error.to_string()));
    };
    server.mark(&marks, Box::new(acknowledge));
    durable.recv().unwrap_or_else(|_| Err("the ledger's thread has ended".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(pid: u32) -> (UpgradeOffer, Link) {
        let (here, there) = Link::pair().unwrap();
        let (link, old) = (Link::over(there).unwrap(), Living::of(pid));
        let (state, admin, listeners) = (PathBuf::new(), None, Vec::new());
        let (tickets, origins, lock, control) = (Vec::new(), None, None, None);
        let level = LEVEL;
        (
            UpgradeOffer { link, pid, level, old, state, lock, control, admin, listeners, tickets, origins },
            here,
        )
    }

    /// A process that has ended and is waited for by nobody yet.
    fn ended() -> std::process::Child {
        let mut child =
            std::process::Command::new("true").stdout(std::process::Stdio::piped()).spawn().unwrap();
        io::Read::read_to_end(child.stdout.as_mut().unwrap(), &mut Vec::new()).unwrap();
        child
    }

    #[test]
    fn whoever_has_everything_goes_on_where_the_old_process_has_ended_without_a_word() {
        let mut old = ended();
        let (offered, here) = offer(old.id());
        drop(here);
        offered.prepared().unwrap();
        assert!(offered.ready().is_ok());
        // With what was said to it still unread.
        let (offered, here) = offer(old.id());
        offered.link.say(&Message::Ready).unwrap();
        drop(here);
        assert!(offered.ready().is_ok());
        old.wait().unwrap();
    }

    #[test]
    fn one_that_lives_and_lets_go_has_taken_it_back() {
        let (offered, here) = offer(std::process::id());
        drop(here);
        let offered = UpgradeOffer { old: Living::of(std::process::id()), ..offered };
        let why = offered.prepared().unwrap_err().to_string();
        assert_eq!(why, "the running Weir has taken it back");
        // Of one that was never there nothing is known.
        assert!(!Living::of(u32::MAX).ends_within(Duration::ZERO));
    }

    #[test]
    fn what_it_says_counts() {
        let (offered, here) = offer(std::process::id());
        here.say(&Message::Released).unwrap();
        offered.prepared().unwrap();
        here.say(&Message::Yours).unwrap();
        assert!(offered.ready().is_ok());
        let (offered, here) = offer(std::process::id());
        here.say(&Message::Yours).unwrap();
        assert!(offered.prepared().is_err());
    }
}
