//! The floor: a server that does nothing but what any server must, to compare with.
//!
//! One thread, one epoll; per request one `recv`, a search for the blank line, and one
//! `send` of head and body from memory. No routing but by the last path segment, no
//! limits but a head of 8 KiB: it is for loads on this machine only. It is an origin too:
//! bodies are the offset pattern, `/no-store/…` may not be stored, all else for an hour,
//! `/__requests` tells how many requests were answered. Before another origin it is the least of a
//! cache: what it asked for once it sends as it came, for ever.
//!
//! | last segment | body |
//! |---|---|
//! | `1KB` … `999KB`, `1MB` … `99MB`, anything after a dot ignored | so many KiB or MiB |
//! | anything else | 1 KiB |

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, SocketFlags};

use crate::{clock, offsets};

const HEAD_BYTES_MAX: usize = 8192;
const EVENTS_MAX: usize = 512;
const LISTENER: u64 = u64::MAX;
const DATE_BYTES: usize = 29;
/// The most bytes that are kept of another origin. With more all of them are dropped.
const KEPT_BYTES_MAX: usize = 2 << 30;
/// What a request to another origin has behind its path.
const REQUEST_END: &[u8] = b" HTTP/1.1\r\nHost: floor\r\nConnection: close\r\n\r\n";
/// The longest wait for another origin.
const ORIGIN_WAIT: Duration = Duration::from_secs(30);

/// A floor server that is bound and does not serve yet.
#[derive(Debug)]
pub struct Floor {
    listener: OwnedFd,
    address: SocketAddr,
    origin: Option<SocketAddr>,
}

/// Whether a response may be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Storing {
    Hour,
    Never,
}

/// A response ready to send, and the position of its date.
struct Response {
    bytes: Vec<u8>,
    date_at: usize,
}

struct Connection {
    socket: OwnedFd,
    head: Vec<u8>,
    /// What is being sent and how far, if the kernel did not take all at once.
    sending: Option<(Rc<Response>, usize)>,
}

impl Floor {
    /// Binds to `address`. Port 0 lets the kernel choose.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        // std listens with a backlog of 128; a second listen widens it.
        net::listen(&listener, 4096)?;
        Ok(Self { listener: listener.into(), address, origin: None })
    }

    /// Sends what `origin` has under a path, asked for once.
    #[must_use]
    pub fn before(self, origin: SocketAddr) -> Self {
        Self { origin: Some(origin), ..self }
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    /// Only if epoll itself fails. An error of a connection ends that connection.
    pub fn run(self) -> io::Result<()> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &self.listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let mut server =
            Server { epoll, connections: Vec::new(), free: Vec::new(), shelf: Shelf::new(self.origin) };
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        let mut buffer = vec![0; HEAD_BYTES_MAX];
        loop {
            events.clear();
            match epoll::wait(&server.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            server.shelf.set_date(clock::wall());
            for event in &events {
                match event.data.u64() {
                    LISTENER => server.accept(&self.listener),
                    index => server.serve(index as usize, &mut buffer),
                }
            }
        }
    }
}

struct Server {
    epoll: OwnedFd,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    shelf: Shelf,
}

impl Server {
    fn accept(&mut self, listener: &OwnedFd) {
        while let Ok(socket) = net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            let _ = net::sockopt::set_tcp_nodelay(&socket, true);
            let index = self.free.pop().unwrap_or(self.connections.len());
            if epoll::add(&self.epoll, &socket, EventData::new_u64(index as u64), EventFlags::IN).is_err() {
                self.free.push(index);
                continue;
            }
            let connection = Some(Connection { socket, head: Vec::new(), sending: None });
            if index == self.connections.len() {
                self.connections.push(connection);
            } else {
                self.connections[index] = connection;
            }
        }
    }

    fn serve(&mut self, index: usize, buffer: &mut [u8]) {
        let Some(Some(connection)) = self.connections.get_mut(index) else { return };
        let was_sending = connection.sending.is_some();
        let alive = connection.step(&mut self.shelf, buffer);
        if !alive {
            self.connections[index] = None;
            self.free.push(index);
            return;
        }
        let is_sending = connection.sending.is_some();
        if was_sending != is_sending {
            let interest = if is_sending { EventFlags::OUT } else { EventFlags::IN };
            let _ =
                epoll::modify(&self.epoll, &connection.socket, EventData::new_u64(index as u64), interest);
        }
    }
}

impl Connection {
    /// Sends what is left, or reads and answers. False once the connection is over.
    fn step(&mut self, shelf: &mut Shelf, buffer: &mut [u8]) -> bool {
        if let Some((response, from)) = self.sending.take()
            && !self.send(response, from)
        {
            return false;
        }
        if self.sending.is_some() {
            return true;
        }
        if self.head.is_empty() {
            // The common case: one whole request, answered from the shared buffer.
            let length = match net::recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return false,
                Ok((length, _)) => length,
                Err(error) => return error == Errno::AGAIN,
            };
            let used = self.answer(shelf, &buffer[..length]);
            let Some(used) = used else { return false };
            self.head.extend_from_slice(&buffer[used..length]);
            return true;
        }
        let mut head = std::mem::take(&mut self.head);
        match net::recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) => return false,
            Ok((length, _)) => head.extend_from_slice(&buffer[..length]),
            Err(Errno::AGAIN) => {}
            Err(_) => return false,
        }
        let Some(used) = self.answer(shelf, &head) else { return false };
        head.drain(..used);
        self.head = head;
        self.head.len() < HEAD_BYTES_MAX
    }

    /// Answers the whole requests at the front of `bytes`. Returns how many bytes they had.
    fn answer(&mut self, shelf: &mut Shelf, bytes: &[u8]) -> Option<usize> {
        let mut used = 0;
        while self.sending.is_none() {
            let rest = &bytes[used..];
            let Some(end) = memchr::memmem::find(rest, b"\r\n\r\n") else { break };
            let response = shelf.find(&rest[..end]);
            used += end + 4;
            if !self.send(response, 0) {
                return None;
            }
        }
        Some(used)
    }

    fn send(&mut self, response: Rc<Response>, mut from: usize) -> bool {
        while from < response.bytes.len() {
            match net::send(&self.socket, &response.bytes[from..], SendFlags::NOSIGNAL) {
                Ok(sent) => from += sent,
                Err(Errno::AGAIN) => {
                    self.sending = Some((response, from));
                    return true;
                }
                Err(_) => return false,
            }
        }
        true
    }
}

/// The responses, each made when it is first requested.
struct Shelf {
    responses: HashMap<(usize, Storing), Rc<Response>>,
    second: u64,
    date: String,
    requests: u64,
    origin: Option<SocketAddr>,
    /// What the other origin has sent, by path.
    kept: HashMap<Vec<u8>, Rc<Response>>,
    kept_bytes: usize,
}

impl Shelf {
    fn new(origin: Option<SocketAddr>) -> Self {
        let mut shelf = Self {
            responses: HashMap::new(),
            second: 0,
            date: String::new(),
            requests: 0,
            origin,
            kept: HashMap::new(),
            kept_bytes: 0,
        };
        shelf.set_date(clock::wall());
        shelf
    }

    fn set_date(&mut self, now: SystemTime) {
        let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if second == self.second {
            return;
        }
        self.second = second;
        self.date = httpdate::fmt_http_date(now);
        let date = self.date.as_bytes();
        // Responses that are being sent keep their old date: they hold another reference.
        for response in self.responses.values_mut() {
            if let Some(response) = Rc::get_mut(response) {
                response.bytes[response.date_at..response.date_at + DATE_BYTES].copy_from_slice(date);
            }
        }
    }

    fn find(&mut self, head: &[u8]) -> Rc<Response> {
        self.requests += 1;
        let path = path(head);
        if let Some(origin) = self.origin {
            return match self.kept.get(path) {
                Some(response) => response.clone(),
                None => self.fetch(origin, path),
            };
        }
        if path == b"/__requests" {
            let body = format!("{}\n", self.requests).into_bytes();
            return Rc::new(Response::new(&self.date, Storing::Never, &body));
        }
        let storing = if path.starts_with(b"/no-store/") { Storing::Never } else { Storing::Hour };
        let date = &self.date;
        let make = |bytes: usize| Response::new(date, storing, &offsets::body(bytes as u64));
        let bytes = body_bytes(path);
        self.responses.entry((bytes, storing)).or_insert_with(|| Rc::new(make(bytes))).clone()
    }
}

impl Shelf {
    /// Asks the other origin, while everybody waits.
    fn fetch(&mut self, origin: SocketAddr, path: &[u8]) -> Rc<Response> {
        let asked = || -> io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect_timeout(&origin, ORIGIN_WAIT)?;
            stream.set_read_timeout(Some(ORIGIN_WAIT))?;
            let request = [&b"GET "[..], path, REQUEST_END].concat();
            stream.write_all(&request)?;
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = match asked() {
            Ok(bytes) if !bytes.is_empty() => bytes,
            _ => {
                let bytes = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n".to_vec();
                return Rc::new(Response { bytes, date_at: 0 });
            }
        };
        if self.kept_bytes + bytes.len() > KEPT_BYTES_MAX {
            self.kept.clear();
            self.kept_bytes = 0;
        }
        self.kept_bytes += bytes.len();
        let response = Rc::new(Response { bytes, date_at: 0 });
        self.kept.insert(path.to_vec(), response.clone());
        response
    }
}

impl Response {
    fn new(date: &str, storing: Storing, body: &[u8]) -> Self {
        let storing = match storing {
            Storing::Hour => "max-age=3600",
            Storing::Never => "no-store",
        };
        let before = "HTTP/1.1 200 OK\r\nServer: floor\r\nDate: ";
        let length = body.len();
        let mut bytes = format!(
            "{before}{date}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\
             Last-Modified: Thu, 01 Oct 2026 07:00:00 GMT\r\nETag: \"floor-{length}\"\r\n\
             Cache-Control: {storing}\r\n\r\n"
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        Self { bytes, date_at: before.len() }
    }
}

fn path(head: &[u8]) -> &[u8] {
    let from = memchr::memchr(b' ', head).map_or(head.len(), |space| space + 1);
    let rest = &head[from..];
    &rest[..memchr::memchr2(b' ', b'?', rest).unwrap_or(rest.len())]
}

/// `…/10KB.html` has 10 KiB.
fn body_bytes(path: &[u8]) -> usize {
    let name = &path[memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1)..];
    let name = &name[..memchr::memchr(b'.', name).unwrap_or(name.len())];
    let (digits, unit) = match name {
        [digits @ .., b'K', b'B'] if digits.len() <= 3 => (digits, 1 << 10),
        [digits @ .., b'M', b'B'] if digits.len() <= 2 => (digits, 1 << 20),
        _ => return 1 << 10,
    };
    match std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<usize>().ok()) {
        Some(count) if count > 0 => count * unit,
        _ => 1 << 10,
    }
}
