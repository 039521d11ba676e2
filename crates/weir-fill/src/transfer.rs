//! A transfer: one response of an origin on its way into a generation; what a fill and the transfer of a gap
//! have in common. It says how far it has come, where it stops, how many readers it has and how it ended,
//! writes the bytes, and wakes its readers. It must not ask an origin, nor choose its readers.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_policy::Interval;
use weir_store::{Full, Generation, Reading, Writer, WriterWait};

use super::asks::Asks;
use super::machine::{Actions, End, Event, Machine, State};
use super::speed::Speed;
use super::waiters::{Bells, Waiters};
use weir_clock as clock;

/// How long a writer waits without being woken before it looks again. A waiter that is woken for less than it
/// needs wakes no other: one behind it, to which that is enough, waits until more is freed, or so long.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(250);
/// The position of a transfer may be told so much later than its bytes are held: 1 MiB, more than comes in
/// one piece.
const WRITING_BYTES_MAX: u64 = 1 << 20;

/// Readers held all the memory for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoMemory;

/// One running transfer.
pub struct Transfer {
    machine: Mutex<Machine>,
    /// Its first byte.
    start: u64,
    /// Where it stops: earlier than was asked for, once another transfer loads the rest.
    end: AtomicU64,
    /// Where the next byte goes.
    reached: AtomicU64,
    /// How far the foremost reader is.
    front: AtomicU64,
    /// Why it failed.
    broke: OnceLock<&'static str>,
    /// Its requests to origins, where they have a log.
    asks: OnceLock<Arc<Asks>>,
    waiters: Arc<Waiters>,
    bells: Arc<Bells>,
    /// Wakes the task: it must stop, nobody waits for its head any more, or a reader has moved on.
    pub(super) turn: Notify,
    pub(super) speed: Speed,
}

impl Transfer {
    /// One whose request is being sent.
    pub(super) fn new(machine: Machine, within: Interval, bells: Arc<Bells>, asked: Instant) -> Transfer {
        Transfer {
            machine: Mutex::new(machine),
            start: within.start,
            end: AtomicU64::new(within.end),
            reached: AtomicU64::new(within.start),
            front: AtomicU64::new(within.start),
            broke: OnceLock::new(),
            asks: OnceLock::new(),
            waiters: Waiters::new(&bells),
            bells,
            turn: Notify::new(),
            speed: Speed::new(asked),
        }
    }

    /// The machine as it is now.
    pub fn machine(&self) -> Machine {
        *self.machine.lock()
    }

    /// How it has ended, if it has.
    pub(super) fn ended(&self) -> Option<End> {
        match self.machine().state() {
            State::Ended(end) => Some(end),
            State::Asking | State::Filling { .. } => None,
        }
    }

    /// How many read it.
    pub(super) fn readers(&self) -> u32 {
        self.machine().readers()
    }

    /// Its first byte.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Where it stops.
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Where the next byte goes.
    pub(super) fn reached(&self) -> u64 {
        self.reached.load(Ordering::Acquire)
    }

    /// Whether it runs and will come past an offset, or has.
    pub(super) fn covers(&self, offset: u64) -> bool {
        self.start <= offset && offset < self.end() && self.ended().is_none()
    }

    /// Whether it loads what is at an offset of its generation about as soon as a new request would. It may
    /// be past the offset.
    pub(super) fn comes_soon(&self, generation: &Generation, offset: u64, now: Instant) -> bool {
        let reached = self.reached();
        let ahead = offset.saturating_sub(reached);
        // Bytes are held before the position is told. A reader that has just read them is not ahead.
        let is_written = || generation.gap(Interval::new(reached, offset.max(reached))).is_none();
        self.speed.comes_soon(reached - self.start, ahead, now)
            || (ahead <= WRITING_BYTES_MAX && is_written())
    }

    /// Another transfer loads what comes from `offset` on.
    pub(super) fn stop_at(&self, offset: u64) {
        self.end.fetch_min(offset, Ordering::AcqRel);
    }

    /// More is sent than was asked for, and loaded up to `offset`.
    pub(super) fn go_on_to(&self, offset: u64) {
        self.end.fetch_max(offset, Ordering::AcqRel);
    }

    /// How far the foremost reader is.
    pub(super) fn front(&self) -> u64 {
        // Pairs with the fence in `advance`: either the reader sees that only a window is kept, or the fill
        // that has just become one sees the reader.
        fence(Ordering::SeqCst);
        self.front.load(Ordering::Acquire)
    }

    /// A reader has reached `offset`, or waits for it. Whether it is the foremost reader now.
    pub(super) fn advance(&self, offset: u64) -> bool {
        if self.front.load(Ordering::Relaxed) >= offset {
            return false;
        }
        let is_foremost = self.front.fetch_max(offset, Ordering::AcqRel) < offset;
        fence(Ordering::SeqCst);
        is_foremost
    }

    /// Notes why it failed.
    pub(super) fn fail_with(&self, word: &'static str) {
        let _ = self.broke.set(word);
    }

    /// Why it failed, for the log.
    pub(super) fn failure_word(&self) -> &'static str {
        self.broke.get().copied().unwrap_or("fill-ended")
    }

    /// Its requests to origins.
    pub(super) fn asks(&self) -> Arc<Asks> {
        self.asks.get_or_init(Arc::default).clone()
    }

    /// Its requests to origins, where they have a log.
    pub(super) fn asks_if_any(&self) -> Option<Arc<Asks>> {
        self.asks.get().cloned()
    }

    /// It goes on with what another transfer has asked for.
    pub(super) fn adopt(&self, asks: Option<Arc<Asks>>) {
        if let Some(asks) = asks {
            let _ = self.asks.set(asks);
        }
    }

    /// It has ended with this generation, if with any.
    pub(super) fn end_asks(&self, generation: Option<&Generation>) {
        if let Some(asks) = self.asks.get() {
            asks.end(generation);
        }
    }

    /// A reader joins, unless the transfer has ended without being whole. Whether it did.
    pub(super) fn join(&self) -> bool {
        let mut machine = self.machine.lock();
        if matches!(machine.state(), State::Ended(end) if end != End::Whole) {
            return false;
        }
        *machine = machine.on(Event::Joined).0;
        true
    }

    /// Applies an event, and returns what remains to be done with the body. The caller does that first and
    /// then calls [`Transfer::wake`], so that readers find it done.
    pub(super) fn apply(&self, event: Event) -> Actions {
        if let Event::Bytes(bytes) = event {
            self.reached.fetch_add(bytes, Ordering::AcqRel);
        }
        let actions = {
            let mut machine = self.machine.lock();
            let (next, actions) = machine.on(event);
            *machine = next;
            actions
        };
        if actions.has(Actions::STOP) || actions.has(Actions::LOOK) {
            self.turn.notify_one();
        }
        actions
    }

    /// Gives bytes to the writer, tells the machine of them, and wakes the readers. It waits while other
    /// transfers' readers hold all the memory, for `memory_wait_max` at most; while its own do; and while the
    /// volume is too far behind: that is the back-pressure towards the origin. `pushed` is called after each
    /// try, before the machine is told. Where the transfer ends meanwhile the rest is dropped.
    ///
    /// # Errors
    /// [`NoMemory`]: the memory did not come in time.
    pub(super) async fn push(
        &self,
        core: usize,
        writer: &mut Writer,
        bytes: Bytes,
        memory_wait_max: Duration,
        mut pushed: impl FnMut(&Writer),
    ) -> Result<(), NoMemory> {
        if let Err(rest) = self.try_push(core, writer, bytes, &mut pushed) {
            self.push_when_freed(core, writer, rest, memory_wait_max, pushed).await?;
        }
        self.settle(writer).await;
        Ok(())
    }

    /// Waits while the volume is too far behind.
    pub(super) async fn settle(&self, writer: &mut Writer) {
        if writer.is_writing_to_volume() && writer.volume_is_behind(Duration::ZERO, self.reading()).is_some()
        {
            self.wait_for_volume(writer).await;
        }
    }

    /// What its readers do.
    fn reading(&self) -> Reading {
        match self.readers() {
            0 => Reading::Nobody,
            _ if self.front() >= self.reached() => Reading::HeldBack,
            _ => Reading::Behind,
        }
    }

    /// Gives the writer what it can take now.
    ///
    /// # Errors
    /// What it could not take.
    fn try_push(
        &self,
        core: usize,
        writer: &mut Writer,
        bytes: Bytes,
        pushed: &mut impl FnMut(&Writer),
    ) -> Result<(), Bytes> {
        // What nobody has read yet must stay, unless it is read from the volume.
        let is_on_disk_only = writer.is_writing_to_volume() && writer.window_bytes().is_some();
        writer.let_go(if is_on_disk_only { u64::MAX } else { self.front() });
        let count = bytes.len();
        let rest = writer.push(bytes).err().map(|Full { rest }| rest);
        pushed(writer);
        let taken = count - rest.as_ref().map_or(0, Bytes::len);
        if taken > 0 {
            self.apply(Event::Bytes(taken as u64));
        }
        // Where nothing was taken readers may have to learn that memory keeps a window only.
        self.wake(core);
        rest.map_or(Ok(()), Err)
    }

    async fn push_when_freed(
        &self,
        core: usize,
        writer: &mut Writer,
        mut bytes: Bytes,
        wait_max: Duration,
        mut pushed: impl FnMut(&Writer),
    ) -> Result<(), NoMemory> {
        let mut longest = clock::mono() + wait_max;
        let mut freed = writer.wait_for_memory();
        let (mut waited, mut is_behind) = (Duration::ZERO, false);
        loop {
            writer.arm(&mut freed);
            // Nothing can leave memory that the volume has not taken.
            let counted = if is_behind { waited } else { Duration::ZERO };
            is_behind = writer.volume_is_behind(counted, self.reading()).is_some();
            match self.try_push(core, writer, bytes, &mut pushed) {
                Ok(()) => return Ok(()),
                Err(rest) => bytes = rest,
            }
            if writer.is_ahead_of_readers() && self.readers() > 0 {
                // It waits for its own readers, as for back-pressure: how long these may take nothing is
                // bounded where they are sent to.
                longest = clock::mono() + wait_max;
            } else if clock::mono() >= longest {
                return Err(NoMemory);
            }
            waited = self.pause(&mut freed, LOOK_AGAIN_AFTER).await;
            if self.ended().is_some() {
                return Ok(());
            }
        }
    }

    async fn wait_for_volume(&self, writer: &mut Writer) {
        let mut room = writer.wait_for_volume();
        let mut waited = Duration::ZERO;
        while self.ended().is_none() {
            writer.arm(&mut room);
            let Some(longest) = writer.volume_is_behind(waited, self.reading()) else { return };
            waited = self.pause(&mut room, longest.min(LOOK_AGAIN_AFTER)).await;
        }
    }

    /// Waits until the wait is over, or the transfer's task has to look at its readers. For how long it has.
    async fn pause(&self, wait: &mut WriterWait, longest: Duration) -> Duration {
        let since = clock::mono();
        tokio::select! {
            () = self.turn.notified() => {}
            _ = tokio::time::timeout(longest, wait.over()) => {}
        }
        clock::mono().saturating_duration_since(since)
    }

    /// Waits on core `core` until `ready` yields; it is asked again whenever the transfer moves on.
    ///
    /// # Cancel safety
    /// Safe: nothing is lost.
    pub(super) async fn until<T>(&self, core: usize, ready: impl FnMut() -> Option<T>) -> T {
        self.waiters.until(core, ready).await
    }

    /// Wakes the readers of all cores.
    pub(super) fn wake(&self, core: usize) {
        self.waiters.wake(core, &self.bells);
    }
}

#[cfg(test)]
mod tests;
