//! Nothing ambiguous passes: a table of requests, each with what Weir must do. They are sent over real
//! sockets in front of an origin that keeps every byte it receives; the crate `http_desync_guardian` judges
//! what reaches it.

pub mod change;
mod over_http2;
mod table;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_desync_guardian::RequestSafetyTier;
use http_desync_guardian::request_analyzer::HttpRequestData;
use weir_edge::transform::request::{OF_TRUSTED_PEERS, STRIPPED};
use weir_testkit::{Client, Exchange, Origin, Random, Trouble, Weir, until};

use crate::server::before;
use change::{environment, mutate};
use table::{Row, rows};

/// What Weir must do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Must {
    /// Answer with this status and close. No byte reaches the origin.
    Refuse(u16),
    /// Answer with this status and close. The request may have begun at the origin but must not end there.
    RefuseContent(u16),
    /// Accept it: this many requests reach the origin, of it and of the plain one that follows on the same
    /// connection.
    Take(usize),
}

/// Follows every row on the same connection. A refused row must hide it.
const NEXT: &str = "GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n";

const PATIENCE: Duration = Duration::from_secs(10);

/// A request as the origin received it.
#[derive(Clone, Debug)]
struct Received {
    head: Vec<u8>,
    content: Vec<u8>,
    whole: bool,
}

/// An origin that accepts anything and keeps it.
struct Witness {
    origin: Origin,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Witness {
    fn new() -> Witness {
        let origin = Origin::start();
        let received = Arc::new(Mutex::new(Vec::new()));
        let inner = received.clone();
        origin.otherwise(move |exchange| {
            let (content, whole) = read_content(exchange);
            let head = exchange.request.raw.clone();
            inner.lock().unwrap().push(Received { head, content, whole });
            if whole {
                exchange.reply(200, &[("Cache-Control", "no-store")], "ok");
            } else {
                exchange.close();
            }
        });
        Witness { origin, received }
    }

    /// What has come since the last call, once each request is whole or cut.
    fn take(&self) -> Vec<Received> {
        until("the end of what the origin receives", || {
            self.received.lock().unwrap().len() == self.origin.total()
        });
        self.received.lock().unwrap().clone()
    }
}

/// The content as received, undecoded, and whether it came to its end.
fn read_content(exchange: &mut Exchange<'_>) -> (Vec<u8>, bool) {
    let chunked = exchange.request.header("transfer-encoding").is_some();
    let length: usize = exchange.request.header("content-length").map_or(0, |value| value.parse().unwrap());
    let mut content = Vec::new();
    loop {
        let last_chunk =
            content.starts_with(b"0\r\n") || content.windows(5).any(|bytes| bytes == b"\r\n0\r\n");
        let ended =
            if chunked { last_chunk && content.ends_with(b"\r\n\r\n") } else { content.len() >= length };
        if ended {
            return (content, true);
        }
        let piece = exchange.read_some();
        if piece.is_empty() {
            return (content, false);
        }
        content.extend_from_slice(&piece);
    }
}

/// How the bytes are sent.
#[derive(Clone, Copy)]
enum Sent {
    Whole,
    InPieces(usize),
}

/// Numbers a row whose content is refused, in its target. It may reach the origin after the refusal has
/// reached the client, when the next row is already on its way.
fn numbered(number: usize, row: &Row) -> Vec<u8> {
    let (_, must, bytes) = row;
    match bytes.strip_prefix(b"POST / ") {
        Some(rest) if matches!(must, Must::RefuseContent(_)) => {
            [format!("POST /{number} ").as_bytes(), rest].concat()
        }
        _ => bytes.clone(),
    }
}

impl Received {
    /// Whether it is the beginning of an earlier row's content, which was cut off.
    fn is_late(&self, number: usize) -> bool {
        let mark = self.head.strip_prefix(b"POST /").and_then(|rest| rest.split(|byte| *byte == b' ').next());
        let mark = mark.and_then(|digits| str::from_utf8(digits).ok()).and_then(|digits| digits.parse().ok());
        !self.whole && mark.is_some_and(|mark: usize| mark < number)
    }
}

/// Sends one row and checks the result.
fn judge(weir: &Weir, witness: &Witness, (number, row): (usize, &Row), sent: Sent) -> Result<(), String> {
    let must = &row.1;
    let bytes = &numbered(number, row);
    let earlier = witness.take().len();
    let mut client = weir.client().patience(PATIENCE);
    let all = [bytes, NEXT.as_bytes()].concat();
    match sent {
        Sent::Whole => client.send(&all),
        Sent::InPieces(size) => client.send_split(&all, size.max(all.len() / 200)),
    };
    match *must {
        Must::Refuse(status) | Must::RefuseContent(status) => expect_refusal(&mut client, status)?,
        Must::Take(count) => expect_answers(&mut client, count)?,
    }
    drop(client);
    let mut received = witness.take().split_off(earlier);
    received.retain(|one| !one.is_late(number));
    expect_received(*must, &received)?;
    expect_safe(bytes, &received)
}

fn expect_refusal(client: &mut Client, status: u16) -> Result<(), String> {
    let answer = client.recv().map_err(|why| format!("no answer: {why}"))?;
    if answer.status() != status {
        return Err(format!("{} instead of {status}", answer.status()));
    }
    if answer.header("connection").as_deref() != Some("close") {
        return Err(format!("the refusal does not close: {:?}", answer.head.headers));
    }
    expect_end(client)
}

fn expect_end(client: &mut Client) -> Result<(), String> {
    match client.recv() {
        Err(Trouble::Closed) => Ok(()),
        Ok(answer) => Err(format!("another answer, {}", answer.status())),
        Err(why) => Err(format!("no end: {why}")),
    }
}

fn expect_answers(client: &mut Client, count: usize) -> Result<(), String> {
    for _ in 0..count {
        let answer = client.recv().map_err(|why| format!("no answer: {why}"))?;
        if answer.status() != 200 {
            return Err(format!("{} instead of 200", answer.status()));
        }
    }
    if count == 1 { expect_end(client) } else { Ok(()) }
}

fn expect_received(must: Must, received: &[Received]) -> Result<(), String> {
    let show = || received.iter().map(|one| one.head.escape_ascii().to_string()).collect::<Vec<_>>();
    let fine = match must {
        Must::Refuse(_) => received.is_empty(),
        Must::RefuseContent(_) => received.len() <= 1 && received.iter().all(|one| !one.whole),
        Must::Take(count) => received.len() == count && received.iter().all(|one| one.whole),
    };
    if fine { Ok(()) } else { Err(format!("the origin received {:?}", show())) }
}

fn tier(request: &[u8]) -> RequestSafetyTier {
    HttpRequestData::analyze_raw_request(request).tier
}

/// Asks the oracle: what reached the origin is at least "acceptable", and bytes that were sent and are worse
/// did not reach it unchanged.
fn expect_safe(sent: &[u8], received: &[Received]) -> Result<(), String> {
    for one in received {
        let verdict = HttpRequestData::analyze_raw_request(&one.head);
        if verdict.tier > RequestSafetyTier::Acceptable {
            return Err(format!("forwarded {:?}: {}", verdict.message, one.head.escape_ascii()));
        }
        let as_it_was = [&one.head[..], &one.content].concat();
        if tier(sent) > RequestSafetyTier::Acceptable && sent.starts_with(&as_it_was) {
            return Err(format!("forwarded unchanged: {}", one.head.escape_ascii()));
        }
    }
    Ok(())
}

fn run(sent: Sent) {
    let witness = Witness::new();
    let weir = before(&witness.origin);
    let rows = rows();
    let refused = rows.iter().filter(|(_, must, _)| !matches!(must, Must::Take(_))).count();
    assert!(refused >= 160, "{refused} malformed requests");
    let mut wrong = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        if let Err(why) = judge(&weir, &witness, (number, row), sent) {
            wrong.push(format!("{} ({:?}): {why}", row.0, row.1));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    assert_eq!(weir.get("/after").status(), 200);
}

#[test]
fn malformed_requests_are_refused_and_clear_ones_taken() {
    run(Sent::Whole);
}

#[test]
fn malformed_requests_are_refused_in_whatever_pieces_they_come() {
    run(Sent::InPieces(5));
}

/// The oracle on rows that were changed at random: whatever happens to them, what reaches the origin is
/// clear. `WEIR_FUZZ_SEED` and `WEIR_FUZZ_ROUNDS` widen it.
#[test]
fn changed_rows_reach_the_origin_clear_or_not_at_all() {
    let seed = environment("WEIR_FUZZ_SEED", 1);
    let mut random = Random::new(seed);
    let witness = Witness::new();
    let weir = before(&witness.origin);
    let rows: Vec<Row> = rows().into_iter().filter(|row| row.2.len() < 1000).collect();
    let rounds = environment("WEIR_FUZZ_ROUNDS", 3000);
    for round in 0..rounds {
        let mut bytes = random.one_of(&rows).2.clone();
        for _ in 0..=random.below(3) {
            mutate(&mut bytes, &mut random);
        }
        let earlier = witness.take().len();
        let mut client = weir.client().patience(PATIENCE);
        client.send([&bytes[..], NEXT.as_bytes()].concat());
        client.finish();
        client.read_to_end();
        let received = witness.take().split_off(earlier);
        if let Err(why) = expect_safe(&bytes, &received) {
            panic!("seed {seed}, round {round}: {why}; sent {}", bytes.escape_ascii());
        }
    }
    let taken = witness.take().len() as u64;
    assert!(taken > rounds / 50, "only {taken} requests of {rounds} rounds reached the origin");
    assert_eq!(weir.get("/after").status(), 200);
}

#[test]
fn rows_have_names_of_their_own() {
    let mut names: Vec<&str> = rows().iter().map(|row| row.0).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

/// For each stripped name: the origin reflects it into a storable response, one client sends it, and a second
/// client does not. Clients come from this machine, which is trusted; so do clients behind a proxy on it.
#[test]
fn an_origins_response_to_a_stripped_field_is_not_seen_by_others() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let name = exchange.request.path().trim_start_matches('/').to_owned();
        // To an origin behind CGI an underscore is a hyphen.
        let same = |other: &str| other.replace('_', "-").eq_ignore_ascii_case(&name);
        let reflected: Vec<String> =
            exchange.request.headers.iter().filter(|(n, _)| same(n)).map(|(_, v)| v.clone()).collect();
        exchange.reply(200, &[("Cache-Control", "max-age=3600")], format!("[{}]", reflected.join(", ")));
    });
    let weir = before(&origin);
    let also = ["x-forwarded-host", "x-forwarded-for", "x-forwarded-proto"];
    let mut wrong = Vec::new();
    for name in STRIPPED.iter().chain(&OF_TRUSTED_PEERS).chain(&also) {
        for spelled in [(*name).to_owned(), name.to_uppercase(), name.replace('-', "_")] {
            let target = format!("/{name}?{spelled}");
            weir.get_with(&target, &[(&spelled, "poison.example")]);
            let clean = weir.get(&target);
            assert_eq!(clean.status(), 200);
            if clean.text().contains("poison") {
                wrong.push(format!("{spelled}: {}", clean.text()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
