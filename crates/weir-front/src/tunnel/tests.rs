//! Two sides that send, stop, end, reset and leave in every order, on virtual time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::*;

const IDLE_MAX: Duration = Duration::from_secs(3600);
const HALF_CLOSE: Duration = Duration::from_secs(2);
/// How much is on its way between a side and Weir.
const BUFFER_BYTES: usize = 8 << 10;
/// How much is read ahead of a client, and how often one of which nothing is read is looked at.
const AHEAD_BYTES_MAX: usize = 16 << 10;
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Far more than is on its way.
const MANY_BYTES: usize = 100_000;
const SOONER: Duration = Duration::from_secs(10);
const LATER: Duration = Duration::from_secs(100);

/// What becomes of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    /// It ends its side once it has sent all.
    Ends,
    Leaves,
    Resets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    All,
    /// It takes a little, and then nothing.
    Stops,
    /// It takes a piece, and gives it back before it takes the next.
    Echoes,
}

#[derive(Clone, Copy, Debug)]
struct Side {
    sends: usize,
    takes: Takes,
    fate: Fate,
    at: Duration,
}

/// What Weir's end of a side is told beside its bytes.
#[derive(Default)]
struct Told {
    is_reset: Cell<bool>,
    has_ended: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Told {
    fn reset(&self) {
        self.is_reset.set(true);
        self.waker.take().into_iter().for_each(Waker::wake);
    }

    fn poll_reset(&self, cx: &Context<'_>) -> io::Result<()> {
        self.waker.replace(Some(cx.waker().clone()));
        if self.is_reset.get() { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

/// Weir's end of a side.
struct Line {
    stream: DuplexStream,
    told: Rc<Told>,
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        read: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.told.poll_reset(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, read)
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.told.poll_reset(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A client as its connection shows it: it reads ahead while it is looked at.
struct Client {
    line: Line,
    ahead: BytesMut,
    ended: Option<Instant>,
    deadline: Deadline,
}

impl Client {
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut piece = [0; 4096];
        let mut read = ReadBuf::new(&mut piece);
        ready!(Pin::new(&mut self.line).poll_read(cx, &mut read))?;
        self.ahead.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    }
}

impl End for Client {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if self.ahead.is_empty() {
            ready!(self.poll_ahead(cx))?;
        }
        let bytes = self.ahead.split().freeze();
        Poll::Ready(Ok(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>> {
        while !bytes.is_empty() {
            let taken = ready!(Pin::new(&mut self.line).poll_write(cx, bytes))?;
            bytes.advance(taken);
            self.moved();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_shutdown(cx)
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.line.told.poll_reset(cx).is_err() {
                return Poll::Ready(());
            }
            if let Some(ended) = self.ended {
                self.deadline.set(ended + HALF_CLOSE);
                return self.deadline.poll(cx);
            }
            if self.ahead.len() < AHEAD_BYTES_MAX {
                match ready!(self.poll_ahead(cx)) {
                    Ok(0) => self.ended = Some(clock::mono()),
                    Ok(_) => {}
                    Err(_) => return Poll::Ready(()),
                }
            } else if self.line.told.has_ended.get() {
                self.ended = Some(clock::mono());
            } else {
                self.deadline.set(clock::mono() + LOOK_EVERY);
                ready!(self.deadline.poll(cx));
            }
        }
    }

    fn moved(&mut self) {
        if self.ended.is_some() {
            self.ended = Some(clock::mono());
        }
    }
}

/// What a side has got.
#[derive(Clone, Copy, Debug, Default)]
struct Got {
    bytes: usize,
    has_ended: bool,
}

fn byte_at(at: usize) -> u8 {
    (at % 251) as u8
}

type Read = tokio::io::ReadHalf<DuplexStream>;
type Write = tokio::io::WriteHalf<DuplexStream>;

impl Side {
    /// Lives until its fate, and then for as long as the tunnel stands. What it gets is the other's pattern
    /// from its beginning.
    async fn live(self, stream: DuplexStream, told: Rc<Told>, got: Rc<Cell<Got>>) {
        let (mut read, mut write) = tokio::io::split(stream);
        let lives = async {
            match self.takes {
                Takes::Echoes => echo(&mut read, &mut write, &got).await,
                _ => drop(tokio::join!(self.send(&mut write, &told), self.take(&mut read, &got))),
            }
            std::future::pending::<()>().await;
        };
        match self.fate {
            Fate::Stays | Fate::Ends => lives.await,
            Fate::Leaves | Fate::Resets => drop(timeout(self.at, lives).await),
        }
        told.has_ended.set(true);
        if self.fate == Fate::Resets {
            told.reset();
        }
    }

    async fn send(self, write: &mut Write, told: &Told) {
        let bytes: Vec<u8> = (0..self.sends).map(byte_at).collect();
        for piece in bytes.chunks(7000) {
            if write.write_all(piece).await.is_err() {
                return;
            }
        }
        if self.fate == Fate::Ends {
            tokio::time::sleep(self.at).await;
            let _ = write.shutdown().await;
            told.has_ended.set(true);
        }
    }

    async fn take(self, read: &mut Read, got: &Cell<Got>) {
        let mut piece = vec![0; 5000];
        while take(read, &mut piece, got).await > 0 {
            if self.takes == Takes::Stops {
                std::future::pending::<()>().await;
            }
        }
    }
}

async fn echo(read: &mut Read, write: &mut Write, got: &Cell<Got>) {
    let mut piece = vec![0; 5000];
    loop {
        let bytes = take(read, &mut piece, got).await;
        if bytes == 0 || write.write_all(&piece[..bytes]).await.is_err() {
            return;
        }
    }
}

async fn take(read: &mut Read, piece: &mut [u8], got: &Cell<Got>) -> usize {
    let Ok(bytes) = read.read(piece).await else { return 0 };
    let before = got.get().bytes;
    let is_next = piece[..bytes].iter().enumerate().all(|(at, byte)| *byte == byte_at(before + at));
    assert!(is_next, "other bytes at {before}");
    got.set(Got { bytes: before + bytes, has_ended: bytes == 0 });
    bytes
}

/// Has two sides live on a tunnel. What each has got, how the tunnel has ended, and when.
fn run(client: Side, origin: Side) -> (Got, Got, Moved, Duration) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let begin = |side: Side| {
            let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
            let (told, got) = (Rc::<Told>::default(), Rc::<Cell<Got>>::default());
            tokio::task::spawn_local(side.live(theirs, Rc::clone(&told), Rc::clone(&got)));
            (Line { stream: ours, told }, got)
        };
        let ((client, client_got), (origin, origin_got)) = (begin(client), begin(origin));
        let mut client =
            Client { line: client, ahead: BytesMut::new(), ended: None, deadline: Deadline::after(IDLE_MAX) };
        let begun = clock::mono();
        let moved = join(&mut client, plain(origin), IDLE_MAX).await;
        let over = clock::mono() - begun;
        drop(client);
        // What is on its way arrives.
        tokio::time::sleep(Duration::from_secs(1)).await;
        (client_got.get(), origin_got.get(), moved, over)
    })
}

/// Until when the tunnel must be over.
fn bound(client: Side, origin: Side) -> Duration {
    // Timers have a resolution of a millisecond.
    let slack = Duration::from_millis(10);
    let mut bound = LATER + IDLE_MAX;
    let is_taken = match origin.takes {
        Takes::All => true,
        Takes::Stops => false,
        Takes::Echoes => client.takes == Takes::All,
    };
    let all_of_client = is_taken || client.sends < BUFFER_BYTES;
    let ends = client.fate == Fate::Ends && all_of_client;
    if ends || matches!(client.fate, Fate::Leaves | Fate::Resets) {
        // One of which nothing is read is looked at once a second.
        bound = bound.min(client.at + LOOK_EVERY + HALF_CLOSE);
    }
    if origin.fate != Fate::Stays && client.takes == Takes::All && origin.takes != Takes::Echoes {
        bound = bound.min(origin.at + HALF_OPEN_IDLE_MAX);
    }
    bound + slack
}

fn check(client: Side, origin: Side) {
    let (client_got, origin_got, moved, over) = run(client, origin);
    let case = format!("{client:?} {origin:?}: {client_got:?} {origin_got:?} {moved:?} {over:?}");
    assert!(over <= bound(client, origin), "not over in time: {case}");
    let all_take = client.takes == Takes::All && origin.takes != Takes::Stops;
    if all_take {
        // All has arrived before anything befell a side.
        let answered = if origin.takes == Takes::Echoes { client.sends } else { origin.sends };
        assert_eq!(origin_got.bytes, client.sends, "{case}");
        assert_eq!((client_got.bytes, moved.to_client), (answered, answered as u64), "{case}");
        let both_end = client.fate == Fate::Ends && origin.fate == Fate::Ends;
        // The client ends later, while its end is waited for.
        let is_waited_for = origin.at < client.at && client.at < origin.at + HALF_OPEN_IDLE_MAX;
        if both_end && origin.takes == Takes::All && is_waited_for {
            assert_eq!(moved.over, Over::Whole, "{case}");
            assert!(client_got.has_ended && origin_got.has_ended, "{case}");
        }
    } else if client.fate == Fate::Stays && origin.fate == Fate::Stays {
        // One that takes nothing does not hold back what it sends.
        if origin.takes == Takes::Stops && client.takes == Takes::All {
            assert_eq!(client_got.bytes, origin.sends, "{case}");
        }
        if client.takes == Takes::Stops && origin.takes == Takes::All {
            assert_eq!(origin_got.bytes, client.sends, "{case}");
        }
    }
}

#[test]
fn two_sides_send_stop_end_reset_and_leave_in_every_order() {
    const FATES: [Fate; 4] = [Fate::Stays, Fate::Ends, Fate::Leaves, Fate::Resets];
    let sides = |at, takes: &'static [Takes]| {
        FATES.into_iter().flat_map(move |fate| {
            takes.iter().flat_map(move |takes| {
                [0, MANY_BYTES].into_iter().map(move |sends| Side { sends, takes: *takes, fate, at })
            })
        })
    };
    for (client_at, origin_at) in [(SOONER, LATER), (LATER, SOONER), (2 * SOONER, SOONER)] {
        for client in sides(client_at, &[Takes::All, Takes::Stops]) {
            for origin in sides(origin_at, &[Takes::All, Takes::Stops, Takes::Echoes]) {
                check(client, origin);
            }
        }
    }
}

/// An origin's connection that this side has closed after it said something.
struct ClosedHere(Bytes);

impl AsyncRead for ClosedHere {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        read: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        read.put_slice(&std::mem::take(&mut self.0));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClosedHere {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A client that says nothing, and takes all or nothing.
struct Silent {
    takes: bool,
    got: Vec<u8>,
}

impl End for Silent {
    fn poll_receive(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        Poll::Pending
    }

    fn poll_send(&mut self, _: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>> {
        if !self.takes {
            return Poll::Pending;
        }
        self.got.extend(std::mem::take(bytes));
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn moved(&mut self) {}
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_whose_place_another_client_needs_ends_at_once() {
    for (takes, over) in [(true, Over::Whole), (false, Over::Cut)] {
        let begun = clock::mono();
        let mut client = Silent { takes, got: Vec::new() };
        let origin = Box::new(ClosedHere(Bytes::from_static(b"said")));
        let origin = Between { origin, carries: Carries::Other };
        let moved = join(&mut client, origin, Duration::from_secs(3600)).await;
        assert_eq!((moved.over, clock::mono()), (over, begun), "it waits for nobody");
        assert_eq!(client.got, if takes { &b"said"[..] } else { b"" });
    }
}

/// A tunnel whose bytes nobody knows.
fn plain(origin: Line) -> Between {
    Between { origin: Box::new(origin), carries: Carries::Other }
}

/// What a client gets of a tunnel on which the origin sends `first`, the process ends, and the origin sends
/// `later`; how the tunnel has ended, and what the origin got. The client answers at its end, and leaves.
fn farewell(carries: Carries, first: &[u8], later: &[u8]) -> (Vec<u8>, Over, Vec<u8>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    let (first, later) = (first.to_vec(), later.to_vec());
    LocalSet::new().block_on(&runtime, async {
        ending::begin_again();
        let ((ours, mut client), (own, mut origin)) =
            (tokio::io::duplex(BUFFER_BYTES), tokio::io::duplex(BUFFER_BYTES));
        let line = |stream| Line { stream, told: Rc::default() };
        let origin_side = tokio::task::spawn_local(async move {
            origin.write_all(&first).await.unwrap();
            tokio::time::sleep(LOOK_EVERY / 4).await;
            end_all();
            tokio::time::sleep(LOOK_EVERY / 4).await;
            let _ = origin.write_all(&later).await;
            let mut got = Vec::new();
            let _ = origin.read_to_end(&mut got).await;
            got
        });
        let client_side = tokio::task::spawn_local(async move {
            let mut got = Vec::new();
            client.read_to_end(&mut got).await.unwrap();
            let _ = client.write_all(b"bye").await;
            got
        });
        let mut client = Client {
            line: line(ours),
            ahead: BytesMut::new(),
            ended: None,
            deadline: Deadline::after(IDLE_MAX),
        };
        let between = Between { origin: Box::new(line(own)), carries };
        let over = join(&mut client, between, IDLE_MAX).await.over;
        drop(client);
        assert!(!are_any(), "it has left its place");
        ending::begin_again();
        (client_side.await.unwrap(), over, origin_side.await.unwrap())
    })
}

#[test]
fn the_client_of_a_web_socket_is_told_that_the_process_ends_where_a_frame_may_stand() {
    const GOING_AWAY: &[u8] = &[0x88, 2, 0x03, 0xe9];
    let (text, half) = (&[0x81, 5, b'h', b'e', b'l', b'l', b'o'][..], &[0x81, 5, b'h'][..]);
    let told = |first: &[u8], later: &[u8], expect: &[u8]| {
        let (got, over, heard) = farewell(Carries::WebSocket, first, later);
        assert_eq!(got, [expect, GOING_AWAY].concat(), "{first:?} {later:?}");
        assert_eq!((over, &heard[..]), (Over::Whole, &b"bye"[..]), "the origin has its answer");
    };
    told(b"", b"", b"");
    told(text, b"", text);
    // It is too late for what begins after that.
    told(text, text, text);
    // A frame under way ends before, and what came with it is not begun.
    told(half, &[b"ello", text].concat(), text);
    // Between two frames of a message.
    told(&[0x01, 1, b'a'], &[0x80, 1, b'b'], &[0x01, 1, b'a']);
    let silent = |carries, first: &[u8], expect: &[u8]| {
        let (got, over, _) = farewell(carries, first, b"");
        assert_eq!((&got[..], over), (expect, Over::Cut), "{first:?}");
    };
    // Its frame does not end in time; it is none; it is no WebSocket.
    silent(Carries::WebSocket, half, half);
    silent(Carries::WebSocket, b"words", b"words");
    silent(Carries::Other, text, text);
    // The origin has had the last word.
    let closed = [0x88, 2, 0x03, 0xe8];
    let (got, over, _) = farewell(Carries::WebSocket, &closed, b"");
    assert_eq!((&got[..], over), (&closed[..], Over::Whole));
}
