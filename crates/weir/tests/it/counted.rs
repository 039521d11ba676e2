//! A resource of an origin that answers single ranges (RFC 9110 §14) and counts every byte that it sends.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_testkit::{Exchange, Gate, Origin};

/// The pieces a second in which a limited rate is sent.
const PIECES_PER_SECOND: u64 = 100;
/// The bytes of a piece without a limited rate.
const PIECE_BYTES: u64 = 64 << 10;

/// One version of a body.
#[derive(Clone)]
pub struct Version {
    /// Its entity tag, quotes included.
    pub tag: String,
    /// Its bytes: an interval of what many versions may share.
    pub bytes: Arc<[u8]>,
    /// The interval of `bytes` that is the body.
    pub at: Range<usize>,
}

impl Version {
    /// All of these bytes under this tag.
    pub fn new(tag: &str, bytes: impl Into<Arc<[u8]>>) -> Version {
        let bytes = bytes.into();
        let at = 0..bytes.len();
        Version { tag: tag.to_owned(), bytes, at }
    }

    /// Its body.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.at.clone()]
    }
}

/// A response, as far as its body was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The version's entity tag.
    pub tag: String,
    /// The requested range; empty for the whole.
    pub range: String,
    /// The interval of the body that was handed to the connection.
    pub bytes: Range<u64>,
}

/// A resource of a scripted origin that counts what it sends.
pub struct Counted {
    version: Mutex<Version>,
    sent: Mutex<Vec<Sent>>,
    headers: Vec<(String, String)>,
    bytes_per_second: AtomicU64,
    delay: Duration,
    gate: Option<(u64, Gate)>,
}

impl Counted {
    /// A resource of this version, with these header lines.
    pub fn new(version: Version, headers: &[(&str, &str)]) -> Counted {
        let headers = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Counted {
            version: Mutex::new(version),
            sent: Mutex::default(),
            headers,
            bytes_per_second: AtomicU64::new(0),
            delay: Duration::ZERO,
            gate: None,
        }
    }

    /// Limits each response to this rate, and delays each head.
    pub fn slow(mut self, bytes_per_second: u64, delay: Duration) -> Counted {
        self.delay = delay;
        self.bytes_per_second = AtomicU64::new(bytes_per_second);
        self
    }

    /// Stops each response after `after` bytes of its body until the gate is opened.
    pub fn gate(mut self, after: u64, gate: &Gate) -> Counted {
        self.gate = Some((after, gate.clone()));
        self
    }

    /// Changes the rate, for running responses as well. 0 is no limit.
    pub fn set_rate(&self, bytes_per_second: u64) {
        self.bytes_per_second.store(bytes_per_second, Ordering::SeqCst);
    }

    /// Puts the resource at a path.
    pub fn at(self, origin: &Origin, path: &str) -> Arc<Counted> {
        let counted = Arc::new(self);
        let script = counted.clone();
        origin.on(path, move |exchange| script.answer(exchange));
        counted
    }

    /// Replaces the version for later requests.
    pub fn change(&self, version: Version) {
        *self.version.lock().unwrap() = version;
    }

    /// What was sent so far, in the order of the heads.
    pub fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }

    /// The bytes of all bodies that were sent so far.
    pub fn bytes(&self) -> u64 {
        self.sent().iter().map(|sent| sent.bytes.end - sent.bytes.start).sum()
    }

    /// The bytes that were sent more than once, each counted for every repetition.
    pub fn bytes_again(&self) -> u64 {
        let mut sent: Vec<_> = self.sent().into_iter().map(|sent| sent.bytes).collect();
        sent.sort_by_key(|bytes| bytes.start);
        let (mut end, mut again) = (0, 0);
        for bytes in sent {
            again += bytes.end.min(end).saturating_sub(bytes.start);
            end = end.max(bytes.end);
        }
        again
    }

    /// The numbers of the chunks of which anything was sent.
    pub fn chunks(&self, size: u64) -> BTreeSet<u64> {
        let sent = self.sent().into_iter().map(|sent| sent.bytes).filter(|bytes| !bytes.is_empty());
        sent.flat_map(|bytes| bytes.start / size..=(bytes.end - 1) / size).collect()
    }

    fn answer(&self, exchange: &mut Exchange<'_>) {
        exchange.body();
        std::thread::sleep(self.delay);
        let version = self.version.lock().unwrap().clone();
        let length = version.at.len() as u64;
        let mut lines: String =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        lines.push_str(&format!("ETag: {}\r\nAccept-Ranges: bytes\r\n", version.tag));
        lines.push_str(&format!("Date: {}\r\n", httpdate::fmt_http_date(std::time::SystemTime::now())));
        if exchange.request.header("if-none-match").is_some_and(|tags| tags.contains(&version.tag)) {
            exchange.send(format!("HTTP/1.1 304 Not Modified\r\n{lines}\r\n"));
            return;
        }
        let asked = exchange.request.header("range").filter(|_| {
            let condition = exchange.request.header("if-range");
            condition.is_none_or(|tag| tag == version.tag)
        });
        let range = asked.unwrap_or_default();
        let part = part(&range, length);
        let (status, part) = match part {
            None => ("200 OK", 0..length),
            Some(part) if part.is_empty() => {
                lines.push_str(&format!("Content-Range: bytes */{length}\r\nContent-Length: 0\r\n"));
                exchange.send(format!("HTTP/1.1 416 Range Not Satisfiable\r\n{lines}\r\n"));
                return;
            }
            Some(part) => {
                let last = part.end - 1;
                lines.push_str(&format!("Content-Range: bytes {}-{last}/{length}\r\n", part.start));
                ("206 Partial Content", part)
            }
        };
        lines.push_str(&format!("Content-Length: {}\r\n", part.end - part.start));
        let came = exchange.send(format!("HTTP/1.1 {status}\r\n{lines}\r\n"));
        if came && exchange.request.method != "HEAD" && !self.send(exchange, &version, range, part) {
            exchange.close();
        }
    }

    /// Sends a part at the limited rate. False if the peer has left.
    fn send(&self, exchange: &mut Exchange<'_>, version: &Version, range: String, part: Range<u64>) -> bool {
        let number = {
            let mut sent = self.sent.lock().unwrap();
            sent.push(Sent { tag: version.tag.clone(), range, bytes: part.start..part.start });
            sent.len() - 1
        };
        let (body, mut at, mut due) = (version.body(), part.start, Instant::now());
        while at < part.end {
            let rate = self.bytes_per_second.load(Ordering::SeqCst);
            let piece = if rate == 0 { PIECE_BYTES } else { (rate / PIECES_PER_SECOND).max(1) };
            let mut end = (at + piece).min(part.end);
            if let Some((after, gate)) = &self.gate {
                let stop = part.start + after;
                match at < stop {
                    true => end = end.min(stop),
                    false => gate.pass(),
                }
            }
            if !exchange.send(&body[at as usize..end as usize]) {
                return false;
            }
            self.sent.lock().unwrap()[number].bytes.end = end;
            if rate > 0 {
                due += Duration::from_secs_f64((end - at) as f64 / rate as f64);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            at = end;
        }
        true
    }
}

/// The interval that a Range asks for in a body of this length. `None` is the whole; an empty one cannot be
/// satisfied.
pub fn part(range: &str, length: u64) -> Option<Range<u64>> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first > last => None,
        (Ok(first), Ok(last)) => Some(first.min(length)..last.saturating_add(1).min(length)),
        (Ok(first), Err(_)) if last.is_empty() => Some(first.min(length)..length),
        (Err(_), Ok(count)) if first.is_empty() => Some(length.saturating_sub(count)..length),
        _ => None,
    }
    .map(|part| if part.start >= part.end { length..length } else { part })
}
