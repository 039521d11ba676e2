//! The client's side of an HTTP/1 connection: bytes in and bytes out, with their deadlines. It must not know
//! what a request is; the codec does.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use smallvec::SmallVec;
use tokio::io::AsyncWriteExt;
use weir_sealed::{SealedPart, Way};

use crate::limits::ClientLimits;
use crate::listen::{Plain, Stream};
use weir_clock::{self as clock, Deadline};
use weir_observe::{Counters, SiteId};

/// Pipelined bytes from which on no more are read during a response. The others stay in the kernel.
const AHEAD_BYTES_MAX: usize = 4 << 10;
/// How often a client of which nothing is read is checked for having left.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The longest piece that is copied behind the head and sent with it.
pub(super) const COPY_BYTES_MAX: usize = 4 << 10;

/// Why nothing more can be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientEnd {
    /// The client closed its side.
    #[error("client closed the connection")]
    Closed,
    /// The client sent nothing before the deadline.
    #[error("client was too slow")]
    TimedOut,
    /// The client took nothing for too long.
    #[error("client took nothing for too long")]
    Stalled,
    /// The socket failed.
    #[error("client connection failed")]
    Io(#[from] io::Error),
}

/// How much the client took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    All,
    Part,
}

/// A client's connection.
pub(super) struct Socket {
    stream: Stream,
    /// Bytes that were received and not consumed yet.
    pub(super) input: BytesMut,
    /// Bytes to send with the next piece: heads, chunk heads.
    pub(super) out: Vec<u8>,
    deadline: Deadline,
    send_stall: Duration,
    /// How long a client that has closed its side counts as still there.
    half_close: Duration,
    /// Since when the client has closed its side and taken nothing.
    ended: Option<Instant>,
    /// The bytes of the last send that were written, even if it failed.
    pub(super) sent_bytes: u64,
    /// All bytes that the kernel has taken.
    pub(super) left_bytes: u64,
    counters: Arc<Counters>,
    /// The site that bytes sent on this connection are charged to.
    pub(super) site: SiteId,
}

impl Socket {
    /// Takes over an accepted connection. `input` has the bytes that were already read of it. Written bytes
    /// are added to its worker's `counters`.
    pub(super) fn new(
        stream: Stream,
        input: BytesMut,
        limits: &ClientLimits,
        counters: Arc<Counters>,
    ) -> Socket {
        Socket {
            stream,
            input,
            out: Vec::new(),
            deadline: Deadline::after(limits.send_stall_max),
            send_stall: limits.send_stall_max,
            half_close: limits.half_close_max,
            ended: None,
            sent_bytes: 0,
            left_bytes: 0,
            counters,
            site: SiteId::NONE,
        }
    }

    /// The stream, for a tunnel.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The same, to be changed.
    pub(super) fn stream_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// The stream, and the bytes that were received and not consumed.
    pub(super) fn into_parts(self) -> (Stream, BytesMut) {
        (self.stream, self.input)
    }

    /// Gives back the memory that the next request needs again.
    pub(super) fn shrink(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
        self.out = Vec::new();
    }

    /// Gives back memory that a client which takes nothing does not need.
    pub(super) fn let_go(&mut self) {
        if self.out.is_empty() {
            self.out = Vec::new();
        }
    }

    /// Polls whether the client has sent something. Ready with false at `until`.
    pub(super) fn poll_sent(&mut self, cx: &mut Context<'_>, until: Instant) -> Poll<bool> {
        if !self.input.is_empty() || self.stream.poll_readable(cx).is_ready() {
            return Poll::Ready(true);
        }
        self.deadline.set(until);
        self.deadline.poll(cx).map(|()| false)
    }

    /// Reads at least one byte into `input` before `until`.
    ///
    /// # Errors
    /// The client closed, was too slow, or the socket failed.
    ///
    /// # Cancel safety
    /// Safe: bytes that were read are in `input`.
    pub(super) async fn read(&mut self, until: Instant) -> Result<usize, ClientEnd> {
        self.deadline.set(until);
        poll_fn(|cx| {
            if let Poll::Ready(read) = self.poll_read(cx) {
                return Poll::Ready(match read? {
                    0 => Err(ClientEnd::Closed),
                    bytes => Ok(bytes),
                });
            }
            self.deadline.poll(cx).map(|()| Err(ClientEnd::TimedOut))
        })
        .await
    }

    /// Polls for bytes into `input`; 0 at the client's end.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.stream.poll_read_buf(cx, &mut self.input)
    }

    /// Ready when the client has gone away. Bytes that it sends in the meantime are kept, up to a limit.
    ///
    /// A client that leaves and one that closes its side and still waits for the response (RFC 9112 §9.6)
    /// look alike until something is written. So a client that has closed its side is waited for, but not for
    /// long.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(ended) = self.ended {
                self.deadline.set(ended + self.half_close);
                return self.deadline.poll(cx);
            }
            if self.input.len() < AHEAD_BYTES_MAX {
                match ready!(self.poll_read(cx)) {
                    Ok(0) => self.ended = Some(clock::mono()),
                    Err(_) => return Poll::Ready(()),
                    Ok(_) => {}
                }
                continue;
            }
            if self.stream.is_read_closed() {
                self.ended = Some(clock::mono());
                continue;
            }
            // Nothing wakes the task while nothing is read.
            self.deadline.set(clock::mono() + LOOK_EVERY);
            ready!(self.deadline.poll(cx));
        }
    }

    /// Whether the client has closed its side. One that leaves does so, too.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Notes progress of the request: a client that has closed its side is waited for from now on.
    pub(super) fn moved(&mut self) {
        if self.ended.is_some() {
            self.ended = Some(clock::mono());
        }
    }

    /// Sends `out`.
    ///
    /// # Errors
    /// The client closed, made no progress for the send stall limit, or the socket failed.
    ///
    /// # Cancel safety
    /// Not safe: a dropped send leaves the connection in the middle of a message; close it.
    pub(super) async fn send_printed(&mut self) -> Result<(), ClientEnd> {
        while self.send_now(&[])? == Taken::Part {
            let takes = poll_fn(|cx| self.stream.poll_writable(cx));
            tokio::time::timeout(self.send_stall, takes).await.map_err(|_| ClientEnd::Stalled)??;
        }
        Ok(())
    }

    /// Writes what the client takes now.
    fn write_now(&mut self, mut rest: &mut [IoSlice<'_>]) -> Result<Taken, ClientEnd> {
        IoSlice::advance_slices(&mut rest, 0);
        while !(rest.is_empty() && self.stream.is_flushed()) {
            let (unsent, mut is_full) = (self.stream.unsent_bytes(), false);
            let written = match rest.is_empty() {
                false => self.stream.try_write_vectored(rest),
                true => self.stream.try_flush().map(|()| 0),
            };
            let bytes = match written {
                Ok(0) if !rest.is_empty() => return Err(ClientEnd::Closed),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    is_full = true;
                    0
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => return Err(ClientEnd::Io(error)),
            };
            IoSlice::advance_slices(&mut rest, bytes);
            let moved = (unsent + bytes).saturating_sub(self.stream.unsent_bytes());
            self.sent(bytes as u64, moved as u64);
            if is_full {
                return Ok(Taken::Part);
            }
        }
        Ok(Taken::All)
    }

    /// Counts bytes that were written, and those that the kernel has taken.
    fn sent(&mut self, bytes: u64, moved: u64) {
        self.counters.client_bytes(self.site, bytes);
        self.sent_bytes += bytes;
        self.left_bytes += moved;
        if moved > 0 {
            // A client that has left answers with a reset.
            self.moved();
        }
    }

    /// Sends what the client takes now of `out`, then of the pieces. What it does not take of `out` stays
    /// there; `sent_bytes` says how much of both it has taken. Small
    /// pieces go out in the same segment as `out`.
    ///
    /// # Errors
    /// The client closed, or the socket failed.
    pub(super) fn send_now(&mut self, pieces: &[&[u8]]) -> Result<Taken, ClientEnd> {
        let mut out = std::mem::take(&mut self.out);
        let printed = out.len();
        self.sent_bytes = 0;
        let taken = match pieces {
            [piece] if piece.len() <= COPY_BYTES_MAX => {
                out.extend_from_slice(piece);
                self.write_now(&mut [IoSlice::new(&out)])
            }
            pieces => {
                let mut slices: SmallVec<[IoSlice<'_>; 8]> = SmallVec::new();
                slices.push(IoSlice::new(&out));
                slices.extend(pieces.iter().map(|piece| IoSlice::new(piece)));
                self.write_now(&mut slices)
            }
        };
        self.keep_printed(out, printed);
        taken
    }

    /// Keeps what the client has not taken of the printed bytes of `out`.
    fn keep_printed(&mut self, mut out: Vec<u8>, printed: usize) {
        let taken = usize::try_from(self.sent_bytes).map_or(printed, |sent| sent.min(printed));
        out.truncate(printed);
        out.drain(..taken);
        if out.is_empty() && out.capacity() > 4 * COPY_BYTES_MAX {
            out = Vec::with_capacity(1024);
        }
        self.out = out;
    }

    /// Whether printed bytes, or bytes of a session, wait for the client.
    pub(super) fn has_unsent(&self) -> bool {
        !self.out.is_empty() || !self.stream.is_flushed()
    }

    /// How bytes leave: the kernel can send sealed ones on a connection without TLS.
    pub(super) fn way(&self) -> Way {
        if self.stream.unsecured().is_some() { Way::Plain } else { Way::Other }
    }

    /// As [`Socket::send_now`], of sealed bytes. Only where the way is [`Way::Plain`].
    ///
    /// # Errors
    /// As [`Socket::send_now`].
    pub(super) fn send_sealed_now(&mut self, part: SealedPart<'_>) -> Result<Taken, ClientEnd> {
        let head = std::mem::take(&mut self.out);
        let printed = head.len();
        self.sent_bytes = 0;
        let taken = self.write_sealed_now(&head, part);
        self.keep_printed(head, printed);
        taken
    }

    fn write_sealed_now(&mut self, mut head: &[u8], mut part: SealedPart<'_>) -> Result<Taken, ClientEnd> {
        while !part.is_empty() || !head.is_empty() {
            let Some(plain) = self.stream.unsecured() else { return Err(ClientEnd::Closed) };
            let written = match head.is_empty() {
                false => plain.try_write_ahead(head),
                true => plain.try_send_sealed(part),
            };
            let bytes = match written {
                Ok(0) => return Err(ClientEnd::Closed),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Taken::Part),
                Err(error) => return Err(ClientEnd::Io(error)),
            };
            self.sent(bytes as u64, bytes as u64);
            match head.is_empty() {
                false => head = &head[bytes..],
                true => part = part.after(bytes),
            }
        }
        Ok(Taken::All)
    }

    /// Whether no byte that the client has sent is unread. Never over TLS, which has a last word of its own.
    pub(super) fn is_read(&self) -> bool {
        self.input.is_empty() && self.stream.unsecured().is_some_and(Plain::is_empty)
    }

    /// Resets the connection, so that the client does not take the part that it has for a whole message.
    pub(super) fn reset(&mut self) {
        self.stream.socket().reset_on_close();
    }

    /// Closes the sending side and discards what the client still sends, for a bounded time, so that the
    /// client can read the response before a reset reaches it (RFC 9112 §9.6).
    pub(super) async fn linger(&mut self, bytes_max: u64, time_max: Duration) {
        let _ = self.stream.shutdown().await;
        self.input.clear();
        let until = clock::mono() + time_max;
        let mut discarded = 0;
        while discarded < bytes_max {
            match self.read(until).await {
                Ok(bytes) => discarded += bytes as u64,
                Err(_) => return,
            }
            self.input.clear();
        }
    }
}
