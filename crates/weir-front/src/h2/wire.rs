//! The bytes beneath the crate `h2`: it reads and writes through [`Io`], and the connection's task flushes.
//!
//! The crate keeps one DATA frame in flight and flushes after each, so a flush by the crate does nothing
//! here: frames gather, and leave together after each poll of the connection. Frame heads are scanned in both
//! directions, since the crate shows none; what is counted is in `floods`. It must not know a request.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weir_clock as clock;
use weir_observe::{Counters, SiteId};

use super::PREFACE;
use super::floods::{Flood, Floods};
use super::frames::{Code, Event, Frame, Kind, Scan};
use crate::listen::Stream;
use crate::message::Trust;

/// Bytes that gather before they are written within a poll of the connection: of any connection, and of one
/// whose memory for it is charged.
const GATHER_BYTES_MAX: (usize, usize) = (32 << 10, 64 << 10);
/// The largest buffer that a connection keeps without a charge while its client takes nothing.
const NARROW_BYTES_MAX: usize = 48 << 10;
/// Bytes of heads that the crate decodes before its streams begin. A field takes at least one of them, and
/// about a hundred bytes of memory.
const TURN_HEAD_BYTES_MAX: usize = 2 << 10;
/// The least that a head is counted as: a turn begins no more streams than the crate lets the client reset
/// before they have begun.
const HEAD_BYTES_MIN: usize = 16;

/// Heads that wait to be written, of which the site is known.
const HEADS_MAX: usize = 256;

thread_local! {
    /// Gathering buffers that no connection of this thread uses, so that an idle connection has none.
    static SPARES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// So many wait for the next connections: as many as are ready together gather before the first sends.
const SPARES_MAX: usize = 8;

/// Gives the allocator the gathering buffers of this thread.
pub(crate) fn shrink() {
    SPARES.take();
}

/// What frames do that the crate has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CratesFrames {
    Leave,
    /// They find no room, since the client takes nothing.
    Wait,
}

/// The socket of one connection, and what is known of the frames on it.
pub(super) struct Wire {
    stream: Stream,
    /// Bytes that were read and not handed to the crate yet.
    held: BytesMut,
    /// Frames to be written, and how many bytes of them were.
    out: Vec<u8>,
    out_at: usize,
    /// How many gather.
    gather_max: usize,
    crates: CratesFrames,
    /// Since when nothing could be written.
    stalled: Option<Instant>,
    incoming: Scan,
    outgoing: Scan,
    floods: Floods,
    /// What the client has overdone.
    flood: Option<Flood>,
    /// Whether the client was told so.
    is_told: bool,
    /// The kind of the frame that began last.
    last: Kind,
    /// Since when a head lacks its end.
    head_begun: Option<Instant>,
    /// Bytes of heads that were handed to the crate in this turn.
    turn_head_bytes: usize,
    is_paused: bool,
    /// When this turn began.
    now: Instant,
    counters: Arc<Counters>,
    /// The streams whose head has not been written, with the site that pays for it.
    heads: VecDeque<(u32, SiteId)>,
}

impl Wire {
    /// Takes over a connection; `input` has the bytes that were already read of it.
    pub(super) fn new(stream: Stream, input: BytesMut, trust: Trust, counters: Arc<Counters>) -> Wire {
        let now = clock::mono();
        Wire {
            stream,
            held: input,
            out: Vec::new(),
            out_at: 0,
            gather_max: GATHER_BYTES_MAX.0,
            crates: CratesFrames::Leave,
            stalled: None,
            incoming: Scan::behind(PREFACE.len()),
            outgoing: Scan::behind(0),
            floods: Floods::new(trust, now),
            flood: None,
            is_told: false,
            last: Kind::Other,
            head_begun: None,
            turn_head_bytes: 0,
            is_paused: false,
            now,
            counters,
            heads: VecDeque::new(),
        }
    }

    /// Begins a turn of the connection's task: the crate may decode more heads.
    pub(super) fn begin_turn(&mut self, now: Instant) {
        self.now = now;
        self.turn_head_bytes = 0;
        self.is_paused = false;
    }

    /// Whether the crate was given less than there is, so that another turn is due.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// What the client has overdone, if it was not told so yet.
    pub(super) fn flood(&self) -> Option<Flood> {
        self.flood.filter(|_| !self.is_told)
    }

    /// Notes what the client has overdone.
    pub(super) fn note_flood(&mut self, flood: Flood) {
        self.flood.get_or_insert(flood);
    }

    /// Since when nothing could be written.
    pub(super) fn stalled_since(&self) -> Option<Instant> {
        self.stalled
    }

    /// Since when a head lacks its end.
    pub(super) fn head_begun(&self) -> Option<Instant> {
        self.head_begun
    }

    /// Notes that a stream ended whole.
    pub(super) fn finished(&mut self) {
        self.floods.finished();
    }

    /// As [`Floods::take_reset`].
    pub(super) fn take_reset(&mut self, stream: u32) -> Option<Flood> {
        self.floods.take_reset(stream)
    }

    /// Bytes of the DATA frame that is arriving on this stream, which the crate does not show before its end.
    pub(super) fn arriving(&self, stream: u32) -> u64 {
        match self.incoming.within() {
            Some((frame, bytes)) if frame.kind == Kind::Data && frame.stream == stream => bytes as u64,
            _ => 0,
        }
    }

    /// Charges the head of a response that was handed to the crate to a site.
    pub(super) fn charge_head(&mut self, stream: u32, site: SiteId) {
        if self.heads.len() == HEADS_MAX {
            // The streams of these were reset before their head was written.
            self.heads.pop_front();
        }
        self.heads.push_back((stream, site));
    }

    /// Whether the client does not take what gathers, of which more could be kept for it.
    pub(super) fn wants_room(&self) -> bool {
        self.is_blocked() && !self.is_wide()
    }

    /// Whether the crate has frames that find no room, since the client takes nothing.
    pub(super) fn is_blocked(&self) -> bool {
        self.crates == CratesFrames::Wait
    }

    /// More may gather.
    pub(super) fn widen(&mut self) {
        self.gather_max = GATHER_BYTES_MAX.1;
    }

    /// Whether it may.
    pub(super) fn is_wide(&self) -> bool {
        self.gather_max == GATHER_BYTES_MAX.1
    }

    /// No more may gather, if all has left. Whether more could.
    pub(super) fn narrow(&mut self) -> bool {
        let narrows = self.is_wide() && self.out.is_empty() && self.stream.is_flushed();
        if narrows {
            self.gather_max = GATHER_BYTES_MAX.0;
        }
        narrows
    }

    /// Keeps no larger buffer than is charged, while the client takes nothing.
    fn compact(&mut self) {
        if !self.is_wide() && self.out.capacity() > NARROW_BYTES_MAX {
            self.out = self.out.split_off(self.out_at);
            self.out_at = 0;
        }
    }

    /// Whether something has gathered of which nothing was written.
    pub(super) fn begins_to_send(&self) -> bool {
        !self.out.is_empty() && self.out_at == 0 && self.stalled.is_none()
    }

    /// Writes what has gathered. Ready once all of it is written.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.out_at < self.out.len() || !self.stream.is_flushed() {
            let (unsent, rest) = (self.stream.unsent_bytes(), &self.out[self.out_at..]);
            let written = match rest.is_empty() {
                false => self.stream.try_write_vectored(&[IoSlice::new(rest)]),
                true => self.stream.try_flush().map(|()| 0),
            };
            if self.stream.unsent_bytes() < unsent {
                self.stalled = None;
            }
            match written {
                Ok(0) if !rest.is_empty() => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(bytes) => {
                    weir_yield::moved(bytes as u64);
                    self.out_at += bytes;
                    self.stalled = None;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.stream.poll_writable(cx)?.is_pending() {
                        self.stalled.get_or_insert(self.now);
                        self.compact();
                        return Poll::Pending;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if !self.out.is_empty() {
            let mut out = std::mem::take(&mut self.out);
            out.clear();
            self.out_at = 0;
            SPARES.with_borrow_mut(|spares| {
                if spares.len() < SPARES_MAX {
                    spares.push(out);
                }
            });
        }
        Poll::Ready(Ok(()))
    }

    /// Discards what the client still sends, and ends with its end.
    pub(super) fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.held.clear();
        let read = ready!(self.stream.poll_read_buf(cx, &mut self.held));
        self.held.clear();
        Poll::Ready(read)
    }

    /// Ends the sending side.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    /// Writes these bytes now, if nothing else is to be written and the kernel takes them.
    pub(super) fn try_last(&mut self, bytes: &[u8]) {
        if self.out.len() == self.out_at {
            let _ = self.stream.try_write_vectored(&[IoSlice::new(bytes)]);
        }
    }

    /// Scans bytes for the crate. Returns how many it may have now.
    fn scan_incoming(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let (passed, event) = self.incoming.pass(&bytes[at..]);
            at += passed;
            match event {
                None => return at,
                Some(Event::Begun(frame)) => self.begun(&frame),
                Some(Event::Ended(frame, _)) if frame.is_of_fields() => {
                    self.turn_head_bytes += frame.payload_bytes.max(HEAD_BYTES_MIN);
                    if frame.ends_fields() {
                        self.head_begun = None;
                        if self.turn_head_bytes >= TURN_HEAD_BYTES_MAX {
                            return at;
                        }
                    }
                }
                Some(Event::Ended(..)) => {}
            }
            if self.flood.is_some() && !self.is_told {
                return at;
            }
        }
    }

    fn begun(&mut self, frame: &Frame) {
        if frame.is_of_fields() {
            self.head_begun.get_or_insert(self.now);
        }
        self.last = frame.kind;
        let flood = self.floods.received(frame, self.now);
        self.flood = self.flood.or(flood);
    }

    fn scan_outgoing(&mut self, bytes: &[u8]) {
        let mut at = 0;
        loop {
            let (passed, event) = self.outgoing.pass(&bytes[at..]);
            at += passed;
            match event {
                None => return,
                Some(Event::Begun(_)) => {}
                Some(Event::Ended(frame, code)) => self.sent(&frame, code),
            }
        }
    }

    fn sent(&mut self, frame: &Frame, code: Code) {
        const ENHANCE_YOUR_CALM: u32 = 11;
        let flood = self.floods.sent(frame, code, self.now);
        self.flood = self.flood.or(flood);
        match frame.kind {
            // The bytes of DATA are charged where they are handed on.
            Kind::Data => {}
            Kind::Headers => {
                let owner = self.heads.iter().position(|(stream, _)| *stream == frame.stream);
                let site = owner.and_then(|at| self.heads.remove(at)).map_or(SiteId::NONE, |(_, site)| site);
                self.counters.client_bytes(site, frame.bytes() as u64);
            }
            _ => {
                self.counters.client_bytes(SiteId::NONE, frame.bytes() as u64);
                if frame.kind == Kind::GoAway && code == Code(ENHANCE_YOUR_CALM) && !self.is_told {
                    self.is_told = true;
                    // The crate has bounds of its own: on CONTINUATION, on empty DATA.
                    self.counters.count(self.flood.unwrap_or(Flood::by(self.last)).count());
                }
            }
        }
    }
}

/// A connection's bytes, as the crate reads and writes them.
pub(super) struct Io(pub(super) Rc<RefCell<Wire>>);

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let wire = &mut *self.0.borrow_mut();
        if (wire.flood.is_some() && !wire.is_told) || wire.turn_head_bytes >= TURN_HEAD_BYTES_MAX {
            // The connection's task asks again.
            wire.is_paused = true;
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        if wire.held.is_empty() {
            ready!(Pin::new(&mut wire.stream).poll_read(cx, buffer))?;
        } else {
            let bytes = wire.held.len().min(buffer.remaining());
            buffer.put_slice(&wire.held[..bytes]);
            wire.held.advance(bytes);
        }
        let read = buffer.filled().len() - before;
        let passed = wire.scan_incoming(&buffer.filled()[before..]);
        if passed < read {
            let mut rest = BytesMut::from(&buffer.filled()[before + passed..]);
            rest.extend_from_slice(&wire.held);
            wire.held = rest;
            buffer.set_filled(before + passed);
        } else if wire.held.is_empty() && wire.held.capacity() > 0 {
            wire.held = BytesMut::new();
        }
        if passed == 0 && read > 0 {
            // An empty read would be the end. This happens only with a flood.
            wire.is_paused = true;
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wire = &mut *self.0.borrow_mut();
        if wire.out.len() - wire.out_at >= wire.gather_max {
            let flushed = wire.poll_flush(cx);
            if flushed.is_pending() {
                wire.crates = CratesFrames::Wait;
            }
            ready!(flushed)?;
        }
        wire.crates = CratesFrames::Leave;
        if wire.out.capacity() == 0 {
            wire.out = SPARES.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
        wire.out.extend_from_slice(bytes);
        wire.scan_outgoing(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_flush(cx)
    }
}
