//! A small caching proxy that is honest, or lies in one way.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::clock::Clock;
use crate::head;

/// How the server lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lie {
    Honest,
    /// One byte in the middle of each body is another.
    Byte,
    /// Each body ends in the middle, with the connection.
    Cut,
    /// Each body is shorter, and its head says so.
    Shorter,
    /// Ranges are other ones than asked for, as the head says.
    OtherRange,
    /// Ranges are of a longer whole, as the head says.
    OtherWhole,
    /// Ranges have the bytes of others.
    ShiftedRange,
    /// What is stored is served for ever.
    Old,
    /// One response more is counted than there was, each time.
    Count,
    /// No lie: requests for its figures are requests.
    CountsReads,
    /// No lie: what was sent is counted a little later.
    CountsLate,
    /// Says more bytes than were sent.
    Bytes,
    /// Nothing is stored.
    Forgets,
    /// Holds more than it may.
    Swells,
    /// What is purged is kept.
    KeepsPurged,
    /// A body that the origin cut is stored and served as whole.
    StoresCut,
    /// After a fault of the origin, nothing works any more.
    Sulks,
    /// The first byte comes late.
    Late,
}

/// The bytes of bodies that are held at most.
pub(super) const CAPACITY: usize = 400_000;

struct Stored {
    number: u64,
    head: String,
    body: Vec<u8>,
    until_ns: u64,
}

#[derive(Default)]
struct State {
    stored: HashMap<String, Stored>,
    requests: u64,
    client_bytes: u64,
    origin_requests: u64,
    origin_bytes: u64,
    has_failed: bool,
}

impl State {
    fn held(&self) -> usize {
        self.stored.values().map(|one| one.body.len()).sum()
    }
}

pub(super) struct Liar {
    lie: Lie,
    origin: SocketAddr,
    clock: Clock,
    state: Mutex<State>,
}

/// An address that nothing else of the tests uses.
pub(super) fn free_port() -> SocketAddr {
    ([127, 0, 0, 1], weir_testkit::free_port()).into()
}

impl Liar {
    /// Starts one before `origin`, for as long as the tests run.
    pub(super) fn start(lie: Lie, origin: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        rustix::net::listen(&listener, 1024).unwrap();
        let liar = Arc::new(Self { lie, origin, clock: Clock::start(), state: Mutex::default() });
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let liar = liar.clone();
                thread::spawn(move || liar.converse(stream));
            }
        });
        address
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn converse(self: &Arc<Self>, mut stream: TcpStream) {
        let (mut buffer, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            while let Some(end) = memchr::memmem::find(&buffer, b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&buffer[..end + 4]).into_owned();
                buffer.drain(..end + 4);
                let (bytes, goes_on) = self.answer(&text);
                if stream.write_all(&bytes).is_err() || !goes_on {
                    return;
                }
            }
            match stream.read(&mut piece) {
                Ok(bytes @ 1..) => buffer.extend_from_slice(&piece[..bytes]),
                _ => return,
            }
        }
    }

    fn answer(self: &Arc<Self>, text: &str) -> (Vec<u8>, bool) {
        let mut words = text.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if path == "/" {
            return (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(), true);
        }
        if path == "/__stats" {
            self.state().requests += u64::from(self.lie == Lie::CountsReads);
            return (self.stats(), true);
        }
        let mut state = self.state();
        if method == "PURGE" {
            if self.lie != Lie::KeepsPurged {
                state.stored.remove(path);
            }
            return (b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), true);
        }
        state.requests += 1;
        if self.lie == Lie::Late {
            thread::sleep(Duration::from_millis(30));
        }
        let range = text.lines().find_map(|line| line.strip_prefix("Range: bytes="));
        let is_fresh = |stored: &Stored| self.lie == Lie::Old || self.clock.nanoseconds() < stored.until_ns;
        let is_held = state.stored.get(path).is_some_and(is_fresh);
        if !is_held && let Err(said) = self.fetch(path, &mut state) {
            return (said, true);
        }
        let Some(stored) = state.stored.get(path) else { return (failed(), true) };
        let hit = if is_held { "liar; hit" } else { "liar; fwd=miss" };
        let head = format!("{}Cache-Status: {hit}\r\n", stored.head);
        let (bytes, sent) = self.print(&head, stored.body.clone(), range);
        if self.lie == Lie::CountsLate {
            let liar = Arc::clone(self);
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(60));
                liar.state().client_bytes += sent;
            });
        } else {
            state.client_bytes += sent;
        }
        if self.lie == Lie::Forgets {
            state.stored.remove(path);
        }
        (bytes, self.lie != Lie::Cut)
    }

    /// Gets something from the origin.
    fn fetch(&self, path: &str, state: &mut State) -> Result<(), Vec<u8>> {
        if self.lie == Lie::Sulks && state.has_failed {
            return Err(failed());
        }
        state.has_failed = true;
        let mut stream = TcpStream::connect(self.origin).map_err(|_| failed())?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(|_| failed())?;
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        state.origin_requests += 1;
        let Ok(Some(head)) = head::parse(&all) else { return Err(failed()) };
        let body = all.split_off(head.head_bytes);
        state.origin_bytes += body.len() as u64;
        let is_cut = head.framing != head::Framing::Length(body.len() as u64);
        if head.status != 200 || (is_cut && self.lie != Lie::StoresCut) {
            return Err(failed());
        }
        state.has_failed = false;
        let fields = head::fields(&all);
        let kept =
            |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let age = kept("cache-control").and_then(|said| said.strip_prefix("max-age=")?.parse::<u64>().ok());
        let version = kept(head::VERSION).unwrap_or_default();
        let until_ns = self.clock.nanoseconds() + age.unwrap_or(0) * 1_000_000_000;
        let head = format!("{}: {version}\r\n", head::VERSION);
        let number = state.origin_requests;
        state.stored.insert(path.to_owned(), Stored { number, head, body, until_ns });
        while self.lie != Lie::Swells && state.stored.len() > 1 && state.held() > CAPACITY {
            let oldest = state.stored.iter().min_by_key(|(_, stored)| stored.number);
            let oldest = oldest.map(|(path, _)| path.clone()).unwrap();
            state.stored.remove(&oldest);
        }
        Ok(())
    }

    /// A response, and how many bytes of content it has.
    fn print(&self, fields: &str, mut body: Vec<u8>, range: Option<&str>) -> (Vec<u8>, u64) {
        let whole = body.len() as u64;
        let middle = body.len() / 2;
        if self.lie == Lie::Byte && !body.is_empty() {
            body[middle] ^= 1;
        }
        let Some(range) = range else {
            let sent = if matches!(self.lie, Lie::Cut | Lie::Shorter) { middle } else { body.len() };
            let length = if self.lie == Lie::Cut { body.len() } else { sent };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{fields}\r\n");
            return ([head.as_bytes(), &body[..sent]].concat(), sent as u64);
        };
        let asked: Vec<(u64, u64)> = range.split(',').filter_map(|one| interval(one, whole)).collect();
        let told = whole + u64::from(self.lie == Lie::OtherWhole);
        let said = |(start, end): (u64, u64)| format!("Content-Range: bytes {start}-{}/{told}\r\n", end - 1);
        match &asked[..] {
            [] => {
                let head = format!(
                    "HTTP/1.1 416 No\r\nContent-Range: bytes */{whole}\r\nContent-Length: 0\r\n{fields}\r\n"
                );
                (head.into_bytes(), 0)
            }
            [one] => {
                let (told, (start, end)) = self.moved(*one, whole);
                let mut content = body[start as usize..end as usize].to_vec();
                if self.lie == Lie::Byte {
                    content[0] ^= 1;
                }
                let cut = if self.lie == Lie::Cut { content.len() / 2 } else { content.len() };
                let (length, told) = (content.len(), said(told));
                let head = format!("HTTP/1.1 206 Partial\r\nContent-Length: {length}\r\n{told}{fields}\r\n");
                ([head.as_bytes(), &content[..cut]].concat(), cut as u64)
            }
            several => {
                let mut content = Vec::new();
                for one in several {
                    let (told, (start, end)) = self.moved(*one, whole);
                    content.extend_from_slice(
                        format!("--b\r\nContent-Type: x\r\n{}\r\n", said(told)).as_bytes(),
                    );
                    content.extend_from_slice(&body[start as usize..end as usize]);
                    content.extend_from_slice(b"\r\n");
                }
                content.extend_from_slice(b"--b--\r\n");
                let head = format!(
                    "HTTP/1.1 206 Partial\r\nContent-Length: {}\r\n\
                     Content-Type: multipart/byteranges; boundary=b\r\n{fields}\r\n",
                    content.len()
                );
                ([head.as_bytes(), &content].concat(), content.len() as u64)
            }
        }
    }

    /// What is told and what is sent of a range.
    fn moved(&self, (start, end): (u64, u64), whole: u64) -> ((u64, u64), (u64, u64)) {
        let other = if end < whole { (start + 1, end + 1) } else { (start.saturating_sub(1), end - 1) };
        let other = if other.0 < other.1 { other } else { (0, 1) };
        match self.lie {
            Lie::OtherRange => (other, other),
            Lie::ShiftedRange if other.1 - other.0 == end - start => ((start, end), other),
            _ => ((start, end), (start, end)),
        }
    }

    fn stats(&self) -> Vec<u8> {
        let state = self.state();
        let more = if self.lie == Lie::Count { state.requests / 10 } else { 0 };
        let bytes = if self.lie == Lie::Bytes { state.client_bytes * 2 } else { state.client_bytes };
        let stored = state.held();
        let text = format!(
            "requests {}\nclient_bytes {bytes}\norigin_requests {}\norigin_bytes {}\nobjects {}\n\
             stored {stored}\n",
            state.requests + more,
            state.origin_requests,
            state.origin_bytes,
            state.stored.len()
        );
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
    }
}

fn failed() -> Vec<u8> {
    b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n".to_vec()
}

fn interval(text: &str, whole: u64) -> Option<(u64, u64)> {
    let (first, last) = text.trim().split_once('-')?;
    let (start, end) = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) => (first, (last + 1).min(whole)),
        (Ok(first), Err(_)) => (first, whole),
        (Err(_), Ok(bytes)) => (whole.saturating_sub(bytes), whole),
        _ => return None,
    };
    (start < end).then_some((start, end))
}
