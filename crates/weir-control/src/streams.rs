//! Answers that go on: lines of JSON as they are made, or server-sent events. A stream takes no place of the
//! requests, and is not cut for its age. One that is not read is ended.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, StatusCode};
use hyper::body::{Body, Frame};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Interval, MissedTickBehavior, interval};
use weir_observe::{Listener, Told};

use crate::answer::Refusal;
use crate::call::{Caller, Door};
use crate::clock;

/// Streams at a time at the control socket, and at the admin listener.
const STREAMS_MAX: usize = 128;
/// Those to one token.
const STREAMS_OF_ONE_MAX: usize = 8;
/// Lines that wait to be sent on one stream, and their bytes; those beyond are dropped and counted.
const LINES_MAX: usize = 1024;
const QUEUE_BYTES_MAX: usize = 256 << 10;
/// Lines that wait are written together once they have so many bytes.
const FRAME_BYTES: usize = 32 << 10;
/// How often the token of a stream is looked up.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A stream on which nothing could be sent for so long is ended.
const STALL_TIME_MAX: Duration = Duration::from_secs(60);
/// Between two looks whether there is room again.
const ROOM_PAUSE: Duration = Duration::from_millis(10);
/// How often something is sent where nothing is told, so that both ends see that the other is there.
const BEAT_EVERY: Duration = Duration::from_secs(15);

/// How a stream is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Server-sent events (HTML, §9.2): a `data` field with JSON an event.
    Events,
    /// A line of JSON an event.
    Lines,
}

impl Form {
    pub(crate) const EVENTS: &'static str = "text/event-stream";
    pub(crate) const LINES: &'static str = "application/jsonl";

    /// The first form of a stream that `Accept` names.
    pub(crate) fn accepted(accept: Option<&HeaderValue>) -> Option<Form> {
        let accept = accept?.to_str().ok()?;
        accept.split(',').find_map(|range| match range.split(';').next().unwrap_or_default().trim() {
            named if named.eq_ignore_ascii_case(Form::EVENTS) => Some(Form::Events),
            named if named.eq_ignore_ascii_case(Form::LINES) => Some(Form::Lines),
            _ => None,
        })
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Form::Events => Form::EVENTS,
            Form::Lines => Form::LINES,
        }
    }

    fn frame(self, json: &[u8]) -> Bytes {
        let (before, after): (&[u8], &[u8]) = match self {
            Form::Events => (b"data: ", b"\n\n"),
            Form::Lines => (b"", b"\n"),
        };
        let mut frame = BytesMut::with_capacity(before.len() + json.len() + after.len());
        frame.extend_from_slice(before);
        frame.extend_from_slice(json);
        frame.extend_from_slice(after);
        frame.freeze()
    }

    /// What readers pass over.
    fn beat(self) -> Bytes {
        Bytes::from_static(match self {
            Form::Events => b":\n\n",
            Form::Lines => b"\n",
        })
    }
}

/// The streams of this process.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// By door and caller.
    of: Mutex<HashMap<(Door, String), usize>>,
    is_over: AtomicBool,
}

impl Streams {
    /// Opens a stream to a caller: its two ends. It ends once `is_good` says no. Call it on a runtime.
    ///
    /// # Errors
    /// 503 where there are too many.
    pub(crate) fn open(
        self: &Arc<Streams>,
        caller: &Caller,
        form: Form,
        is_good: impl Fn() -> bool + Send + 'static,
    ) -> Result<(Sending, Stream), Refusal> {
        let name = (caller.door, caller.identity.clone());
        let mut of = self.of.lock();
        let own = of.get(&name).copied().unwrap_or_default();
        let there = of.iter().filter(|((door, _), _)| *door == caller.door).map(|(_, count)| count);
        let is_full = there.sum::<usize>() >= STREAMS_MAX;
        if is_full || (caller.door == Door::Listener && own >= STREAMS_OF_ONE_MAX) {
            let message = "too many streams are open";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
                .help("close some of them, and try again"));
        }
        of.insert(name.clone(), own + 1);
        drop(of);
        let (lines, read) = mpsc::channel(LINES_MAX);
        let queue = Arc::<Queue>::default();
        let opened = Opened { streams: self.clone(), name };
        look_after(Arc::downgrade(&queue), is_good);
        let mut beat = interval(BEAT_EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.reset();
        let sending = Sending { lines, form, lost: 0, full: None, queue: queue.clone(), opened };
        Ok((sending, Stream { form, lines: read, beat, queue }))
    }

    /// Ends all streams, and those that begin from now on: a new process has taken over.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// What both ends of a stream share.
#[derive(Debug, Default)]
struct Queue {
    /// Of the lines that wait to be sent.
    bytes: AtomicUsize,
    /// Notified when the connection is to be closed.
    cut: Arc<Notify>,
    /// Its token is good no more.
    is_void: AtomicBool,
}

/// Ends a stream once its token is good no more.
fn look_after(queue: Weak<Queue>, is_good: impl Fn() -> bool + Send + 'static) {
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(queue) = queue.upgrade() else { return };
            if !is_good() {
                queue.is_void.store(true, Ordering::Relaxed);
                queue.cut.notify_one();
                return;
            }
        }
    });
}

/// That a stream is open, until this is dropped.
#[derive(Debug)]
struct Opened {
    streams: Arc<Streams>,
    name: (Door, String),
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut of = self.streams.of.lock();
        if let Some(own) = of.get_mut(&self.name) {
            *own -= 1;
            if *own == 0 {
                of.remove(&self.name);
            }
        }
    }
}

/// Where the lines of a stream are put. Dropping it ends the stream.
#[derive(Debug)]
pub(crate) struct Sending {
    lines: mpsc::Sender<Bytes>,
    form: Form,
    /// Lines that were dropped since one was sent.
    lost: u64,
    /// Since when there has been no room.
    full: Option<Instant>,
    queue: Arc<Queue>,
    opened: Opened,
}

impl Sending {
    /// Puts a line, JSON without a line break. Never waits. False when nobody reads any more.
    pub(crate) fn put(&mut self, json: &[u8]) -> bool {
        if !self.is_open() {
            return false;
        }
        let mut frames = self.form.frame(json);
        if self.lost > 0 {
            frames = [self.form.frame(dropped(self.lost).as_bytes()), frames].concat().into();
        }
        if !self.queued(frames) {
            self.lost += 1;
            return self.stalls();
        }
        (self.lost, self.full) = (0, None);
        true
    }

    /// Puts lines one after another as they are read: none is dropped. Returns once all are on their way, or
    /// nobody reads any more.
    pub(crate) async fn put_all(&mut self, lines: impl Iterator<Item = Vec<u8>>) {
        let mut frames = BytesMut::new();
        for line in lines {
            frames.extend_from_slice(&self.form.frame(&line));
            if frames.len() >= FRAME_BYTES && !self.put_waiting(frames.split().freeze()).await {
                return;
            }
        }
        if self.put_waiting(frames.freeze()).await {
            self.wait_until(|queue| queue.bytes.load(Ordering::Relaxed) == 0).await;
        }
    }

    /// Puts what is to be sent once there is room. False when nobody reads any more.
    async fn put_waiting(&mut self, frames: Bytes) -> bool {
        let bytes = frames.len();
        let has_room = move |queue: &Queue| {
            let waiting = queue.bytes.load(Ordering::Relaxed);
            waiting == 0 || waiting + bytes <= QUEUE_BYTES_MAX
        };
        // Only this end adds to the queue. It has places for lines while it has room for bytes, or soon.
        while self.wait_until(has_room).await {
            if self.queued(frames.clone()) {
                return true;
            }
            tokio::time::sleep(ROOM_PAUSE).await;
        }
        false
    }

    /// Waits until the queue is so. False when nobody reads any more.
    async fn wait_until(&mut self, is_so: impl Fn(&Queue) -> bool) -> bool {
        while !is_so(&self.queue) {
            if !self.is_open() || !self.stalls() {
                return false;
            }
            tokio::time::sleep(ROOM_PAUSE).await;
        }
        self.full = None;
        self.is_open()
    }

    /// Counts lines that never came here.
    fn lose(&mut self, count: u64) {
        self.lost += count;
    }

    /// Tells of lines that were lost, also where none follows. False when nobody reads any more.
    fn tell_lost(&mut self) -> bool {
        if self.lost > 0 && self.queued(self.form.frame(dropped(self.lost).as_bytes())) {
            self.lost = 0;
        }
        self.is_open()
    }

    /// Queues what is to be sent, if there is room.
    fn queued(&self, frames: Bytes) -> bool {
        let bytes = frames.len();
        let waiting = self.queue.bytes.fetch_add(bytes, Ordering::Relaxed);
        // One line is taken however long it is.
        let has_room = waiting == 0 || waiting + bytes <= QUEUE_BYTES_MAX;
        if has_room && self.lines.try_send(frames).is_ok() {
            return true;
        }
        self.queue.bytes.fetch_sub(bytes, Ordering::Relaxed);
        false
    }

    /// Whether somebody reads.
    pub(crate) fn is_open(&self) -> bool {
        let is_over = &self.opened.streams.is_over;
        !self.lines.is_closed()
            && !is_over.load(Ordering::Relaxed)
            && !self.queue.is_void.load(Ordering::Relaxed)
    }

    /// Notes that there is no room. False once that has lasted too long.
    fn stalls(&mut self) -> bool {
        let now = clock::mono();
        let since = *self.full.get_or_insert(now);
        let is_patient = now.saturating_duration_since(since) < STALL_TIME_MAX;
        if !is_patient {
            // What was queued could not be sent either.
            self.queue.cut.notify_one();
        }
        is_patient
    }
}

/// How many lines were lost.
fn dropped(lost: u64) -> String {
    format!("{{\"event\":\"dropped\",\"count\":{lost}}}")
}

/// A listener whose lines go out on a stream.
pub(crate) struct Hearing {
    pub(crate) sending: Sending,
    /// The sites that it hears of; `None`: all, and what concerns no site.
    pub(crate) sites: Option<Vec<String>>,
}

impl Listener for Hearing {
    fn hear(&mut self, told: Option<Told<'_>>) -> bool {
        let Some(told) = told else { return self.sending.tell_lost() };
        let is_own = self.sites.as_ref().is_none_or(|own| {
            !told.sites.is_empty() && told.sites.iter().all(|site| own.iter().any(|own| own == site))
        });
        if is_own { self.sending.put(told.json) } else { self.sending.is_open() }
    }

    fn lose(&mut self, count: u64) {
        self.sending.lose(count);
    }
}

/// The content of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    form: Form,
    lines: mpsc::Receiver<Bytes>,
    beat: Interval,
    queue: Arc<Queue>,
}

impl Stream {
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// What is notified when the connection is to be closed, since nothing can be sent on it.
    pub(crate) fn cut(&self) -> Arc<Notify> {
        self.queue.cut.clone()
    }
}

impl Stream {
    /// A line with those that wait behind it: a reader that is behind gets many with one write.
    fn with_more(&mut self, first: Bytes) -> Bytes {
        let mut lines = BytesMut::new();
        while first.len() + lines.len() < FRAME_BYTES
            && let Ok(line) = self.lines.try_recv()
        {
            lines.extend_from_slice(&line);
        }
        let all = if lines.is_empty() { first } else { [&first[..], &lines[..]].concat().into() };
        self.queue.bytes.fetch_sub(all.len(), Ordering::Relaxed);
        all
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if let Poll::Ready(line) = this.lines.poll_recv(cx) {
            this.beat.reset();
            return Poll::Ready(line.map(|line| Ok(Frame::data(this.with_more(line)))));
        }
        this.beat.poll_tick(cx).map(|_| Some(Ok(Frame::data(this.form.beat()))))
    }
}

#[cfg(test)]
mod tests {
    use weir_observe::Actor;

    use super::*;
    use crate::call::Role;

    #[test]
    fn accept_names_the_form() {
        for (accept, expect) in [
            ("text/event-stream", Some(Form::Events)),
            ("Application/JSONL; q=0.5", Some(Form::Lines)),
            ("application/json, application/jsonl", Some(Form::Lines)),
            ("*/*", None),
            ("application/json", None),
        ] {
            assert_eq!(Form::accepted(Some(&HeaderValue::from_static(accept))), expect, "{accept}");
        }
        assert_eq!(Form::accepted(None), None);
    }

    fn caller(name: &str, door: Door) -> Caller {
        let actor = Actor::Token(name.to_owned(), String::new());
        Caller { identity: actor.to_string(), actor, role: Role::View, sites: None, door }
    }

    fn open(streams: &Arc<Streams>, form: Form) -> (Sending, Stream) {
        streams.open(&caller("one", Door::Listener), form, || true).unwrap()
    }

    #[tokio::test]
    async fn no_token_takes_the_streams_of_others_and_no_listener_those_of_the_socket() {
        let streams = Arc::<Streams>::default();
        let open = |name: &str, door| streams.open(&caller(name, door), Form::Lines, || true);
        let mut all: Vec<_> = (0..STREAMS_OF_ONE_MAX).map(|_| open("cms", Door::Listener).unwrap()).collect();
        assert_eq!(open("cms", Door::Listener).unwrap_err().status, 503);
        assert!(open("other", Door::Listener).is_ok());
        all.pop();
        assert!(open("cms", Door::Listener).is_ok());
        all.extend((all.len()..STREAMS_MAX).map(|at| open(&at.to_string(), Door::Listener).unwrap()));
        assert_eq!(open("other", Door::Listener).unwrap_err().status, 503);
        assert!(open("root", Door::Socket).is_ok());
    }

    #[tokio::test]
    async fn what_is_not_read_is_dropped_and_counted() {
        let streams = Arc::<Streams>::default();
        let (mut sending, mut stream) = open(&streams, Form::Lines);
        for _ in 0..LINES_MAX + 5 {
            assert!(sending.put(b"{}"));
        }
        for _ in 0..2 {
            let line = stream.lines.recv().await.unwrap();
            stream.queue.bytes.fetch_sub(line.len(), Ordering::Relaxed);
            assert_eq!(line, "{}\n");
        }
        assert!(sending.put(b"{}"));
        let mut last = Bytes::new();
        while let Ok(line) = stream.lines.try_recv() {
            last = line;
        }
        assert_eq!(last, "{\"event\":\"dropped\",\"count\":5}\n{}\n");
        assert!(sending.is_open());
        streams.end();
        assert!(!sending.put(b"{}"));
    }

    #[tokio::test]
    async fn lost_lines_are_told_without_another_line() {
        let streams = Arc::<Streams>::default();
        let (sending, mut stream) = open(&streams, Form::Lines);
        let mut hearing = Hearing { sending, sites: None };
        hearing.lose(3);
        hearing.lose(4);
        assert!(hearing.hear(None) && hearing.hear(None));
        assert_eq!(next(&mut stream).await.unwrap(), "{\"event\":\"dropped\",\"count\":7}\n");
        assert!(stream.lines.try_recv().is_err());
    }

    #[tokio::test]
    async fn lines_that_wait_are_written_together() {
        let streams = Arc::<Streams>::default();
        let (mut sending, mut stream) = open(&streams, Form::Lines);
        let line = vec![b'x'; 20 << 10];
        (0..5).for_each(|_| assert!(sending.put(&line)));
        assert_eq!(next(&mut stream).await.unwrap().len(), 2 * (line.len() + 1));
        assert_eq!(next(&mut stream).await.unwrap().len(), 2 * (line.len() + 1));
        assert_eq!(stream.queue.bytes.load(Ordering::Relaxed), line.len() + 1);
        assert_eq!(next(&mut stream).await.unwrap().len(), line.len() + 1);
        assert_eq!(stream.queue.bytes.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn long_lines_do_not_fill_the_memory() {
        let streams = Arc::<Streams>::default();
        let (mut sending, mut stream) = open(&streams, Form::Lines);
        let line = vec![b'x'; 100 << 10];
        (0..20).for_each(|_| assert!(sending.put(&line)));
        let mut taken = 0;
        while stream.lines.try_recv().is_ok() {
            taken += 1;
        }
        assert_eq!(taken, 2);
        // One line is taken however long it is.
        let (mut sending, mut stream) = open(&streams, Form::Lines);
        assert!(sending.put(&vec![b'x'; 1 << 20]));
        assert_eq!(next(&mut stream).await.unwrap().len(), (1 << 20) + 1);
        assert!(sending.put(b"{}") && stream.lines.try_recv().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_with_its_token() {
        let streams = Arc::<Streams>::default();
        let is_good = Arc::new(AtomicBool::new(true));
        let asked = is_good.clone();
        let good = move || asked.load(Ordering::Relaxed);
        let (mut sending, stream) = streams.open(&caller("cms", Door::Listener), Form::Lines, good).unwrap();
        tokio::time::sleep(10 * LOOK_EVERY).await;
        assert!(sending.put(b"{}"));
        is_good.store(false, Ordering::Relaxed);
        stream.cut().notified().await;
        assert!(!sending.put(b"{}"));
    }

    async fn next(stream: &mut Stream) -> Option<Bytes> {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut *stream).poll_frame(cx)).await?;
        frame.unwrap().into_data().ok()
    }

    #[tokio::test]
    async fn a_listener_of_some_sites_hears_of_those_alone() {
        let streams = Arc::<Streams>::default();
        let (sending, mut stream) = open(&streams, Form::Events);
        let mut hearing = Hearing { sending, sites: Some(vec!["a.test".to_owned()]) };
        for sites in [&["a.test"][..], &["b.test"], &["a.test", "b.test"], &[]] {
            let json = format!("{sites:?}");
            assert!(hearing.hear(Some(Told { sites, json: json.as_bytes() })));
        }
        drop(hearing);
        assert_eq!(stream.lines.recv().await.unwrap(), "data: [\"a.test\"]\n\n");
        assert_eq!(stream.lines.recv().await, None);
    }
}
