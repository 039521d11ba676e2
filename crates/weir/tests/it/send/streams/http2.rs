//! Clients of HTTP/2: many streams at once, whose windows open by chance; some are reset, some never read.

use std::time::{Duration, Instant};

use weir_testkit::h2::{code, setting};
use weir_testkit::{End, H2Client, Trouble};

use super::asks::{Ask, Asks, Expect};
use super::{Protocol, Ways};

/// Streams of a connection.
const STREAMS_MAX: u64 = 14;
/// How long one look for frames may take.
const LOOK: Duration = Duration::from_millis(3);
/// How long all streams may take: far more than what a stalled one is given.
const PATIENCE: Duration = Duration::from_secs(90);

/// What a client does with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// It reads to the end.
    Reads,
    /// It resets the stream after so many bytes.
    Leaves(u64),
    /// It opens no window.
    Stalls,
}

/// A stream under way.
#[derive(Debug)]
struct Stream {
    id: u32,
    ask: Ask,
    manner: Manner,
    /// How much of the content was sent.
    sent: usize,
    has_ended: bool,
}

/// A connection with random streams.
pub fn visit(ways: &Ways<'_>, protocol: Protocol, asks: &mut Asks) {
    let random = &mut asks.random;
    let window = *random.one_of(&[1, 1000, 16_384, 65_535, 65_535, 1 << 20]);
    let settings = [
        (setting::INITIAL_WINDOW_SIZE, window),
        (setting::MAX_FRAME_SIZE, *random.one_of(&[16_384, 20_000, 1 << 18])),
        (setting::HEADER_TABLE_SIZE, *random.one_of(&[0, 4096])),
    ];
    let mut client = ways.http2(protocol, &settings);
    client.hold_windows();
    // Not for writes: a frame is sent whole.
    client.frames().socket().tcp().unwrap().set_read_timeout(Some(LOOK)).unwrap();
    let leaves_early = random.below(6) == 0;
    let streams = 1 + random.below(STREAMS_MAX);
    let mut all: Vec<Stream> = (0..streams).map(|_| begin(&mut client, asks)).collect();
    let (since, mut rounds) = (Instant::now(), asks.random.below(40));
    while !all.is_empty() {
        assert!(since.elapsed() < PATIENCE, "{} neither end nor are reset: {:?}", all.len(), all[0]);
        for stream in &mut all {
            go_on(&mut client, asks, stream);
        }
        look(&mut client, asks);
        all.retain(|stream| !settled(&mut client, stream));
        if leaves_early {
            rounds = rounds.saturating_sub(1);
            if rounds == 0 {
                // All streams that are left are gone with their connection.
                return;
            }
        }
    }
    client.frames().socket().tcp().unwrap().set_read_timeout(Some(PATIENCE)).unwrap();
    client.ping().expect("the connection lives on");
}

fn begin(client: &mut H2Client, asks: &mut Asks) -> Stream {
    let ask = asks.draw();
    let id = match ask.content {
        Some(_) => client.begin(ask.method, ask.host, &ask.target, &ask.pairs()),
        None => client.ask(ask.method, ask.host, &ask.target, &ask.pairs()),
    };
    let most = ask.most() as u64 + 1;
    let manner = match (ask.expect, asks.random.below(40)) {
        (Expect::Nothing, _) => Manner::Reads,
        (Expect::Silence(..), _) | (_, 0..=4) => Manner::Leaves(asks.random.below(most)),
        (Expect::Whole(_), 5) => Manner::Stalls,
        _ => Manner::Reads,
    };
    Stream { id, ask, manner, sent: 0, has_ended: false }
}

/// Sends content, opens the window, or resets the stream.
fn go_on(client: &mut H2Client, asks: &mut Asks, stream: &mut Stream) {
    if client.is_over(stream.id) {
        return;
    }
    let random = &mut asks.random;
    send_content(client, random.below(60_000) as usize, stream);
    let received = client.received(stream.id);
    let left = (stream.ask.most() as u64).saturating_sub(received);
    match stream.manner {
        Manner::Leaves(after) if received >= after && random.below(4) == 0 => {
            client.reset(stream.id, *random.one_of(&[code::CANCEL, code::NO_ERROR, code::INTERNAL_ERROR]));
        }
        Manner::Stalls => {}
        // Not so little that the client is told to be calm: frames without content have their measure.
        _ if client.window(stream.id) <= 0 && left > 0 && random.below(3) > 0 => {
            client.open(stream.id, (left / 10).max(4000) as u32 + random.below(4000) as u32);
        }
        _ => {}
    }
}

fn send_content(client: &mut H2Client, most: usize, stream: &mut Stream) {
    let Some(content) = stream.ask.content.filter(|_| !stream.has_ended) else { return };
    let end = content.torn_at.unwrap_or(content.bytes.len());
    let now = most.min(client.room(stream.id)).min(end - stream.sent);
    let piece = &content.bytes[stream.sent..stream.sent + now];
    stream.sent += now;
    stream.has_ended = stream.sent == end;
    let last = if stream.has_ended && content.torn_at.is_none() { End::Stream } else { End::Open };
    if now > 0 || stream.has_ended {
        client.data(stream.id, piece, last).expect("the connection takes content");
    }
    if stream.has_ended && content.torn_at.is_some() {
        client.reset(stream.id, code::CANCEL);
    }
}

/// Opens the connection's window, and reads what is there.
fn look(client: &mut H2Client, asks: &mut Asks) {
    let random = &mut asks.random;
    if client.window(0) < 30_000 && random.below(3) > 0 {
        client.open(0, 20_000 + random.below(300_000) as u32);
    }
    if random.below(10) == 0 {
        std::thread::sleep(Duration::from_millis(random.below(10)));
    }
    for _ in 0..64 {
        match client.pump() {
            Ok(()) => {}
            Err(Trouble::Silent(_)) => return,
            Err(why) => panic!("the connection ends: {why}, {:?}", client.goaway()),
        }
    }
}

/// Whether a stream is over. If so, checks how it ended.
fn settled(client: &mut H2Client, stream: &Stream) -> bool {
    if !client.is_over(stream.id) {
        return false;
    }
    let came = client.recv(stream.id);
    match (stream.manner, stream.ask.expect, came) {
        (_, Expect::Nothing, _) => {}
        (Manner::Reads, _, came) => stream.ask.check(came),
        (_, _, Ok(answer)) => stream.ask.check_beginning(answer.status(), &answer.body),
        (_, _, Err(Trouble::Reset(_, part))) => stream.ask.check_beginning(part.status(), &part.body),
        (_, _, Err(why)) => panic!("{stream:?}: {why}"),
    }
    true
}
