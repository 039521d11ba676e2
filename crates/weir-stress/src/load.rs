//! The load itself: all users on one epoll, in one thread, until the bound is reached.
//!
//! A timed load stops counting at its end, in the middle of responses. A counted load waits for the last
//! response. Requests allocate nothing once the load runs.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags};

use crate::body::{Body, Content, Progress};
use crate::clock::Clock;
use crate::head::{self, Head};
use crate::pick::Picker;
use crate::plan::{Connections, Plan, StressError};
use crate::tally::{Fault, Tally};
use crate::user::{Phase, User, Want};

/// The bytes of one read. The socket's receive buffer rarely has more.
const READ_BYTES: usize = 256 * 1024;
/// The bytes of one read while the rest of the body can be discarded unread.
const READ_BYTES_BEFORE_DISCARD: usize = 8 * 1024;
/// The bytes that are discarded at once.
const DISCARD_BYTES: usize = 8 * 1024 * 1024;
/// A response head that is longer than this is broken.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The load is given up after this many faults in a row, without a response in between.
const FAULTS_IN_A_ROW_MAX: u64 = 1000;
/// The same for loads with few users, for each user.
const FAULTS_IN_A_ROW_PER_USER: u64 = 20;
const EVENTS_MAX: usize = 512;
const TICK_NS: u64 = 100_000_000;

/// Runs the load.
pub(crate) fn load(plan: &Plan, seed: u64) -> Result<Tally, StressError> {
    let mut load = Load::new(plan, seed)?;
    load.run()?;
    Ok(load.tally)
}

struct Load<'a> {
    plan: &'a Plan,
    clock: Clock,
    epoll: OwnedFd,
    users: Vec<User>,
    picker: Picker,
    tally: Tally,
    started: u64,
    working: usize,
    faults_in_a_row: u64,
    /// The digest of each object's body, if all must be equal.
    digests: HashMap<(u64, Option<(u64, u64)>), u64>,
    buffer: Vec<u8>,
}

impl<'a> Load<'a> {
    fn new(plan: &'a Plan, seed: u64) -> Result<Self, StressError> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|error| StressError::System { act: "making an epoll", source: error.into() })?;
        Ok(Self {
            plan,
            clock: Clock::start(),
            epoll,
            users: (0..plan.users).map(|_| User::new()).collect(),
            picker: Picker::new(plan.pick, plan.first, plan.objects, plan.wonders, seed),
            tally: Tally::new(),
            started: 0,
            working: 0,
            faults_in_a_row: 0,
            digests: HashMap::new(),
            buffer: vec![0; if plan.content == Content::Discarded { DISCARD_BYTES } else { READ_BYTES }],
        })
    }

    fn run(&mut self) -> Result<(), StressError> {
        let cpu_before = cpu_seconds();
        for index in 0..self.users.len() {
            self.begin(index);
        }
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        let mut tick_ns = TICK_NS;
        let faults_max = FAULTS_IN_A_ROW_MAX.min(FAULTS_IN_A_ROW_PER_USER * self.users.len() as u64);
        let wait = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        while !self.is_done() {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(StressError::System { act: "waiting for sockets", source: error.into() });
                }
            }
            for event in &events {
                self.on_event(event.data.u64() as usize, event.flags);
            }
            if self.clock.nanoseconds() > tick_ns {
                tick_ns = self.clock.nanoseconds() + TICK_NS;
                self.on_tick();
            }
            if self.faults_in_a_row > faults_max {
                let first = self.tally.first_fault.clone().unwrap_or_default();
                return Err(StressError::Hopeless { faults: self.faults_in_a_row, first });
            }
        }
        self.tally.seconds = self.clock.nanoseconds() as f64 / 1e9;
        self.tally.cpu_seconds = cpu_seconds() - cpu_before;
        Ok(())
    }

    /// Ends a timed load at once, whatever is still outstanding.
    fn is_over(&self) -> bool {
        self.plan.time_ns.is_some_and(|end| self.clock.nanoseconds() >= end)
    }

    /// Ends a counted load with its last response.
    fn is_done(&self) -> bool {
        let all_begun = self.plan.requests_max.is_some_and(|max| self.started >= max);
        (all_begun && self.working == 0) || self.is_over()
    }

    fn may_begin(&self) -> bool {
        self.plan.requests_max.is_none_or(|max| self.started < max) && !self.is_over()
    }

    /// Lets an idle user request the next object, unless the load is at its end.
    fn begin(&mut self, index: usize) {
        if !self.may_begin() {
            self.users[index].hang_up();
            return;
        }
        self.started += 1;
        self.working += 1;
        let user = &mut self.users[index];
        user.want = write_request(self.plan, &mut self.picker, &mut user.request);
        user.asked_ns = self.clock.nanoseconds();
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

    fn on_event(&mut self, index: usize, flags: EventFlags) {
        match self.users[index].phase {
            Phase::Idle => {}
            Phase::Connecting => self.on_connected(index, flags),
            Phase::Head | Phase::Body { .. } => self.on_readable(index),
        }
    }

    fn on_connected(&mut self, index: usize, flags: EventFlags) {
        let user = &mut self.users[index];
        let Some(socket) = &user.socket else { return };
        if flags.intersects(EventFlags::ERR | EventFlags::HUP) {
            let error = net::sockopt::socket_error(socket).ok().and_then(Result::err);
            return self.fail(index, Fault::Connect, || error.map_or("hung up".into(), |e| e.to_string()));
        }
        self.tally.connections += 1;
        let registered = epoll::modify(&self.epoll, socket, EventData::new_u64(index as u64), EventFlags::IN);
        if let Err(error) = registered.and_then(|()| user.ask()) {
            self.fail(index, Fault::Send, || error.to_string());
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
            user.first_byte_ns = self.clock.nanoseconds();
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
                let mut body = Body::new(head.framing, begin, self.plan.content);
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
            _ => self.fail(index, Fault::Closed, || "ended before the head".into()),
        }
    }

    /// Judges and counts a whole response, and begins the next request.
    fn finish(&mut self, index: usize) {
        let now_ns = self.clock.nanoseconds();
        let user = &mut self.users[index];
        let Phase::Body { head, body } = std::mem::replace(&mut user.phase, Phase::Idle) else { return };
        self.tally.response(head.status, user.first_byte_ns - user.asked_ns, now_ns - user.asked_ns);
        self.tally.bytes += body.received;
        self.faults_in_a_row = 0;
        user.used = true;
        if head.closes || self.plan.connections == Connections::NewEach {
            user.hang_up();
        }
        let want = user.want;
        self.judge(want, &head, &body);
        self.working -= 1;
        self.begin(index);
    }

    fn judge(&mut self, want: Want, head: &Head, body: &Body) {
        let plan = self.plan;
        let object = want.object;
        if head.status != plan.status {
            let status = head.status;
            return self.tally.fault(Fault::Status, || format!("{status} for object {object}"));
        }
        if let (Some((start, end)), Some(length)) = (want.interval, plan.ranges_of)
            && (head.range != Some((start, end, length)) || body.received != end - start)
        {
            let (got, received) = (head.range, body.received);
            return self.tally.fault(Fault::Range, || {
                format!("{start}..{end} of {length} was answered {got:?} with {received} bytes")
            });
        }
        if plan.length.is_some_and(|length| length != body.received) {
            let received = body.received;
            return self.tally.fault(Fault::Length, || format!("{received} bytes for object {object}"));
        }
        let known = body
            .digest()
            .map(|digest| (*self.digests.entry((object, want.interval)).or_insert(digest), digest));
        if !body.is_right() || known.is_some_and(|(first, digest)| first != digest) {
            self.tally.fault(Fault::Content, || format!("wrong bytes for object {object}"));
        }
    }

    /// Counts a request without a whole response.
    fn fail(&mut self, index: usize, fault: Fault, detail: impl FnOnce() -> String) {
        self.tally.fault(fault, detail);
        self.faults_in_a_row += 1;
        self.users[index].hang_up();
        self.working -= 1;
        // Not at once: a server that refuses everything would make this recurse.
    }

    /// Runs every tenth of a second: late responses fail, and failed users begin again.
    fn on_tick(&mut self) {
        let now_ns = self.clock.nanoseconds();
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

/// Writes the next request, and returns what it asks for.
fn write_request(plan: &Plan, picker: &mut Picker, out: &mut Vec<u8>) -> Want {
    let object = picker.next();
    out.clear();
    out.extend_from_slice(b"GET ");
    out.extend_from_slice(plan.target.before.as_bytes());
    if plan.target.after.is_some() {
        push_number(out, object);
    }
    out.extend_from_slice(&plan.fields);
    let mut interval = None;
    if let Some(length) = plan.ranges_of {
        let (mut start, mut end) = picker.interval(length);
        out.extend_from_slice(b"Range: bytes=");
        match picker.below(8) {
            // From a place to the end.
            0 => end = length,
            // The last bytes.
            1 => (start, end) = (length - (end - start), length),
            _ => {}
        }
        if end == length && start > 0 && picker.below(2) == 0 {
            out.push(b'-');
            push_number(out, end - start);
        } else {
            push_number(out, start);
            out.push(b'-');
            if end < length || picker.below(2) == 0 {
                push_number(out, end - 1);
            }
        }
        out.extend_from_slice(b"\r\n");
        interval = Some((start, end));
    }
    out.extend_from_slice(b"\r\n");
    Want { object, interval }
}

fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// CPU seconds of this thread.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_ascii_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}
