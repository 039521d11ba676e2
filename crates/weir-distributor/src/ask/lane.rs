//! What the questions of one worker share: their table, sockets for datagrams, and a connection to each
//! distributor that takes connections. One task reads datagrams and ends tries whose time is over.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Sleep;

use super::ids::Ids;
use super::open::{Known, Open};
use super::settings::Settings;
use super::stream::{self, Line};
use super::udp::Datagrams;
use crate::clock;
use crate::counts::{Count, Counts};
use crate::format::{Answer, AnswerHead};
use crate::place::Place;

/// The sockets and open questions of one worker.
#[derive(Debug)]
pub(super) struct Lane {
    settings: Arc<Settings>,
    counts: Arc<Counts>,
    open: Mutex<Open>,
    ids: Mutex<Ids>,
    v4: Option<Datagrams>,
    v6: Option<Datagrams>,
    /// By distributor.
    lines: Vec<Option<Arc<Line>>>,
    is_tended: AtomicBool,
}

/// Whether a question went out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Out,
    /// It did not; another distributor may be asked.
    Not,
    /// Too many questions are open.
    Full,
}

impl Lane {
    /// The lane of the worker that calls. Its tasks run there, until `closing` is dropped.
    pub(super) fn open_here(
        settings: &Arc<Settings>,
        counts: &Arc<Counts>,
        closing: &watch::Sender<()>,
    ) -> io::Result<Arc<Lane>> {
        let udp = |place: &Place| match place {
            Place::Udp(address) => Some(*address),
            _ => None,
        };
        let (v4, v6): (Vec<SocketAddr>, Vec<SocketAddr>) =
            settings.distributors.iter().filter_map(udp).partition(SocketAddr::is_ipv4);
        let line = |place: &Place| place.is_stream().then(|| Arc::new(Line::new(place.clone())));
        let lane = Arc::new(Lane {
            v4: Datagrams::towards(&v4)?,
            v6: Datagrams::towards(&v6)?,
            lines: settings.distributors.iter().map(line).collect(),
            settings: settings.clone(),
            counts: counts.clone(),
            open: Mutex::default(),
            ids: Mutex::default(),
            is_tended: AtomicBool::new(true),
        });
        tokio::spawn(tend(lane.clone(), closing.subscribe()));
        for (at, line) in lane.lines.iter().enumerate() {
            if let Some(line) = line {
                tokio::spawn(stream::tend(line.clone(), at, lane.clone(), closing.subscribe()));
            }
        }
        Ok(lane)
    }

    /// Whether its task runs.
    pub(super) fn is_tended(&self) -> bool {
        self.is_tended.load(Ordering::Relaxed)
    }

    /// How many questions are open.
    pub(super) fn open(&self) -> usize {
        self.open.lock().count()
    }

    /// A number for a question.
    pub(super) fn id(&self) -> u64 {
        // Without random numbers of the system no number is safe, and TLS does not work either.
        self.ids.lock().next().unwrap_or_default()
    }

    /// A question of this number; it is closed when that is dropped.
    pub(super) fn begin(&self, id: u64) -> Asking<'_> {
        Asking { lane: self, id }
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Something has arrived from a distributor, or from a stranger.
    pub(super) fn take(&self, bytes: &[u8], distributor: Option<usize>) {
        match self.judge(bytes, distributor) {
            Ok(waker) => waker.into_iter().for_each(Waker::wake),
            Err(count) => self.counts.add(count),
        }
    }

    fn judge(&self, bytes: &[u8], distributor: Option<usize>) -> Result<Option<Waker>, Count> {
        let from = distributor.ok_or(Count::Foreign)?;
        let head = AnswerHead::read(bytes).map_err(|_| Count::Malformed)?;
        // Signatures cost time: only those of answers to open questions are looked at.
        self.open.lock().expects(head.id, distributor)?;
        let answer = head.answer(bytes, &self.settings.keys).map_err(|bad| match bad {
            crate::format::Bad::Forged => Count::Forged,
            _ => Count::Malformed,
        })?;
        Ok(self.open.lock().answer(head.id, answer, from))
    }

    fn distributor_at(&self, address: SocketAddr) -> Option<usize> {
        let is_it = |place: &Place| matches!(place, Place::Udp(known) if *known == address);
        self.settings.distributors.iter().position(is_it)
    }

    fn poll_datagrams(&self, cx: &mut Context<'_>) {
        for datagrams in [&self.v4, &self.v6].into_iter().flatten() {
            let mut take = |bytes: &[u8], from: SocketAddr| self.take(bytes, self.distributor_at(from));
            // A socket without readiness is one of a runtime that ends.
            let _ = datagrams.poll(cx, &mut take);
        }
    }

    /// Ends tries whose time is over.
    fn poll_ends(&self, cx: &mut Context<'_>, (timer, woken): (&mut Timer, &mut Vec<Waker>)) {
        loop {
            let next = {
                let mut open = self.open.lock();
                open.watch = Some(cx.waker().clone());
                open.expire(clock::now(), woken)
            };
            woken.drain(..).for_each(Waker::wake);
            let Some(next) = next else { return };
            if timer.poll(cx, next).is_pending() {
                return;
            }
        }
    }
}

/// One timer that is set about once for each time it runs down: to move its end away costs nothing.
#[derive(Default)]
struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    fn poll(&mut self, cx: &mut Context<'_>, end: Instant) -> Poll<()> {
        let end = tokio::time::Instant::from_std(end);
        let sleep = self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        if sleep.is_elapsed() || sleep.deadline() > end {
            sleep.as_mut().reset(end);
        }
        sleep.as_mut().poll(cx)
    }
}

/// Reads and watches until the asker is dropped.
async fn tend(lane: Arc<Lane>, mut closing: watch::Receiver<()>) {
    let tended = Tended(lane);
    let (lane, mut timer, mut woken) = (&tended.0, Timer::default(), Vec::new());
    let watching = poll_fn(|cx| {
        lane.poll_datagrams(cx);
        lane.poll_ends(cx, (&mut timer, &mut woken));
        Poll::<()>::Pending
    });
    tokio::select! {
        () = watching => {}
        // It says nothing: it is dropped.
        _ = closing.changed() => {}
    }
}

/// Nobody waits for a lane that nothing tends.
struct Tended(Arc<Lane>);

impl Drop for Tended {
    fn drop(&mut self) {
        self.0.is_tended.store(false, Ordering::Relaxed);
        let woken = self.0.open.lock().end();
        woken.into_iter().for_each(Waker::wake);
    }
}

/// A question under way.
pub(super) struct Asking<'l> {
    lane: &'l Lane,
    id: u64,
}

impl Asking<'_> {
    /// Sends it to a distributor; `end` is when this try ends.
    pub(super) fn send(&self, distributor: usize, bytes: &[u8], end: Instant) -> Sent {
        let Ok(watch) = self.lane.open.lock().ask(self.id, distributor, end) else { return Sent::Full };
        let is_out = match &self.lane.settings.distributors[distributor] {
            Place::Udp(address) => {
                let socket = if address.is_ipv4() { &self.lane.v4 } else { &self.lane.v6 };
                socket.as_ref().is_some_and(|socket| socket.send(bytes, *address))
            }
            _ => self.lane.lines[distributor].as_ref().is_some_and(|line| line.send(bytes)),
        };
        watch.into_iter().for_each(Waker::wake);
        if is_out {
            return Sent::Out;
        }
        self.lane.open.lock().fail(self.id);
        Sent::Not
    }

    /// The answer and who gave it; `None` once the try under way has ended.
    pub(super) async fn heard(&self) -> Option<(Answer, usize)> {
        poll_fn(|cx| match self.lane.open.lock().known(self.id, cx.waker()) {
            Known::Waiting => Poll::Pending,
            Known::Silent => Poll::Ready(None),
            Known::Answered(answer, by) => Poll::Ready(Some((answer, by))),
        })
        .await
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.lane.open.lock().close(self.id);
    }
}
