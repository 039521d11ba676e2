//! A client, a body, a pace and an upload that follow a script, so that sending needs no socket.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use weir_clock::{self as clock, Deadline};
use weir_observe::SiteId;
use weir_sealed::{Draft, Sealed, SealedPart, Way};

use super::{Extent, Gone, Sink};
use crate::limits::{ClientLimits, ContentLimits};
use crate::message::{Body, Client, ContentError, Cut, End, LocalFuture, Pace, Part, Turn, Upload};

/// What a client does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It takes so many bytes.
    Takes(u64),
    /// It takes nothing for so many milliseconds.
    Rests(u64),
    /// It goes away.
    Leaves,
}

/// How a sink takes bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As a socket: what it does not take stays where it is.
    Socket,
    /// As a socket that the kernel sends sealed bytes on.
    Plain,
    /// In frames of which it has to send all.
    Chunks,
    /// As a window that has to be open before.
    Window,
}

/// The most that a window lets through at a time.
const WINDOW_BYTES: u64 = 64 << 10;

/// What has happened.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// What has left for the client.
    pub(crate) got: Vec<u8>,
    /// Whether the end of a body of unknown length was told, or the last byte of one of known length.
    pub(crate) is_ended: bool,
    pub(crate) closed: Option<End>,
    pub(crate) trailers: Option<HeaderMap>,
    /// When the body was to let go, and how many bytes it was given back.
    pub(crate) let_go: Vec<(Instant, usize)>,
    /// How often the body was asked for a piece.
    pub(crate) asked: usize,
    /// The longest piece that was asked for.
    pub(crate) asked_bytes_max: usize,
    /// How often something was to leave because nothing else came.
    pub(crate) idle: usize,
    /// Bytes that the kernel has sent.
    pub(crate) sealed_bytes: u64,
    /// Parts of the request's content that went up.
    pub(crate) uploaded: Vec<Instant>,
}

pub(crate) type Records = Rc<RefCell<Record>>;

/// A client that follows a script, and takes all then.
pub(crate) struct Scripted {
    kind: Kind,
    steps: VecDeque<Step>,
    room: u64,
    rests_until: Option<Instant>,
    is_gone: bool,
    timer: Deadline,
    /// What was taken and has not left.
    held: Bytes,
    body_bytes: u64,
    /// Whether its end is to be told once all has left.
    ends: bool,
    limits: ClientLimits,
    record: Records,
}

impl Scripted {
    pub(crate) fn new(kind: Kind, steps: &[Step], record: &Records) -> Scripted {
        Scripted {
            kind,
            steps: steps.iter().copied().collect(),
            room: 0,
            rests_until: None,
            is_gone: false,
            timer: Deadline::after(Duration::ZERO),
            held: Bytes::new(),
            body_bytes: 0,
            ends: false,
            limits: ClientLimits::default(),
            record: Rc::clone(record),
        }
    }

    /// Goes on in the script until the client takes something, rests or has gone.
    fn go_on(&mut self) {
        while self.room == 0 && !self.is_gone {
            if self.rests_until.is_some_and(|until| clock::mono() < until) {
                return;
            }
            self.rests_until = None;
            match self.steps.pop_front() {
                None => self.room = u64::MAX,
                Some(Step::Takes(bytes)) => self.room = bytes,
                Some(Step::Rests(ms)) => self.rests_until = Some(clock::mono() + Duration::from_millis(ms)),
                Some(Step::Leaves) => self.is_gone = true,
            }
        }
    }

    /// Has the client take what it takes now of these bytes.
    fn take(&mut self, bytes: &[u8]) -> Result<usize, Gone> {
        let mut taken = 0;
        loop {
            self.go_on();
            if self.is_gone && taken == 0 {
                return Err(Gone);
            }
            let now = (bytes.len() - taken).min(usize::try_from(self.room).unwrap_or(usize::MAX));
            if now == 0 {
                return Ok(taken);
            }
            self.record.borrow_mut().got.extend_from_slice(&bytes[taken..taken + now]);
            taken += now;
            self.room -= if self.room == u64::MAX { 0 } else { now as u64 };
        }
    }

    fn take_held(&mut self) -> Result<(), Gone> {
        let held = std::mem::take(&mut self.held);
        let taken = self.take(&held)?;
        self.body_bytes += taken as u64;
        self.held = held.slice(taken..);
        Ok(())
    }

    fn put_slice(&mut self, bytes: &[u8], left: u64) -> Result<u64, Gone> {
        assert!(self.held.is_empty(), "bytes before others that have not left");
        let taken = match self.kind {
            Kind::Chunks => {
                self.held = Bytes::copy_from_slice(bytes);
                self.take_held()?;
                bytes.len()
            }
            _ => {
                let taken = self.take(bytes)?;
                self.body_bytes += taken as u64;
                taken
            }
        };
        assert!(self.kind != Kind::Window || taken == bytes.len(), "there was no room");
        self.record.borrow_mut().is_ended |= taken as u64 == left;
        Ok(taken as u64)
    }

    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        loop {
            self.go_on();
            if self.is_gone {
                return Poll::Ready(Err(Gone));
            }
            if self.room > 0 {
                return Poll::Ready(Ok(()));
            }
            if let Some(until) = self.rests_until {
                self.timer.set(until);
                ready!(self.timer.poll(cx));
            }
        }
    }
}

impl Sink for Scripted {
    const EARLY_BYTES_MAX: u64 = 1 << 10;

    fn client(&mut self) -> &mut dyn Client {
        self
    }

    fn limits(&self) -> &ClientLimits {
        &self.limits
    }

    fn room(&mut self, wanted: u64) -> u64 {
        self.go_on();
        let most = if self.kind == Kind::Window { WINDOW_BYTES.min(self.room) } else { u64::MAX };
        if self.room == 0 || self.is_gone || !self.held.is_empty() { 0 } else { wanted.min(most) }
    }

    fn poll_room(&mut self, cx: &mut Context<'_>, wanted: u64) -> Poll<Result<u64, Gone>> {
        loop {
            ready!(self.poll_more(cx))?;
            if self.held.is_empty() {
                return Poll::Ready(Ok(self.room(wanted)));
            }
            self.take_held()?;
        }
    }

    fn put(&mut self, piece: &mut Bytes, most: u64, left: u64) -> Result<(), Gone> {
        let now = piece.slice(..usize::try_from(most).unwrap());
        let taken = self.put_slice(&now, left)?;
        *piece = piece.slice(usize::try_from(taken).unwrap()..);
        Ok(())
    }

    fn gather(&mut self, blocks: &[Bytes], within: usize, most: u64, left: u64) -> Result<u64, Gone> {
        let all = blocks.concat();
        let end = all.len().min(within.saturating_add(usize::try_from(most).unwrap_or(usize::MAX)));
        self.put_slice(&all[within..end], left)
    }

    fn put_sealed(&mut self, part: SealedPart<'_>) -> Result<u64, Gone> {
        let taken = self.put_slice(part.bytes(), u64::MAX)?;
        self.record.borrow_mut().sealed_bytes += taken;
        Ok(taken)
    }

    fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), Gone> {
        self.ends = true;
        self.record.borrow_mut().trailers = trailers;
        Ok(())
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        self.record.borrow_mut().idle += 1;
        self.poll_over(cx)
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        while !self.held.is_empty() {
            ready!(self.poll_more(cx))?;
            self.take_held()?;
        }
        self.record.borrow_mut().is_ended |= self.ends;
        Poll::Ready(Ok(()))
    }

    fn close(&mut self, end: End) {
        let mut record = self.record.borrow_mut();
        assert_eq!(record.closed.replace(end), None, "closed twice");
    }

    fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    fn left_bytes(&self) -> u64 {
        self.record.borrow().got.len() as u64
    }
}

impl Client for Scripted {
    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        if self.is_gone { Poll::Ready(()) } else { Poll::Pending }
    }

    fn content(&mut self) -> LocalFuture<'_, Result<Part, ContentError>> {
        Box::pin(async { Ok(Part::End) })
    }

    fn bound_content(&mut self, _: ContentLimits) {}

    fn interim(&mut self, _: StatusCode, _: &HeaderMap) -> Result<(), ContentError> {
        Ok(())
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn moved(&mut self) {}

    fn way(&self) -> Way {
        if self.kind == Kind::Plain { Way::Plain } else { Way::Other }
    }

    fn count_for(&mut self, _: SiteId) {}
}

/// So many bytes of all bodies, from an offset on.
pub(crate) fn pattern(at: usize, bytes: usize) -> Vec<u8> {
    (at..at + bytes).map(|at| (at % 251) as u8).collect()
}

/// Where the bytes of a body are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lies {
    /// In blocks of so many bytes.
    AtHand(usize),
    /// In sealed memory.
    Sealed,
    /// They come in pieces of so many bytes, each after so many milliseconds.
    Comes(usize, u64),
}

/// A body by a script.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) lies: Lies,
    /// So many bytes come before the end.
    pub(crate) bytes: usize,
    /// The word, if it breaks off there.
    pub(crate) cut: Option<&'static str>,
    /// Whether an origin waits for the client.
    pub(crate) holds_origin: bool,
    /// Whether bytes can be had again: then it lets go, and goes on with pieces.
    pub(crate) is_kept: bool,
}

impl Script {
    pub(crate) fn new(lies: Lies, bytes: usize) -> Script {
        Script { lies, bytes, cut: None, holds_origin: false, is_kept: false }
    }

    pub(crate) fn begin(&self, record: &Records) -> Scribed {
        let Script { lies, bytes, .. } = *self;
        let mut blocks = Vec::new();
        if let Lies::AtHand(block) = lies {
            let all = Bytes::from(pattern(0, bytes));
            blocks = (0..bytes).step_by(block).map(|at| all.slice(at..bytes.min(at + block))).collect();
        }
        let sealed = (lies == Lies::Sealed).then(|| sealed(bytes));
        Scribed { script: self.clone(), at: 0, blocks, sealed, record: Rc::clone(record) }
    }
}

fn sealed(bytes: usize) -> Sealed {
    let draft = Draft::new("scripted").unwrap();
    let mut file: &File = draft.file();
    file.write_all(&pattern(0, bytes)).unwrap();
    draft.seal(()).unwrap()
}

/// A body that follows its script.
pub(crate) struct Scribed {
    script: Script,
    at: usize,
    blocks: Vec<Bytes>,
    sealed: Option<Sealed>,
    record: Records,
}

impl Body for Scribed {
    fn at_hand(&self) -> Option<(&[Bytes], usize, u64)> {
        let Lies::AtHand(block) = self.script.lies else { return None };
        let first = (self.at / block).min(self.blocks.len());
        Some((&self.blocks[first..], self.at - first * block, (self.script.bytes - self.at) as u64))
    }

    fn sealed(&self) -> Option<SealedPart<'_>> {
        self.sealed.as_ref()?.part(self.at as u64..self.script.bytes as u64)
    }

    fn advance(&mut self, bytes: u64) {
        self.at += usize::try_from(bytes).unwrap();
        assert!(self.at <= self.script.bytes);
    }

    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        self.record.borrow_mut().asked += 1;
        let (most, wait) = match self.script.lies {
            Lies::Comes(most, wait) => (most, wait),
            _ => (usize::MAX, 0),
        };
        if wait > 0 {
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        let mut record = self.record.borrow_mut();
        record.asked_bytes_max = record.asked_bytes_max.max(bytes_max);
        let bytes = most.min(bytes_max).min(self.script.bytes - self.at);
        if bytes == 0 {
            return self.script.cut.map_or(Ok(None), |word| Err(Cut { word }));
        }
        self.at += bytes;
        Ok(Some(pattern(self.at - bytes, bytes).into()))
    }

    fn holds_origin(&self) -> bool {
        self.script.holds_origin
    }

    fn let_go(&mut self, unsent: Bytes) -> Option<Bytes> {
        self.record.borrow_mut().let_go.push((clock::mono(), unsent.len()));
        if !self.script.is_kept {
            return Some(unsent).filter(|unsent| !unsent.is_empty());
        }
        self.at -= unsent.len();
        (self.script.lies, self.sealed) = (Lies::Comes(100_000, 0), None);
        None
    }

    fn may_let_go(&self) -> bool {
        self.script.is_kept
    }

    fn trailers(&mut self) -> Option<HeaderMap> {
        None
    }
}

/// So many bytes in each second.
pub(crate) struct Slow {
    pub(crate) bytes: u64,
    second: Option<Instant>,
    left: u64,
}

impl Slow {
    pub(crate) fn new(bytes: u64) -> Slow {
        Slow { bytes, second: None, left: 0 }
    }
}

impl Pace for Slow {
    async fn look(&mut self) {}

    fn turn(&mut self, now: Instant, wanted: u64, _: u64) -> Turn {
        let begun = *self.second.get_or_insert_with(|| {
            self.left = self.bytes;
            now
        });
        if now >= begun + Duration::from_secs(1) {
            (self.second, self.left) = (Some(now), self.bytes);
        }
        match self.left {
            0 => Turn::Wait(begun + Duration::from_secs(1)),
            left => Turn::Go(left.min(wanted)),
        }
    }

    fn took(&mut self, bytes: u64) {
        self.left = self.left.checked_sub(bytes).expect("no more than was allowed");
    }
}

/// Content that has a part each second.
pub(crate) struct Parts {
    next: Instant,
    record: Records,
}

impl Parts {
    pub(crate) fn new(record: &Records) -> Parts {
        Parts { next: clock::mono() + Duration::from_secs(1), record: Rc::clone(record) }
    }
}

impl Upload for Parts {
    fn pump<'f>(&'f mut self, _: &'f mut dyn Client) -> LocalFuture<'f, Result<(), ContentError>> {
        Box::pin(async {
            tokio::time::sleep_until(self.next.into()).await;
            self.next += Duration::from_secs(1);
            self.record.borrow_mut().uploaded.push(clock::mono());
            Ok(())
        })
    }

    fn is_over(&self) -> bool {
        false
    }
}

/// A body, how far it goes by its head, how its client takes it, and how that ends.
pub(crate) type Row = (Script, Extent, Vec<Step>, End);

/// What holds of each sink, in whatever way it takes bytes.
pub(crate) fn rows() -> Vec<Row> {
    use Step::{Leaves, Rests, Takes};
    const LONG: usize = 1_000_000;
    let lies =
        [Lies::AtHand(LONG), Lies::AtHand(10_000), Lies::Sealed, Lies::Comes(LONG, 0), Lies::Comes(7777, 3)];
    let quick =
        [vec![], vec![Takes(10), Rests(50), Takes(70_000)], vec![Rests(150), Takes(70_000), Rests(3000)]];
    let length = |bytes: usize| Extent::Length(bytes as u64);
    let mut rows = Vec::new();
    for lies in lies {
        let whole = Script::new(lies, LONG);
        for steps in &quick {
            rows.push((whole.clone(), length(LONG), steps.clone(), End::Whole));
            rows.push((Script { is_kept: true, ..whole.clone() }, length(LONG), steps.clone(), End::Whole));
            rows.push((Script::new(lies, 1000), length(1000), steps.clone(), End::Whole));
        }
        rows.push((whole.clone(), length(LONG), vec![Takes(5000), Rests(10), Leaves], End::ClientGone));
        rows.push((whole, length(LONG), vec![Takes(5000), Rests(61_000)], End::Cut("send-stall")));
    }
    for steps in quick {
        let comes = |bytes| Script::new(Lies::Comes(30_000, 1), bytes);
        let cut = Script { cut: Some("origin-gone"), ..comes(100_000) };
        let at_hand = Script::new(Lies::AtHand(10_000), 100_000);
        let mut row = |script: Script, extent, end| rows.push((script, extent, steps.clone(), end));
        row(comes(100_000), Extent::Open, End::Whole);
        row(comes(0), Extent::Open, End::Whole);
        row(cut.clone(), Extent::Open, End::Cut("origin-gone"));
        row(cut, length(200_000), End::Cut("origin-gone"));
        row(comes(99_999), length(100_000), End::Cut("body-too-short"));
        row(comes(100_001), length(100_000), End::Cut("body-too-long"));
        row(at_hand, length(100_001), End::Cut("generation-gone"));
    }
    rows
}
