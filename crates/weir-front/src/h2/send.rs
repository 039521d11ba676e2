//! Sends the response of one stream: its head, and its body as the client's windows open (RFC 9113 §5.2).
//! The end of the stream means that the body is whole; a body that breaks off resets it. It must not change
//! what the service answered.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::{HeaderMap, StatusCode};
use weir_clock as clock;
use weir_observe::Counters;
use weir_yield::Stint;

use super::ahead::{Ahead, Piece, Progress};
use super::client::{Side, StreamClient};
use super::heads;
use crate::limits::{ClientLimits, LET_GO_AFTER, LET_GO_AGAIN_AFTER};
use crate::message::{Body, Client, Done, End, Head, Pace, Response, Sent, Service, Turn, Upload, gone};
use crate::taking::Taking;

/// The most bytes of a piece, and the most that the crate holds of a stream.
pub(super) const AHEAD_OF_STREAM_BYTES_MAX: usize = 64 << 10;

/// The head of a DATA frame.
pub(super) const FRAME_HEAD_BYTES: u64 = 9;

/// The bytes of a body without a length that are taken before there is room for them, to see whether it ends.
const EARLY_BYTES_MAX: usize = 1 << 10;

pub(super) const NOTHING_SENT: Sent =
    Sent { body_bytes: 0, first_byte: None, last_byte: None, end: End::Whole };

/// What sending needs of the connection.
pub(super) struct Through<'c> {
    pub(super) ahead: &'c Rc<Ahead>,
    pub(super) limits: &'c ClientLimits,
    pub(super) counters: &'c Counters,
    /// Holds the memory of the response's head; false if there is no room for it.
    pub(super) holds: &'c dyn Fn(usize) -> bool,
}

/// How the client learns where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// No body, by method or status. The length that a GET would have had may be named.
    Nothing(Option<u64>),
    /// So many bytes.
    Length(u64),
    /// Until the stream ends.
    Open,
}

impl Extent {
    fn choose(is_head: bool, status: StatusCode, length: Option<u64>) -> Extent {
        if status == StatusCode::NO_CONTENT {
            return Extent::Nothing(None);
        }
        if is_head || status == StatusCode::NOT_MODIFIED {
            return Extent::Nothing(length);
        }
        length.map_or(Extent::Open, Extent::Length)
    }

    fn declared(self) -> Option<u64> {
        match self {
            Extent::Nothing(length) => length,
            Extent::Length(length) => Some(length),
            Extent::Open => None,
        }
    }
}

/// Sends a response. Returns what was sent.
pub(super) async fn respond<S: Service>(
    client: &mut StreamClient<'_>,
    through: &Through<'_>,
    is_head: bool,
    response: &mut Response<S>,
) -> Done {
    let Response { head, late, length, body, pace, upload, .. } = response;
    let Some(status) = head.status() else {
        return Done {
            status: None,
            sent: Sent { end: End::ClientGone, ..NOTHING_SENT },
            ended: clock::mono(),
        };
    };
    let extent = Extent::choose(is_head, status, *length);
    let fields = heads::fields(std::mem::replace(head, Head::None), late, extent.declared());
    let ends = matches!(extent, Extent::Nothing(_) | Extent::Length(0));
    let head_bytes = if ends { 0 } else { heads::memory_bytes(&fields) };
    let Some(stream) = send_head(client, status, fields, ends) else {
        let sent = Sent { end: End::ClientGone, ..NOTHING_SENT };
        return Done { status: Some(status), sent, ended: clock::mono() };
    };
    let now = clock::mono();
    let mut sent = Sent { first_byte: Some(now), last_byte: Some(now), ..NOTHING_SENT };
    if let (Some(stream), false) = (stream, ends) {
        let side = client.side;
        side.replace(Side::Sending(stream));
        let mut sending = Sending {
            side,
            client,
            through,
            body,
            extent,
            pace,
            upload,
            sent,
            progress: Rc::default(),
            taking: None,
            stint: Stint::default(),
        };
        let end = match sending.at_once() {
            Some(end) => end,
            // In memory of its own, which a body at hand does not need.
            None if (through.holds)(head_bytes) => Box::pin(sending.run()).await,
            None => {
                side.borrow_mut().reset(Reason::ENHANCE_YOUR_CALM);
                End::Cut(MEMORY_SHARE)
            }
        };
        sent = Sent { end, ..sending.sent };
    }
    Done { status: Some(status), sent, ended: sent.last_byte.unwrap_or_else(clock::mono) }
}

/// Hands the head to the crate. `None`: the client is gone.
pub(super) fn send_head(
    client: &StreamClient<'_>,
    status: StatusCode,
    fields: HeaderMap,
    ends: bool,
) -> Option<Option<SendStream<Piece>>> {
    let mut head = http::Response::new(());
    *head.status_mut() = status;
    *head.headers_mut() = fields;
    let mut side = client.side.borrow_mut();
    let Side::Waiting(respond) = &mut *side else { return Some(None) };
    client.content.charge_head(respond.stream_id().as_u32(), client.site);
    respond.send_response(head, ends).ok().map(Some)
}

/// A body on its way to the client.
struct Sending<'c, 's, B, P> {
    side: &'s RefCell<Side>,
    client: &'c mut StreamClient<'s>,
    through: &'c Through<'c>,
    body: &'c mut B,
    extent: Extent,
    pace: &'c mut Option<Box<P>>,
    upload: &'c mut Option<Box<dyn Upload>>,
    sent: Sent,
    progress: Rc<Progress>,
    /// The rate of the client, if a least rate applies.
    taking: Option<Taking>,
    stint: Stint,
}

impl<B: Body, P: Pace> Sending<'_, '_, B, P> {
    /// Sends a small body that is at hand, if there is room for all of it.
    fn at_once(&mut self) -> Option<End> {
        let Extent::Length(length) = self.extent else { return None };
        let bytes = usize::try_from(length).ok().filter(|bytes| *bytes <= AHEAD_OF_STREAM_BYTES_MAX)?;
        self.body.at_hand().filter(|_| self.pace.is_none())?;
        if let Side::Sending(stream) = &mut *self.side.borrow_mut() {
            stream.reserve_capacity(bytes);
            if stream.capacity() < bytes || !self.through.ahead.has_room() {
                return None;
            }
        }
        let mut left = length;
        while left > 0 {
            let (blocks, within, held) = self.body.at_hand()?;
            let block = blocks.first().filter(|_| held > 0)?;
            let most = usize::try_from(held.min(left)).unwrap_or(usize::MAX);
            let piece = block.slice(within..block.len().min(within.saturating_add(most)));
            let bytes = piece.len() as u64;
            left -= bytes;
            if let Err(end) = self.hand_on(piece, left == 0) {
                return Some(end);
            }
            self.body.advance(bytes);
        }
        Some(End::Whole)
    }

    async fn run(&mut self) -> End {
        let end = self.all().await;
        if let End::Cut(word) = end {
            if !matches!(word, SEND_STALL | MEMORY_SHARE | READ_RATE) {
                // The reset would overtake what came before it.
                tokio::task::yield_now().await;
                let _ = self.drained().await;
            }
            self.side.borrow_mut().reset(Reason::INTERNAL_ERROR);
        }
        end
    }

    async fn all(&mut self) -> End {
        // Invariant of the protocol: never more bytes than were declared.
        let mut left = self.extent.declared().map_or(u64::MAX, |length| length - self.sent.body_bytes);
        if self.body.at_hand().is_some() && self.extent != Extent::Open {
            if let Err(end) = self.at_hand(&mut left).await {
                return end;
            }
            if left == 0 {
                return self.ended().await;
            }
        }
        if let Err(end) = self.pieces(&mut left).await {
            return end;
        }
        self.ended().await
    }

    /// All is handed on.
    async fn ended(&mut self) -> End {
        if self.sent.body_bytes <= AHEAD_OF_STREAM_BYTES_MAX as u64 {
            // Windows and bounds have let it all through.
            return End::Whole;
        }
        self.drained().await
    }

    /// Sends what lies in memory in blocks while it lies there, each piece when there is room for it.
    async fn at_hand(&mut self, left: &mut u64) -> Result<(), End> {
        while *left > 0 {
            let allowed = if self.pace.is_some() { self.turn(*left).await? } else { *left };
            let room = self.room(allowed).await?;
            // The body may have let go of its blocks: the rest follows piece by piece.
            let Some((blocks, within, held)) = self.body.at_hand() else { break };
            let Some(block) = blocks.first().filter(|_| held > 0) else { return Err(GONE_BODY) };
            let most = usize::try_from(held).unwrap_or(usize::MAX).min(room);
            let piece = block.slice(within..block.len().min(within.saturating_add(most)));
            let bytes = piece.len() as u64;
            *left -= bytes;
            self.hand_on(piece, *left == 0)?;
            self.body.advance(bytes);
            if let Some(pace) = self.pace {
                pace.took(bytes);
            }
        }
        Ok(())
    }

    /// Sends a body piece by piece. A piece is asked for when there is room for it; where it has to be waited
    /// for, the room goes to other streams meanwhile.
    async fn pieces(&mut self, left: &mut u64) -> Result<(), End> {
        loop {
            // An end needs no window, and without a length nobody knows that it is the end.
            let (room, is_early) = match *left == u64::MAX && !self.has_room() {
                true => (EARLY_BYTES_MAX, true),
                false => (self.room(AHEAD_OF_STREAM_BYTES_MAX as u64).await?, false),
            };
            let Some(mut piece) = self.next(room).await? else { break };
            if is_early {
                // No block is held for a client that takes nothing.
                piece = Bytes::copy_from_slice(&piece);
            }
            match self.body.holds_origin() {
                true => drop(self.taking.get_or_insert_default()),
                false => self.taking = None,
            }
            if piece.len() as u64 > *left {
                return Err(End::Cut("body-too-long"));
            }
            if *left != u64::MAX {
                *left -= piece.len() as u64;
            }
            let bytes = piece.len() as u64;
            self.piece(piece, *left == 0).await?;
            if *left == 0 {
                return Ok(());
            }
            if self.stint.is_over(bytes) {
                // A body that always has more does not keep others waiting.
                tokio::task::yield_now().await;
            }
        }
        if *left != u64::MAX {
            return Err(End::Cut("body-too-short"));
        }
        let mut side = self.side.borrow_mut();
        let Side::Sending(stream) = &mut *side else { return Err(End::ClientGone) };
        let ended = match self.body.trailers() {
            Some(trailers) => stream.send_trailers(trailers),
            None => stream.send_data(Piece::new(Bytes::new(), self.through.ahead, None), true),
        };
        ended.map_err(|_| End::ClientGone)
    }

    /// Sends a piece as windows and the pace allow.
    async fn piece(&mut self, mut bytes: Bytes, is_last: bool) -> Result<(), End> {
        while !bytes.is_empty() {
            let wanted = bytes.len() as u64;
            let allowed = if self.pace.is_some() { self.turn(wanted).await? } else { wanted };
            let room = self.room(allowed).await?;
            let now = bytes.split_to(bytes.len().min(room));
            let sent = now.len() as u64;
            self.hand_on(now, is_last && bytes.is_empty())?;
            if let Some(pace) = self.pace {
                pace.took(sent);
            }
        }
        Ok(())
    }

    /// Hands bytes for which there is room to the crate.
    fn hand_on(&mut self, bytes: Bytes, is_last: bool) -> Result<(), End> {
        let length = bytes.len() as u64;
        let piece = Piece::new(bytes, self.through.ahead, Some(&self.progress));
        let mut side = self.side.borrow_mut();
        let Side::Sending(stream) = &mut *side else { return Err(End::ClientGone) };
        stream.send_data(piece, is_last).map_err(|_| End::ClientGone)?;
        self.through.counters.client_bytes(self.client.site, FRAME_HEAD_BYTES + length);
        self.sent.body_bytes += length;
        self.sent.last_byte = Some(clock::mono());
        Ok(())
    }

    /// Whether there is room for a piece now.
    fn has_room(&mut self) -> bool {
        let Side::Sending(stream) = &mut *self.side.borrow_mut() else { return false };
        stream.reserve_capacity(AHEAD_OF_STREAM_BYTES_MAX);
        stream.capacity() > 0 && self.through.ahead.has_room()
    }

    /// Waits until some of `wanted` bytes may be handed on, and returns how many.
    async fn room(&mut self, wanted: u64) -> Result<usize, End> {
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).min(AHEAD_OF_STREAM_BYTES_MAX);
        if let Side::Sending(stream) = &mut *self.side.borrow_mut() {
            stream.reserve_capacity(wanted);
        }
        let (side, ahead) = (self.side, self.through.ahead);
        let poll = |cx: &mut Context<'_>| match &mut *side.borrow_mut() {
            Side::Sending(stream) => {
                poll_room(stream, ahead, cx).map(|room| room.map(|room| room.min(wanted)))
            }
            Side::Waiting(_) => Poll::Ready(Err(End::ClientGone)),
        };
        self.patiently(poll).await
    }

    /// Waits until all that was handed on has left.
    async fn drained(&mut self) -> End {
        let (side, progress) = (self.side, Rc::clone(&self.progress));
        let poll = |cx: &mut Context<'_>| {
            if progress.poll_empty(cx).is_ready() {
                return Poll::Ready(Ok(0));
            }
            side.borrow_mut().poll_gone(cx).map(|()| Err(End::ClientGone))
        };
        match self.patiently(poll).await {
            Ok(_) => End::Whole,
            Err(end) => end,
        }
    }

    /// Waits for the client, which must take something in each `send_stall`, and so much of a response that
    /// holds an origin. Content of the request goes up meanwhile.
    async fn patiently(
        &mut self,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<Result<usize, End>>,
    ) -> Result<usize, End> {
        let ready = std::future::poll_fn(|cx| Poll::Ready(poll(cx))).await;
        if let Poll::Ready(ready) = ready {
            return ready;
        }
        let limits = self.through.limits;
        let mut begun = clock::mono();
        let mut left = self.progress.left();
        let mut stalled_until = begun + limits.send_stall_max;
        let mut let_go_at = Some(begun + LET_GO_AFTER);
        let mut upload = pin!(meanwhile(&mut *self.client, self.upload));
        loop {
            let until = match &mut self.taking {
                Some(taking) => stalled_until.min(taking.wait(begun, limits.send_stall_max)),
                None => stalled_until,
            };
            let until = let_go_at.map_or(until, |at| until.min(at));
            let waited = tokio::select! {
                biased;
                ready = std::future::poll_fn(&mut poll) => Some(ready),
                () = &mut upload => return Err(End::ClientGone),
                () = tokio::time::sleep_until(until.into()) => None,
            };
            let now = clock::mono();
            let taken = self.progress.left() - std::mem::replace(&mut left, self.progress.left());
            let is_too_slow = self.taking.as_mut().is_some_and(|taking| {
                taking.took(taken);
                taking.waited(now - begun, limits.send_stall_max, limits.read_rate_min)
            });
            begun = now;
            if let Some(ready) = waited {
                return if is_too_slow { Err(End::Cut(READ_RATE)) } else { ready };
            }
            if is_too_slow {
                return Err(End::Cut(READ_RATE));
            }
            if let_go_at.is_some_and(|at| now >= at) && taken == 0 {
                // A client that takes nothing holds nothing that others could use.
                self.body.let_go(Bytes::new());
                let_go_at = self.body.may_let_go().then(|| now + LET_GO_AGAIN_AFTER);
            }
            if taken > 0 {
                stalled_until = now + limits.send_stall_max;
                let_go_at = Some(now + LET_GO_AFTER);
            } else if now >= stalled_until {
                return Err(End::Cut(SEND_STALL));
            }
        }
    }

    /// The body's next piece. A client that goes away ends the wait.
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, End> {
        let Sending { side, client, body, upload, .. } = self;
        let mut next = pin!(body.next(bytes_max));
        let ready = std::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await;
        if let Poll::Ready(piece) = ready {
            return piece.map_err(|cut| End::Cut(cut.word));
        }
        if let Side::Sending(stream) = &mut *side.borrow_mut() {
            stream.reserve_capacity(0);
        }
        tokio::select! {
            biased;
            piece = &mut next => piece.map_err(|cut| End::Cut(cut.word)),
            () = meanwhile(client, upload) => Err(End::ClientGone),
        }
    }

    /// Waits until the pace allows some of `wanted` bytes, and returns how many.
    async fn turn(&mut self, wanted: u64) -> Result<u64, End> {
        loop {
            let Some(pace) = self.pace else { return Ok(wanted) };
            pace.look().await;
            // A client cannot choose to hold an origin for long.
            let least = if self.body.holds_origin() { self.through.limits.read_rate_min } else { 0 };
            let until: Instant = match pace.turn(clock::mono(), wanted, least) {
                Turn::Go(bytes) => return Ok(bytes),
                Turn::Wait(until) => until,
            };
            if until.saturating_duration_since(clock::mono()) >= LET_GO_AFTER {
                // A client that may take little for long holds as little as one that takes nothing.
                self.body.let_go(Bytes::new());
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until.into()) => {}
                () = meanwhile(self.client, self.upload) => return Err(End::ClientGone),
            }
        }
    }
}

/// The words for a client that takes nothing, or too little, or has its share of memory.
const SEND_STALL: &str = "send-stall";
const READ_RATE: &str = "read-rate";
const MEMORY_SHARE: &str = "memory-share";
/// What was at hand is not any more.
const GONE_BODY: End = End::Cut("generation-gone");

/// Ready with the bytes for which stream and connection have room.
pub(super) fn poll_room(
    stream: &mut SendStream<Piece>,
    ahead: &Ahead,
    cx: &mut Context<'_>,
) -> Poll<Result<usize, End>> {
    loop {
        let capacity = stream.capacity();
        if capacity > 0 {
            if ahead.poll_room(cx).is_ready() {
                return Poll::Ready(Ok(capacity));
            }
            return stream.poll_reset(cx).map(|_| Err(End::ClientGone));
        }
        match stream.poll_capacity(cx) {
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(_) => return Poll::Ready(Err(End::ClientGone)),
            Poll::Pending => return stream.poll_reset(cx).map(|_| Err(End::ClientGone)),
        }
    }
}

/// Moves the request's content up. Ready when the client is gone or its content cannot be read.
async fn meanwhile(client: &mut StreamClient<'_>, upload: &mut Option<Box<dyn Upload>>) {
    match upload {
        None => gone(client as &mut dyn Client).await,
        Some(upload) => while upload.pump(client).await.is_ok() {},
    }
}
