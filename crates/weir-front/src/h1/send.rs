//! Writes a response: its head and the pieces of its content, in as few system calls as there are pieces, in
//! a framing that the client understands. It must not change what the service answered.

use std::time::Duration;

use bytes::{Buf, Bytes};
use http::{HeaderName, StatusCode};
use smallvec::SmallVec;
use weir_clock as clock;
use weir_sealed::Way;
use weir_wire::{Persistence, Version, print};
use weir_yield::Stint;

use super::socket::{ClientEnd, Taken};
use super::{After, Conn, Framed, print_persistence, switch};
use crate::limits::{LET_GO_AFTER, LET_GO_AGAIN_AFTER};
use crate::message::{
    Body, Client, Done, End, Fields, Head, Late, Pace, Response, Sent, Service, Turn, Upload, gone,
};

/// The most bytes that a body is asked for at a time.
const PIECE_BYTES_MAX: usize = 256 << 10;
/// The same for a body with a limited rate, whose bytes are held until all of them are sent.
const PACED_BYTES_MAX: usize = 64 << 10;
/// The most bytes that the kernel is asked to send at a time. Others run before the next ones: a client that
/// takes everything at once does not keep them waiting.
const SEALED_BYTES_MAX: u64 = 1 << 20;
/// The fewest bytes for which the kernel is asked: fewer leave with the head, in one call.
const SEALED_BYTES_MIN: u64 = 64 << 10;
/// The blocks of a stored body that go to the kernel at a time: 1 MiB.
const GATHER_BLOCKS_MAX: usize = 16;
/// So many of them have a place in the future of a response.
const BLOCKS_INLINE: usize = 4;

/// How the client learns where a body ends (RFC 9112 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// No body, by method or status. The length that a GET would have had may be named.
    Nothing(Option<u64>),
    /// By `Content-Length`.
    Length(u64),
    /// By chunked coding.
    Chunked,
    /// By the end of the connection: the client speaks HTTP/1.0 and the length is unknown.
    Close,
}

impl Framing {
    /// The framing of a response with a body of `length` bytes, if that is known.
    fn choose(framed: Framed, status: StatusCode, length: Option<u64>) -> Framing {
        if status == StatusCode::NO_CONTENT || status.is_informational() {
            return Framing::Nothing(None);
        }
        if framed.is_head || status == StatusCode::NOT_MODIFIED {
            return Framing::Nothing(length);
        }
        match (length, framed.version) {
            (Some(length), _) => Framing::Length(length),
            (None, Version::Http11) => Framing::Chunked,
            (None, Version::Http10) => Framing::Close,
        }
    }

    fn print(self, out: &mut Vec<u8>) {
        match self {
            Framing::Length(length) | Framing::Nothing(Some(length)) => {
                out.extend_from_slice(b"content-length: ");
                print::number(out, length);
                out.extend_from_slice(b"\r\n");
            }
            Framing::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
            Framing::Nothing(None) | Framing::Close => {}
        }
    }
}

/// Fields as lines.
struct Lines<'o>(&'o mut Vec<u8>);

impl Fields for Lines<'_> {
    fn add(&mut self, name: &'static str, value: impl FnOnce(&mut Vec<u8>)) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": ");
        value(self.0);
        self.0.extend_from_slice(b"\r\n");
    }

    fn field(&mut self, name: &HeaderName, value: &[u8]) {
        for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
            self.0.extend_from_slice(part);
        }
    }
}

/// Sends a response. Returns what was sent, and what becomes of the connection.
///
/// # Cancel safety
/// Not safe: after a drop the connection must be closed.
pub(super) async fn respond<S: Service>(
    conn: &mut Conn,
    framed: Framed,
    service: &S,
    response: &mut Response<S>,
) -> (Done, After) {
    let Response { head, late, length, body, pace, upload, switch, must_close } = response;
    let Some(status) = head.status() else {
        let end = if conn.socket.has_ended() { End::HalfClosed } else { End::ClientGone };
        let sent = Sent { end, ..NOTHING_SENT };
        return (Done { status: None, sent, ended: clock::mono() }, After::Cut);
    };
    let framing = Framing::choose(framed, status, *length);
    let must_close = *must_close
        || conn.is_last
        || framed.persistence == Persistence::Close
        || framing == Framing::Close
        || service.is_draining();
    let after = if must_close { After::Close } else { After::KeepAlive };
    let out = &mut conn.socket.out;
    print_head(out, head, late);
    if let Some(switch) = switch.take() {
        let sent = switch::run(conn, *switch, service.observer().counters()).await;
        return (Done { status: Some(status), sent, ended: clock::mono() }, After::Cut);
    }
    framing.print(out);
    print_persistence(out, after, framed.version);
    print::end(out);
    // The printed head need not be kept while it is sent.
    *head = Head::None;
    let stint = Stint::default();
    let (sent, is_over) = (NOTHING_SENT, false);
    let mut sending = Sending { conn, body, framing, pace, upload, sent, stint, is_over };
    let end = sending.run().await;
    sending.is_over = true;
    let sent = Sent { end, ..sending.sent };
    let after = match end {
        End::Whole => after,
        End::Cut(_) if framing == Framing::Close => After::Reset,
        End::Cut(_) | End::ClientGone | End::HalfClosed => After::Cut,
    };
    (Done { status: Some(status), sent, ended: sent.last_byte.unwrap_or_else(clock::mono) }, after)
}

pub(super) const NOTHING_SENT: Sent =
    Sent { body_bytes: 0, first_byte: None, last_byte: None, end: End::Whole };

/// Prints status line and fields, without those of this connection.
fn print_head(out: &mut Vec<u8>, head: &Head, late: &impl Late) {
    match head {
        Head::Prepared(prepared) => out.extend_from_slice(prepared.text()),
        Head::Made(status, fields) => {
            print::status_line(out, *status);
            print::fields(out, fields);
        }
        Head::None => {}
    }
    late.write(&mut Lines(out));
}

/// A body on its way to the client. The printed head waits in the socket's `out`.
struct Sending<'c, B, P> {
    conn: &'c mut Conn,
    body: &'c mut B,
    framing: Framing,
    pace: &'c mut Option<Box<P>>,
    upload: &'c mut Option<Box<dyn Upload>>,
    sent: Sent,
    stint: Stint,
    /// Whether it has ended, in whatever way.
    is_over: bool,
}

impl<B, P> Drop for Sending<'_, B, P> {
    fn drop(&mut self) {
        // The process ends. Without a reset the client would take what it has for the whole.
        if !self.is_over && self.framing == Framing::Close {
            self.conn.socket.reset();
        }
    }
}

impl<B: Body, P: Pace> Sending<'_, B, P> {
    async fn run(&mut self) -> End {
        (self.conn.socket.taking, self.conn.socket.stalled_until) = (None, None);
        weir_yield::before_sending().await;
        match self.framing {
            Framing::Nothing(_) => self.flush(End::Whole).await,
            Framing::Length(length) => self.length(length).await,
            Framing::Chunked | Framing::Close => self.pieces(u64::MAX).await,
        }
    }

    /// Sends a body of known length, however its bytes come. That may change on the way: a body that lies in
    /// blocks can move to a file, and one whose client is slow lets go of both.
    async fn length(&mut self, mut left: u64) -> End {
        let sends_sealed = self.conn.socket.way() == Way::Plain;
        loop {
            let sent = if sends_sealed && left >= SEALED_BYTES_MIN && self.body.sealed().is_some() {
                self.sealed(&mut left).await
            } else if self.body.at_hand().is_some() {
                self.at_hand(&mut left).await
            } else {
                return self.pieces(left).await;
            };
            match sent {
                Err(end) => return end,
                Ok(()) if left == 0 => return self.flush(End::Whole).await,
                Ok(()) => {}
            }
        }
    }

    /// Sends what is left of a body piece by piece; `u64::MAX` where nobody knows how much that is.
    async fn pieces(&mut self, mut left: u64) -> End {
        // Invariant of the protocol: never more bytes than were declared.
        let piece_bytes_max = if self.pace.is_some() { PACED_BYTES_MAX } else { PIECE_BYTES_MAX };
        // What was at hand before was not the last of it.
        self.sent.last_byte = None;
        loop {
            let piece = match self.next(piece_bytes_max).await {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(end) => return self.flush(end).await,
            };
            match self.body.holds_origin() {
                true => drop(self.conn.socket.taking.get_or_insert_default()),
                false => self.conn.socket.taking = None,
            }
            if piece.len() as u64 > left {
                return End::Cut("body-too-long");
            }
            let bytes = piece.len() as u64;
            match self.piece(piece).await {
                Ok(put_back) => left -= if left == u64::MAX { 0 } else { bytes - put_back },
                Err(end) => return end,
            }
            self.let_others_run(bytes).await;
        }
        match self.framing {
            Framing::Length(_) if left > 0 => return self.flush(End::Cut("body-too-short")).await,
            Framing::Chunked => {
                let trailers = self.body.trailers();
                print::last_chunk(&mut self.conn.socket.out, trailers.as_ref());
            }
            _ => {}
        }
        self.flush(End::Whole).await
    }

    /// Sends a piece as fast as the pace and the client allow. Returns how many of its last bytes the body
    /// has taken back, because the client took nothing for a while.
    async fn piece(&mut self, mut piece: Bytes) -> Result<u64, End> {
        while !piece.is_empty() {
            let wanted = piece.len() as u64;
            let turn = if self.pace.is_some() { self.turn(wanted).await? } else { wanted };
            let now = piece.len().min(usize::try_from(turn).unwrap_or(usize::MAX));
            if self.framing == Framing::Chunked {
                self.chunk(piece.split_to(now)).await?;
                continue;
            }
            let (sent, taken) = self.write_now(&[&piece[..now]], now)?;
            piece.advance(sent);
            if taken == Taken::Part {
                let unsent = piece.len() as u64;
                match self.pause(piece).await? {
                    Some(held) => piece = held,
                    None => return Ok(unsent),
                }
            }
        }
        Ok(0)
    }

    /// Sends a chunk. Once its length is printed its bytes cannot be given back.
    async fn chunk(&mut self, piece: Bytes) -> Result<(), End> {
        print::chunk_head(&mut self.conn.socket.out, piece.len());
        let (mut at, mut end) = (0, print::CHUNK_END);
        while at < piece.len() || !end.is_empty() {
            let (sent, taken) = self.write_now(&[&piece[at..], end], piece.len() - at)?;
            let of_piece = sent.min(piece.len() - at);
            at += of_piece;
            end = &end[sent - of_piece..];
            if taken == Taken::Part {
                self.pause(Bytes::new()).await?;
            }
        }
        Ok(())
    }

    /// Sends what the client takes now of these slices, and counts it. At most `content` bytes of them are of
    /// the body. What the client does not take of printed bytes stays printed.
    fn write_now(&mut self, slices: &[&[u8]], content: usize) -> Result<(usize, Taken), End> {
        let head_bytes = self.conn.socket.out.len() as u64;
        let taken = self.conn.socket.send_now(slices);
        self.count(head_bytes, content as u64, taken)
    }

    /// Counts what was sent just now behind the head, even if sending failed then.
    fn count(
        &mut self,
        head_bytes: u64,
        content: u64,
        taken: Result<Taken, ClientEnd>,
    ) -> Result<(usize, Taken), End> {
        let sent = self.conn.socket.sent_bytes.saturating_sub(head_bytes);
        self.sent.body_bytes += sent.min(content);
        weir_yield::moved(sent);
        let taken = taken.map_err(|end| self.ended(&end))?;
        self.sent.first_byte.get_or_insert_with(clock::mono);
        if let Some(pace) = self.pace {
            pace.took(sent.min(content));
        }
        Ok((usize::try_from(sent).unwrap_or(usize::MAX), taken))
    }

    /// The client takes nothing for now. After a moment the body lets go of what others could use, and takes
    /// back `unsent` if it can get it again; returns what it cannot. Ready when the client takes more.
    async fn pause(&mut self, unsent: Bytes) -> Result<Option<Bytes>, End> {
        let takes = self.conn.socket.takes(LET_GO_AFTER).await;
        if takes.map_err(|end| self.ended(&end))? {
            return Ok(Some(unsent));
        }
        let mut held = self.let_go(unsent);
        loop {
            let longest = if self.body.may_let_go() { LET_GO_AGAIN_AFTER } else { Duration::MAX };
            let takes = self.conn.socket.takes(longest).await;
            if takes.map_err(|end| self.ended(&end))? {
                return Ok(held);
            }
            held = self.let_go(held.unwrap_or_default());
        }
    }

    /// Gives back memory until the client takes more. As [`Body::let_go`].
    fn let_go(&mut self, unsent: Bytes) -> Option<Bytes> {
        self.conn.socket.let_go();
        self.body.let_go(unsent)
    }

    /// Sends what lies in memory straight from its blocks, many in one system call, while it lies there.
    async fn at_hand(&mut self, left: &mut u64) -> Result<(), End> {
        while *left > 0 {
            let allowed = if self.pace.is_some() { self.turn(*left).await? } else { u64::MAX };
            let Some((blocks, mut within, held)) = self.body.at_hand() else { break };
            let mut rest = held.min(*left).min(allowed);
            if rest == 0 {
                return Err(self.flush(GONE_BODY).await);
            }
            let mut slices: SmallVec<[&[u8]; BLOCKS_INLINE]> = SmallVec::new();
            let mut bytes = 0;
            for block in blocks.iter().take(GATHER_BLOCKS_MAX) {
                let end = usize::try_from(rest)
                    .map_or(block.len(), |rest| block.len().min(within.saturating_add(rest)));
                let slice = &block[within..end];
                slices.push(slice);
                bytes += slice.len() as u64;
                rest -= slice.len() as u64;
                within = 0;
                if rest == 0 {
                    break;
                }
            }
            let head_bytes = self.conn.socket.out.len() as u64;
            let taken = self.conn.socket.send_now(&slices);
            drop(slices);
            let taken = self.count(head_bytes, bytes, taken);
            self.sent_at_hand(left, taken).await?;
            if *left > 0 {
                self.let_others_run(bytes).await;
            }
        }
        Ok(())
    }

    /// Ends a stint: a body that always has more does not keep others waiting.
    async fn let_others_run(&mut self, bytes: u64) {
        if self.stint.is_over(bytes) {
            tokio::task::yield_now().await;
        }
    }

    /// Has the kernel send a body that lies in sealed memory, while it lies there.
    async fn sealed(&mut self, left: &mut u64) -> Result<(), End> {
        while *left > 0 {
            let allowed = self.turn((*left).min(SEALED_BYTES_MAX)).await?;
            let Some(held) = self.body.sealed() else { break };
            let part = held.at_most((*left).min(allowed));
            if part.is_empty() {
                return Err(self.flush(GONE_BODY).await);
            }
            let bytes = part.len() as u64;
            let head_bytes = self.conn.socket.out.len() as u64;
            let taken = self.conn.socket.send_sealed_now(part);
            let taken = self.count(head_bytes, bytes, taken);
            self.sent_at_hand(left, taken).await?;
            if *left > 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Takes what was sent off the body and off what is left, and waits where the client took a part.
    async fn sent_at_hand(&mut self, left: &mut u64, taken: Result<(usize, Taken), End>) -> Result<(), End> {
        let (sent, taken) = taken?;
        self.sent.last_byte = Some(clock::mono());
        self.body.advance(sent as u64);
        *left -= sent as u64;
        if taken == Taken::Part {
            self.pause(Bytes::new()).await?;
        }
        Ok(())
    }

    /// Waits until the pace allows some of `wanted` bytes, and returns how many. Printed bytes do not wait
    /// for them. A client that goes away ends the wait.
    async fn turn(&mut self, wanted: u64) -> Result<u64, End> {
        loop {
            let Some(pace) = self.pace else { return Ok(wanted) };
            pace.look().await;
            // A client cannot choose to hold an origin for long.
            let least = if self.body.holds_origin() { self.conn.peer.limits.read_rate_min } else { 0 };
            let until = match pace.turn(clock::mono(), wanted, least) {
                Turn::Go(bytes) => return Ok(bytes),
                Turn::Wait(until) => until,
            };
            self.flush_printed().await?;
            if until.saturating_duration_since(clock::mono()) >= LET_GO_AFTER {
                // A client that may take little for long holds as little as one that takes nothing.
                self.let_go(Bytes::new());
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until.into()) => {}
                () = meanwhile(self.conn, self.upload) => return Err(gone_as(self.conn)),
            }
        }
    }

    /// The body's next piece. If it is not there at once, printed bytes are sent first. A client that goes
    /// away ends the wait.
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, End> {
        let Sending { conn, body, upload, sent, .. } = self;
        let mut next = std::pin::pin!(body.next(bytes_max));
        if let Some(ready) = now_or_never(next.as_mut()).await {
            return ready.map_err(|cut| End::Cut(cut.word));
        }
        if conn.socket.has_unsent() {
            conn.socket.send_printed().await.map_err(|end| end_of(conn, &end))?;
            sent.first_byte.get_or_insert_with(clock::mono);
        }
        tokio::select! {
            biased;
            piece = &mut next => piece.map_err(|cut| End::Cut(cut.word)),
            () = meanwhile(conn, upload) => Err(gone_as(conn)),
        }
    }

    async fn flush_printed(&mut self) -> Result<(), End> {
        while self.conn.socket.has_unsent() {
            let (_, taken) = self.write_now(&[], 0)?;
            if taken == Taken::Part {
                self.pause(Bytes::new()).await?;
            }
        }
        Ok(())
    }

    async fn flush(&mut self, end: End) -> End {
        match self.flush_printed().await {
            Ok(()) => end,
            Err(end) => end,
        }
    }

    fn ended(&self, end: &ClientEnd) -> End {
        end_of(self.conn, end)
    }
}

/// What was at hand is not any more.
const GONE_BODY: End = End::Cut("generation-gone");

/// How sending ended if the client took no more: a client that is too slow is still there, and is cut.
fn end_of(conn: &Conn, end: &ClientEnd) -> End {
    match end {
        ClientEnd::Stalled => End::Cut("send-stall"),
        ClientEnd::Slow => End::Cut("read-rate"),
        ClientEnd::Closed | ClientEnd::TimedOut | ClientEnd::Io(_) => gone_as(conn),
    }
}

fn gone_as(conn: &Conn) -> End {
    if conn.socket.has_ended() { End::HalfClosed } else { End::ClientGone }
}

/// Moves the request's content up. Ready when the client is gone or its content cannot be read.
async fn meanwhile(conn: &mut Conn, upload: &mut Option<Box<dyn Upload>>) {
    match upload {
        None => gone(conn as &mut dyn Client).await,
        Some(upload) => while upload.pump(conn).await.is_ok() {},
    }
}

/// Polls a future once.
async fn now_or_never<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut future).poll(cx) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[cfg(test)]
mod tests;
