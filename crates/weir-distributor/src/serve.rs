//! Answering questions, as a distributor: over datagrams, TCP and unix sockets, on one thread for each core.
//!
//! No answer is longer than its question, so that a question with a false sender serves no attack. What a
//! source may ask is bounded. It must not know what a policy is: a function answers.

mod datagrams;
mod places;
mod sources;
mod streams;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use ipnet::IpNet;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::watch;

use crate::ask::Form;
use crate::format::{Answer, Bad, Keys, Question};
use crate::place::Place;
use crate::seldom::Seldom;

/// Answers a question. It must not block.
pub type Answerer = Arc<dyn Fn(&Question<'_>) -> Answer + Send + Sync>;

/// What a reload may change of a server.
#[derive(Clone)]
pub struct Terms {
    /// What signs.
    pub keys: Keys,
    /// What questions look like.
    pub form: Form,
    /// Who may ask; over unix sockets everybody who may open them.
    pub allow: Vec<IpNet>,
    /// The most questions of one address in a second, on each thread.
    pub rate: u32,
    /// Answers.
    pub answer: Answerer,
}

/// What became of questions, since the start.
#[derive(Debug, Default)]
pub struct Served {
    counts: [AtomicU64; What::ALL.len()],
    forged: Seldom,
    refused: Seldom,
    malformed: Seldom,
}

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum What {
    /// A question.
    Questions,
    /// An answer with an address.
    Addresses,
    /// An answer with a denial.
    Denials,
    /// An answer that says nothing.
    Nothing,
    /// Bytes that are no question.
    Malformed,
    /// A question of another version of the format.
    Version,
    /// A question that no known key has signed.
    Forged,
    /// A question of somebody who may not ask.
    Refused,
    /// A question beyond what an address may ask.
    TooMany,
    /// An answer that could not be sent, or is longer than its question.
    Unsent,
    /// A connection.
    Connections,
}

impl What {
    /// All of them, in the order of their numbers.
    pub const ALL: [What; 11] = [
        What::Questions,
        What::Addresses,
        What::Denials,
        What::Nothing,
        What::Malformed,
        What::Version,
        What::Forged,
        What::Refused,
        What::TooMany,
        What::Unsent,
        What::Connections,
    ];

    /// The word for metrics and status.
    pub fn word(self) -> &'static str {
        match self {
            What::Questions => "questions",
            What::Addresses => "addresses",
            What::Denials => "denials",
            What::Nothing => "nothing",
            What::Malformed => "malformed",
            What::Version => "version",
            What::Forged => "forged",
            What::Refused => "refused",
            What::TooMany => "too_many",
            What::Unsent => "unsent",
            What::Connections => "connections",
        }
    }
}

impl From<Bad> for What {
    fn from(bad: Bad) -> What {
        match bad {
            Bad::Malformed => What::Malformed,
            Bad::Version => What::Version,
            Bad::Forged => What::Forged,
        }
    }
}

impl Served {
    pub(crate) fn add(&self, what: What) {
        self.counts[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what is not answered, and says seldom whose it was.
    fn dropped(&self, what: What, from: IpAddr) {
        self.add(what);
        let (seldom, why) = match what {
            What::Forged => (&self.forged, "no key of `key_file` has signed it"),
            What::Refused => (&self.refused, "`allow` does not have its address"),
            What::Malformed | What::Version => (&self.malformed, "it has not the form; see `form`"),
            _ => return,
        };
        if seldom.is_due() {
            let times = self.get(what);
            tracing::warn!(%from, what = what.word(), times, "a question is not answered: {why}");
        }
    }

    fn answered(&self, answer: &Answer) {
        self.add(match answer {
            Answer::Address(_) => What::Addresses,
            Answer::Denial { .. } => What::Denials,
            Answer::Nothing => What::Nothing,
        });
    }

    /// How many.
    pub fn get(&self, what: What) -> u64 {
        self.counts[what as usize].load(Ordering::Relaxed)
    }
}

/// A server that runs until it is dropped.
pub struct Server {
    terms: Arc<ArcSwap<Terms>>,
    served: Arc<Served>,
    listening: Vec<Place>,
    sockets: Vec<PathBuf>,
    closing: Option<watch::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

/// What one thread listens on.
#[derive(Default)]
struct Listeners {
    datagrams: Vec<UdpSocket>,
    tcp: Vec<std::net::TcpListener>,
    unix: Vec<UnixListener>,
}

/// What the tasks of a thread share.
#[derive(Clone)]
struct Room {
    terms: Arc<ArcSwap<Terms>>,
    served: Arc<Served>,
}

impl Server {
    /// Listens at these places and answers, on so many threads.
    ///
    /// # Errors
    /// With the place that cannot be listened at.
    pub fn start(listen: &[Place], threads: usize, terms: Terms) -> Result<Server, (Place, io::Error)> {
        let mut all: Vec<Listeners> = (0..threads.max(1)).map(|_| Listeners::default()).collect();
        let (mut listening, mut sockets) = (Vec::new(), Vec::new());
        for place in listen {
            let bound = bind(place, &mut all).map_err(|error| (place.clone(), error))?;
            if let Place::Unix(path) = &bound {
                sockets.push(path.clone());
            }
            listening.push(bound);
        }
        let room = Room { terms: Arc::new(ArcSwap::from_pointee(terms)), served: Arc::default() };
        let closing = watch::Sender::new(());
        let mut server = Server {
            terms: room.terms.clone(),
            served: room.served.clone(),
            listening,
            sockets,
            closing: None,
            threads: Vec::new(),
        };
        for (at, listeners) in all.into_iter().enumerate() {
            let (room, closed) = (room.clone(), closing.subscribe());
            let thread = std::thread::Builder::new().name(format!("weir-answer-{at}"));
            let thread = thread.spawn(move || run(listeners, room, closed));
            server.threads.push(thread.map_err(|error| (listen[0].clone(), error))?);
        }
        server.closing = Some(closing);
        Ok(server)
    }

    /// Answers otherwise from now on.
    pub fn change(&self, terms: Terms) {
        self.terms.store(Arc::new(terms));
    }

    /// What became of questions.
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// Where it listens, with the ports that it got.
    pub fn listening(&self) -> &[Place] {
        &self.listening
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.closing = None;
        for thread in self.threads.drain(..) {
            // A thread that has panicked has said so.
            let _ = thread.join();
        }
        for path in &self.sockets {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Listens at a place, for all threads. The place with its port.
fn bind(place: &Place, all: &mut [Listeners]) -> io::Result<Place> {
    match place {
        Place::Udp(address) => {
            let mut address = *address;
            for listeners in all {
                let socket = open(address, Type::DGRAM)?;
                // Without the right to more, the system gives as much as it allows.
                if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES).is_err() {
                    socket.set_recv_buffer_size(RECEIVE_BYTES)?;
                }
                let socket = UdpSocket::from(socket);
                address = socket.local_addr()?;
                listeners.datagrams.push(socket);
            }
            Ok(Place::Udp(address))
        }
        Place::Tcp(address) => {
            let mut address = *address;
            for listeners in all {
                let socket = open(address, Type::STREAM)?;
                socket.listen(1024)?;
                let socket = std::net::TcpListener::from(socket);
                address = socket.local_addr()?;
                listeners.tcp.push(socket);
            }
            Ok(Place::Tcp(address))
        }
        Place::Unix(path) => {
            let listener = bind_path(path)?;
            listener.set_nonblocking(true)?;
            for listeners in all {
                listeners.unix.push(listener.try_clone()?);
            }
            Ok(Place::Unix(path.clone()))
        }
    }
}

/// What the system is asked to hold of questions that were not read yet.
const RECEIVE_BYTES: usize = 8 << 20;

fn open(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let protocol = if kind == Type::DGRAM { Protocol::UDP } else { Protocol::TCP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_port(true)?;
    if kind == Type::STREAM {
        socket.set_reuse_address(true)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// A socket in the file system. One that nobody listens on any more is removed before.
fn bind_path(path: &PathBuf) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_refused = std::os::unix::net::UnixStream::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            if !is_refused {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}

fn run(listeners: Listeners, room: Room, mut closing: watch::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!("a thread that answers cannot start: {error}"),
    };
    runtime.block_on(async {
        let sources = sources::Sources::shared();
        for socket in listeners.datagrams {
            tokio::spawn(datagrams::answer(socket, room.clone(), sources.clone()));
        }
        // Those over TCP take nothing from those over unix sockets.
        let [tcp, unix] = [(); 2].map(|()| places::Places::shared());
        for listener in listeners.tcp {
            tokio::spawn(streams::accept_tcp(listener, room.clone(), sources.clone(), tcp.clone()));
        }
        for listener in listeners.unix {
            tokio::spawn(streams::accept_unix(listener, room.clone(), sources.clone(), unix.clone()));
        }
        // It says nothing: it is dropped.
        let _ = closing.changed().await;
    });
    runtime.shutdown_timeout(Duration::from_millis(100));
}

/// Reads a question in either form and answers it behind what stands in `out`.
///
/// # Errors
/// As what it counts: it is not answered.
fn answered(bytes: &[u8], terms: &Terms, served: &Served, out: &mut Vec<u8>) -> Result<(), What> {
    let from = out.len();
    let answer = match terms.form {
        Form::Full => {
            let question = Question::read(bytes, &terms.keys)?;
            served.add(What::Questions);
            let answer = without_scope((terms.answer)(&question));
            answer.write(question.id, &terms.keys, out);
            answer
        }
        Form::Plain => {
            let (policy, client, head) = crate::format::read_plain_question(bytes)?;
            served.add(What::Questions);
            let marks = crate::format::Marks::default();
            let question = Question { id: 0, marks, policy, client, head };
            let answer = without_scope((terms.answer)(&question));
            out.extend_from_slice(crate::format::plain_answer_text(&answer).as_bytes());
            answer
        }
    };
    if out.len() - from > bytes.len() {
        out.truncate(from);
        return Err(What::Unsent);
    }
    served.answered(&answer);
    Ok(())
}

/// A scope means something on this machine only.
fn without_scope(answer: Answer) -> Answer {
    match answer {
        Answer::Address(address) => Answer::Address(SocketAddr::new(address.ip(), address.port())),
        answer => answer,
    }
}
