//! Writing a response: the printed head and the body's pieces, in as few system calls as there are
//! pieces, with the transfer coding that the client understands. It must not change a head.

use std::time::Instant;

use http::{HeaderMap, Method, StatusCode};
use smallvec::SmallVec;
use weir_wire::{Version, print};

use super::source::{Held, Source};
use super::{Body, bytes_of};
use crate::conn::body::{RequestBody, Upload};
use crate::conn::client::{COPY_BYTES_MAX, Client, ClientEnd};
use crate::limit::{Pace, Turn};
use weir_clock as clock;

/// Bytes a body is asked for at a time.
const PIECE_BYTES_MAX: usize = 256 << 10;
/// Bytes a body is asked for at a time that goes out at a pace: they are held until all of them are out.
const PACED_BYTES_MAX: usize = 64 << 10;
/// Blocks of a held body handed to the kernel at a time: 256 KiB.
const GATHER_BLOCKS_MAX: usize = 4;

/// How the end of a body is told to the client (RFC 9112 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// No body, by method or status; the length that a GET would have had may be named.
    Nothing(Option<u64>),
    /// By `Content-Length`.
    Length(u64),
    /// By chunked coding.
    Chunked,
    /// By the end of the connection: an HTTP/1.0 client and an unknown length.
    Close,
}

impl Transfer {
    /// The transfer for a response to `method` with a body of `length` bytes, where that is known.
    pub(crate) fn choose(
        method: &Method,
        status: StatusCode,
        length: Option<u64>,
        version: Version,
    ) -> Transfer {
        if status == StatusCode::NO_CONTENT || status.is_informational() {
            return Transfer::Nothing(None);
        }
        if method == Method::HEAD || status == StatusCode::NOT_MODIFIED {
            return Transfer::Nothing(length);
        }
        match (length, version) {
            (Some(length), _) => Transfer::Length(length),
            (None, Version::Http11) => Transfer::Chunked,
            (None, Version::Http10) => Transfer::Close,
        }
    }

    /// Prints the framing field.
    pub(crate) fn print(self, out: &mut Vec<u8>) {
        match self {
            Transfer::Length(length) | Transfer::Nothing(Some(length)) => {
                out.extend_from_slice(b"content-length: ");
                print::number(out, length);
                out.extend_from_slice(b"\r\n");
            }
            Transfer::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
            Transfer::Nothing(None) | Transfer::Close => {}
        }
    }
}

/// How sending ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All was written.
    Whole,
    /// The body broke off: the connection must be closed.
    Cut(&'static str),
    /// The client went away.
    ClientGone,
}

impl Ended {
    /// What ended it where the client took no more: one that is too slow is there still, and is cut.
    fn of(end: ClientEnd) -> Ended {
        match end {
            ClientEnd::Stalled => Ended::Cut("send-stall"),
            ClientEnd::Slow => Ended::Cut("read-rate"),
            ClientEnd::Closed | ClientEnd::TimedOut | ClientEnd::Io(_) => Ended::ClientGone,
        }
    }
}

/// What was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Body bytes written, without transfer coding.
    pub(crate) body_bytes: u64,
    /// When the first byte was written.
    pub(crate) first_byte: Option<Instant>,
    /// When the last byte was written, where that is known.
    pub(crate) last_byte: Option<Instant>,
    /// How it ended.
    pub(crate) ended: Ended,
}

impl Sent {
    fn ended(mut self, ended: Ended) -> Sent {
        self.ended = ended;
        self
    }
}

/// Sends what `client.out` holds (a printed head), then the body.
///
/// # Cancel safety
/// Not safe: after a drop the connection must be closed.
pub(crate) async fn send(client: &mut Client, body: Source, transfer: Transfer) -> Sent {
    send_at(client, body, transfer, None).await
}

/// [`send`], at a pace.
///
/// # Cancel safety
/// As [`send`].
pub(crate) async fn send_at(client: &mut Client, body: Source, transfer: Transfer, pace: Paced) -> Sent {
    send_while(client, body, transfer, pace, None).await
}

/// What holds a body back, where something does.
pub(crate) type Paced = Option<Box<Pace>>;

/// A request body that may still be going up while its response comes down.
pub(crate) type Meanwhile<'u> = Option<(&'u mut RequestBody, &'u mut Upload)>;

/// [`send_at`], while the request's body goes on.
///
/// # Cancel safety
/// As [`send`].
pub(crate) async fn send_while(
    client: &mut Client,
    mut body: Source,
    transfer: Transfer,
    mut pace: Paced,
    mut meanwhile: Meanwhile<'_>,
) -> Sent {
    let mut sent = Sent { body_bytes: 0, first_byte: None, last_byte: None, ended: Ended::Whole };
    client.taking = None;
    if matches!(transfer, Transfer::Nothing(_)) {
        return flush(client, sent, Ended::Whole).await;
    }
    if let (Source::Held(held), Transfer::Length(_)) = (&mut body, transfer)
        && held.is_at_hand()
    {
        return send_held(client, held, pace, sent).await;
    }
    // Invariant of the protocol: never more bytes than were declared.
    let mut left = if let Transfer::Length(length) = transfer { length } else { u64::MAX };
    let piece_bytes_max = if pace.is_some() { PACED_BYTES_MAX } else { PIECE_BYTES_MAX };
    loop {
        let piece = match next(client, &mut body, piece_bytes_max, &mut sent, &mut meanwhile).await {
            Ok(Some(piece)) => piece,
            Ok(None) => break,
            Err(ended) => return flush(client, sent, ended).await,
        };
        match body.holds_origin() {
            true => drop(client.taking.get_or_insert_default()),
            false => client.taking = None,
        }
        let mut bytes = bytes_of(&piece);
        if bytes.len() as u64 > left {
            return sent.ended(Ended::Cut("body-too-long"));
        }
        left -= if left == u64::MAX { 0 } else { bytes.len() as u64 };
        while !bytes.is_empty() {
            let wanted = bytes.len() as u64;
            let turn = match &mut pace {
                None => wanted,
                Some(pace) => match turn(client, pace, wanted, &mut sent, &mut meanwhile).await {
                    Ok(turn) => turn,
                    Err(ended) => return sent.ended(ended),
                },
            };
            let (now, later) = bytes.split_at(bytes.len().min(usize::try_from(turn).unwrap_or(usize::MAX)));
            if let Err(end) = write_piece(client, now, transfer, &mut sent).await {
                return sent.ended(Ended::of(end));
            }
            sent.first_byte.get_or_insert_with(clock::mono);
            if let Some(pace) = &mut pace {
                pace.took(now.len() as u64);
            }
            bytes = later;
        }
    }
    match transfer {
        Transfer::Length(_) if left > 0 => return flush(client, sent, Ended::Cut("body-too-short")).await,
        Transfer::Chunked => print::last_chunk(&mut client.out, trailers(&mut body).as_ref()),
        _ => {}
    }
    flush(client, sent, Ended::Whole).await
}

/// Sends an interval of a whole generation straight from its blocks, many to a system call.
async fn send_held(client: &mut Client, held: &mut Held, mut pace: Paced, mut sent: Sent) -> Sent {
    loop {
        let allowed = match &mut pace {
            None => u64::MAX,
            Some(pace) => match turn(client, pace, held.left(), &mut sent, &mut None).await {
                Ok(allowed) => allowed,
                Err(ended) => return sent.ended(ended),
            },
        };
        let Some((blocks, mut within, left)) = held.blocks() else { break };
        let mut left = left.min(allowed);
        if left == 0 {
            break;
        }
        let mut slices: SmallVec<[&[u8]; GATHER_BLOCKS_MAX]> = SmallVec::new();
        let mut bytes = 0;
        for block in blocks.iter().take(GATHER_BLOCKS_MAX) {
            let end = usize::try_from(left)
                .map_or(block.len(), |left| block.len().min(within.saturating_add(left)));
            let slice = &block[within..end];
            slices.push(slice);
            bytes += slice.len() as u64;
            left -= slice.len() as u64;
            within = 0;
            if left == 0 {
                break;
            }
        }
        let head_bytes = client.out.len() as u64;
        let written = client.send_many(&slices).await;
        drop(slices);
        sent.body_bytes += client.sent_bytes.saturating_sub(head_bytes).min(bytes);
        if let Err(end) = written {
            return sent.ended(Ended::of(end));
        }
        let now = clock::mono();
        sent.first_byte.get_or_insert(now);
        sent.last_byte = Some(now);
        held.advance(bytes);
        if let Some(pace) = &mut pace {
            pace.took(bytes);
        }
    }
    let ended = if held.is_done() { Ended::Whole } else { Ended::Cut("generation-gone") };
    flush(client, sent, ended).await
}

/// Waits for the pace to let out some of `wanted` bytes, which go out next; how many. What is printed does not wait for them,
/// and a client that goes away ends the waiting.
async fn turn(
    client: &mut Client,
    pace: &mut Pace,
    wanted: u64,
    sent: &mut Sent,
    meanwhile: &mut Meanwhile<'_>,
) -> Result<u64, Ended> {
    loop {
        pace.look().await;
        let until = match pace.turn(clock::mono(), wanted) {
            Turn::Go(bytes) => return Ok(bytes),
            Turn::Wait(until) => until,
        };
        if !client.out.is_empty() {
            client.send(&[]).await.map_err(Ended::of)?;
            sent.first_byte.get_or_insert_with(clock::mono);
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(until.into()) => {}
            () = go_on(client, meanwhile) => return Err(Ended::ClientGone),
        }
    }
}

/// The body's next piece. When it is not there at once, what is printed goes out first, and a client
/// that goes away meanwhile ends the waiting.
async fn next(
    client: &mut Client,
    body: &mut Source,
    bytes_max: usize,
    sent: &mut Sent,
    meanwhile: &mut Meanwhile<'_>,
) -> Result<Option<weir_store::Piece>, Ended> {
    let mut next = std::pin::pin!(body.next(bytes_max));
    if let Some(ready) = now_or_never(next.as_mut()).await {
        return ready.map_err(|cut| Ended::Cut(cut.word));
    }
    if !client.out.is_empty() {
        client.send(&[]).await.map_err(Ended::of)?;
        sent.first_byte.get_or_insert_with(clock::mono);
    }
    tokio::select! {
        biased;
        piece = &mut next => piece.map_err(|cut| Ended::Cut(cut.word)),
        () = go_on(client, meanwhile) => Err(Ended::ClientGone),
    }
}

/// Moves the request's body on; ready when the client is gone or sends what cannot be read.
async fn go_on(client: &mut Client, meanwhile: &mut Meanwhile<'_>) {
    match meanwhile {
        None => client.gone().await,
        Some((body, upload)) => while upload.pump(body, client).await.is_ok() {},
    }
}

/// Polls once.
async fn now_or_never<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut future).poll(cx) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

/// Writes a piece of the body, and counts what of it was written, also where that is not all of it.
async fn write_piece(
    client: &mut Client,
    bytes: &[u8],
    transfer: Transfer,
    sent: &mut Sent,
) -> Result<(), ClientEnd> {
    let is_chunked = transfer == Transfer::Chunked;
    if is_chunked {
        print::chunk_head(&mut client.out, bytes.len());
    }
    let head_bytes = client.out.len() as u64;
    let written = if !is_chunked {
        client.send(bytes).await
    } else if bytes.len() <= COPY_BYTES_MAX {
        client.out.extend_from_slice(bytes);
        client.send(print::CHUNK_END).await
    } else {
        client.send_many(&[bytes, print::CHUNK_END]).await
    };
    sent.body_bytes += client.sent_bytes.saturating_sub(head_bytes).min(bytes.len() as u64);
    written
}

async fn flush(client: &mut Client, mut sent: Sent, ended: Ended) -> Sent {
    if client.out.is_empty() {
        return sent.ended(ended);
    }
    if let Err(end) = client.send(&[]).await {
        return sent.ended(Ended::of(end));
    }
    sent.first_byte.get_or_insert_with(clock::mono);
    sent.ended(ended)
}

fn trailers(body: &mut Source) -> Option<HeaderMap> {
    let Source::Origin(body, route) = body else { return None };
    let mut trailers = body.trailers()?;
    route.strip_response(&mut trailers);
    Some(trailers)
}
