//! A request at the scripted origin, and the ways to answer it.

use std::io::{Read, Write};
use std::time::Duration;

use crate::fields::{joined, lines};
use crate::socket::Socket;

/// A request as received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The head as bytes, its final empty line included.
    pub raw: Vec<u8>,
    /// The method.
    pub method: String,
    /// The target as sent.
    pub target: String,
    /// Names (as sent) and values, in order.
    pub headers: Vec<(String, String)>,
    /// Which connection of the origin it came on, from 1.
    pub connection: usize,
}

impl Request {
    /// Parses the fields of a head. Tolerant, since the origin wants to see whatever comes.
    pub fn parse(raw: Vec<u8>, connection: usize) -> Request {
        let text = String::from_utf8_lossy(&raw).into_owned();
        let mut lines = text.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let method = first.next().unwrap_or_default().to_owned();
        let target = first.next().unwrap_or_default().to_owned();
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(n, v)| (n.to_owned(), v.trim().to_owned()))
            .collect();
        Request { raw, method, target, headers, connection }
    }

    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The values of `name`, joined by `, `; `None` where the field is absent.
    pub fn header(&self, name: &str) -> Option<String> {
        joined(&self.headers, name)
    }

    fn wants_close(&self) -> bool {
        self.header("connection").is_some_and(|v| v.eq_ignore_ascii_case("close"))
    }
}

/// What a connection does after the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Next,
    Close,
    Reset,
}

/// A request that is being answered. A handler writes whatever it likes. When it returns, the connection
/// takes the next request, unless the handler or the request has closed it.
pub struct Exchange<'a> {
    /// The request.
    pub request: &'a Request,
    /// The lines behind the last chunk of the request's body, once the body was read.
    pub trailers: Vec<String>,
    socket: &'a mut Socket,
    buf: &'a mut Vec<u8>,
    after: After,
    body_left: Left,
    is_whole: bool,
}

/// What of the request's body was not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Bytes(u64),
    Chunks,
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(request: &'a Request, socket: &'a mut Socket, buf: &'a mut Vec<u8>) -> Exchange<'a> {
        let chunked = request.header("transfer-encoding").is_some();
        let length = request.header("content-length").and_then(|v| v.parse().ok()).unwrap_or(0);
        let body_left = if chunked { Left::Chunks } else { Left::Bytes(length) };
        let after = if request.wants_close() { After::Close } else { After::Next };
        Exchange { request, trailers: Vec::new(), socket, buf, after, body_left, is_whole: false }
    }

    /// Sends bytes as they are. False if the peer has gone.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.socket.write_all(bytes.as_ref()).and_then(|()| self.socket.flush()).is_ok()
    }

    /// Sends a whole small response with a Content-Length.
    pub fn reply(&mut self, status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> bool {
        let body = body.as_ref();
        let lines = lines(headers.iter().copied());
        let length = body.len();
        let mut out =
            format!("HTTP/1.1 {status} Status\r\n{lines}Content-Length: {length}\r\n\r\n").into_bytes();
        out.extend_from_slice(body);
        self.send(out)
    }

    /// Reads the whole body of the request, decoded. It is short if the peer went away.
    pub fn body(&mut self) -> Vec<u8> {
        match std::mem::replace(&mut self.body_left, Left::Bytes(0)) {
            Left::Bytes(length) => {
                while (self.buf.len() as u64) < length && self.fill() {}
                let have = self.buf.len().min(length as usize);
                self.is_whole |= have as u64 == length;
                self.buf.drain(..have).collect()
            }
            Left::Chunks => self.chunks(),
        }
    }

    /// Whether the body of the request came to its end when it was read.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        while let Some(line) = self.line() {
            let size =
                usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16).unwrap_or(0);
            if size == 0 {
                while let Some(line) = self.line() {
                    self.is_whole = line.is_empty();
                    if self.is_whole {
                        break;
                    }
                    self.trailers.push(line);
                }
                break;
            }
            while self.buf.len() < size + 2 && self.fill() {}
            let have = self.buf.len().min(size + 2);
            let piece: Vec<u8> = self.buf.drain(..have).collect();
            body.extend_from_slice(&piece[..piece.len().min(size)]);
        }
        body
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.buf.windows(2).position(|w| w == b"\r\n") {
                let line: Vec<u8> = self.buf.drain(..at + 2).collect();
                return Some(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// Reads at least one byte, undecoded. Empty at the end of the stream.
    pub fn read_some(&mut self) -> Vec<u8> {
        self.body_left = Left::Bytes(0);
        if self.buf.is_empty() {
            self.fill();
        }
        std::mem::take(self.buf)
    }

    /// Waits until the peer closes or resets the connection. False if `longest` is over first.
    pub fn peer_left_within(&mut self, longest: Duration) -> bool {
        let _ = self.socket.patience(longest);
        let mut byte = [0u8; 512];
        loop {
            match self.socket.read(&mut byte) {
                Ok(0) => return true,
                Ok(n) => self.buf.extend_from_slice(&byte[..n]),
                Err(why) => {
                    let _ = self.socket.patience(crate::socket::PATIENCE);
                    return !matches!(
                        why.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    );
                }
            }
        }
    }

    /// The connection is closed when the handler returns.
    pub fn close(&mut self) {
        self.after = After::Close;
    }

    /// The connection is reset when the handler returns.
    pub fn reset(&mut self) {
        self.after = After::Reset;
    }

    /// The stream below, to set its options.
    pub fn socket(&mut self) -> &mut Socket {
        self.socket
    }

    pub(crate) fn finish(mut self) -> After {
        if self.after == After::Next {
            self.body();
        }
        self.after
    }

    fn fill(&mut self) -> bool {
        let mut piece = [0u8; 16 * 1024];
        match self.socket.read(&mut piece) {
            Ok(n) if n > 0 => {
                self.buf.extend_from_slice(&piece[..n]);
                true
            }
            _ => false,
        }
    }
}
