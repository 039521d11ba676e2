//! What the origin has at a path, and how it is sent: headers, pace and faults.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::exchange::Exchange;
use crate::fields::{Fields, borrowed, lines, owned};
use crate::wait::Gate;

/// How a body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// By Content-Length.
    Length,
    /// By chunks of this size.
    Chunked(usize),
    /// By the end of the connection.
    Close,
}

/// A fault after this many bytes of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An orderly end of the stream.
    Truncate(usize),
    /// A reset.
    Reset(usize),
    /// Silence until the peer leaves.
    Stall(usize),
}

impl Fault {
    fn at(self) -> usize {
        let (Fault::Truncate(at) | Fault::Reset(at) | Fault::Stall(at)) = self;
        at
    }
}

/// A path's representation; made by [`Resource::new`] and the methods that follow it.
#[derive(Clone)]
pub struct Resource {
    status: u16,
    headers: Fields,
    body: Arc<[u8]>,
    etag: Option<String>,
    last_modified: Option<SystemTime>,
    is_modified_as_sent: bool,
    shape: Shape,
    head_delay: Duration,
    head_gate: Option<Gate>,
    body_gates: Vec<(usize, Gate)>,
    bytes_per_second: Option<u64>,
    fault: Option<Fault>,
    interim: Vec<(u16, Fields)>,
    trailers: Fields,
    knows_ranges: bool,
}

impl Resource {
    /// A 200 with this body, without validators or freshness.
    pub fn new(body: impl AsRef<[u8]>) -> Resource {
        Resource {
            status: 200,
            headers: Vec::new(),
            body: body.as_ref().into(),
            etag: None,
            last_modified: None,
            is_modified_as_sent: false,
            shape: Shape::Length,
            head_delay: Duration::ZERO,
            head_gate: None,
            body_gates: Vec::new(),
            bytes_per_second: None,
            fault: None,
            interim: Vec::new(),
            trailers: Vec::new(),
            knows_ranges: false,
        }
    }

    /// A 200 that is fresh for an hour.
    pub fn fresh(body: impl AsRef<[u8]>) -> Resource {
        Resource::new(body).header("Cache-Control", "max-age=3600")
    }

    /// Another status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// One more header field.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// An entity tag, quotes included. Conditional requests are answered by it.
    #[must_use]
    pub fn etag(mut self, tag: &str) -> Self {
        self.etag = Some(tag.to_owned());
        self
    }

    /// A Last-Modified that long ago. Conditional requests are answered by it.
    #[must_use]
    pub fn modified_ago(mut self, ago: Duration) -> Self {
        self.last_modified = Some(SystemTime::now() - ago);
        self
    }

    /// A Last-Modified that is the Date of each response.
    #[must_use]
    pub fn modified_as_it_is_sent(mut self) -> Self {
        self.is_modified_as_sent = true;
        self
    }

    /// How the body is delimited.
    #[must_use]
    pub fn shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// The time before the head is sent.
    #[must_use]
    pub fn head_delay(mut self, delay: Duration) -> Self {
        self.head_delay = delay;
        self
    }

    /// Sends the head once the gate is open.
    #[must_use]
    pub fn head_gate(mut self, gate: &Gate) -> Self {
        self.head_gate = Some(gate.clone());
        self
    }

    /// Sends the body behind byte `at` once the gate is open.
    #[must_use]
    pub fn body_gate(mut self, at: usize, gate: &Gate) -> Self {
        self.body_gates.push((at, gate.clone()));
        self
    }

    /// The pace of the body.
    #[must_use]
    pub fn rate(mut self, bytes_per_second: u64) -> Self {
        self.bytes_per_second = Some(bytes_per_second);
        self
    }

    /// The fault.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// An interim response before the final one.
    #[must_use]
    pub fn interim(mut self, status: u16, headers: &[(&str, &str)]) -> Self {
        self.interim.push((status, owned(headers)));
        self
    }

    /// A trailer field. The body is then chunked.
    #[must_use]
    pub fn trailer(mut self, name: &str, value: &str) -> Self {
        self.trailers.push((name.to_owned(), value.to_owned()));
        if self.shape == Shape::Length {
            self.shape = Shape::Chunked(8192);
        }
        self
    }

    /// Answers a single Range with 206 (RFC 9110 §14), and If-Range by the entity tag.
    #[must_use]
    pub fn ranges(mut self) -> Self {
        self.knows_ranges = true;
        self
    }

    /// Answers a request with this resource.
    pub fn answer(&self, exchange: &mut Exchange<'_>) {
        exchange.body();
        for (status, headers) in &self.interim {
            exchange.send(head(*status, headers));
        }
        std::thread::sleep(self.head_delay);
        if let Some(gate) = &self.head_gate {
            gate.pass();
        }
        let mut headers = self.headers.clone();
        let now = SystemTime::now();
        headers.push(("Date".to_owned(), httpdate::fmt_http_date(now)));
        headers.extend(self.etag.iter().map(|tag| ("ETag".to_owned(), tag.clone())));
        let modified = if self.is_modified_as_sent { Some(now) } else { self.last_modified };
        let modified = modified.map(httpdate::fmt_http_date);
        headers.extend(modified.iter().map(|date| ("Last-Modified".to_owned(), date.clone())));
        if self.is_unmodified(exchange) {
            exchange.send(head(304, &headers));
            return;
        }
        let (status, part) = self.part(exchange, &mut headers);
        self.send(exchange, status, headers, part);
    }

    /// RFC 9110 §13.1.2 and §13.1.3.
    fn is_unmodified(&self, exchange: &Exchange<'_>) -> bool {
        if let (Some(asked), Some(tag)) = (exchange.request.header("if-none-match"), &self.etag) {
            let opaque = tag.trim_start_matches("W/");
            return asked.split(',').any(|t| t.trim() == "*" || t.trim().trim_start_matches("W/") == opaque);
        }
        let since = exchange.request.header("if-modified-since");
        match (since.and_then(|v| httpdate::parse_http_date(&v).ok()), self.last_modified) {
            (Some(since), Some(modified)) => {
                modified.duration_since(since).is_ok_and(|d| d < Duration::from_secs(1)) || modified <= since
            }
            _ => false,
        }
    }

    /// The status and the part of the body for a request's Range.
    fn part(&self, exchange: &Exchange<'_>, headers: &mut Fields) -> (u16, std::ops::Range<usize>) {
        let all = 0..self.body.len();
        if !self.knows_ranges || self.status != 200 {
            return (self.status, all);
        }
        headers.push(("Accept-Ranges".to_owned(), "bytes".to_owned()));
        let range = exchange.request.header("range");
        let wanted = range.as_deref().and_then(|v| v.strip_prefix("bytes="));
        // Several ranges count as none.
        let wanted = wanted.filter(|set| !set.contains(',')).and_then(|range| range.split_once('-'));
        let current = exchange.request.header("if-range").is_none_or(|tag| Some(tag) == self.etag);
        let Some((first, last)) = wanted.filter(|_| current) else { return (200, all) };
        let part = match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) => first..(last + 1).min(all.end),
            (Ok(first), Err(_)) => first..all.end,
            (Err(_), Ok(count)) => all.end.saturating_sub(count)..all.end,
            _ => return (200, all),
        };
        let total = all.end;
        if part.start >= part.end {
            headers.push(("Content-Range".to_owned(), format!("bytes */{total}")));
            return (416, 0..0);
        }
        headers.push(("Content-Range".to_owned(), format!("bytes {}-{}/{total}", part.start, part.end - 1)));
        (206, part)
    }

    fn send(
        &self,
        exchange: &mut Exchange<'_>,
        status: u16,
        mut headers: Fields,
        part: std::ops::Range<usize>,
    ) {
        let bodiless = matches!(status, 204 | 304);
        match self.shape {
            _ if bodiless => {}
            Shape::Length => headers.push(("Content-Length".to_owned(), part.len().to_string())),
            Shape::Chunked(_) => headers.push(("Transfer-Encoding".to_owned(), "chunked".to_owned())),
            Shape::Close => headers.push(("Connection".to_owned(), "close".to_owned())),
        }
        if !exchange.send(head(status, &headers)) {
            return exchange.close();
        }
        if bodiless || exchange.request.method == "HEAD" {
            return;
        }
        if !self.send_body(exchange, &self.body[part]) {
            return exchange.close();
        }
        match self.shape {
            Shape::Length => {}
            Shape::Close => exchange.close(),
            Shape::Chunked(_) => {
                let lines = lines(borrowed(&self.trailers));
                exchange.send(format!("0\r\n{lines}\r\n"));
            }
        }
    }

    /// Sends the body at its pace. False if it ended early.
    fn send_body(&self, exchange: &mut Exchange<'_>, body: &[u8]) -> bool {
        let mut at = 0;
        let end = self.fault.map_or(body.len(), |fault| fault.at().min(body.len()));
        while at < end {
            for (_, gate) in self.body_gates.iter().filter(|(gate_at, _)| *gate_at == at) {
                gate.pass();
            }
            let stop =
                self.body_gates.iter().map(|(gate_at, _)| *gate_at).filter(|g| *g > at).min().unwrap_or(end);
            let step = match (self.shape, self.bytes_per_second) {
                (Shape::Chunked(size), _) => size,
                (_, Some(rate)) => (rate as usize / 50).max(1),
                _ => 256 * 1024,
            };
            let next = (at + step).min(stop).min(end);
            if !self.send_piece(exchange, &body[at..next]) {
                return false;
            }
            if let Some(rate) = self.bytes_per_second {
                std::thread::sleep(Duration::from_secs_f64((next - at) as f64 / rate as f64));
            }
            at = next;
        }
        self.fail(exchange)
    }

    fn send_piece(&self, exchange: &mut Exchange<'_>, piece: &[u8]) -> bool {
        match self.shape {
            Shape::Chunked(_) => {
                let mut out = format!("{:x}\r\n", piece.len()).into_bytes();
                out.extend_from_slice(piece);
                out.extend_from_slice(b"\r\n");
                exchange.send(out)
            }
            _ => exchange.send(piece),
        }
    }

    /// Causes the fault; true unless there is one.
    fn fail(&self, exchange: &mut Exchange<'_>) -> bool {
        match self.fault {
            None => return true,
            Some(Fault::Truncate(_)) => exchange.close(),
            Some(Fault::Reset(_)) => exchange.reset(),
            Some(Fault::Stall(_)) => {
                exchange.peer_left_within(2 * crate::socket::PATIENCE);
                exchange.close();
            }
        }
        false
    }
}

fn head(status: u16, headers: &[(String, String)]) -> String {
    let lines = lines(borrowed(headers));
    format!("HTTP/1.1 {status} Status\r\n{lines}\r\n")
}
