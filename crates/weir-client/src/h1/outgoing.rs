//! A request being sent: the printed head, then the body as it comes, never more than one part ahead.
//!
//! States of the body: `Done`, or `Stream` with what its declared length still lacks. A body that is shorter
//! or longer than declared, or whose sender leaves before its end, is broken off and never ended (RFC 9112
//! §6.3, §7.1).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderValue, Method};
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;
use weir_wire::print;

use crate::message::{OutBody, OutPart, RequestHead};
use crate::transport::Transport;

/// Bodies up to here are copied behind the head, so that both leave in one buffer.
const COPIED_BYTES_MAX: usize = 4 * 1024;

/// What sending a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// Nothing: all is sent.
    Done,
    /// The origin takes no more at the moment.
    Blocked,
    /// The next part of the body has not come yet.
    Starved,
}

/// Why sending stopped.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The stream failed. A response may still have come.
    Stream,
    /// The body was broken off by its sender.
    Aborted,
}

/// A request being sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    printed: Vec<u8>,
    printed_sent: usize,
    data: Bytes,
    tail: &'static [u8],
    source: Source,
    /// Bytes that the stream has taken.
    pub(crate) sent_bytes: u64,
    /// Whether the stream was told to pass on what it holds.
    flushed: bool,
    /// Whether a part of a streamed body was taken, after which the request cannot be sent again.
    consumed: bool,
}

#[derive(Debug)]
enum Source {
    Done,
    Length { parts: mpsc::Receiver<OutPart>, left: u64 },
    Chunked { parts: mpsc::Receiver<OutPart> },
}

impl Outgoing {
    /// Prints the head of a request and takes its body. [`Self::into_stream`] gives a streamed body back.
    pub(crate) fn new(request: &RequestHead<'_>, body: OutBody) -> Self {
        let mut printed = Vec::with_capacity(64 + request.target.len() + request.headers.len() * 64);
        head(&mut printed, request, &body);
        let (data, source) = match body {
            OutBody::Empty => (Bytes::new(), Source::Done),
            OutBody::Whole(bytes) if bytes.len() <= COPIED_BYTES_MAX => {
                printed.extend_from_slice(&bytes);
                (Bytes::new(), Source::Done)
            }
            OutBody::Whole(bytes) => (bytes, Source::Done),
            OutBody::Stream { parts, length: Some(left) } => (Bytes::new(), Source::Length { parts, left }),
            OutBody::Stream { parts, length: None } => (Bytes::new(), Source::Chunked { parts }),
        };
        Self {
            printed,
            printed_sent: 0,
            data,
            tail: b"",
            source,
            sent_bytes: 0,
            flushed: false,
            consumed: false,
        }
    }

    /// Prints a request without a body, after which the connection is not used again (RFC 9112 §9.6).
    pub(crate) fn last(request: &RequestHead<'_>) -> Self {
        let mut outgoing = Self::new(request, OutBody::Empty);
        outgoing.printed.truncate(outgoing.printed.len() - b"\r\n".len());
        print::field(&mut outgoing.printed, CONNECTION.as_str(), b"close");
        print::end(&mut outgoing.printed);
        outgoing
    }

    /// Whether nothing of a streamed body has been taken yet.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.consumed
    }

    /// The streamed body, if there is one. Only of use while [`Self::is_untouched`].
    pub(crate) fn into_stream(self) -> Option<OutBody> {
        match self.source {
            Source::Done => None,
            Source::Length { parts, left } => Some(OutBody::Stream { parts, length: Some(left) }),
            Source::Chunked { parts } => Some(OutBody::Stream { parts, length: None }),
        }
    }

    /// Whether all of it was taken by the stream.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.source, Source::Done) && self.pending_bytes() == 0 && self.flushed
    }

    fn pending_bytes(&self) -> usize {
        self.printed.len() - self.printed_sent + self.data.len() + self.tail.len()
    }

    /// Sends what it can.
    ///
    /// # Errors
    /// When the stream fails or the body is broken off; not to be called again then.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut Transport,
    ) -> Result<Sending, SendError> {
        loop {
            match self.poll_pending(cx, to) {
                Poll::Pending => return Ok(Sending::Blocked),
                Poll::Ready(Err(_)) => return Err(SendError::Stream),
                Poll::Ready(Ok(())) => {}
            }
            let part = match &mut self.source {
                Source::Done => return Ok(Sending::Done),
                Source::Length { parts, .. } | Source::Chunked { parts } => parts.poll_recv(cx),
            };
            let Poll::Ready(part) = part else { return Ok(Sending::Starved) };
            self.consumed = true;
            self.take(part.ok_or(SendError::Aborted)?)?;
        }
    }

    /// Writes and flushes what is at hand.
    fn poll_pending(&mut self, cx: &mut Context<'_>, to: &mut Transport) -> Poll<io::Result<()>> {
        while self.pending_bytes() > 0 {
            let written = if self.data.is_empty() && self.tail.is_empty() {
                ready!(Pin::new(&mut *to).poll_write(cx, &self.printed[self.printed_sent..]))?
            } else {
                let slices = [
                    IoSlice::new(&self.printed[self.printed_sent..]),
                    IoSlice::new(&self.data),
                    IoSlice::new(self.tail),
                ];
                ready!(Pin::new(&mut *to).poll_write_vectored(cx, &slices))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
        }
        if !self.flushed {
            ready!(Pin::new(to).poll_flush(cx))?;
            self.flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, written: usize) {
        self.sent_bytes += written as u64;
        self.flushed = false;
        let printed = written.min(self.printed.len() - self.printed_sent);
        self.printed_sent += printed;
        if self.printed_sent == self.printed.len() {
            self.printed.clear();
            self.printed_sent = 0;
        }
        let data = (written - printed).min(self.data.len());
        bytes::Buf::advance(&mut self.data, data);
        self.tail = &self.tail[written - printed - data..];
    }

    fn take(&mut self, part: OutPart) -> Result<(), SendError> {
        match (&mut self.source, part) {
            (_, OutPart::Data(data)) if data.is_empty() => {}
            (Source::Length { left, .. }, OutPart::Data(data)) => {
                *left = left.checked_sub(data.len() as u64).ok_or(SendError::Aborted)?;
                self.data = data;
            }
            (Source::Length { left: 0, .. }, OutPart::End(_)) => self.source = Source::Done,
            (Source::Length { .. }, OutPart::End(_)) => return Err(SendError::Aborted),
            (Source::Chunked { .. }, OutPart::Data(data)) => {
                print::chunk_head(&mut self.printed, data.len());
                self.data = data;
                self.tail = print::CHUNK_END;
            }
            (Source::Chunked { .. }, OutPart::End(trailers)) => {
                print::last_chunk(&mut self.printed, trailers.as_ref());
                self.flushed = false;
                self.source = Source::Done;
            }
            (Source::Done, _) => {}
        }
        Ok(())
    }
}

/// RFC 9112 §3, §5: the request line, the fields, and what frames the body.
fn head(out: &mut Vec<u8>, request: &RequestHead<'_>, body: &OutBody) {
    assert!(
        !request.target.is_empty() && request.target.iter().all(u8::is_ascii_graphic),
        "a target is visible ASCII: the edge has parsed it"
    );
    out.extend_from_slice(request.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(request.target);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    fields(out, request.headers, body);
    match body {
        OutBody::Empty if expects_content(request.method) => length(out, 0),
        OutBody::Empty => {}
        OutBody::Whole(bytes) => length(out, bytes.len() as u64),
        OutBody::Stream { length: Some(bytes), .. } => length(out, *bytes),
        OutBody::Stream { length: None, .. } => {
            print::field(out, TRANSFER_ENCODING.as_str(), b"chunked");
        }
    }
    if let Some(protocols) = request.upgrade {
        upgrade(out, protocols);
    }
    print::end(out);
}

fn fields(out: &mut Vec<u8>, headers: &HeaderMap, body: &OutBody) {
    let without_body = matches!(body, OutBody::Empty);
    // RFC 9110 §7.2: Host comes first.
    if let Some(host) = headers.get(HOST) {
        print::checked(out, &HOST, host);
    }
    for (name, value) in headers {
        let framing = *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING;
        let hop = *name == CONNECTION || *name == UPGRADE;
        // RFC 9110 §10.1.1: no expectation without content.
        if framing || hop || *name == HOST || (without_body && *name == EXPECT) {
            continue;
        }
        print::checked(out, name, value);
    }
}

/// RFC 9110 §8.6: requests with these methods say `Content-Length: 0` when they have no content.
fn expects_content(method: &Method) -> bool {
    *method == Method::POST || *method == Method::PUT || *method == Method::PATCH
}

fn length(out: &mut Vec<u8>, bytes: u64) {
    out.extend_from_slice(b"content-length: ");
    print::number(out, bytes);
    out.extend_from_slice(b"\r\n");
}

/// RFC 9110 §7.8: an upgrade is hop-by-hop and named as such.
fn upgrade(out: &mut Vec<u8>, protocols: &HeaderValue) {
    print::field(out, CONNECTION.as_str(), b"upgrade");
    print::field(out, UPGRADE.as_str(), protocols.as_bytes());
}
