//! A scenario's own origin: it serves the catalogue's seeded bodies over HTTP/1.1, whole and in ranges, says
//! 304 to validators, and misbehaves where a part says so. It runs on a thread of its own.
//!
//! It can die (its port refuses, all connections are reset) and come back on the same port.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::clock;
use crate::head::{self, VERSION};
use crate::load::give_way;
use crate::scenario::catalogue::{Catalogue, Lifetime, Part, Wrong};
use crate::seeded;

/// A request head that is longer than this ends its connection.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Bytes that are made and sent at once.
const PIECE_BYTES: usize = 64 * 1024;
/// Pauses a second of a body with a rate.
const PACES_PER_S: u64 = 20;

/// A running origin. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Origin {
    address: SocketAddr,
    alive: watch::Sender<Life>,
    thread: Option<JoinHandle<()>>,
}

/// Whether the origin answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Alive,
    Dead,
    Ended,
}

impl Origin {
    /// Listens on `address` and serves `catalogue`.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(crate) fn start(address: SocketAddr, catalogue: Arc<Catalogue>) -> io::Result<Self> {
        let listener = bind(address)?;
        let address = listener.local_addr()?;
        let (alive, life) = watch::channel(Life::Alive);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("stress-origin".to_owned()).spawn(move || {
            // Clients on its core that waited for it would count that as the server's time.
            give_way();
            runtime.block_on(serve(listener, address, catalogue, life));
        })?;
        Ok(Self { address, alive, thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Refuses connections and resets those that are open, until [`Self::come_back`].
    pub(crate) fn die(&self) {
        let _ = self.alive.send(Life::Dead);
    }

    pub(crate) fn come_back(&self) {
        let _ = self.alive.send(Life::Alive);
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.alive.send(Life::Ended);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    // std listens with a backlog of 128; a second listen widens it.
    rustix::net::listen(&listener, 4096)?;
    Ok(listener)
}

async fn serve(
    first: TcpListener,
    address: SocketAddr,
    catalogue: Arc<Catalogue>,
    mut life: watch::Receiver<Life>,
) {
    let tasks = tokio::task::LocalSet::new();
    let accepting = async {
        let mut listener = tokio::net::TcpListener::from_std(first).ok();
        loop {
            let now = *life.borrow_and_update();
            match now {
                Life::Ended => return,
                Life::Dead => {
                    listener = None;
                    if life.changed().await.is_err() {
                        return;
                    }
                    continue;
                }
                Life::Alive => {}
            }
            let Some(open) = &listener else {
                listener = bind(address).ok().and_then(|bound| tokio::net::TcpListener::from_std(bound).ok());
                if listener.is_none() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                continue;
            };
            tokio::select! {
                _ = life.changed() => {}
                accepted = open.accept() => match accepted {
                    Ok((stream, _)) => {
                        tokio::task::spawn_local(converse(stream, catalogue.clone(), life.clone()));
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                },
            }
        }
    };
    tasks.run_until(accepting).await;
}

/// One connection, as long as the origin lives.
async fn converse(stream: TcpStream, catalogue: Arc<Catalogue>, mut life: watch::Receiver<Life>) {
    let _ = stream.set_nodelay(true);
    let mut speaker = Speaker { stream, catalogue, buffer: Vec::new() };
    tokio::select! {
        () = speaker.run() => {}
        _ = life.wait_for(|life| *life != Life::Alive) => {
            let _ = rustix::net::sockopt::set_socket_linger(&speaker.stream, Some(Duration::ZERO));
        }
    }
}

struct Speaker {
    stream: TcpStream,
    catalogue: Arc<Catalogue>,
    buffer: Vec<u8>,
}

/// What a request asks for.
#[derive(Debug, Default)]
struct Asked {
    method: String,
    path: String,
    range: Option<String>,
    if_range: Option<String>,
    if_none_match: Option<String>,
    content_bytes: u64,
    is_last: bool,
}

/// Which bytes a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interval {
    Whole,
    Part(u64, u64),
    /// None that the object has.
    Outside,
}

/// A response that is about to be sent.
struct Answer<'a> {
    part: &'a Part,
    key: u64,
    version: u64,
    whole_bytes: u64,
    /// The interval that is sent.
    interval: (u64, u64),
    wrong: Wrong,
}

impl Speaker {
    /// One request after the other. Errors end the connection.
    async fn run(&mut self) {
        while let Ok(Some(asked)) = self.receive().await {
            match self.answer(&asked).await {
                Ok(true) if !asked.is_last => {}
                _ => return,
            }
        }
    }

    async fn receive(&mut self) -> io::Result<Option<Asked>> {
        loop {
            if let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n\r\n") {
                let asked = Asked::read(&self.buffer[..end + 4]);
                self.buffer.drain(..end + 4);
                self.skip(asked.content_bytes).await?;
                return Ok(Some(asked));
            }
            if self.buffer.len() > HEAD_BYTES_MAX || self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Takes in a request's content.
    async fn skip(&mut self, mut bytes: u64) -> io::Result<()> {
        loop {
            let here = bytes.min(self.buffer.len() as u64);
            self.buffer.drain(..here as usize);
            bytes -= here;
            if bytes == 0 {
                return Ok(());
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Answers a request. Returns whether the connection goes on.
    async fn answer(&mut self, asked: &Asked) -> io::Result<bool> {
        let catalogue = self.catalogue.clone();
        let path = asked.path.as_bytes();
        let part = catalogue.part(path);
        catalogue.count(part.as_deref(), path);
        let Some(part) = part else {
            let said = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nCache-Control: no-store\r\n\r\n";
            self.stream.write_all(said.as_bytes()).await?;
            return Ok(true);
        };
        if part.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(part.delay_ms)).await;
        }
        let wrong = part.wrong();
        match wrong {
            Wrong::HangsUp => return Ok(false),
            Wrong::Hangs => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                return Ok(false);
            }
            Wrong::Fails => {
                let said = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\
                            Cache-Control: no-store\r\n\r\n";
                self.stream.write_all(said.as_bytes()).await?;
                return Ok(true);
            }
            Wrong::Nothing | Wrong::Truncates | Wrong::Lies | Wrong::Changes => {}
        }
        let version = catalogue.version(&part);
        let whole_bytes = part.bytes_of(path);
        let key = catalogue.key(path, version);
        let wanted = asked.interval(&part, version, whole_bytes);
        let interval = match wanted {
            Interval::Part(start, end) if wrong == Wrong::Lies && end < whole_bytes => (start + 1, end + 1),
            Interval::Part(start, end) => (start, end),
            Interval::Whole | Interval::Outside => (0, whole_bytes),
        };
        let answer = Answer { part: &part, key, version, whole_bytes, interval, wrong };
        let is_known = asked.if_none_match.as_deref().is_some_and(|said| said.contains(&tag(version)));
        if part.has_tag && is_known {
            self.stream.write_all(answer.head("304 Not Modified", "").as_bytes()).await?;
            return Ok(true);
        }
        if wanted == Interval::Outside {
            let said = format!("Content-Length: 0\r\nContent-Range: bytes */{whole_bytes}\r\n");
            self.stream.write_all(answer.head("416 Range Not Satisfiable", &said).as_bytes()).await?;
            return Ok(true);
        }
        self.send(asked, wanted != Interval::Whole, answer).await
    }

    async fn send(&mut self, asked: &Asked, is_range: bool, answer: Answer<'_>) -> io::Result<bool> {
        let (start, end) = answer.interval;
        let is_chunked = answer.part.is_chunked && !is_range;
        let mut framing = match is_chunked {
            true => "Transfer-Encoding: chunked\r\n".to_owned(),
            false => format!("Content-Length: {}\r\n", end - start),
        };
        if is_range {
            let last = end.saturating_sub(1);
            framing.push_str(&format!("Content-Range: bytes {start}-{last}/{}\r\n", answer.whole_bytes));
        }
        let status = if is_range { "206 Partial Content" } else { "200 OK" };
        let head = answer.head(status, &framing);
        if asked.method == "HEAD" {
            self.stream.write_all(head.as_bytes()).await?;
            return Ok(true);
        }
        self.send_body(head.into_bytes(), is_chunked, &answer).await
    }

    /// Sends a head and its content. Returns whether the connection goes on.
    async fn send_body(&mut self, head: Vec<u8>, is_chunked: bool, answer: &Answer<'_>) -> io::Result<bool> {
        let (start, end) = answer.interval;
        let stops = match answer.wrong {
            Wrong::Truncates | Wrong::Changes => start + (end - start) / 2,
            _ => end,
        };
        let pace = answer.part.rate.map(|rate| (rate / PACES_PER_S).max(1));
        let piece_bytes = pace.map_or(PIECE_BYTES as u64, |pace| pace.min(PIECE_BYTES as u64));
        let (mut out, mut at) = (head, start);
        loop {
            let bytes = piece_bytes.min(stops - at) as usize;
            if is_chunked && bytes > 0 {
                out.extend_from_slice(format!("{bytes:x}\r\n").as_bytes());
            }
            let from = out.len();
            out.resize(from + bytes, 0);
            seeded::fill(answer.key, at, &mut out[from..]);
            at += bytes as u64;
            if is_chunked {
                let ending: &[u8] = match (bytes > 0, at == end) {
                    (true, true) => b"\r\n0\r\n\r\n",
                    (true, false) => b"\r\n",
                    (false, _) => b"0\r\n\r\n",
                };
                out.extend_from_slice(ending);
            }
            // Before it leaves: a module may ask as soon as the server has it.
            self.catalogue.sent(Some(answer.part), bytes as u64);
            self.stream.write_all(&out).await?;
            out.clear();
            if at == stops {
                break;
            }
            if let Some(rate) = answer.part.rate {
                let rest_us = bytes as u64 * 1_000_000 / rate.max(1);
                tokio::time::sleep(Duration::from_micros(rest_us)).await;
            }
        }
        if answer.wrong == Wrong::Changes {
            // The next request meets another version, and the rest of this one is lost.
            self.catalogue.change(answer.part);
        }
        Ok(stops == end)
    }
}

impl Answer<'_> {
    fn head(&self, status: &str, framing: &str) -> String {
        let keeping = match self.part.lifetime {
            Lifetime::NoStore => "no-store".to_owned(),
            Lifetime::Seconds(seconds) => format!("max-age={seconds}"),
        };
        let (date, kind) = (httpdate::fmt_http_date(clock::wall()), &self.part.kind);
        let tag = if self.part.has_tag { format!("ETag: {}\r\n", tag(self.version)) } else { String::new() };
        let ranges = if self.part.has_parts { "Accept-Ranges: bytes\r\n" } else { "" };
        format!(
            "HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Type: {kind}\r\nCache-Control: {keeping}\r\n\
             {tag}{ranges}{VERSION}: {}\r\n{}{framing}\r\n",
            self.version, self.part.fields
        )
    }
}

/// The validator of a version.
fn tag(version: u64) -> String {
    format!("\"v{version}\"")
}

impl Asked {
    fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let mut words = text.lines().next().unwrap_or_default().split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default();
        // A proxy may ask in the absolute form (RFC 9112 §3.2.2).
        let rest = target.strip_prefix("http://").and_then(|rest| rest.find('/').map(|at| &rest[at..]));
        let mut asked = Self { method, path: rest.unwrap_or(target).to_owned(), ..Self::default() };
        asked.is_last = words.next() == Some("HTTP/1.0");
        for (name, value) in head::fields(bytes) {
            match name.as_str() {
                "range" => asked.range = Some(value),
                "if-range" => asked.if_range = Some(value),
                "if-none-match" => asked.if_none_match = Some(value),
                "content-length" => asked.content_bytes = value.parse().unwrap_or(0),
                "connection" => {
                    let lower = value.to_ascii_lowercase();
                    asked.is_last =
                        (asked.is_last || lower.contains("close")) && !lower.contains("keep-alive");
                }
                _ => {}
            }
        }
        asked
    }

    /// The single range that is asked for (RFC 9110 §14.2, §13.1.5). Several at once, and what is no range,
    /// are answered by the whole.
    fn interval(&self, part: &Part, version: u64, whole_bytes: u64) -> Interval {
        let is_of_another = |said: &String| !part.has_tag || *said != tag(version);
        if !part.has_parts || self.if_range.as_ref().is_some_and(is_of_another) {
            return Interval::Whole;
        }
        let said = self.range.as_deref().and_then(|said| said.strip_prefix("bytes="));
        let Some((first, last)) = said.and_then(|said| said.split_once('-')) else { return Interval::Whole };
        let number = |text: &str| head::number(text.as_bytes());
        let (start, end) = match (number(first), number(last)) {
            (Some(first), Some(last)) => (first, last.saturating_add(1).min(whole_bytes)),
            (Some(first), None) if last.is_empty() => (first, whole_bytes),
            (None, Some(bytes)) if first.is_empty() => (whole_bytes.saturating_sub(bytes), whole_bytes),
            _ => return Interval::Whole,
        };
        if start < end { Interval::Part(start, end) } else { Interval::Outside }
    }
}
