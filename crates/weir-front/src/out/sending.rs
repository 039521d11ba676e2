//! Sends the content of a response into a [`Sink`]: as fast as its pace and its client allow, with the
//! request's content going up meanwhile. A client that takes nothing holds nothing that others could use, and
//! one that takes too little is cut. It must not change what the service answered.
//!
//! A body is sent *at once*, where all of it lies in memory and there is room for it. Otherwise its bytes are
//! sent as they are for now, *sealed* or *at hand*, and from then on in *pieces* that are asked for.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use weir_clock::{self as clock, Deadline};
use weir_sealed::Way;
use weir_yield::Stint;

use super::extent::Extent;
use super::lent::Lent;
use super::sink::{Gone, Sink};
use crate::limits::{LET_GO_AFTER, LET_GO_AGAIN_AFTER};
use crate::message::{Body, Client, ContentError, Done, End, Pace, Sent, Turn, Upload, gone};
use crate::taking::Taking;

/// The most bytes that a body is asked for at a time.
const PIECE_BYTES_MAX: u64 = 256 << 10;
/// The same for a body with a limited rate, whose bytes are held until all of them are sent.
const PACED_BYTES_MAX: u64 = 64 << 10;
/// The longest body that is sent without a look at anything else.
const AT_ONCE_BYTES_MAX: u64 = 64 << 10;
/// The most bytes that the kernel is asked to send at a time. Others run before the next ones: a client that
/// takes everything at once does not keep them waiting.
const SEALED_BYTES_MAX: u64 = 1 << 20;
/// The fewest bytes for which the kernel is asked: fewer leave with the head, in one call.
const SEALED_BYTES_MIN: u64 = 64 << 10;

/// The words for a client that takes nothing, or too little, or has its share of memory.
const SEND_STALL: &str = "send-stall";
const READ_RATE: &str = "read-rate";
pub(crate) const MEMORY_SHARE: &str = "memory-share";
/// What was at hand is not any more.
const GONE_BODY: End = End::Cut("generation-gone");

/// Nothing was sent of a response, whose head has this status.
pub(crate) fn unsent(status: Option<StatusCode>, end: End) -> Done {
    let sent = Sent { body_bytes: 0, first_byte: None, last_byte: None, end };
    Done { status, sent, ended: clock::mono() }
}

/// A body on its way to the client.
pub(crate) struct Sending<'r, K, B, P> {
    sink: K,
    extent: Extent,
    /// The bytes that are still to come; `u64::MAX` where nobody knows.
    left: u64,
    body: &'r mut B,
    pace: &'r mut Option<Box<P>>,
    upload: &'r mut Option<Box<dyn Upload>>,
    noted: Noted,
}

/// What is known of a body's way so far.
#[derive(Default)]
struct Noted {
    first_byte: Option<Instant>,
    last_byte: Option<Instant>,
    /// The bytes that the pace was told of.
    told_bytes: u64,
    /// The bytes that had left when the sink was last looked at.
    seen_bytes: u64,
    /// The rate of the client, if a least rate applies.
    taking: Option<Taking>,
    /// Made for the first wait.
    timer: Option<Deadline>,
    stint: Stint,
}

impl<'r, K: Sink, B: Body, P: Pace> Sending<'r, K, B, P> {
    pub(crate) fn new(
        sink: K,
        extent: Extent,
        body: &'r mut B,
        pace: &'r mut Option<Box<P>>,
        upload: &'r mut Option<Box<dyn Upload>>,
    ) -> Self {
        let left = extent.declared().unwrap_or(u64::MAX);
        Sending { sink, extent, left, body, pace, upload, noted: Noted::default() }
    }

    /// Sends a short body that is at hand, if there is room for all of it. `None` where some is left.
    pub(crate) fn at_once(&mut self) -> Option<End> {
        let is_short = matches!(self.extent, Extent::Length(0..=AT_ONCE_BYTES_MAX));
        if !is_short || self.pace.is_some() || self.is_sealed() {
            return None;
        }
        self.body.at_hand()?;
        while self.left > 0 {
            let (blocks, within, held) = self.body.at_hand().filter(|(_, _, held)| *held > 0)?;
            if self.sink.room(self.left) < self.left {
                return None;
            }
            match self.sink.gather(blocks, within, held.min(self.left), self.left) {
                Ok(bytes) => self.advance(bytes),
                Err(Gone) => return Some(self.sink.gone()),
            }
        }
        let over = self.sink.poll_over(&mut Context::from_waker(Waker::noop()));
        matches!(over, Poll::Ready(Ok(()))).then_some(End::Whole)
    }

    /// Sends what is left of a body. To be followed by [`Sending::finish`].
    ///
    /// # Cancel safety
    /// Not safe: a sink that is dropped in the middle of a message has no other after it.
    pub(crate) async fn rest(&mut self) -> End {
        let end = match self.all().await {
            Ok(()) => return self.wait(K::poll_over, None).await.err().unwrap_or(End::Whole),
            Err(end) => end,
        };
        if let End::Cut(word) = end
            && !matches!(word, SEND_STALL | READ_RATE)
        {
            // What was sent before leaves first; the cut would overtake it.
            tokio::task::yield_now().await;
            let _ = self.wait(K::poll_over, None).await;
        }
        end
    }

    /// Closes the sink. Returns what was sent.
    pub(crate) fn finish(mut self, end: End) -> Sent {
        self.sink.close(end);
        let Noted { first_byte, last_byte, .. } = self.noted;
        Sent { body_bytes: self.sink.body_bytes(), first_byte, last_byte, end }
    }

    /// Sends a body, however its bytes come. Where its length is known that may change on the way: a body
    /// that lies in blocks can move to a file, and one whose client is slow lets go of both.
    async fn all(&mut self) -> Result<(), End> {
        match self.extent {
            Extent::Nothing(_) => return Ok(()),
            Extent::Open => return self.pieces().await,
            Extent::Length(_) => {}
        }
        loop {
            if self.is_sealed() {
                self.sealed().await?;
            } else if self.body.at_hand().is_some() {
                self.at_hand().await?;
            } else {
                return self.pieces().await;
            }
            if self.left == 0 {
                return Ok(());
            }
        }
    }

    /// Whether so many bytes are left that the kernel is asked to send them, and it can.
    fn is_sealed(&mut self) -> bool {
        let is_long = self.left >= SEALED_BYTES_MIN;
        is_long && self.sink.client().way() == Way::Plain && self.body.sealed().is_some()
    }

    /// Has the kernel send a body that lies in sealed memory, while it lies there.
    async fn sealed(&mut self) -> Result<(), End> {
        while self.left > 0 {
            let allowed = self.allowed(self.left.min(SEALED_BYTES_MAX), None).await?;
            let Some(held) = self.body.sealed() else { break };
            let part = held.at_most(allowed);
            if part.is_empty() {
                return Err(GONE_BODY);
            }
            let sent = self.sink.put_sealed(part);
            self.sent_at_hand(sent).await?;
        }
        Ok(())
    }

    /// Sends what lies in memory straight from its blocks, while it lies there.
    async fn at_hand(&mut self) -> Result<(), End> {
        while self.left > 0 {
            let allowed = self.allowed(self.left, None).await?;
            // The body may have let go of its blocks: the rest follows piece by piece.
            let Some((blocks, within, held)) = self.body.at_hand() else { break };
            if held == 0 {
                return Err(GONE_BODY);
            }
            let sent = self.sink.gather(blocks, within, held.min(allowed), self.left);
            self.sent_at_hand(sent).await?;
        }
        Ok(())
    }

    async fn sent_at_hand(&mut self, sent: Result<u64, Gone>) -> Result<(), End> {
        let bytes = sent.map_err(|Gone| self.sink.gone())?;
        self.advance(bytes);
        if self.left > 0 {
            self.let_others_run(bytes).await;
        }
        Ok(())
    }

    /// Takes what was sent off the body and off what is left.
    fn advance(&mut self, bytes: u64) {
        self.note();
        self.noted.last_byte = Some(clock::mono());
        self.body.advance(bytes);
        self.left -= bytes;
    }

    /// Sends what is left of a body piece by piece. A piece is asked for when there is room for it.
    async fn pieces(&mut self) -> Result<(), End> {
        // What was at hand before was not the last of it.
        self.noted.last_byte = None;
        let most = if self.pace.is_some() { PACED_BYTES_MAX } else { PIECE_BYTES_MAX };
        loop {
            if self.left == 0 && K::ENDS_BY_LENGTH {
                break;
            }
            // An end needs no room, and without a length nobody knows that it is the end.
            let is_early = self.left == u64::MAX && K::EARLY_BYTES_MAX > 0 && self.sink.room(most) == 0;
            let room = match self.left {
                0 => most,
                _ if is_early => K::EARLY_BYTES_MAX,
                _ => self.room(most, None).await?,
            };
            let Some(mut piece) = self.next(usize::try_from(room).unwrap_or(usize::MAX)).await? else {
                break;
            };
            if is_early {
                // No block is held for a client that takes nothing.
                piece = Bytes::copy_from_slice(&piece);
            }
            match self.body.holds_origin() {
                true => drop(self.noted.taking.get_or_insert_default()),
                false => self.noted.taking = None,
            }
            let bytes = piece.len() as u64;
            // Invariant of the protocol: never more bytes than were declared.
            if bytes > self.left {
                return Err(End::Cut("body-too-long"));
            }
            self.piece(piece).await?;
            self.let_others_run(bytes).await;
        }
        match self.left {
            0 => Ok(()),
            u64::MAX => self.sink.end(self.body.trailers()).map_err(|Gone| self.sink.gone()),
            _ => Err(End::Cut("body-too-short")),
        }
    }

    /// Sends a piece as fast as the pace and the client allow, but for what the body takes back, because the
    /// client took nothing for a while.
    async fn piece(&mut self, mut piece: Bytes) -> Result<(), End> {
        while !piece.is_empty() {
            let allowed = self.allowed(piece.len() as u64, Some(&mut piece)).await?;
            if piece.is_empty() {
                return Ok(());
            }
            let before = piece.len() as u64;
            self.sink.put(&mut piece, allowed.min(before), self.left).map_err(|Gone| self.sink.gone())?;
            self.note();
            if self.left != u64::MAX {
                self.left -= before - piece.len() as u64;
            }
        }
        Ok(())
    }

    /// The body's next piece. If it is not there at once, printed bytes are sent first. A client that goes
    /// away ends the wait. The body is asked once: it may ask an origin itself.
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, End> {
        let mut next = pin!(self.body.next(bytes_max));
        let mut piece = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await;
        if piece.is_pending() {
            let most = self.sink.limits().send_stall_max;
            loop {
                let before = self.sink.left_bytes();
                match tokio::time::timeout(most, poll_fn(|cx| self.sink.poll_idle(cx))).await {
                    Ok(Ok(())) => break,
                    Ok(Err(Gone)) => return Err(self.sink.gone()),
                    Err(_) if self.sink.left_bytes() == before => return Err(End::Cut(SEND_STALL)),
                    Err(_) => {}
                }
            }
            self.noted.first_byte.get_or_insert_with(clock::mono);
            piece = tokio::select! {
                biased;
                piece = &mut next => Poll::Ready(piece),
                () = meanwhile(self.sink.client(), self.upload) => Poll::Pending,
            };
        }
        match piece {
            Poll::Ready(piece) => piece.map_err(|cut| End::Cut(cut.word)),
            Poll::Pending => Err(self.sink.gone()),
        }
    }

    /// Waits until there is room for some of `wanted` bytes and the pace allows them, and returns how many.
    /// Printed bytes do not wait for them. A client that goes away ends the wait.
    async fn allowed(&mut self, wanted: u64, mut unsent: Option<&mut Bytes>) -> Result<u64, End> {
        loop {
            let room = self.room(wanted, unsent.as_deref_mut()).await?;
            let Some(pace) = self.pace else { return Ok(room) };
            pace.look().await;
            // A client cannot choose to hold an origin for long.
            let least = if self.body.holds_origin() { self.sink.limits().read_rate_min } else { 0 };
            let until = match pace.turn(clock::mono(), room, least) {
                Turn::Go(bytes) => return Ok(bytes),
                Turn::Wait(until) => until,
            };
            self.wait(K::poll_idle, None).await?;
            if until.saturating_duration_since(clock::mono()) >= LET_GO_AFTER {
                // A client that may take little for long holds as little as one that takes nothing.
                self.let_go(None);
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until.into()) => {}
                () = meanwhile(self.sink.client(), self.upload) => return Err(self.sink.gone()),
            }
        }
    }

    /// Waits until there is room for some of `wanted` bytes, and returns for how many. As [`Sending::wait`].
    async fn room(&mut self, wanted: u64, unsent: Option<&mut Bytes>) -> Result<u64, End> {
        match self.sink.room(wanted) {
            0 => self.wait(|sink, cx| sink.poll_room(cx, wanted), unsent).await,
            room => Ok(room),
        }
    }

    /// Waits for the client, which must take something in each `send_stall`, and so much of a response that
    /// holds an origin. After a moment in which it takes nothing, the body lets go of what others could use,
    /// and takes back `unsent` if it can have it again: what is left there it cannot. Content of the request
    /// goes up meanwhile.
    async fn wait<T>(
        &mut self,
        poll: impl Fn(&mut K, &mut Context<'_>) -> Poll<Result<T, Gone>>,
        mut unsent: Option<&mut Bytes>,
    ) -> Result<T, End> {
        if let Poll::Ready(ready) = poll_fn(|cx| Poll::Ready(poll(&mut self.sink, cx))).await {
            self.note();
            return ready.map_err(|Gone| self.sink.gone());
        }
        let limits = self.sink.limits();
        let (stall_max, rate_min) = (limits.send_stall_max, limits.read_rate_min);
        let taken = self.taken();
        self.noted.taking.iter_mut().for_each(|taking| taking.took(taken));
        let mut begun = clock::mono();
        let mut stalled_at = begun + stall_max;
        let mut let_go_at = Some(begun + LET_GO_AFTER);
        loop {
            let rated_at = self.noted.taking.as_mut().map(|taking| taking.wait(begun, stall_max));
            let until = [rated_at, let_go_at].into_iter().flatten().fold(stalled_at, Instant::min);
            let ready = self.until(&poll, until).await;
            let (now, taken) = (clock::mono(), self.taken());
            let is_too_slow = self.noted.taking.as_mut().is_some_and(|taking| {
                taking.took(taken);
                taking.waited(now - begun, stall_max, rate_min)
            });
            begun = now;
            let ready = ready.transpose().map_err(|Gone| self.sink.gone())?;
            if taken == 0 && ready.is_none() && now >= stalled_at {
                return Err(End::Cut(SEND_STALL));
            }
            if is_too_slow {
                return Err(End::Cut(READ_RATE));
            }
            if let Some(ready) = ready {
                self.note();
                return Ok(ready);
            }
            if taken > 0 {
                (stalled_at, let_go_at) = (now + stall_max, Some(now + LET_GO_AFTER));
            } else if let_go_at.is_some_and(|at| now >= at) {
                self.let_go(unsent.as_deref_mut());
                let_go_at = self.body.may_let_go().then(|| now + LET_GO_AGAIN_AFTER);
            }
        }
    }

    /// Waits once, until `until` at most: then `None`.
    async fn until<T>(
        &mut self,
        poll: impl Fn(&mut K, &mut Context<'_>) -> Poll<Result<T, Gone>>,
        until: Instant,
    ) -> Option<Result<T, Gone>> {
        let timer = self.noted.timer.get_or_insert_with(|| Deadline::after(Duration::ZERO));
        timer.set(until);
        let sink = RefCell::new(&mut self.sink);
        let mut client = Lent(&sink);
        let mut uploaded = pin!(async {
            if moved_up(&mut client, self.upload).await.is_ok() {
                // The sink says whether the client has gone.
                std::future::pending().await
            }
        });
        poll_fn(|cx| {
            let ready = poll(*sink.borrow_mut(), cx).map(Some);
            if ready.is_pending() && uploaded.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Some(Err(Gone)));
            }
            if ready.is_pending() { timer.poll(cx).map(|()| None) } else { ready }
        })
        .await
    }

    /// How many bytes have left since the last look.
    fn taken(&mut self) -> u64 {
        let left = self.sink.left_bytes();
        left - std::mem::replace(&mut self.noted.seen_bytes, left)
    }

    /// Notes what the sink has taken.
    fn note(&mut self) {
        self.noted.first_byte.get_or_insert_with(clock::mono);
        if let Some(pace) = self.pace {
            let bytes = self.sink.body_bytes();
            pace.took(bytes - std::mem::replace(&mut self.noted.told_bytes, bytes));
        }
    }

    /// Gives back memory until the client takes more. As [`Body::let_go`].
    fn let_go(&mut self, unsent: Option<&mut Bytes>) {
        self.sink.let_go();
        let mut nothing = Bytes::new();
        let unsent = unsent.unwrap_or(&mut nothing);
        *unsent = self.body.let_go(std::mem::take(unsent)).unwrap_or_default();
    }

    /// Ends a stint: a body that always has more does not keep others waiting.
    async fn let_others_run(&mut self, bytes: u64) {
        if self.noted.stint.is_over(bytes) {
            tokio::task::yield_now().await;
        }
    }
}

/// Moves the request's content up. Ready when the client is gone or its content cannot be read.
async fn meanwhile(client: &mut dyn Client, upload: &mut Option<Box<dyn Upload>>) {
    if moved_up(client, upload).await.is_ok() {
        gone(client).await;
    }
}

/// Moves up what is left of the request's content.
///
/// # Errors
/// It cannot be read any further, or the client is gone.
async fn moved_up(client: &mut dyn Client, upload: &mut Option<Box<dyn Upload>>) -> Result<(), ContentError> {
    while let Some(upload) = upload.as_mut().filter(|upload| !upload.is_over()) {
        upload.pump(client).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
