//! Fills, their readers and the store in random interleavings, without sockets and on one thread: readers
//! join, read and leave, the origin sends, ends and fails, the store runs out of memory and invalidates. Each
//! reader gets its interval of one generation, then one end or one error. Waiting readers must be woken: a
//! reader is polled only when it was.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use http::{HeaderValue, Method};
use proptest::prelude::*;
use weir_body::Body;
use weir_policy::{CacheRules, Interval, RequestView, ResponseView, Storable, storable};
use weir_store::{Full, Scope, Settings, Store, Writer};
use weir_upstream::{Upstream, UpstreamSettings};

use super::inflight::{Asker, Inflight, Plan, Wanted};
use super::machine::{AHEAD_BYTES_MAX, End, Storing};
use super::reader::{Filled, Reader, look};
use super::refetch::Refetch;
use super::tenure::Tenure;
use super::*;
use weir_clock as clock;

const MEMORY: u64 = 1 << 20;
const CORES: usize = 2;
const PIECE_BYTES_MAX: usize = 40_000;

/// Bytes that are known by their place.
pub(crate) fn body(start: u64, count: u64) -> Bytes {
    let words = (start / 8..(start + count).div_ceil(8)).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut bytes = Vec::with_capacity(count as usize + 16);
    words.for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    let skip = (start % 8) as usize;
    Bytes::from(bytes).slice(skip..skip + count as usize)
}

pub(crate) fn key() -> CacheKey {
    CacheKey::new(Bytes::from_static(b"http://example.test/"))
}

fn asker(core: usize, client: Witness) -> Asker<'static> {
    static IN_FORCE: Tenure = Tenure::new();
    Asker { core, client, tenure: &IN_FORCE }
}

fn wanted<'r>(key: &'r CacheKey, headers: &'r HeaderMap, interval: Interval) -> Wanted<'r> {
    Wanted { key, interval, headers }
}

pub(crate) fn proof() -> Storable {
    let mut headers = HeaderMap::new();
    headers.insert("cache-control", HeaderValue::from_static("max-age=60"));
    let view = RequestView {
        method: &Method::GET,
        scheme: "http",
        host: "example.test",
        path_and_query: "/",
        headers: &HeaderMap::new(),
        has_body: false,
        is_trusted: false,
    };
    let (now, rules) = (clock::now(), CacheRules::default());
    storable(&view, &ResponseView::new(StatusCode::OK, &headers, now, now), &rules).unwrap()
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Something that is polled when it was woken.
struct Task<T> {
    future: Pin<Box<dyn Future<Output = T>>>,
    flag: Arc<Flag>,
}

impl<T> Task<T> {
    fn new(future: impl Future<Output = T> + 'static) -> Task<T> {
        Task { future: Box::pin(future), flag: Arc::new(Flag(AtomicBool::new(true))) }
    }

    fn poll(&mut self) -> Option<T> {
        if !self.flag.0.swap(false, Ordering::Relaxed) {
            return None;
        }
        let waker = Waker::from(self.flag.clone());
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }
}

/// How a reader's response ended, and at which offset.
#[derive(Debug, PartialEq)]
enum Outcome {
    End(u64),
    Cut(u64),
    NoBody,
}

/// A reader: waits for the head, then reads its interval piece by piece.
async fn reader(guard: ReaderGuard, interval: Interval, refetch: Arc<Refetch>, store: Store) -> Outcome {
    let FillHead::New(generation) = guard.fill().wait_head(guard.core()).await else {
        return Outcome::NoBody;
    };
    let length = generation.length().unwrap_or(u64::MAX);
    let interval = Interval { start: interval.start.min(length), end: interval.end.min(length) };
    let mut reader = Reader::filling(Filled::new(guard, generation, refetch, store), interval, None);
    let mut at = interval.start;
    loop {
        match reader.next(PIECE_BYTES_MAX).await {
            Ok(Some(piece)) => {
                assert!(!piece.is_empty() && piece == body(at, piece.len() as u64), "wrong bytes at {at}");
                at += piece.len() as u64;
            }
            Ok(None) => return Outcome::End(at),
            Err(_) => return Outcome::Cut(at),
        }
        tokio::task::yield_now().await;
    }
}

#[derive(Clone, Debug)]
enum Act {
    Head,
    Send { bytes: u64 },
    Finish,
    Fail,
    BreakOff,
    Join { core: usize, start: u64, bytes: u64 },
    Leave { index: usize },
    Read { index: usize },
    Crowd { bytes: u64 },
    Invalidate,
}

fn act() -> impl Strategy<Value = Act> {
    let start = prop_oneof![3 => Just(0u64), 1 => 0u64..900_000];
    let bytes = prop_oneof![2 => Just(u64::MAX), 1 => 1u64..500_000];
    prop_oneof![
        4 => Just(Act::Head),
        16 => (1u64..150_000).prop_map(|bytes| Act::Send { bytes }),
        2 => Just(Act::Finish),
        1 => Just(Act::Fail),
        2 => Just(Act::BreakOff),
        6 => (0..CORES, start, bytes).prop_map(|(core, start, bytes)| Act::Join { core, start, bytes }),
        3 => (0usize..8).prop_map(|index| Act::Leave { index }),
        20 => (0usize..8).prop_map(|index| Act::Read { index }),
        2 => (1u64..300_000).prop_map(|bytes| Act::Crowd { bytes }),
        1 => Just(Act::Invalidate),
    ]
}

/// The origin's side of a fill, as its task does it.
struct Origin {
    length: u64,
    is_known: bool,
    writer: Option<Writer>,
    unsent: Bytes,
    /// Turns until the rest that was asked for comes.
    away: u32,
}

/// One fill with all around it.
struct Scene {
    store: Store,
    inflight: Arc<Inflight>,
    bells: Arc<Bells>,
    fill: Arc<Fill>,
    origin: Origin,
    refetch: Arc<Refetch>,
    readers: Vec<(Task<Outcome>, Interval)>,
    bell: Task<()>,
    is_failed: bool,
    was_windowed: bool,
    crowd: u64,
}

/// Nothing is asked of an origin here.
#[derive(Debug)]
struct Nobody;

impl weir_upstream::Tally for Nobody {
    fn sent(&self) {}
    fn received(&self, _: u64) {}
}

impl Scene {
    fn new(length: u64, is_known: bool) -> Scene {
        let settings = Settings { window_bytes: 200_000, ..Settings::of(MEMORY) };
        let (store, bells) = (Store::with(settings), Arc::new(Bells::new(CORES)));
        let inflight = Arc::new(Inflight::new(bells.clone()));
        let upstream = UpstreamSettings::single("origin", "http://127.0.0.1:1".parse().unwrap());
        let refetch = Arc::new(Refetch {
            upstream: Upstream::new(upstream).unwrap(),
            target: "/".into(),
            headers: Arc::default(),
            tally: Arc::new(Nobody),
            witness: Witness::Unnamed,
            client: None,
            picking: weir_upstream::Picking::default(),
            cause: None,
        });
        let whole = Interval::new(0, u64::MAX);
        let now = clock::mono();
        let Plan::Lead(lead) = inflight.plan(
            asker(0, Witness::Unnamed),
            store.ledger(),
            wanted(&key(), &HeaderMap::new(), whole),
            now,
        ) else {
            panic!("nothing else runs")
        };
        let guard = lead.begin().unwrap();
        let fill = guard.fill().clone();
        let bell = Task::new({
            let bells = bells.clone();
            async move { bells.answer(1).await }
        });
        let readers = vec![(Task::new(reader(guard, whole, refetch.clone(), store.clone())), whole)];
        let origin = Origin { length, is_known, writer: None, unsent: Bytes::new(), away: 0 };
        let (is_failed, was_windowed, crowd) = (false, false, 0);
        Scene { store, inflight, bells, fill, origin, refetch, readers, bell, is_failed, was_windowed, crowd }
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Head => self.head(),
            Act::Send { bytes } => self.send(bytes),
            Act::Finish => self.finish(),
            Act::Fail => self.fail(),
            Act::BreakOff => self.break_off(),
            Act::Join { core, start, bytes } => {
                // A range of a body whose length is not known is answered with the whole.
                let part = Interval { start, end: start.saturating_add(bytes) };
                self.join(core, if self.origin.is_known { part } else { Interval::new(0, u64::MAX) });
            }
            Act::Leave { index } if index < self.readers.len() => drop(self.readers.swap_remove(index)),
            Act::Read { index } if index < self.readers.len() => self.read(index),
            Act::Leave { .. } | Act::Read { .. } => {}
            Act::Crowd { bytes } => self.crowd(bytes),
            Act::Invalidate => {
                let scope = Scope::Url { site: 0, digest: key().digest };
                self.store.invalidate(scope, clock::now());
            }
        }
        self.settle();
    }

    /// What the task does between two turns: an ended fill is closed, core 1 answers its bell.
    fn settle(&mut self) {
        if let State::Ended(end) = self.fill.machine().state()
            && let Some(writer) = self.origin.writer.take()
        {
            assert_ne!(end, End::Whole, "what is whole is sealed before");
            writer.abandon();
            self.inflight.done(&self.fill);
            self.fill.wake(0);
        }
        assert!(self.bell.poll().is_none());
    }

    fn is_filling(&self) -> bool {
        matches!(self.fill.machine().state(), State::Filling { .. })
    }

    fn head(&mut self) {
        if self.fill.machine().state() != State::Asking {
            return;
        }
        let length = self.origin.is_known.then_some(self.origin.length);
        let (generation, writer) = self.store.begin(proof(), key(), self.fill.stamp(), length).unwrap();
        self.origin.writer = Some(writer);
        let _ = self.fill.head.set(FillHead::New(generation));
        self.fill.apply(Event::Storable(length));
        self.fill.transfer.speed.head(clock::mono());
        self.fill.wake(0);
    }

    /// One turn of the task: what could not be stored the last time goes first.
    fn send(&mut self, bytes: u64) {
        if self.origin.away > 0 {
            self.origin.away -= 1;
            return;
        }
        let Some(writer) = self
            .origin
            .writer
            .as_mut()
            .filter(|_| matches!(self.fill.machine().state(), State::Filling { .. }))
        else {
            return;
        };
        if let Some(window_bytes) = writer.window_bytes() {
            self.was_windowed = true;
            let front = self.fill.transfer.front();
            writer.let_go(front);
            self.fill.apply(Event::Advanced(front));
            if self.origin.unsent.is_empty()
                && self.fill.machine().must_wait(AHEAD_BYTES_MAX.min(window_bytes / 2))
            {
                return;
            }
        }
        let count = bytes.min(self.origin.length - writer.position());
        let piece = match std::mem::take(&mut self.origin.unsent) {
            unsent if unsent.is_empty() => body(writer.position(), count),
            unsent => unsent,
        };
        if piece.is_empty() {
            return;
        }
        let count = piece.len() as u64;
        let result = writer.push(piece);
        let is_windowed = writer.window_bytes().is_some();
        if is_windowed
            && matches!(self.fill.machine().state(), State::Filling { storing: Storing::Whole, .. })
        {
            self.was_windowed = true;
            self.fill.apply(Event::Outgrown);
        }
        let taken = match result {
            Ok(()) => count,
            Err(Full { rest }) => {
                self.origin.unsent = rest;
                count - self.origin.unsent.len() as u64
            }
        };
        self.fill_is_waited_for();
        self.fill.apply(Event::Bytes(taken));
        self.fill.wake(0);
    }

    /// A reader that has read all that is there misses what the fill writes next, and waits for it, however
    /// slowly it has come so far. So it is while bytes are held, and the fill has yet to tell how far it has
    /// come.
    fn fill_is_waited_for(&self) {
        let Some(writer) = self.origin.writer.as_ref().filter(|writer| writer.window_bytes().is_none())
        else {
            return;
        };
        let (next, now) = (writer.position(), self.fill.begun() + Duration::from_secs(3600));
        assert!(self.fill.comes_soon(next, now), "{next} comes next and is not waited for");
    }

    fn finish(&mut self) {
        let position = self.origin.writer.as_ref().map_or(0, Writer::position);
        if self.is_filling()
            && self.origin.away == 0
            && position == self.origin.length
            && let Some(writer) = self.origin.writer.take()
        {
            assert!(self.fill.seal(writer));
            self.inflight.done(&self.fill);
            self.fill.wake(0);
        }
    }

    fn fail(&mut self) {
        if self.is_filling() {
            self.is_failed = true;
            self.fill.apply(Event::Failed);
        }
    }

    /// The body breaks off between two pieces; the rest comes some turns later, or the fill has failed.
    fn break_off(&mut self) {
        if !self.is_filling() || !self.origin.unsent.is_empty() {
            return;
        }
        match self.fill.apply(Event::BrokeOff).has(Actions::TAKE_OVER) {
            true => self.origin.away = 3,
            false => self.is_failed = true,
        }
    }

    fn join(&mut self, core: usize, interval: Interval) {
        let (ledger, now) = (self.store.ledger(), clock::mono());
        if self.readers.len() < 8
            && let Plan::Join(guard) = self.inflight.plan(
                asker(core, Witness::Unnamed),
                ledger,
                wanted(&key(), &HeaderMap::new(), interval),
                now,
            )
        {
            let task = Task::new(reader(guard, interval, self.refetch.clone(), self.store.clone()));
            self.readers.push((task, interval));
        }
    }

    fn read(&mut self, index: usize) {
        if let Some(outcome) = self.readers[index].0.poll() {
            let (_, interval) = self.readers.swap_remove(index);
            self.judge(&outcome, interval);
        }
    }

    /// A reader ends at its interval's end, or is cut for a reason.
    fn judge(&self, outcome: &Outcome, interval: Interval) {
        let end = interval.end.min(self.origin.length).max(interval.start.min(self.origin.length));
        match *outcome {
            Outcome::End(at) => assert_eq!(at, end, "a clean end in the middle of {interval:?}"),
            Outcome::Cut(at) => {
                assert!(at <= end);
                let may_be_cut = self.is_failed || self.was_windowed;
                assert!(may_be_cut, "cut at {at} of {interval:?} in {:?}", self.fill.machine());
            }
            Outcome::NoBody => panic!("a head always comes here"),
        }
    }

    /// Other objects take memory.
    fn crowd(&mut self, bytes: u64) {
        self.crowd += 1;
        let other = CacheKey::new(Bytes::from(format!("http://example.test/{}", self.crowd)));
        let begun = self.store.begin(proof(), other, self.store.ledger().current(), Some(bytes));
        if let Ok((_, mut writer)) = begun
            && writer.push(body(0, bytes)).is_ok()
        {
            writer.seal().unwrap();
        }
    }

    /// Lets everything come to its end: the origin sends all, the readers read when they are woken.
    fn run_out(&mut self) {
        self.head();
        for _ in 0..10_000 {
            self.send(60_000);
            self.finish();
            self.settle();
            for index in (0..self.readers.len()).rev() {
                self.read(index);
            }
            assert!(self.store.usage().used_bytes <= MEMORY);
            let is_over = matches!(self.fill.machine().state(), State::Ended(_));
            if is_over && self.readers.iter().all(|(task, _)| !task.flag.0.load(Ordering::Relaxed)) {
                break;
            }
        }
        self.settle();
        let state = self.fill.machine();
        assert!(matches!(state.state(), State::Ended(_)), "the fill stands still: {state:?}");
        assert!(self.readers.is_empty(), "{} readers wait for ever after {state:?}", self.readers.len());
        assert_eq!(self.inflight.running(), 0);
        let _ = &self.bells;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_reader_gets_its_interval_then_one_end_or_one_error(
        length in prop_oneof![0u64..200_000, 300_000u64..520_000, 520_000u64..1_500_000],
        is_known in any::<bool>(),
        acts in prop::collection::vec(act(), 0..60),
    ) {
        let mut scene = Scene::new(length, is_known);
        for act in &acts {
            scene.act(act);
        }
        scene.run_out();
    }
}

/// On two cores at once: one ends a body of unknown length, the other looks for what comes after its last
/// byte.
#[test]
fn a_reader_on_another_core_never_takes_the_end_for_a_break() {
    for _ in 0..1000 {
        let mut scene = Scene::new(8, false);
        scene.head();
        scene.send(8);
        let Some(FillHead::New(generation)) = scene.fill.head().cloned() else { panic!("a new one") };
        let writer = scene.origin.writer.take().unwrap();
        let fill = scene.fill.clone();
        let begin = std::sync::Barrier::new(2);
        let read = std::thread::scope(|threads| {
            let reader = threads.spawn(|| {
                begin.wait();
                loop {
                    if let Some(read) = look(&fill, &generation, 8, 1) {
                        return read;
                    }
                }
            });
            begin.wait();
            assert!(fill.seal(writer));
            reader.join().unwrap()
        });
        assert!(matches!(read, weir_store::Read::End), "{read:?} at the end");
    }
}

#[test]
fn what_hangs_is_led_again_a_few_times_and_who_comes_joins_the_newest() {
    let scene = Scene::new(8, false);
    let (ledger, whole, begun) = (scene.store.ledger(), Interval::new(0, u64::MAX), scene.fill.begun());
    let plan = |client, rounds| {
        let now = begun + HEAD_WAIT_MAX * rounds;
        scene.inflight.plan(
            asker(0, Witness::V4(client)),
            ledger,
            wanted(&key(), &HeaderMap::new(), whole),
            now,
        )
    };
    let mut led = vec![scene.fill.clone()];
    let mut guards = Vec::new();
    for (rounds, client) in [(1, 1), (2, 1)] {
        let Plan::Lead(lead) = plan(client, rounds) else { panic!("round {rounds} is led again") };
        let guard = lead.begin().unwrap();
        led.push(guard.fill().clone());
        guards.push(guard);
        let Plan::Join(joined) = plan(2, rounds) else { panic!("others join it") };
        assert!(Arc::ptr_eq(joined.fill(), led.last().unwrap()));
    }
    assert!(matches!(plan(2, 3), Plan::Separate), "three hang");
    scene.inflight.done(&led[0]);
    assert!(matches!(plan(1, 3), Plan::Separate), "two of its own hang");
    assert!(matches!(plan(2, 3), Plan::Lead(_)), "another client's does not");
}
