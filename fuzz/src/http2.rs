//! Promises of an HTTP/2 connection as a whole that hold for any frames: no panic; it ends soon after its
//! client's side does; what it says is made of frames that a server may send, in which no stream goes on
//! after its end or its reset; content keeps to the window of the connection; what runs at once is bounded.
//!
//! A real worker serves the connection, with a small service in place of the edge. Time is the runtime's: a
//! wait for a deadline takes none.

#[path = "http2/service.rs"]
mod service;

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use weir_front::listen::{Address, bind, seats};
use weir_front::worker::{self, Start};
use weir_front::{Certificates, ListenerMode, Protocols};
use weir_observe::{Count, Observatory};

use self::service::Small;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long a connection may live on after its client has said its last, by the runtime's clock: a response
/// that nobody takes has a minute, and so has an idle connection.
const LIFE_MAX: Duration = Duration::from_secs(600);
/// The windows before any setting or update (RFC 9113 §6.9.2).
const WINDOW: u64 = 65_535;

/// The types of frames (RFC 9113 §6).
mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

thread_local! {
    // It is not dropped: at the end of its thread the runtime has no clock any more.
    static BENCH: OnceCell<ManuallyDrop<Bench>> = const { OnceCell::new() };
}

/// Reads any bytes as what a client does on one connection.
pub fn http2(data: &[u8]) {
    answered(data);
}

/// As [`http2`], and returns the types of the frames that the server has sent.
pub fn answered(data: &[u8]) -> Vec<u8> {
    let script = script(data);
    BENCH.with(|bench| {
        let bench = bench.get_or_init(|| ManuallyDrop::new(Bench::start()));
        let said = bench.converse(&script);
        let heard: Vec<u8> = script.iter().filter_map(Step::bytes).flatten().copied().collect();
        check(&said, &heard);
        assert_eq!(bench.observatory.snapshot().counts[Count::Panics], 0, "a task panicked");
        frames(&said).iter().map(|(kind, ..)| *kind).collect()
    })
}

/// What a client does next.
#[derive(Debug)]
enum Step {
    Send(Vec<u8>),
    /// It waits for so many milliseconds.
    Wait(u64),
}

impl Step {
    fn bytes(&self) -> Option<&Vec<u8>> {
        match self {
            Step::Send(bytes) => Some(bytes),
            Step::Wait(_) => None,
        }
    }
}

/// A worker that serves connections on a socket.
struct Bench {
    runtime: Runtime,
    local: LocalSet,
    path: PathBuf,
    observatory: Arc<Observatory>,
    /// The ends of the orders and of the count that the worker reports to.
    _orders: Box<dyn std::any::Any>,
}

impl Bench {
    fn start() -> Bench {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let local = LocalSet::new();
        let name = format!("weir-fuzz-{}-{:?}.sock", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        let address = Address::Unix { path: path.clone(), mode: 0o600 };
        let bound = bind(&address, 1).expect("a socket").remove(0);
        let observatory = Observatory::start(1, &[]).expect("counters");
        let service = Rc::new(Small::new(observatory.observer(0)));
        let (orders, told) = tokio::sync::mpsc::unbounded_channel();
        let (held, holds) = tokio::sync::watch::channel(0);
        let start = Start {
            core: 0,
            bound: vec![(0, bound)],
            modes: vec![ListenerMode { protocols: Protocols::Http2, ..ListenerMode::PLAIN }],
            certificates: Certificates::default(),
            seat: seats(1).remove(0),
            orders: told,
            held,
        };
        local.spawn_local(worker::run(start, service));
        Bench { runtime, local, path, observatory, _orders: Box::new((orders, holds)) }
    }

    /// Does what the script says, and returns all that the server has said.
    fn converse(&self, script: &[Step]) -> Vec<u8> {
        self.local.block_on(&self.runtime, async {
            let stream = UnixStream::connect(&self.path).await.expect("a connection");
            let (mut reads, mut writes) = stream.into_split();
            let mut said = Vec::new();
            let sends = async {
                for step in script {
                    match step {
                        // A server that has left takes nothing.
                        Step::Send(bytes) if writes.write_all(bytes).await.is_err() => break,
                        Step::Send(_) => tokio::task::yield_now().await,
                        Step::Wait(millis) => tokio::time::sleep(Duration::from_millis(*millis)).await,
                    }
                }
                let _ = writes.shutdown().await;
                tokio::time::sleep(LIFE_MAX).await;
            };
            tokio::select! {
                // A reset is an end as well.
                _ = reads.read_to_end(&mut said) => {}
                () = sends => panic!("the connection lives on"),
            }
            said
        })
    }
}

/// Bytes as choices; nothing but zeros behind their end.
struct Choices<'d>(&'d [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let (now, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        now.to_vec()
    }
}

/// A frame, whatever its parts say.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// What a client does: mostly frames that are right by themselves, and some that are not.
fn script(data: &[u8]) -> Vec<Step> {
    let mut choices = Choices(data);
    let mut steps = vec![Step::Send(PREFACE.to_vec())];
    let mut streams = 0;
    if choices.byte() % 8 != 7 {
        steps.push(Step::Send(settings(&mut choices)));
    }
    while !choices.0.is_empty() {
        match choices.byte() % 20 {
            17 => steps.push(Step::Wait(u64::from(choices.byte()) * 500)),
            18 => steps.push(Step::Send(choices.bytes(40))),
            19 => {
                // The frame before, with one byte changed.
                let (at, to) = (usize::from(choices.byte()), choices.byte());
                let last = steps.iter().rev().find_map(Step::bytes).cloned().unwrap_or_default();
                let mut changed = last;
                let length = changed.len().max(1);
                if let Some(byte) = changed.get_mut(at % length) {
                    *byte = to;
                }
                steps.push(Step::Send(changed));
            }
            other => {
                let stream = 1 + 2 * u32::from(choices.byte()) % (2 * streams + 1).max(2);
                steps.push(Step::Send(one(other, stream, &mut streams, &mut choices)));
            }
        }
    }
    steps
}

/// One frame, or a few that belong together.
fn one(which: u8, stream: u32, streams: &mut u32, choices: &mut Choices<'_>) -> Vec<u8> {
    let new = 2 * *streams + 1;
    match which {
        0..=3 => {
            *streams += 1;
            let ends = if which < 2 { END_STREAM } else { 0 };
            frame(kind::HEADERS, END_HEADERS | ends, new, &head(choices))
        }
        4 => {
            *streams += 1;
            let block = head(choices);
            let (first, rest) = block.split_at(usize::from(choices.byte()) % (block.len() + 1));
            let ends = choices.byte() & END_STREAM;
            let last = if choices.byte().is_multiple_of(4) { 0 } else { END_HEADERS };
            [frame(kind::HEADERS, ends, new, first), frame(kind::CONTINUATION, last, new, rest)].concat()
        }
        // Trailers, or a head on a stream that has one.
        5 => frame(kind::HEADERS, END_HEADERS | (choices.byte() & END_STREAM), stream, &fields(choices)),
        6 | 7 => {
            let content = vec![b'c'; usize::from(choices.byte()) << (choices.byte() % 8)];
            frame(kind::DATA, choices.byte() & 9, stream, &content)
        }
        8 => frame(kind::RST_STREAM, 0, stream, &u32::from(choices.byte() % 15).to_be_bytes()),
        9..=11 => {
            let on = if choices.byte().is_multiple_of(2) { 0 } else { stream };
            let by = choices.one_of(&[0, 1, 100, 20_000, 65_536, 1 << 20, (1 << 31) - 1, 1 << 31]);
            frame(kind::WINDOW_UPDATE, 0, on, &u32::to_be_bytes(by))
        }
        12 => settings(choices),
        13 => frame(kind::PING, choices.byte() & 1, 0, &[7; 8]),
        14 => frame(kind::PRIORITY, 0, stream, &[0, 0, 0, choices.byte(), 1]),
        15 => frame(kind::GOAWAY, 0, 0, &[0, 0, 0, choices.byte(), 0, 0, 0, choices.byte() % 15]),
        _ => {
            let (kind, flags, length) = (choices.byte() % 12, choices.byte(), choices.byte());
            frame(kind, flags, stream, &choices.bytes(usize::from(length)))
        }
    }
}

fn settings(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    for _ in 0..choices.byte() % 4 {
        payload.extend([0, choices.byte() % 10]);
        let value =
            choices.one_of(&[0_u32, 1, 100, 4096, 16_384, 65_535, 1 << 20, (1 << 24) - 1, (1 << 31) - 1]);
        payload.extend(value.to_be_bytes());
    }
    frame(kind::SETTINGS, 0, 0, &payload)
}

/// The bytes that HPACK has for a literal with the name of this entry of the static table (RFC 7541 §6.2).
fn literal(form: u8, entry: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![form | entry];
    length(&mut bytes, value.len());
    bytes.extend(value);
    bytes
}

/// A literal with a new name.
fn named(form: u8, name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![form];
    length(&mut bytes, name.len());
    bytes.extend(name);
    length(&mut bytes, value.len());
    bytes.extend(value);
    bytes
}

/// A length without Huffman code (RFC 7541 §5.1).
fn length(bytes: &mut Vec<u8>, length: usize) {
    if length < 127 {
        return bytes.push(length as u8);
    }
    bytes.push(127);
    let mut left = length - 127;
    while left >= 128 {
        bytes.push((left % 128) as u8 | 128);
        left /= 128;
    }
    bytes.push(left as u8);
}

/// The fields of a request, most of them right.
fn head(choices: &mut Choices<'_>) -> Vec<u8> {
    const PATHS: [&[u8]; 9] =
        [b"/small", b"/large", b"/slow", b"/echo", b"/cut", b"/early", b"/none", b"*", b"no-path"];
    let mut block = Vec::new();
    match choices.byte() % 16 {
        0..=9 => block.push(0x82),
        10..=13 => block.push(0x83),
        14 => block.extend(literal(0, 2, b"HEAD")),
        _ => {
            block.extend(literal(0, 2, b"CONNECT"));
            block.extend(named(0, b":protocol", b"websocket"));
        }
    }
    block.push(0x86);
    block.extend(literal(choices.one_of(&[0, 0x10, 0x40]) & 0x40, 4, choices.one_of(&PATHS)));
    block.extend(literal(0x40, 1, b"x"));
    block.extend(fields(choices));
    block
}

/// More fields, some of them wrong.
fn fields(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut block = Vec::new();
    for _ in 0..choices.byte() % 6 {
        match choices.byte() % 20 {
            0 => block.extend(named(0, b"te", b"trailers")),
            1 => block.extend(named(0, b"te", b"gzip")),
            2 => block.extend(named(0, b"connection", b"close")),
            3 => block.extend(literal(0, 28, choices.one_of(&[b"0", b"1", b"9", b"x"]))),
            4 => block.extend(literal(0x40, 32, b"a=1")),
            5 => block.extend(literal(0, 38, b"y")),
            6 => block.push(0x84),
            7 => block.extend(named(0, b"Upper", b"x")),
            8 => block.extend(vec![0x80 | 62; usize::from(choices.byte()) * 8]),
            9 => block.extend(named(0x40, b"x-long", &vec![b'l'; usize::from(choices.byte()) * 32])),
            10 => block.extend(literal(0, 35, b"100-continue")),
            11 => block.push(0x20 | (choices.byte() & 31)),
            12 => block.extend(named(0, b"x", b"a\r\nb")),
            13 => block.push(choices.byte()),
            14 => block.extend(choices.bytes(8)),
            15 => block.extend(named(0, b":status", b"200")),
            _ => block.extend(named(0x40, &[b'x', b'a' + choices.byte() % 26], &choices.bytes(6))),
        }
    }
    block
}

/// Frames within bytes; what is not whole at the end is left out.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, u32, &[u8])> {
    let mut all = Vec::new();
    while let [l2, l1, l0, kind, flags, s3, s2, s1, s0, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *l2, *l1, *l0]) as usize;
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        all.push((*kind, *flags, u32::from_be_bytes([*s3, *s2, *s1, *s0]) & (u32::MAX >> 1), payload));
        bytes = rest;
    }
    all
}

/// Judges what a server has said to a client that said this.
fn check(said: &[u8], heard: &[u8]) {
    let mut window = WINDOW;
    for (kind, _, stream, payload) in frames(heard.get(PREFACE.len()..).unwrap_or_default()) {
        if let (kind::WINDOW_UPDATE, 0, [a, b, c, d]) = (kind, stream, payload) {
            window += u64::from(u32::from_be_bytes([*a, *b, *c, *d]) & (u32::MAX >> 1));
        }
    }
    let mut over: HashSet<u32> = HashSet::new();
    let mut begun: HashMap<u32, usize> = HashMap::new();
    let mut within: Option<u32> = None;
    let mut content = 0;
    for (number, (kind, flags, stream, payload)) in frames(said).into_iter().enumerate() {
        // A client that is no client of HTTP/2 gets a GOAWAY at most.
        assert!(number > 0 || matches!(kind, kind::SETTINGS | kind::GOAWAY), "it begins with {kind}");
        assert_eq!(within.is_some(), kind == kind::CONTINUATION, "a field block in pieces");
        match kind {
            kind::HEADERS | kind::CONTINUATION => {
                assert!(stream % 2 == 1 && !over.contains(&stream), "a head on {stream} after its end");
                *begun.entry(stream).or_default() += 1;
                within = (flags & END_HEADERS == 0).then_some(stream);
                if kind == kind::HEADERS && flags & END_STREAM != 0 {
                    over.insert(stream);
                }
            }
            kind::DATA => {
                assert!(begun.contains_key(&stream), "content of {stream} before its head");
                assert!(!over.contains(&stream), "content of {stream} after its end");
                content += payload.len() as u64;
                if flags & END_STREAM != 0 {
                    over.insert(stream);
                }
            }
            kind::RST_STREAM => {
                assert!(stream != 0 && payload.len() == 4, "a reset of {stream}");
                over.insert(stream);
            }
            kind::SETTINGS | kind::PING | kind::GOAWAY => assert_eq!(stream, 0, "{kind} of a stream"),
            kind::WINDOW_UPDATE => assert_eq!(payload.len(), 4),
            other => panic!("a server sends no frame of type {other}"),
        }
    }
    assert!(content <= window, "{content} bytes of content in a window of {window}");
}
