//! What holds of each sink, over a socket whose other end follows the script.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::LocalSet;
use weir_clock as clock;
use weir_observe::{Observatory, Observer};
use weir_wire::RequestReader;

use super::*;
use crate::h1::content::Content;
use crate::h1::socket::Socket;
use crate::interim::Interims;
use crate::limits::ClientLimits;
use crate::listen::{Family, Peer, Plain, Stream};
use crate::message::{self, ContentError, LocalFuture, Part, PeerInfo, Trust, Upload};
use crate::out::testing::{Lies, Records, Row, Script, Slow, Step, pattern, rows};
use crate::out::{Extent, Sending};

/// A connection over this socket.
pub(crate) fn conn(ours: std::os::unix::net::UnixStream, observer: &Observer) -> Conn {
    ours.set_nonblocking(true).unwrap();
    let limits = Arc::new(ClientLimits::default());
    let stream = Stream::Plain(Plain::new(ours.into(), Family::Unix));
    Conn {
        socket: Socket::new(stream, BytesMut::new(), &limits, observer.counters_shared()),
        reader: RequestReader::new(limits.head),
        content: Content::none(),
        interims: Interims::default(),
        peer: Rc::new(PeerInfo::new(Peer::Unix, Trust::Untrusted, limits, None)),
        is_last: false,
        free_since: clock::mono(),
        has_gone_on: false,
    }
}

/// Reads as the script says, and what is left then.
async fn read(mut theirs: UnixStream, steps: Vec<Step>) -> Vec<u8> {
    let mut got = Vec::new();
    for step in steps {
        match step {
            Step::Takes(bytes) => drop((&mut theirs).take(bytes).read_to_end(&mut got).await.unwrap()),
            Step::Rests(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Step::Leaves => return got,
        }
    }
    theirs.read_to_end(&mut got).await.unwrap();
    got
}

/// The content of chunks, and whether the last one is there.
fn unchunked(mut text: &[u8]) -> (Vec<u8>, bool) {
    let mut content = Vec::new();
    while let Some(line) = text.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&text[..line]).unwrap(), 16).unwrap();
        if length == 0 {
            return (content, true);
        }
        text = &text[line + 2..];
        content.extend_from_slice(&text[..length.min(text.len())]);
        text = text.get(length + 2..).unwrap_or_default();
    }
    (content, false)
}

fn check((script, extent, steps, expect): Row, observer: &Observer) {
    let mut clock = tokio::runtime::Builder::new_current_thread();
    let runtime = clock.enable_all().start_paused(true).build().unwrap();
    let framing = if extent == Extent::Open { Framing::Chunked } else { Framing::Head };
    let (sent, got) = LocalSet::new().block_on(&runtime, async {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let reads = tokio::task::spawn_local(read(UnixStream::from_std(theirs).unwrap(), steps.clone()));
        let mut conn = conn(ours, observer);
        conn.socket.out.extend_from_slice(b"head");
        let mut body = script.begin(&Records::default());
        let (pace, upload) = (&mut None::<Box<Slow>>, &mut None);
        let mut sending = Sending::new(Written::new(&mut conn, framing), extent, &mut body, pace, upload);
        let end = match sending.at_once() {
            Some(end) => end,
            None => sending.rest().await,
        };
        let sent = sending.finish(end);
        drop(conn);
        (sent, reads.await.unwrap())
    });
    let row = format!("{script:?} {extent:?} {steps:?}: {sent:?}");
    assert_eq!(sent.end, expect, "{row}");
    let content = got.strip_prefix(b"head").expect("the head is sent, whatever becomes of the body");
    let (content, is_ended) = match framing {
        Framing::Chunked => unchunked(content),
        _ => (content.to_vec(), Extent::Length(content.len() as u64) == extent),
    };
    assert!(content == pattern(0, content.len()), "other bytes: {row}");
    assert_eq!(is_ended, expect == End::Whole, "{row}");
    if !steps.contains(&Step::Leaves) {
        assert_eq!(sent.body_bytes, content.len() as u64, "{row}");
    }
}

#[test]
fn a_connection_takes_bytes_as_each_sink() {
    let observatory = Observatory::start(1, &[]).unwrap();
    let observer = observatory.observer(0);
    rows().into_iter().for_each(|row| check(row, &observer));
}

/// Content that is counted where it goes.
struct Counted(Rc<Cell<usize>>);

impl Upload for Counted {
    fn pump<'f>(&'f mut self, client: &'f mut dyn Client) -> LocalFuture<'f, Result<(), ContentError>> {
        Box::pin(async {
            match client.content().await? {
                Part::Data(bytes) => self.0.set(self.0.get() + bytes.len()),
                Part::End => message::gone(client).await,
            }
            Ok(())
        })
    }

    fn is_over(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_all_before_it_reads_is_not_cut() {
    const LONG: usize = 3_000_000;
    let observatory = Observatory::start(1, &[]).unwrap();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let mut theirs = UnixStream::from_std(theirs).unwrap();
    let mut conn = conn(ours, &observatory.observer(0));
    let (framing, limits) = (weir_wire::Framing::Length(LONG as u64), Rc::clone(&conn.peer));
    conn.content = Content::begin(framing, weir_wire::Expect::Nothing, &limits.limits, clock::mono());
    let went_up = Rc::new(Cell::new(0));
    let client = async move {
        theirs.write_all(&pattern(0, LONG)).await.unwrap();
        let mut got = Vec::new();
        theirs.read_to_end(&mut got).await.unwrap();
        got
    };
    let sends = async {
        let extent = Extent::Length(LONG as u64);
        let mut body = Script::new(Lies::AtHand(10_000), LONG).begin(&Records::default());
        let mut upload = Some(Box::new(Counted(Rc::clone(&went_up))) as Box<dyn Upload>);
        let (sink, pace) = (Written::new(&mut conn, Framing::Head), &mut None::<Box<Slow>>);
        let mut sending = Sending::new(sink, extent, &mut body, pace, &mut upload);
        let end = sending.rest().await;
        assert_eq!(sending.finish(end).end, End::Whole);
        drop(conn);
    };
    let (got, ()) = tokio::join!(client, sends);
    assert!(got == pattern(0, LONG) && went_up.get() == LONG);
}

/// Else `100 Continue` would stand in the middle of a response (RFC 9110 §10.1.1).
#[tokio::test(start_paused = true)]
async fn a_client_that_was_answered_is_not_told_to_go_on() {
    let observatory = Observatory::start(1, &[]).unwrap();
    for is_answered in [false, true] {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut theirs = UnixStream::from_std(theirs).unwrap();
        let mut conn = conn(ours, &observatory.observer(0));
        let (framing, limits) = (weir_wire::Framing::Length(5), Rc::clone(&conn.peer));
        conn.content = Content::begin(framing, weir_wire::Expect::Continue, &limits.limits, clock::mono());
        if is_answered {
            conn.content.answered();
        }
        theirs.write_all(b"hello").await.unwrap();
        assert!(matches!(conn.content().await, Ok(Part::Data(bytes)) if bytes[..] == b"hello"[..]));
        drop(conn);
        let mut told = Vec::new();
        theirs.read_to_end(&mut told).await.unwrap();
        assert_eq!(told.is_empty(), is_answered, "{:?}", String::from_utf8_lossy(&told));
    }
}
