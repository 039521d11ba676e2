//! The load over HTTP/1: all users on one epoll, in one thread, until the bound is reached.
//!
//! A timed load stops counting at its end, in the middle of responses. A counted load waits for the last
//! response. Requests allocate nothing once the load runs.

use std::io::Read;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags};

use crate::body::{Content, Progress};
use crate::head;
use crate::plan::{Connections, Plan, StressError};
use crate::score::{Done, Score};
use crate::secure;
use crate::tally::{Fault, Tally};
use crate::user::{Phase, User};

/// The bytes of one read. The socket's receive buffer rarely has more.
const READ_BYTES: usize = 256 * 1024;
/// The bytes of one read while the rest of the body can be discarded unread.
const READ_BYTES_BEFORE_DISCARD: usize = 8 * 1024;
/// The bytes that are discarded at once.
const DISCARD_BYTES: usize = 8 * 1024 * 1024;
/// A response head that is longer than this is broken.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The bytes of one read from a TLS connection.
const SEALED_BYTES: usize = 64 * 1024;
const EVENTS_MAX: usize = 512;
/// The nice value of a thread that gives way.
const NICENESS: i32 = 10;
const TICK_NS: u64 = 100_000_000;
/// The longest wait for events, in nanoseconds.
const WAIT_NS: i64 = 50_000_000;

/// Runs the load.
pub(crate) fn load(plan: &Plan, seed: u64) -> Result<Tally, StressError> {
    let mut load = Load::new(plan, seed)?;
    load.run()?;
    Ok(load.score.tally)
}

struct Load<'a> {
    plan: &'a Plan,
    score: Score,
    epoll: OwnedFd,
    users: Vec<User>,
    buffer: Vec<u8>,
    /// Bytes from a TLS connection as they came.
    sealed: Vec<u8>,
    /// The value of the next request's `Range`.
    range: Vec<u8>,
    /// The user who began last, where requests are spaced.
    turn: usize,
}

impl<'a> Load<'a> {
    fn new(plan: &'a Plan, seed: u64) -> Result<Self, StressError> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|error| StressError::System { act: "making an epoll", source: error.into() })?;
        Ok(Self {
            plan,
            score: Score::new(plan, seed),
            epoll,
            users: (0..plan.users).map(|_| User::new()).collect(),
            buffer: vec![0; if plan.content == Content::Discarded { DISCARD_BYTES } else { READ_BYTES }],
            sealed: vec![0; if plan.tls.is_some() { SEALED_BYTES } else { 0 }],
            range: Vec::new(),
            turn: 0,
        })
    }

    fn run(&mut self) -> Result<(), StressError> {
        let cpu_before = cpu_seconds();
        for index in 0..self.users.len() {
            self.begin(index);
        }
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        let mut tick_ns = TICK_NS;
        let is_spaced = self.plan.gap_ns.is_some();
        while !self.score.is_done() {
            events.clear();
            let wait = Timespec { tv_sec: 0, tv_nsec: if is_spaced { self.until_due_ns() } else { WAIT_NS } };
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(StressError::System { act: "waiting for sockets", source: error.into() });
                }
            }
            for event in &events {
                self.on_event(event.data.u64() as usize, event.flags);
            }
            if is_spaced {
                self.begin_due();
            }
            if self.score.clock.nanoseconds() > tick_ns {
                tick_ns = self.score.clock.nanoseconds() + TICK_NS;
                self.on_tick();
            }
            self.score.hope()?;
        }
        self.score.end();
        self.score.tally.cpu_seconds = cpu_seconds() - cpu_before;
        Ok(())
    }

    /// Lets an idle user request the next object, unless the load is at its end.
    fn begin(&mut self, index: usize) {
        if !self.score.may_begin() {
            self.users[index].hang_up();
            return;
        }
        if self.score.wait_ns() > 0 {
            return;
        }
        let user = &mut self.users[index];
        let (request, range) = (&mut user.request, &mut self.range);
        request.clear();
        range.clear();
        request.extend_from_slice(b"GET ");
        user.want = self.score.begin(request, range);
        request.extend_from_slice(&self.plan.fields);
        if !range.is_empty() {
            request.extend_from_slice(b"Range: ");
            request.extend_from_slice(range);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        user.asked_ns = self.score.clock.nanoseconds();
        self.ask(index);
    }

    /// Sends the user's request, over a new connection if there is none.
    fn ask(&mut self, index: usize) {
        let user = &mut self.users[index];
        if user.socket.is_some() {
            match user.ask() {
                Ok(()) => return,
                // The server has closed the connection in the meantime.
                Err(Errno::PIPE | Errno::CONNRESET) if user.used => user.hang_up(),
                Err(error) => return self.fail(index, Fault::Send, || error.to_string()),
            }
        }
        let user = &mut self.users[index];
        user.dialled_ns = self.score.clock.nanoseconds();
        let dialled = user.dial(self.plan).and_then(|()| match &user.socket {
            Some(socket) => {
                epoll::add(&self.epoll, socket, EventData::new_u64(index as u64), EventFlags::OUT)
            }
            None => Ok(()),
        });
        if let Err(error) = dialled {
            self.fail(index, Fault::Connect, || error.to_string());
        }
    }

    /// How long to wait for events where requests are spaced: until the next is due, if anybody is free for
    /// it.
    fn until_due_ns(&self) -> i64 {
        match self.users.iter().any(User::is_idle) {
            true => (self.score.wait_ns() as i64).min(WAIT_NS),
            false => WAIT_NS,
        }
    }

    /// Lets idle users begin what is due, each in its turn.
    fn begin_due(&mut self) {
        for _ in 0..self.users.len() {
            if self.score.wait_ns() > 0 || !self.score.may_begin() {
                return;
            }
            self.turn = (self.turn + 1) % self.users.len();
            if self.users[self.turn].is_idle() {
                self.begin(self.turn);
            }
        }
    }

    fn on_event(&mut self, index: usize, flags: EventFlags) {
        match self.users[index].phase {
            Phase::Idle if self.plan.tls.is_none() => self.users[index].hang_up(),
            Phase::Connecting => self.on_connected(index, flags),
            _ if self.plan.tls.is_some() => self.on_sealed(index),
            _ => self.on_readable(index),
        }
    }

    fn on_connected(&mut self, index: usize, flags: EventFlags) {
        let user = &mut self.users[index];
        let Some(socket) = &user.socket else { return };
        if flags.intersects(EventFlags::ERR | EventFlags::HUP) {
            let error = net::sockopt::socket_error(socket).ok().and_then(Result::err);
            return self.fail(index, Fault::Connect, || error.map_or("hung up".into(), |e| e.to_string()));
        }
        self.score.tally.connections += 1;
        let registered = epoll::modify(&self.epoll, socket, EventData::new_u64(index as u64), EventFlags::IN);
        if self.plan.tls.is_none() {
            self.score.connected(user.dialled_ns);
        }
        let greeted = match &self.plan.tls {
            Some(tls) => registered.and_then(|()| user.greet(tls, self.score.clock.nanoseconds())),
            None => registered.and_then(|()| user.ask()),
        };
        if let Err(error) = greeted {
            self.fail(index, Fault::Send, || error.to_string());
        }
    }

    /// Handles what a TLS connection has received, one record after the other.
    fn on_sealed(&mut self, index: usize) {
        let Some(socket) = &self.users[index].socket else { return };
        let received = match net::recv(socket, &mut self.sealed[..], RecvFlags::empty()) {
            Ok((bytes, _)) => bytes,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(Errno::CONNRESET) => 0,
            Err(error) => return self.fail(index, Fault::Closed, || error.to_string()),
        };
        if received == 0 {
            return self.on_end(index);
        }
        let (mut from, dialled) = (0, self.users[index].dialled);
        while from < received && self.users[index].dialled == dialled {
            let user = &mut self.users[index];
            let Some(tls) = &mut user.tls else { return };
            let taken = tls.read_tls(&mut &self.sealed[from..received]).unwrap_or(0);
            if let Err(error) = tls.process_new_packets() {
                let fault = if tls.is_handshaking() { Fault::Handshake } else { Fault::Broken };
                return self.fail(index, fault, || secure::said(&error));
            }
            if taken == 0 {
                return self.fail(index, Fault::Broken, || "TLS takes no more bytes".into());
            }
            from += taken;
            if let Err(error) = user.flush() {
                return self.fail(index, Fault::Send, || error.to_string());
            }
            self.on_record(index);
        }
    }

    /// Handles what the last bytes of a TLS connection came to.
    fn on_record(&mut self, index: usize) {
        let user = &mut self.users[index];
        let Some(tls) = &mut user.tls else { return };
        if let (Phase::Handshake { since_ns }, false) = (&user.phase, tls.is_handshaking()) {
            let took_ns = self.score.clock.nanoseconds() - since_ns;
            self.score.tally.handshake(took_ns, tls.handshake_kind());
            self.score.connected(user.dialled_ns);
            if let Err(error) = user.ask() {
                return self.fail(index, Fault::Send, || error.to_string());
            }
        }
        let Some(tls) = &mut self.users[index].tls else { return };
        match tls.reader().read(&mut self.buffer) {
            Ok(0) => self.on_end(index),
            Ok(bytes) => self.on_bytes(index, bytes),
            // No content so far.
            Err(_) => {}
        }
    }

    fn on_readable(&mut self, index: usize) {
        let user = &mut self.users[index];
        let Some(socket) = &user.socket else { return };
        if let Phase::Body { body, .. } = &mut user.phase
            && let Some(blind) = body.blind_bytes()
        {
            let room = (blind as usize).min(self.buffer.len());
            return match net::recv(socket, &mut self.buffer[..room], RecvFlags::TRUNC) {
                Ok((_, 0)) => self.on_end(index),
                Ok((_, bytes)) => {
                    let progress = body.skip(bytes as u64);
                    self.on_progress(index, progress, bytes)
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => self.fail(index, Fault::Short, || error.to_string()),
            };
        }
        let room = match (&user.phase, self.plan.content) {
            (Phase::Head, Content::Discarded) => READ_BYTES_BEFORE_DISCARD,
            _ => READ_BYTES,
        };
        match net::recv(socket, &mut self.buffer[..room], RecvFlags::empty()) {
            Ok((0, _)) => self.on_end(index),
            Ok((bytes, _)) => self.on_bytes(index, bytes),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::CONNRESET) => self.on_end(index),
            Err(error) => self.fail(index, Fault::Closed, || error.to_string()),
        }
    }

    /// Handles `bytes` new bytes at the front of the buffer.
    fn on_bytes(&mut self, index: usize, bytes: usize) {
        let user = &mut self.users[index];
        if let Phase::Body { body, .. } = &mut user.phase {
            let progress = body.feed(&self.buffer[..bytes]);
            return self.on_progress(index, progress, bytes);
        }
        if user.first_byte_ns == 0 {
            user.first_byte_ns = self.score.clock.nanoseconds();
        }
        let in_pieces = !user.partial.is_empty();
        if in_pieces {
            user.partial.extend_from_slice(&self.buffer[..bytes]);
        }
        let all: &[u8] = if in_pieces { &user.partial } else { &self.buffer[..bytes] };
        match head::parse(all) {
            Err(head::NoHead) => self.fail(index, Fault::Broken, || "no response head".into()),
            Ok(None) if all.len() > HEAD_BYTES_MAX => {
                self.fail(index, Fault::Broken, || "a head without end".into());
            }
            Ok(None) => {
                if !in_pieces {
                    user.partial.extend_from_slice(&self.buffer[..bytes]);
                }
            }
            Ok(Some(head)) if (100..200).contains(&head.status) => {
                // An interim head. The final one may follow in the same bytes.
                let rest = all[head.head_bytes..].to_vec();
                user.partial.clear();
                self.buffer[..rest.len()].copy_from_slice(&rest);
                if !rest.is_empty() {
                    self.on_bytes(index, rest.len());
                }
            }
            Ok(Some(head)) => {
                let begin = head.range.map_or(0, |(start, ..)| start);
                let mut body = self.plan.body(path(&user.request), head.framing, begin, head.version);
                let rest = &all[head.head_bytes..];
                let (progress, length) = (body.feed(rest), rest.len());
                user.partial.clear();
                user.phase = Phase::Body { head, body };
                self.on_progress(index, progress, length);
            }
        }
    }

    /// Handles what the last `bytes` have done to the body.
    fn on_progress(&mut self, index: usize, progress: Progress, bytes: usize) {
        match progress {
            Progress::More => {}
            Progress::Broken => self.fail(index, Fault::Broken, || "bad chunked coding".into()),
            Progress::End(taken) if taken != 0 && taken != bytes => {
                self.fail(index, Fault::Surplus, || format!("{} bytes", bytes - taken));
            }
            Progress::End(_) => self.finish(index),
        }
    }

    /// Handles a connection that the server has closed.
    fn on_end(&mut self, index: usize) {
        let user = &mut self.users[index];
        match &user.phase {
            Phase::Body { body, .. } if body.ends_with_connection() => self.finish(index),
            Phase::Body { body, .. } => {
                let received = body.received;
                self.fail(index, Fault::Short, || format!("ended after {received} bytes of body"));
            }
            Phase::Head if user.used && user.partial.is_empty() => {
                user.hang_up();
                self.ask(index);
            }
            Phase::Idle => user.hang_up(),
            Phase::Handshake { .. } => self.fail(index, Fault::Handshake, || "ended within".into()),
            _ => self.fail(index, Fault::Closed, || "ended before the head".into()),
        }
    }

    /// Judges and counts a whole response, and begins the next request.
    fn finish(&mut self, index: usize) {
        let user = &mut self.users[index];
        let Phase::Body { head, body } = std::mem::replace(&mut user.phase, Phase::Idle) else { return };
        user.used = true;
        let (want, first_byte_ns) = (user.want, user.first_byte_ns);
        let (status, range) = (head.status, head.range);
        self.score.finish(&Done { want, status, range, body: &body, first_byte_ns });
        if head.closes || self.plan.connections == Connections::NewEach {
            user.hang_up();
        }
        self.begin(index);
    }

    /// Counts a request without a whole response.
    fn fail(&mut self, index: usize, fault: Fault, detail: impl FnOnce() -> String) {
        self.score.fail(self.users[index].want, fault, detail);
        self.users[index].hang_up();
        // Not at once: a server that refuses everything would make this recurse.
    }

    /// Runs every tenth of a second: late responses fail, and failed users begin again.
    fn on_tick(&mut self) {
        let now_ns = self.score.clock.nanoseconds();
        for index in 0..self.users.len() {
            let user = &self.users[index];
            if user.is_idle() {
                self.begin(index);
            } else if now_ns.saturating_sub(user.asked_ns) > self.plan.timeout_ns {
                self.fail(index, Fault::Timeout, || "no whole response in time".into());
            }
        }
    }
}

/// The path of a request.
fn path(request: &[u8]) -> &[u8] {
    let from = memchr::memchr(b' ', request).map_or(request.len(), |space| space + 1);
    let rest = &request[from..];
    &rest[..memchr::memchr(b' ', rest).unwrap_or(rest.len())]
}

/// Has this thread give way to what is measured on the same core. If the kernel refuses, they share it.
pub(crate) fn give_way() {
    let _ = rustix::process::setpriority_process(None, NICENESS);
}

/// CPU seconds of this thread.
pub(crate) fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_ascii_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}
