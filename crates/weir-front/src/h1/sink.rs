//! An HTTP/1 connection as what takes a response's bytes (RFC 9112 §6, §7.1). Printed bytes wait in the
//! socket's `out`, and leave with the first of the body in one system call; those in blocks are gathered, and
//! the kernel sends sealed ones. It must not decide how long the client is waited for.

use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use smallvec::SmallVec;
use weir_sealed::SealedPart;
use weir_wire::print;

use super::Conn;
use super::socket::{ClientEnd, Socket, Taken};
use crate::limits::ClientLimits;
use crate::message::{Client, End};
use crate::out::{Gone, Sink};

/// The blocks of a stored body that go to the kernel at a time: 1 MiB.
const GATHER_BLOCKS_MAX: usize = 16;
/// So many of them have a place in the future of a response.
const BLOCKS_INLINE: usize = 4;

/// What tells the client where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// The head.
    Head,
    /// Chunked coding.
    Chunked,
    /// The end of the connection: the client speaks HTTP/1.0 and the length is unknown.
    Close,
}

/// A response on a connection.
pub(super) struct Written<'c> {
    conn: &'c mut Conn,
    framing: Framing,
    /// What the client has not taken of a chunk whose length is printed, which cannot be given back; and of
    /// its end.
    chunk: (Bytes, &'static [u8]),
    /// Whether the client took only a part of the last bytes.
    is_full: bool,
    body_bytes: u64,
    /// Whether sending has ended, in whatever way.
    is_over: bool,
}

impl<'c> Written<'c> {
    pub(super) fn new(conn: &'c mut Conn, framing: Framing) -> Written<'c> {
        Written { conn, framing, chunk: Default::default(), is_full: false, body_bytes: 0, is_over: false }
    }

    /// Sends what the client takes now of these slices, and counts it. At most `content` bytes of them are of
    /// the body. What the client does not take of printed bytes stays printed.
    fn write(&mut self, slices: &[&[u8]], content: usize) -> Result<usize, Gone> {
        self.send(content, |socket| socket.send_now(slices))
    }

    /// Counts what is sent behind the head, even if sending fails then.
    fn send(
        &mut self,
        content: usize,
        send: impl FnOnce(&mut Socket) -> Result<Taken, ClientEnd>,
    ) -> Result<usize, Gone> {
        let head_bytes = self.conn.socket.out.len() as u64;
        let taken = send(&mut self.conn.socket);
        let sent = self.conn.socket.sent_bytes.saturating_sub(head_bytes);
        self.body_bytes += sent.min(content as u64);
        weir_yield::moved(sent);
        self.is_full = taken.map_err(|_| Gone)? == Taken::Part;
        Ok(usize::try_from(sent).unwrap_or(usize::MAX))
    }

    /// Sends what the client takes now of printed bytes and of the chunk behind them.
    fn write_printed(&mut self) -> Result<(), Gone> {
        if !self.has_chunk() {
            return self.write(&[], 0).map(drop);
        }
        let (mut chunk, end) = std::mem::take(&mut self.chunk);
        let sent = self.write(&[&chunk, end], chunk.len())?;
        let of_chunk = sent.min(chunk.len());
        chunk.advance(of_chunk);
        self.chunk = (chunk, &end[sent - of_chunk..]);
        Ok(())
    }

    fn has_chunk(&self) -> bool {
        !self.chunk.1.is_empty()
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        if self.is_full {
            ready!(self.conn.socket.stream().poll_writable(cx)).map_err(|_| Gone)?;
            self.is_full = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl Sink for Written<'_> {
    fn client(&mut self) -> &mut dyn Client {
        self.conn
    }

    fn limits(&self) -> &ClientLimits {
        &self.conn.peer.limits
    }

    fn room(&mut self, wanted: u64) -> u64 {
        if self.is_full || self.has_chunk() { 0 } else { wanted }
    }

    fn poll_room(&mut self, cx: &mut Context<'_>, wanted: u64) -> Poll<Result<u64, Gone>> {
        ready!(self.poll_writable(cx))?;
        // Records of TLS that the client has not taken leave here, where it has its time and its rate.
        while self.has_chunk() || !self.conn.socket.stream().is_flushed() {
            self.write_printed()?;
            ready!(self.poll_writable(cx))?;
        }
        Poll::Ready(Ok(wanted))
    }

    fn put(&mut self, piece: &mut Bytes, most: u64, _: u64) -> Result<(), Gone> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if self.framing == Framing::Chunked {
            print::chunk_head(&mut self.conn.socket.out, most);
            self.chunk = (piece.split_to(most), print::CHUNK_END);
            return self.write_printed();
        }
        let sent = self.write(&[&piece[..most]], most)?;
        piece.advance(sent);
        Ok(())
    }

    fn gather(&mut self, blocks: &[Bytes], mut within: usize, most: u64, _: u64) -> Result<u64, Gone> {
        let mut slices: SmallVec<[&[u8]; BLOCKS_INLINE]> = SmallVec::new();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut bytes = 0;
        for block in blocks.iter().take(GATHER_BLOCKS_MAX) {
            let slice = &block[within..block.len().min(within.saturating_add(most - bytes))];
            slices.push(slice);
            (bytes, within) = (bytes + slice.len(), 0);
            if bytes == most {
                break;
            }
        }
        self.write(&slices, bytes).map(|sent| sent as u64)
    }

    fn put_sealed(&mut self, part: SealedPart<'_>) -> Result<u64, Gone> {
        self.send(part.len(), |socket| socket.send_sealed_now(part)).map(|sent| sent as u64)
    }

    fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), Gone> {
        if self.framing == Framing::Chunked {
            print::last_chunk(&mut self.conn.socket.out, trailers.as_ref());
        }
        Ok(())
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        while self.conn.socket.has_unsent() || self.has_chunk() {
            ready!(self.poll_writable(cx))?;
            self.write_printed()?;
        }
        Poll::Ready(Ok(()))
    }

    fn close(&mut self, _: End) {
        self.is_over = true;
    }

    fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    fn left_bytes(&self) -> u64 {
        self.conn.socket.left_bytes
    }

    fn let_go(&mut self) {
        self.conn.socket.let_go();
    }
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        // The process ends. Without a reset the client would take what it has for the whole.
        if !self.is_over && self.framing == Framing::Close {
            self.conn.socket.reset();
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
