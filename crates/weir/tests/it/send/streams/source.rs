//! Two origins that are told by the target what to answer, and check what they are sent.
//!
//! `/WORD/NUMBER/BYTES/AT`: the number says which bytes, `AT` after how many of them something happens.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use weir_testkit::{Exchange, Origin, pattern};

use crate::counted::part;

/// The longest body.
pub const BYTES_MAX: usize = 4 << 20;
/// Bodies that differ.
const NUMBERS: u64 = 8000;
/// How long a script waits for its peer to leave.
const PATIENCE: Duration = Duration::from_secs(60);

static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| pattern(9, BYTES_MAX + 8 * NUMBERS as usize));

/// The content with this number: the same bytes from another place.
pub fn content(number: u64, bytes: usize) -> &'static [u8] {
    let from = (number % NUMBERS) as usize * 8;
    &BYTES[from..from + bytes]
}

/// What the origins are for.
pub struct Source {
    /// Ends what it begins.
    pub sound: Origin,
    /// Breaks off.
    pub torn: Origin,
    wrong: Arc<Mutex<Vec<String>>>,
}

impl Source {
    pub fn start() -> Source {
        let (sound, torn) = (Origin::start(), Origin::start());
        let wrong = Arc::new(Mutex::new(Vec::new()));
        for origin in [&sound, &torn] {
            let wrong = Arc::clone(&wrong);
            origin.otherwise(move |exchange| {
                if let Err(what) = answer(exchange) {
                    wrong.lock().unwrap().push(format!("{}: {what}", exchange.request.target));
                }
            });
        }
        Source { sound, torn, wrong }
    }

    /// What the origins were sent was as it should be.
    ///
    /// # Panics
    /// It was not.
    pub fn check(&self) {
        let wrong = self.wrong.lock().unwrap();
        assert!(wrong.is_empty(), "{} requests were wrong: {:?}", wrong.len(), &wrong[..wrong.len().min(3)]);
    }
}

fn answer(exchange: &mut Exchange<'_>) -> Result<(), String> {
    let target = exchange.request.target.clone();
    let mut parts = target.split('/').skip(1);
    let word = parts.next().unwrap_or_default();
    let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok()).unwrap_or(0);
    let (number, bytes, at) = (number(), number() as usize, number() as usize);
    let body = content(number, bytes);
    match word {
        "kept" => {
            let lines = kept(number);
            // A reader that falls behind what memory holds asks for the rest.
            if !send_rest(exchange, &lines, body) {
                send(exchange, &lines, number, body);
            }
        }
        "passed" => send(exchange, "Cache-Control: no-store\r\n", number, body),
        "mended" => mended(exchange, number, body, at),
        "cut" | "hung" => {
            let field = if number.is_multiple_of(2) { "no-store" } else { "max-age=600" };
            let lines = format!("Cache-Control: {field}\r\nContent-Length: {bytes}\r\n");
            exchange.send(format!("HTTP/1.1 200 OK\r\n{lines}\r\n"));
            exchange.send(&body[..at]);
            if word == "hung" {
                exchange.peer_left_within(PATIENCE);
            }
            if number.is_multiple_of(3) { exchange.reset() } else { exchange.close() }
        }
        "take" => {
            let came = exchange.body();
            if !body.starts_with(&came) || exchange.is_whole() && came.len() < bytes {
                exchange.close();
                return Err(format!("{} bytes came, whole: {}", came.len(), exchange.is_whole()));
            }
            if !exchange.is_whole() {
                // Its client has left.
                exchange.close();
                return Ok(());
            }
            send(exchange, "Cache-Control: no-store\r\n", number + 1, content(number + 1, at));
        }
        "early" => {
            send(exchange, "Cache-Control: no-store\r\n", number + 1, content(number + 1, at));
            let came = exchange.body();
            if !exchange.is_whole() {
                exchange.close();
            }
            if !body.starts_with(&came) {
                return Err(format!("{} other bytes came", came.len()));
            }
        }
        "torn" => {
            let came = exchange.body();
            exchange.close();
            if exchange.is_whole() || !body.starts_with(&came) {
                return Err(format!("{} bytes came, whole: {}", came.len(), exchange.is_whole()));
            }
        }
        _ => return Err("no such target".to_owned()),
    }
    Ok(())
}

/// Sends a body whole: with its length or in chunks, at once or in pieces.
fn send(exchange: &mut Exchange<'_>, lines: &str, number: u64, body: &[u8]) {
    let is_chunked = number.is_multiple_of(3);
    let framing = match is_chunked {
        true => "Transfer-Encoding: chunked".to_owned(),
        false => format!("Content-Length: {}", body.len()),
    };
    exchange.send(format!("HTTP/1.1 200 OK\r\n{lines}{framing}\r\n\r\n"));
    if exchange.request.method == "HEAD" {
        return;
    }
    // 50 pieces, with pauses or without, or all at once.
    let (piece, pause) = match number % 4 {
        0 => (body.len() / 50 + 1, Duration::from_millis(2)),
        1 => (body.len() / 50 + 1, Duration::ZERO),
        _ => (body.len().max(1), Duration::ZERO),
    };
    for piece in body.chunks(piece) {
        let went = match is_chunked {
            true => exchange.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()),
            false => exchange.send(piece),
        };
        if !went {
            return exchange.close();
        }
        std::thread::sleep(pause);
    }
    if is_chunked {
        exchange.send("0\r\n\r\n");
    }
}

/// The fields of what may be stored, and of which parts can be had.
fn kept(number: u64) -> String {
    format!("Cache-Control: max-age=600\r\nETag: \"{number}\"\r\nAccept-Ranges: bytes\r\n")
}

/// Sends the part of a body that the request asks for. False if it asks for the whole.
fn send_rest(exchange: &mut Exchange<'_>, lines: &str, body: &[u8]) -> bool {
    let all = body.len() as u64;
    let range = exchange.request.header("range").unwrap_or_default();
    let Some(part) = part(&range, all).filter(|part| !part.is_empty()) else { return false };
    let (first, last, length) = (part.start, part.end - 1, part.end - part.start);
    exchange.send(format!(
        "HTTP/1.1 206 Partial Content\r\n{lines}Content-Range: bytes {first}-{last}/{all}\r\n\
         Content-Length: {length}\r\n\r\n"
    ));
    exchange.send(&body[part.start as usize..part.end as usize]);
    true
}

/// A body that breaks off at first, and of which the rest can be had.
fn mended(exchange: &mut Exchange<'_>, number: u64, body: &[u8], at: usize) {
    let lines = kept(number);
    if send_rest(exchange, &lines, body) {
        return;
    }
    exchange.send(format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: {}\r\n\r\n", body.len()));
    exchange.send(&body[..at]);
    exchange.close();
}
