//! One HTTP/2 connection: it begins streams, keeps their tasks, and says farewell (RFC 9113 §6.8). It must
//! not decide how a request is answered.
//!
//! States: *beginning*, until the client's preface is there; *open*; *leaving* once a GOAWAY was sent, when
//! the connection has been idle for long, the process drains, or another process takes over; *cut*, with
//! another GOAWAY that says which streams were begun, when it is to wait for no stream; *closed*.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use tokio::task::JoinSet;
use weir_clock::{self as clock, Deadline};
use weir_observe::Count;
use weir_yield::Behind;

use super::ahead::{Ahead, Piece};
use super::floods::Flood;
use super::heads::Sender;
use super::held::Held;
use super::named::Named;
use super::sink::AHEAD_OF_STREAM_BYTES_MAX;
use super::stream::{self, Shared, UnderWay, WIDE_BYTES};
use super::windows::{STREAM_WINDOW_BYTES, WINDOW_BYTES, Windows};
use super::wire::{Io, Wire};
use crate::entrance::Entered;
use crate::message::{PeerInfo, Service, Trust};
use crate::worker::{ConnectionState, GateState, Worker};

/// Streams of a connection at once.
const STREAMS_MAX: u32 = 100;
/// How long what is not held any more stays charged.
const SPARE_AFTER: Duration = Duration::from_secs(1);
/// What a field takes of SETTINGS_MAX_HEADER_LIST_SIZE beside its name and value (RFC 9113 §6.5.2).
const LISTED_FIELD_BYTES: usize = 32;
/// Turns of a connection before the other tasks of the core have theirs.
const TURNS_MAX: usize = 32;
/// How long the last frames may take to leave, and how much a client may still send meanwhile.
const LINGER_TIME_MAX: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 1 << 20;
/// How long a client that was told of the end may keep a connection without streams open.
const FAREWELL_TIME_MAX: Duration = Duration::from_secs(1);
/// GOAWAY without an error: the last word to a client whose connection is closed at once.
const GOAWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Serves one connection until it ends.
pub(crate) async fn serve<S: Service>(worker: Rc<Worker<S>>, entered: Entered, state: Rc<ConnectionState>) {
    let Entered { stream, input, peer, counted: _counted, .. } = entered;
    let counters = worker.service().observer().counters_shared();
    let now = clock::mono();
    let wire = Rc::new(RefCell::new(Wire::new(stream, input, peer.trust, counters)));
    let mut deadline = Deadline::after(peer.limits.head_time_max);
    // What only the begin and the end need is in memory that the connection does not hold.
    let Some(connection) = Box::pin(begin(&wire, &peer, &mut deadline)).await else {
        // Unread bytes would reset the connection.
        let _ = tokio::time::timeout(LINGER_TIME_MAX, Box::pin(linger(&wire))).await;
        return;
    };
    state.set_used();
    state.set_says_farewell();
    let shared = Rc::new(Shared {
        worker,
        peer,
        wire,
        ahead: Rc::<Ahead>::default(),
        streams: Cell::new(0),
        free_since: Cell::new(now),
        heads_bytes: Cell::new(0),
        answered_bytes: Cell::new(0),
        held: Held::default(),
        named: Named::default(),
        windows: Windows::default(),
        _sender: Sender::begin(),
    });
    shared.count(Count::Http2Connections);
    let mut serving = Serving {
        connection,
        window_bytes: WINDOW_BYTES,
        streams: JoinSet::new(),
        shared: Rc::clone(&shared),
        state,
        deadline,
        farewell: None,
        spare_at: None,
        is_cut: false,
        last_word: LastWord(Some(Rc::clone(&shared.wire))),
        behind: Behind::default(),
    };
    poll_fn(|cx| serving.poll(cx)).await;
    Box::pin(serving.end()).await;
}

/// Waits for the client's preface.
async fn begin(
    wire: &Rc<RefCell<Wire>>,
    peer: &PeerInfo,
    deadline: &mut Deadline,
) -> Option<Connection<Io, Piece>> {
    let limits = &peer.limits;
    let list_bytes = limits.head.head_bytes_max + (limits.head.fields_max + 8) * LISTED_FIELD_BYTES;
    let mut builder = Builder::new();
    if peer.trust == Trust::Trusted {
        // The crate counts them for as long as the connection lives. Here each client has its own level.
        builder.max_local_error_reset_streams(None);
    }
    let handshake = builder
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(list_bytes).unwrap_or(u32::MAX))
        .max_send_buffer_size(AHEAD_OF_STREAM_BYTES_MAX)
        .max_pending_accept_reset_streams(STREAMS_MAX as usize * 2)
        .enable_connect_protocol()
        .handshake(Io(Rc::clone(wire)));
    let mut handshake = std::pin::pin!(handshake);
    poll_fn(|cx| {
        wire.borrow_mut().begin_turn(clock::mono());
        let begun = handshake.as_mut().poll(cx);
        // What does not leave now leaves with the first turn.
        let _ = wire.borrow_mut().poll_flush(cx)?;
        if begun.is_pending() && deadline.poll(cx).is_ready() {
            return Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()));
        }
        begun.map_err(std::io::Error::other)
    })
    .await
    .ok()
}

/// What a connection does after a turn.
enum Next {
    /// It waits to be woken.
    Wait,
    /// It has another turn.
    Turn,
    /// It closes.
    Close,
}

/// A connection that is open or leaving.
struct Serving<S: Service> {
    connection: Connection<Io, Piece>,
    /// The window that the crate keeps open for all content.
    window_bytes: u32,
    streams: JoinSet<()>,
    shared: Rc<Shared<S>>,
    state: Rc<ConnectionState>,
    deadline: Deadline,
    /// When the client was told that the connection ends.
    farewell: Option<Instant>,
    /// When memory that is charged and not held any more is given back.
    spare_at: Option<Instant>,
    /// Whether it ends without waiting for its streams.
    is_cut: bool,
    last_word: LastWord,
    behind: Behind,
}

impl<S: Service> Serving<S> {
    /// Ready once the connection is closed.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TURNS_MAX {
            if self.turn(cx).is_ready() {
                return Poll::Ready(());
            }
            let is_paused = self.shared.wire.borrow().is_paused();
            match self.tend(cx) {
                Next::Close => return Poll::Ready(()),
                Next::Turn => {}
                Next::Wait if is_paused => {}
                Next::Wait => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Moves frames both ways, and begins streams.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let shared = Rc::clone(&self.shared);
        shared.wire.borrow_mut().begin_turn(clock::mono());
        self.widen();
        let mut is_closed = false;
        loop {
            match self.connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => self.begin(request, respond, cx),
                Poll::Ready(Some(Err(error))) => {
                    tracing::debug!(%error, peer = %shared.peer.peer, "HTTP/2 connection ended");
                    is_closed = true;
                    break;
                }
                Poll::Ready(None) => {
                    is_closed = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
        while let Poll::Ready(Some(ended)) = self.streams.poll_join_next(cx) {
            if let Err(error) = ended
                && error.is_panic()
            {
                // A walk that panics closes its connection.
                std::panic::resume_unwind(error.into_panic());
            }
        }
        if shared.wire.borrow().wants_room() && shared.hold(WIDE_BYTES, 0) {
            shared.wire.borrow_mut().widen();
        }
        if !is_closed && shared.wire.borrow().begins_to_send() && self.behind.poll(cx).is_pending() {
            return Poll::Pending;
        }
        let is_failed = matches!(shared.wire.borrow_mut().poll_flush(cx), Poll::Ready(Err(_)));
        if is_closed || is_failed { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Begins a stream. It is polled once at once: a hit is answered without a task.
    fn begin(
        &mut self,
        request: http::Request<RecvStream>,
        mut respond: SendResponse<Piece>,
        cx: &mut Context<'_>,
    ) {
        if self.shared.worker.gate_state() != GateState::Open {
            return respond.send_reset(Reason::REFUSED_STREAM);
        }
        let Some(under_way) = UnderWay::begin(&self.shared, &request) else {
            // Nothing was done of it: the client may ask again.
            self.shared.count(Count::Http2StreamsRefused);
            return respond.send_reset(Reason::REFUSED_STREAM);
        };
        self.shared.worker.set_idle(&self.state, None);
        let mut stream = Box::pin(stream::run(under_way, request, respond));
        if stream.as_mut().poll(cx).is_pending() {
            self.streams.spawn_local(stream);
        }
        self.widen();
    }

    /// Has the crate open the connection's window as wide as the streams with content need it.
    fn widen(&mut self) {
        let bytes = self.shared.windows.bytes();
        if bytes != self.window_bytes {
            self.window_bytes = bytes;
            self.connection.set_target_window_size(bytes);
        }
    }

    /// Looks after deadlines, floods and the end.
    fn tend(&mut self, cx: &mut Context<'_>) -> Next {
        let flood = self.shared.wire.borrow().flood();
        if let Some(flood) = flood
            && !self.is_cut
        {
            tracing::debug!(peer = %self.shared.peer.peer, flood = flood.word(), "HTTP/2 connection cut");
            self.cut(Reason::ENHANCE_YOUR_CALM);
            return Next::Turn;
        }
        self.state.wake_by(cx);
        let worker = &self.shared.worker;
        if worker.is_over() && !self.is_cut {
            self.cut(Reason::NO_ERROR);
            return Next::Turn;
        }
        // One whose last frames have not left is not idle: it could be closed for others.
        let is_idle = self.shared.streams.get() == 0 && !self.shared.wire.borrow().begins_to_send();
        if worker.set_idle(&self.state, is_idle.then(|| self.shared.free_since.get())) && is_idle {
            worker.give_back_later();
        }
        if self.spare_at.is_none() && self.shared.has_spare() {
            self.spare_at = Some(clock::mono() + SPARE_AFTER);
        }
        if self.farewell.is_none()
            && (worker.gate_state() != GateState::Open || worker.service().is_draining())
        {
            self.leave();
            return Next::Turn;
        }
        loop {
            let Some(until) = self.until() else { return Next::Wait };
            self.deadline.set(until);
            if self.deadline.poll(cx).is_pending() {
                return Next::Wait;
            }
            if self.is_cut {
                return Next::Close;
            }
            if self.expire(clock::mono()) {
                return Next::Turn;
            }
        }
    }

    /// When something is due next.
    fn until(&self) -> Option<Instant> {
        if let Some(at) = self.farewell.filter(|_| self.is_cut) {
            return Some(at + LINGER_TIME_MAX);
        }
        let limits = &self.shared.peer.limits;
        let wire = self.shared.wire.borrow();
        let head = wire.head_begun().map(|begun| begun + limits.head_time_max);
        let stalled = wire.stalled_since().map(|since| since + limits.send_stall_max);
        let idle = (self.shared.streams.get() == 0).then(|| self.idle_until());
        [head, stalled, idle, self.spare_at].into_iter().flatten().min()
    }

    fn idle_until(&self) -> Instant {
        match self.farewell {
            None => self.shared.free_since.get() + self.shared.peer.limits.idle_time_max,
            Some(at) => at.max(self.shared.free_since.get()) + FAREWELL_TIME_MAX,
        }
    }

    /// Does what is due. False if it is not due any more.
    fn expire(&mut self, now: Instant) -> bool {
        if self.spare_at.take_if(|at| now >= *at).is_some() {
            self.shared.give_up_spare();
        }
        let limits = Rc::clone(&self.shared.peer);
        let limits = &limits.limits;
        let wire = Rc::clone(&self.shared.wire);
        let mut wire = wire.borrow_mut();
        if wire.head_begun().is_some_and(|begun| now >= begun + limits.head_time_max) {
            wire.note_flood(Flood::Heads);
            drop(wire);
            self.cut(Reason::ENHANCE_YOUR_CALM);
        } else if wire.stalled_since().is_some_and(|since| now >= since + limits.send_stall_max) {
            drop(wire);
            self.cut(Reason::CANCEL);
        } else if self.shared.streams.get() == 0 && now >= self.idle_until() {
            drop(wire);
            if self.farewell.is_none() { self.leave() } else { self.cut(Reason::NO_ERROR) }
        } else {
            return false;
        }
        true
    }

    /// Tells the client that no more streams may begin, and finishes those under way: first GOAWAY without a
    /// number, and a round trip later with it.
    fn leave(&mut self) {
        self.farewell = Some(clock::mono());
        self.connection.graceful_shutdown();
    }

    /// Ends the connection, and resets its streams.
    fn cut(&mut self, reason: Reason) {
        self.is_cut = true;
        self.farewell = Some(clock::mono());
        self.connection.abrupt_shutdown(reason);
    }

    /// Lets the last frames leave, and the streams notice that they are alone.
    async fn end(self) {
        let Serving { connection, mut streams, shared, mut last_word, .. } = self;
        last_word.0 = None;
        drop(connection);
        let last = async {
            // A client that takes nothing is not waited for.
            let _ = tokio::time::timeout(LINGER_TIME_MAX, linger(&shared.wire)).await;
        };
        tokio::join!(async { while streams.join_next().await.is_some() {} }, last);
        shared.count(Count::Http2ConnectionsClosed);
    }
}

/// Writes what is left, ends the sending side, and discards what the client still sends, so that it can read
/// the last frames before a reset reaches it.
async fn linger(wire: &RefCell<Wire>) {
    if poll_fn(|cx| wire.borrow_mut().poll_flush(cx)).await.is_err()
        || poll_fn(|cx| wire.borrow_mut().poll_shutdown(cx)).await.is_err()
    {
        return;
    }
    let mut discarded = 0;
    while discarded < LINGER_BYTES_MAX {
        match poll_fn(|cx| wire.borrow_mut().poll_discard(cx)).await {
            Ok(0) | Err(_) => return,
            Ok(bytes) => discarded += bytes,
        }
    }
}

/// Says farewell when dropped: an idle connection may be closed for another, or at the end of the process.
struct LastWord(Option<Rc<RefCell<Wire>>>);

impl Drop for LastWord {
    fn drop(&mut self) {
        if let Some(wire) = &self.0 {
            wire.borrow_mut().try_last(&GOAWAY);
        }
    }
}
