//! HTTP/1 in, HTTP/2 out: whatever speaks HTTP/1 is made to judge a server of HTTP/2.
//!
//! It changes only the form. What HTTP/2 has no word for (Connection and what it names, Transfer-Encoding) is
//! left out; all else goes out byte by byte as a literal, however wrong it is. One connection of HTTP/2 for
//! each of HTTP/1. A stream that is reset ends the connection of HTTP/1: before the head with 400 where the
//! request was to blame, within the content with a cut.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::frame::{code, setting};
use super::{End, H2Client};
use crate::fields::{borrowed, lines};
use crate::response::{Head, Trouble};
use crate::socket::{Address, PATIENCE, Socket};

/// What a body may be, so that a test's mistake does not fill the memory, in bytes.
const CONTENT_MAX: usize = 64 << 20;

/// A running translator. Dropping it stops it.
pub struct Translator {
    addr: SocketAddr,
    stopped: Arc<AtomicBool>,
}

impl Translator {
    /// Before a server that speaks HTTP/2 over plain TCP with prior knowledge.
    pub fn before(server: impl Into<Address>) -> Translator {
        let server = server.into();
        Translator::over(move || server.connect())
    }

    /// Before whatever these streams lead to, such as TLS.
    pub fn over(open: impl Fn() -> std::io::Result<Socket> + Send + Sync + 'static) -> Translator {
        let listener = TcpListener::bind(("127.0.0.1", crate::free_port())).unwrap();
        let addr = listener.local_addr().unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let (ended, open) = (stopped.clone(), Arc::new(open));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let open = open.clone();
                std::thread::spawn(move || {
                    let _ = stream.set_read_timeout(Some(PATIENCE));
                    let _ = stream.set_nodelay(true);
                    Conversation { stream, buf: Vec::new(), server: None, open: &*open }.serve()
                });
            }
        });
        Translator { addr, stopped }
    }

    /// Where clients of HTTP/1 connect.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Translator {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.addr);
    }
}

/// A request's head in the form of HTTP/2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translated {
    /// Pseudo-fields first.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// How the content was framed.
    pub content: Content,
    /// Whether the client asked for the connection's end.
    pub closes: bool,
}

/// How a request of HTTP/1 framed its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// There is none.
    #[default]
    None,
    /// So many bytes.
    Length(usize),
    /// In chunks.
    Chunked,
}

/// The head of a request, without its final empty line, as fields of HTTP/2; `None` where it has no form of
/// one: three words on the first line, fields on the others.
pub fn translated(head: &[u8], scheme: &str) -> Option<Translated> {
    let mut rest = split(head, b"\r\n").into_iter();
    let first = rest.next()?;
    let [method, target, version] = split(first, b" ")[..] else { return None };
    let parsed: Vec<(Vec<u8>, &[u8])> = rest.map(field).collect::<Option<_>>()?;
    let named: Vec<Vec<u8>> = all(&parsed, b"connection")
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(|token| token.trim_ascii().to_ascii_lowercase())
        .collect();
    let (scheme, authority, path) = match absolute(target) {
        Some((scheme, authority, path)) => (scheme.to_ascii_lowercase(), Some(authority), path),
        None => (scheme.as_bytes().to_vec(), all(&parsed, b"host").next(), target),
    };
    let mut fields = vec![(b":method".to_vec(), method.to_vec()), (b":scheme".to_vec(), scheme)];
    fields.extend(authority.map(|authority| (b":authority".to_vec(), authority.to_vec())));
    fields.push((b":path".to_vec(), path.to_vec()));
    let mut host_was_said = absolute(target).is_some();
    let mut translated = Translated::default();
    for (name, value) in &parsed {
        match &name[..] {
            b"host" if !host_was_said => host_was_said = true,
            b"connection" | b"keep-alive" | b"proxy-connection" | b"upgrade" => {}
            b"transfer-encoding" => translated.content = Content::Chunked,
            // A field that Connection names is meant for the next server alone, which is left out here.
            _ if named.contains(name) && !matches!(&name[..], b"te" | b"host") => {}
            _ => fields.push((name.clone(), value.to_vec())),
        }
    }
    let length = all(&parsed, b"content-length").next();
    let length = length.and_then(|value| str::from_utf8(value).ok()?.parse().ok());
    if let (Content::None, Some(length @ 1..)) = (translated.content, length) {
        translated.content = Content::Length(length);
    }
    translated.closes = named.contains(&b"close".to_vec())
        || (version == b"HTTP/1.0" && !named.contains(&b"keep-alive".to_vec()));
    Some(Translated { fields, ..translated })
}

fn split<'a>(bytes: &'a [u8], mark: &[u8]) -> Vec<&'a [u8]> {
    let (mut parts, mut rest) = (Vec::new(), bytes);
    while let Some(at) = rest.windows(mark.len()).position(|window| window == mark) {
        parts.push(&rest[..at]);
        rest = &rest[at + mark.len()..];
    }
    parts.push(rest);
    parts
}

/// A field's name, in lower case as HTTP/2 wants it, and its value without the blanks around it.
fn field(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let value = &line[colon + 1..];
    let begin = value.iter().position(|byte| !blank(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !blank(byte)).map_or(begin, |last| last + 1);
    Some((line[..colon].to_ascii_lowercase(), &value[begin..end]))
}

/// The values of a field.
fn all<'a>(fields: &[(Vec<u8>, &'a [u8])], name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter(move |(said, _)| said == name).map(|(_, value)| *value)
}

/// The parts of an absolute target: scheme, authority, path with query.
fn absolute(target: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    if target.starts_with(b"/") {
        return None;
    }
    let at = target.windows(3).position(|window| window == b"://")?;
    let rest = &target[at + 3..];
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let path = if end == rest.len() { b"/" } else { &rest[end..] };
    Some((&target[..at], &rest[..end], path))
}

/// One connection of HTTP/1 and the one of HTTP/2 that is made for it.
struct Conversation<'a> {
    stream: TcpStream,
    buf: Vec<u8>,
    server: Option<H2Client>,
    open: &'a (dyn Fn() -> std::io::Result<Socket> + Send + Sync),
}

/// Why a connection of HTTP/1 ends.
struct Over;

impl Conversation<'_> {
    fn serve(mut self) {
        while self.exchange().is_ok() {}
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    fn exchange(&mut self) -> Result<(), Over> {
        let head = self.until(b"\r\n\r\n")?;
        let request = match translated(&head, "http") {
            Some(request) => request,
            None => return self.refuse(),
        };
        let expects = request.fields.iter().any(|(name, _)| name == b"expect");
        if expects && request.content != Content::None {
            self.say(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let content = match request.content {
            Content::None => Vec::new(),
            Content::Length(length) => self.take(length)?,
            Content::Chunked => self.chunks()?,
        };
        let mut server = match self.server.take() {
            Some(server) if server.goaway().is_none() => server,
            _ => H2Client::with((self.open)().map_err(|_| Over)?, &[(setting::ENABLE_PUSH, 0)]),
        };
        let fields: Vec<(&[u8], &[u8])> =
            request.fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let end = if request.content == Content::None { End::Stream } else { End::Open };
        let id = server.send_fields(&fields, end);
        if end == End::Open {
            // A server may answer before it has all of the content, and reset the rest.
            let _ = server.data(id, &content, End::Stream);
        }
        let to_head = request.fields[0].1 == b"HEAD";
        let told = self.tell(&mut server, id, to_head);
        self.server = Some(server);
        told?;
        if request.closes { Err(Over) } else { Ok(()) }
    }

    /// Passes a response on while it comes.
    fn tell(&mut self, server: &mut H2Client, id: u32, to_head: bool) -> Result<(), Over> {
        let head = match server.recv_head(id) {
            Ok(head) => head,
            Err(Trouble::Reset(code::PROTOCOL_ERROR, _) | Trouble::Closed) if server.is_blamed(id) => {
                return self.refuse();
            }
            Err(_) => return Err(Over),
        };
        for interim in server.interim(id) {
            self.say(printed(&interim, "").as_bytes())?;
        }
        let has_content = !to_head && !matches!(head.status, 204 | 304);
        let chunked = has_content && head.header("content-length").is_none();
        let coding = if chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
        self.say(printed(&head, coding).as_bytes())?;
        loop {
            let piece = server.recv_some(id).map_err(|_| Over)?;
            if piece.is_empty() {
                break;
            }
            match chunked {
                true => self.say([format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat())?,
                false => self.say(piece)?,
            }
        }
        let response = server.recv(id).map_err(|_| Over)?;
        if chunked {
            self.say(format!("0\r\n{}\r\n", lines(borrowed(&response.trailers))))?;
        }
        Ok(())
    }

    fn refuse(&mut self) -> Result<(), Over> {
        self.say("HTTP/1.1 400 Refused\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")?;
        Err(Over)
    }

    fn say(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), Over> {
        self.stream.write_all(bytes.as_ref()).map_err(|_| Over)
    }

    fn fill(&mut self) -> Result<(), Over> {
        let mut piece = [0; 16 * 1024];
        match self.stream.read(&mut piece) {
            Ok(n) if n > 0 && self.buf.len() < CONTENT_MAX => {
                self.buf.extend_from_slice(&piece[..n]);
                Ok(())
            }
            _ => Err(Over),
        }
    }

    fn until(&mut self, mark: &[u8]) -> Result<Vec<u8>, Over> {
        loop {
            if let Some(at) = self.buf.windows(mark.len()).position(|window| window == mark) {
                let found = self.buf.drain(..at + mark.len()).take(at).collect();
                return Ok(found);
            }
            self.fill()?;
        }
    }

    fn take(&mut self, length: usize) -> Result<Vec<u8>, Over> {
        while self.buf.len() < length {
            self.fill()?;
        }
        Ok(self.buf.drain(..length).collect())
    }

    fn chunks(&mut self) -> Result<Vec<u8>, Over> {
        let mut content = Vec::new();
        loop {
            let line = self.until(b"\r\n")?;
            let size = str::from_utf8(&line).ok().and_then(|line| line.split(';').next());
            let size = size.and_then(|size| usize::from_str_radix(size, 16).ok()).ok_or(Over)?;
            if size == 0 {
                while !self.until(b"\r\n")?.is_empty() {}
                return Ok(content);
            }
            content.append(&mut self.take(size)?);
            self.until(b"\r\n")?;
        }
    }
}

/// A head in the form of HTTP/1, with one more line.
fn printed(head: &Head, line: &str) -> String {
    format!("HTTP/1.1 {} Status\r\n{}{line}\r\n", head.status, lines(borrowed(&head.headers)))
}
