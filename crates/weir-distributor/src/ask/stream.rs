//! A connection to a distributor, over TCP or a unix socket, which all questions of one worker share: each
//! message stands behind its length in two bytes. It is made for the first question, and again after a pause.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

use super::lane::Lane;
use crate::counts::Count;
use crate::format::ANSWER_BYTES_MAX;
use crate::place::Place;

/// Bytes that wait to be sent, at most.
const WAITING_MAX: usize = 4 << 20;
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(1);
/// The pauses after connections that failed or were lost.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A connection as those see it who ask.
#[derive(Debug)]
pub(super) struct Line {
    place: Place,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    waiting: Vec<u8>,
    /// Wakes what sends.
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// It is connected, or will be as soon as there is something to send.
    #[default]
    Open,
    /// It could not be had, and is not tried at the moment.
    Paused,
}

impl Line {
    pub(super) fn new(place: Place) -> Line {
        Line { place, state: Mutex::default() }
    }

    /// Has bytes sent. `false` where there is no connection, or too much waits for it.
    pub(super) fn send(&self, bytes: &[u8]) -> bool {
        let mut state = self.state.lock();
        if state.phase == Phase::Paused || state.waiting.len() + bytes.len() > WAITING_MAX {
            return false;
        }
        state.waiting.extend_from_slice(bytes);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// Ready once something is to be sent.
    fn poll_waiting(&self, cx: &Context<'_>, into: &mut Vec<u8>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        std::mem::swap(into, &mut state.waiting);
        Poll::Ready(())
    }

    fn is_wanted(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn go_into(&self, phase: Phase) {
        let mut state = self.state.lock();
        state.phase = phase;
        // What waited for a connection that is lost is asked elsewhere by now.
        state.waiting.clear();
    }

    async fn connect(&self) -> io::Result<Pin<Box<dyn Bytes>>> {
        match &self.place {
            Place::Unix(path) => Ok(Box::pin(UnixStream::connect(path).await?)),
            Place::Tcp(address) | Place::Udp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Box::pin(stream))
            }
        }
    }
}

trait Bytes: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Bytes for T {}

/// Connects, sends and reads until the asker is dropped.
pub(super) async fn tend(
    line: Arc<Line>,
    distributor: usize,
    lane: Arc<Lane>,
    mut closing: watch::Receiver<()>,
) {
    let tending = async {
        let mut pause = PAUSE_MIN;
        loop {
            poll_fn(|cx| line.is_wanted(cx)).await;
            if let Ok(Ok(stream)) = tokio::time::timeout(CONNECT, line.connect()).await {
                lane.counts().add(Count::Connected);
                let mut flow = Flow { stream, unsent: Vec::new(), sent: 0, read: Vec::new() };
                if flow.run(&line, distributor, &lane).await {
                    // It was of use, and may have been idle for too long.
                    pause = PAUSE_MIN;
                    line.go_into(Phase::Open);
                    continue;
                }
            }
            lane.counts().add(Count::Lost);
            line.go_into(Phase::Paused);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            line.go_into(Phase::Open);
        }
    };
    tokio::select! {
        () = tending => {}
        // It says nothing: it is dropped.
        _ = closing.changed() => {}
    }
    line.go_into(Phase::Paused);
}

/// A connection as long as it lasts.
struct Flow {
    stream: Pin<Box<dyn Bytes>>,
    unsent: Vec<u8>,
    sent: usize,
    read: Vec<u8>,
}

impl Flow {
    /// Sends and reads until the connection ends. Whether an answer came.
    async fn run(&mut self, line: &Line, distributor: usize, lane: &Lane) -> bool {
        let mut heard = false;
        poll_fn(|cx| {
            if self.poll_read(cx, &mut heard, &mut |bytes| lane.take(bytes, Some(distributor))).is_ready() {
                return Poll::Ready(());
            }
            self.poll_write(cx, line)
        })
        .await;
        heard
    }

    /// Ready when the connection is over.
    fn poll_write(&mut self, cx: &mut Context<'_>, line: &Line) -> Poll<()> {
        loop {
            if self.sent == self.unsent.len() {
                self.unsent.clear();
                self.sent = 0;
                ready!(line.poll_waiting(cx, &mut self.unsent));
            }
            match ready!(self.stream.as_mut().poll_write(cx, &self.unsent[self.sent..])) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(sent) => self.sent += sent,
            }
        }
    }

    /// Ready when the connection is over.
    fn poll_read(&mut self, cx: &mut Context<'_>, heard: &mut bool, take: &mut dyn FnMut(&[u8])) -> Poll<()> {
        let mut bytes = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            if ready!(self.stream.as_mut().poll_read(cx, &mut buffer)).is_err() || buffer.filled().is_empty()
            {
                return Poll::Ready(());
            }
            self.read.extend_from_slice(buffer.filled());
            let mut from = 0;
            while let Some((length, rest)) = self.read[from..].split_first_chunk::<2>() {
                let length = usize::from(u16::from_be_bytes(*length));
                if length > ANSWER_BYTES_MAX {
                    // What follows cannot be told from anything.
                    take(&[]);
                    return Poll::Ready(());
                }
                let Some(message) = rest.get(..length) else { break };
                take(message);
                *heard = true;
                from += 2 + length;
            }
            self.read.drain(..from);
        }
    }
}
