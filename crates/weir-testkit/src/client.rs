//! A client that sends exactly what it is told, and reads strictly.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::fields::lines;
use crate::response::{Head, Response, Trouble};
use crate::socket::{Address, Socket};

/// One connection of a client.
pub struct Client {
    socket: Socket,
    buf: Vec<u8>,
    scratch: Vec<u8>,
}

/// A connection with a receive buffer of so many bytes.
///
/// # Panics
/// Nobody listens.
pub fn narrow(to: SocketAddr, receive_bytes: usize) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::for_address(to), socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(receive_bytes).unwrap();
    socket.connect_timeout(&to.into(), crate::socket::PATIENCE).unwrap();
    socket.into()
}

/// Takes a received body.
type Sink<'a> = &'a mut dyn FnMut(&[u8]);

impl Client {
    /// Connects.
    ///
    /// # Panics
    /// Nobody listens.
    pub fn connect(to: impl Into<Address>) -> Client {
        let to = to.into();
        Client::over(to.connect().unwrap_or_else(|why| panic!("connect to {to:?}: {why}")))
    }

    /// Connects with a receive buffer of so many bytes: what a slow client leaves in the kernel is small.
    ///
    /// # Panics
    /// Nobody listens.
    pub fn connect_narrow(to: SocketAddr, receive_bytes: usize) -> Client {
        let socket = Socket::Tcp(narrow(to, receive_bytes));
        socket.patience(crate::socket::PATIENCE).unwrap();
        Client::over(socket)
    }

    /// Connects from this address.
    ///
    /// # Panics
    /// Nobody listens, or the address is not this machine's.
    pub fn connect_from(from: IpAddr, to: SocketAddr) -> Client {
        let domain = socket2::Domain::for_address(to);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(from, 0).into()).unwrap();
        socket.connect_timeout(&to.into(), crate::socket::PATIENCE).unwrap();
        let socket = Socket::Tcp(socket.into());
        socket.patience(crate::socket::PATIENCE).unwrap();
        Client::over(socket)
    }

    /// A client over an open stream.
    pub fn over(socket: Socket) -> Client {
        Client { socket, buf: Vec::new(), scratch: vec![0; 64 * 1024] }
    }

    /// The stream, to set its options.
    pub fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    /// How long one read waits before it is [`Trouble::Silent`].
    pub fn patience(self, longest: Duration) -> Client {
        self.socket.patience(longest).unwrap();
        self
    }

    /// Sends bytes as they are. False if the peer no longer takes them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.socket.write_all(bytes.as_ref()).and_then(|()| self.socket.flush()).is_ok()
    }

    /// Sends bytes in pieces of `size`, each in its own segment as far as the system lets it.
    pub fn send_split(&mut self, bytes: impl AsRef<[u8]>, size: usize) -> bool {
        bytes.as_ref().chunks(size.max(1)).all(|piece| {
            std::thread::sleep(Duration::from_micros(200));
            self.send(piece)
        })
    }

    /// Sends a GET of HTTP/1.1 with `Host: host` and more header lines.
    pub fn send_get(&mut self, host: &str, target: &str, headers: &[(&str, &str)]) -> bool {
        let lines = lines(headers.iter().copied());
        self.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n"))
    }

    /// Sends a GET and reads its response.
    ///
    /// # Panics
    /// No whole response comes.
    pub fn get(&mut self, host: &str, target: &str, headers: &[(&str, &str)]) -> Response {
        self.send_get(host, target, headers);
        self.recv().unwrap_or_else(|why| panic!("GET {target} of {host}: {why}"))
    }

    /// Reads a response to a request of any method but HEAD and CONNECT.
    ///
    /// # Errors
    /// None came whole.
    pub fn recv(&mut self) -> Result<Response, Trouble> {
        self.receive(true, None)
    }

    /// Reads a response to HEAD, which has no body.
    ///
    /// # Errors
    /// None came whole.
    pub fn recv_head(&mut self) -> Result<Response, Trouble> {
        self.receive(false, None)
    }

    /// Reads a response and passes its body on piece by piece instead of keeping it.
    ///
    /// # Errors
    /// None came whole.
    pub fn recv_into(&mut self, sink: Sink<'_>) -> Result<Response, Trouble> {
        self.receive(true, Some(sink))
    }

    /// Reads only a response's head; interim ones come one by one. The body stays in the stream.
    ///
    /// # Errors
    /// None came.
    pub fn recv_head_only(&mut self) -> Result<Head, Trouble> {
        self.head(&Response::default())
    }

    /// Reads at least one byte. Empty at the end of the stream, after a reset, and when the patience is over.
    pub fn read_some(&mut self) -> Vec<u8> {
        if self.buf.is_empty() && !matches!(self.fill(), Ok(true)) {
            return Vec::new();
        }
        std::mem::take(&mut self.buf)
    }

    /// Reads until at least so many bytes have come, or no more come.
    pub fn read_at_least(&mut self, bytes: usize) -> Vec<u8> {
        let mut got = Vec::new();
        while got.len() < bytes {
            let some = self.read_some();
            if some.is_empty() {
                break;
            }
            got.extend(some);
        }
        got
    }

    /// Reads until the stream ends or the patience is over.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        while matches!(self.fill(), Ok(true)) {}
        std::mem::take(&mut self.buf)
    }

    /// Waits up to `longest` for the peer to close or reset the connection. Bytes that come are not an end.
    pub fn is_closed_within(&mut self, longest: Duration) -> bool {
        let _ = self.socket.patience(longest);
        let ended = match self.fill() {
            Ok(more) => !more,
            Err(why) => !matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        };
        let _ = self.socket.patience(crate::socket::PATIENCE);
        ended
    }

    /// Sends no more, but still reads.
    pub fn finish(&mut self) {
        self.socket.shutdown(Shutdown::Write);
    }

    /// Leaves with a reset.
    pub fn reset(self) {
        self.socket.reset();
    }

    fn fill(&mut self) -> std::io::Result<bool> {
        loop {
            match self.socket.read(&mut self.scratch) {
                Ok(0) => return Ok(false),
                Ok(n) => {
                    self.buf.extend_from_slice(&self.scratch[..n]);
                    return Ok(true);
                }
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
    }

    /// Reads more bytes into `buf`, or says why a response that has come as far as `so_far` does not go on.
    fn more(&mut self, so_far: &Response) -> Result<(), Trouble> {
        match self.fill() {
            Ok(true) => Ok(()),
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(Trouble::Silent(Box::new(so_far.clone())))
            }
            _ if so_far.head.status == 0 && self.buf.is_empty() => Err(Trouble::Closed),
            _ => Err(Trouble::Cut(Box::new(so_far.clone()))),
        }
    }

    fn until(&mut self, mark: &[u8], so_far: &Response) -> Result<Vec<u8>, Trouble> {
        let mut from = 0;
        loop {
            if let Some(at) = self.buf[from..].windows(mark.len()).position(|w| w == mark) {
                let rest = self.buf.split_off(from + at + mark.len());
                let mut found = std::mem::replace(&mut self.buf, rest);
                found.truncate(from + at);
                return Ok(found);
            }
            from = self.buf.len().saturating_sub(mark.len() - 1);
            self.more(so_far)?;
        }
    }

    fn head(&mut self, so_far: &Response) -> Result<Head, Trouble> {
        let bytes = self.until(b"\r\n\r\n", so_far)?;
        Head::parse(&bytes).map_err(Trouble::Malformed)
    }

    fn receive(&mut self, body_follows: bool, sink: Option<Sink<'_>>) -> Result<Response, Trouble> {
        let begun = Instant::now();
        let mut response = Response::default();
        loop {
            let head = self.head(&response)?;
            if head.status >= 200 || head.status == 101 {
                response.head = head;
                break;
            }
            response.interim.push(head);
        }
        response.first_byte = begun.elapsed();
        if body_follows && !matches!(response.head.status, 101 | 204 | 304) {
            self.body(&mut response, sink)?;
        }
        response.whole = begun.elapsed();
        Ok(response)
    }

    fn body(&mut self, response: &mut Response, mut sink: Option<Sink<'_>>) -> Result<(), Trouble> {
        let coding = response.header("transfer-encoding");
        let length = response.header("content-length");
        match (coding.as_deref(), length) {
            (Some("chunked"), None) => self.chunked(response, &mut sink),
            (None, Some(length)) => {
                let length = length.parse().map_err(|_| Trouble::Malformed(format!("length {length:?}")))?;
                self.take(length, response, &mut sink)
            }
            (None, None) => loop {
                let piece = std::mem::take(&mut self.buf);
                keep(&piece, response, &mut sink);
                match self.fill() {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(_) => return self.more(response),
                }
            },
            both => Err(Trouble::Malformed(format!("framing {both:?}"))),
        }
    }

    fn take(
        &mut self,
        mut left: u64,
        response: &mut Response,
        sink: &mut Option<Sink<'_>>,
    ) -> Result<(), Trouble> {
        while left > 0 {
            if self.buf.is_empty() {
                self.more(response)?;
            }
            let now = self.buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            keep(&self.buf[..now], response, sink);
            self.buf.drain(..now);
            left -= now as u64;
        }
        Ok(())
    }

    fn chunked(&mut self, response: &mut Response, sink: &mut Option<Sink<'_>>) -> Result<(), Trouble> {
        loop {
            let line = self.until(b"\r\n", response)?;
            let text = String::from_utf8_lossy(&line).into_owned();
            let size =
                u64::from_str_radix(&text, 16).map_err(|_| Trouble::Malformed(format!("chunk {text:?}")))?;
            if size == 0 {
                break;
            }
            response.chunks.push(size as usize);
            self.take(size, response, sink)?;
            if !self.until(b"\r\n", response)?.is_empty() {
                return Err(Trouble::Malformed("bytes after a chunk".to_owned()));
            }
        }
        loop {
            let line = self.until(b"\r\n", response)?;
            if line.is_empty() {
                return Ok(());
            }
            let text = String::from_utf8_lossy(&line).into_owned();
            let (name, value) =
                text.split_once(':').ok_or(Trouble::Malformed(format!("trailer {text:?}")))?;
            response.trailers.push((name.to_owned(), value.trim().to_owned()));
        }
    }
}

fn keep(piece: &[u8], response: &mut Response, sink: &mut Option<Sink<'_>>) {
    match sink {
        Some(sink) => sink(piece),
        None => response.body.extend_from_slice(piece),
    }
}

/// Sends one GET on its own connection, with `Host: localhost`.
///
/// # Panics
/// No whole response comes.
pub fn get(to: impl Into<Address>, target: &str) -> Response {
    get_with(to, target, &[])
}

/// Sends one GET on its own connection, with `Host: localhost` and more headers.
///
/// # Panics
/// No whole response comes.
pub fn get_with(to: impl Into<Address>, target: &str, headers: &[(&str, &str)]) -> Response {
    Client::connect(to).get("localhost", target, headers)
}
