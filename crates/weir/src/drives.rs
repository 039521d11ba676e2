//! The volumes of the configuration, as they come and go: opened, watched, let go when their drives fail, and
//! tried again. One thread looks at all of them; what may block for long (opening, closing, emptying) has a
//! thread of its own, so that one that is stuck in the kernel holds nobody up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context;
use parking_lot::{Condvar, Mutex};
use weir_config::model;
use weir_control::VolumeUse;
use weir_store::VolumeState;
use weir_store::breaker::{Act, CircuitBreaker, Event};
use weir_store::{Attached, Register, Store};

use crate::volume::{self, Opened, Refused, Share};

mod arrival;
mod slot;
mod told;

use slot::{Course, Drain, Slot};

/// How often each volume is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often it is written down how far they have come.
const NOTE_EVERY: Duration = Duration::from_secs(10);
/// And how often where what it should say could not be written.
const NOTE_AGAIN: Duration = Duration::from_secs(1);
/// So long the start waits for volumes that are being opened; then it goes on without them.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// Between two passes over a volume that is being emptied.
const EMPTY_PAUSE: Duration = Duration::from_secs(2);
/// So many numbers may be given out between two notes.
const NUMBERS_AHEAD: u64 = 1 << 24;

/// The volumes of a server.
#[derive(Debug)]
pub(crate) struct Drives {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    register: Arc<Register>,
    numbers: Arc<AtomicU64>,
    memory_bytes: u64,
    /// How many volumes share the memory.
    count: AtomicUsize,
    state: Mutex<State>,
    bell: Condvar,
    news: Sender<News>,
}

#[derive(Debug)]
struct State {
    slots: Vec<Slot>,
    heard: Receiver<News>,
    noted_at: Duration,
    /// Another process still has the volumes: nothing is opened.
    waits: bool,
    is_closed: bool,
}

/// What threads have to tell.
#[derive(Debug)]
enum News {
    /// A volume was opened, or not.
    Opened(String, Box<Result<Opened, Refused>>),
    /// One is closed, so that its folder can be used again.
    Closed(String),
    /// A pass over a volume that is being emptied: whether anything is left there.
    Emptied(String, bool),
}

impl Drives {
    /// Opens the volumes and attaches them, and waits for them, for a bounded time. One whose drive fails is
    /// tried again later.
    ///
    /// # Errors
    /// A sentence, where the configuration asks for what cannot be: a folder that another Weir uses, or that
    /// is none of Weir's.
    pub(crate) fn start(
        store: Store,
        register: Register,
        volumes: &[model::Volume],
        memory_bytes: u64,
        begin: Begin,
    ) -> anyhow::Result<Drives> {
        let register = Arc::new(register);
        store.set_register(Arc::clone(&register));
        match begin {
            Begin::Now => register.announce(),
            Begin::Later => store.expect_volumes(),
        }
        let (news, heard) = channel();
        let state = State {
            slots: Vec::new(),
            heard,
            noted_at: now(),
            waits: begin == Begin::Later,
            is_closed: false,
        };
        let inner = Arc::new(Inner {
            store,
            numbers: Arc::new(AtomicU64::new(register.numbers())),
            register,
            memory_bytes,
            count: AtomicUsize::new(volumes.len()),
            state: Mutex::new(state),
            bell: Condvar::new(),
            news,
        });
        inner.configure(volumes);
        inner.await_start()?;
        let weak = Arc::downgrade(&inner);
        let watch = move || watch(&weak);
        std::thread::Builder::new()
            .name("weir-drives".to_owned())
            .spawn(watch)
            .context("cannot start the thread that watches the volumes")?;
        Ok(Drives { inner })
    }

    /// Takes another configuration: opens what is new, lets go what is gone, and changes the others.
    pub(crate) fn configure(&self, volumes: &[model::Volume]) {
        self.inner.configure(volumes);
    }

    /// Closes all volumes for another process, which takes them; this one goes on from memory and the origin.
    /// Blocks, for `patience` at most.
    pub(crate) fn release(&self, patience: Duration) {
        self.inner.close(patience);
        for slot in &self.inner.state.lock().slots {
            slot.attached().inspect(|attached| self.inner.store.detach(attached));
        }
    }

    /// Opens the volumes that another process has closed; after [`Begin::Later`].
    pub(crate) fn take(&self) {
        let mut state = self.inner.state.lock();
        if !std::mem::replace(&mut state.waits, false) {
            return;
        }
        if let Err(error) = self.inner.register.reload() {
            tracing::error!(%error, "cannot read the register of volumes");
        }
        self.inner.register.announce();
        self.inner.numbers.fetch_max(self.inner.register.numbers(), Ordering::AcqRel);
        drop(state);
        self.inner.bell.notify_one();
    }

    /// How each stands.
    pub(crate) fn told(&self) -> Vec<VolumeUse> {
        self.inner.state.lock().slots.iter().map(|slot| told::of(slot, now())).collect()
    }

    /// Makes durable what was stored, for a bounded time: before the process ends.
    pub(crate) fn close(&self, patience: Duration) {
        self.inner.close(patience);
    }
}

/// When the volumes are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Before the first request.
    Now,
    /// When [`Drives::take`] says so: another process still has them.
    Later,
}

/// Looks at all volumes, until they are let go.
fn watch(inner: &Weak<Inner>) {
    loop {
        let Some(inner) = inner.upgrade() else { return };
        let mut state = inner.state.lock();
        inner.bell.wait_for(&mut state, TICK);
        if state.is_closed {
            return;
        }
        inner.look(&mut state);
    }
}

/// The drives' clock. Moments are after zero, which means never.
fn now() -> Duration {
    static BEGUN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let now = weir_clock::now();
    now.since(*BEGUN.get_or_init(|| now.mono)) + TICK
}

impl Inner {
    fn configure(self: &Arc<Inner>, volumes: &[model::Volume]) {
        self.count.store(volumes.len(), Ordering::Relaxed);
        let mut state = self.state.lock();
        for slot in &mut state.slots {
            match volumes.iter().find(|volume| volume.path == slot.wanted.path) {
                Some(wanted) => self.change(slot, wanted),
                None => {
                    slot.is_wanted = false;
                    self.let_go(slot, "it is not in the configuration any more", false);
                    slot.breaker = CircuitBreaker::new();
                }
            }
        }
        for wanted in volumes {
            if !state.slots.iter().any(|slot| slot.wanted.path == wanted.path) {
                state.slots.push(Slot::new(wanted.clone()));
            }
        }
        self.open_shut(&mut state);
        drop(state);
        self.bell.notify_one();
    }

    /// Opens what is wanted and shut, and forgets what is not wanted any more.
    fn open_shut(self: &Arc<Inner>, state: &mut State) {
        if state.waits {
            return;
        }
        state.slots.retain(|slot| slot.is_wanted || !matches!(slot.course, Course::Shut));
        for slot in &mut state.slots {
            if matches!(slot.course, Course::Shut) && slot.breaker.state() == VolumeState::Probing {
                self.open(slot);
            }
        }
    }

    /// Gives a volume that stays its new size, weight and so on.
    fn change(&self, slot: &mut Slot, wanted: &model::Volume) {
        let before = std::mem::replace(&mut slot.wanted, wanted.clone());
        slot.is_wanted = true;
        let Course::Open(attached) = &slot.course else { return };
        if let Some(size) = wanted.size.filter(|_| before.size != wanted.size) {
            attached.resize(size.0);
            tracing::info!("volume {} has {} bytes now", slot.path(), size.0);
        }
        if before.weight != wanted.weight || before.size != wanted.size {
            let size_bytes = attached.volume().usage().size_bytes;
            self.store.weigh(attached, volume::weight(wanted, size_bytes));
        }
        if before.write_budget != wanted.write_budget {
            attached.volume().set_budget(wanted.write_budget.map(|budget| budget.0));
            tracing::info!("the write budget of volume {} has changed", slot.path());
        }
        if before.drain != wanted.drain {
            attached.set_draining(wanted.drain);
            slot.drain = if wanted.drain { Drain::Rests(Duration::ZERO) } else { Drain::No };
        }
    }

    /// Opens a volume, on a thread of its own.
    fn open(self: &Arc<Inner>, slot: &mut Slot) {
        let (wanted, path, news) = (slot.wanted.clone(), slot.path(), self.news.clone());
        let share = Share::of(self.memory_bytes, self.count.load(Ordering::Relaxed));
        let (numbers, register) = (Arc::clone(&self.numbers), Arc::clone(&self.register));
        let watcher = self.store.volume_watcher(&path);
        let work = {
            let path = path.clone();
            move || {
                let opened = volume::open(&wanted, &share, &numbers, &register, watcher);
                let _ = news.send(News::Opened(path, Box::new(opened)));
            }
        };
        slot.course = Course::Opening;
        if let Err(error) = std::thread::Builder::new().name("weir-open".to_owned()).spawn(work) {
            let _ = self.news.send(News::Opened(path, Box::new(Err(Refused::Drive(error.into())))));
        }
    }

    /// Waits until all that is to be opened at the start is, or was not.
    fn await_start(self: &Arc<Inner>) -> anyhow::Result<()> {
        let until = now() + START_PATIENCE;
        let mut state = self.state.lock();
        while state.slots.iter().any(|slot| matches!(slot.course, Course::Opening)) && now() < until {
            match state.heard.recv_timeout(TICK) {
                Ok(News::Opened(path, opened)) => match *opened {
                    Err(Refused::Config(error)) => return Err(error),
                    Err(Refused::Folder(error)) if !self.register.knows(&path) => return Err(error),
                    opened => self.hear(&mut state, News::Opened(path, Box::new(opened))),
                },
                Ok(news) => self.hear(&mut state, news),
                Err(_) => {}
            }
        }
        if !state.waits {
            self.call(&state);
        }
        Ok(())
    }

    /// Writes down who is there, and who is missing. Where that cannot be done it is tried again with each
    /// note.
    fn call(&self, state: &State) {
        let State { slots, .. } = state;
        let paths: Vec<String> = slots.iter().map(Slot::path).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let present: Vec<u128> = slots.iter().filter_map(|slot| slot.attached().map(Attached::id)).collect();
        if let Err(error) = self.register.call(&paths, &present) {
            tracing::error!(%error, "cannot write the register of volumes; tried again every second");
        }
    }

    /// One look at everything.
    fn look(self: &Arc<Inner>, state: &mut State) {
        while let Ok(news) = state.heard.try_recv() {
            self.hear(state, news);
        }
        for slot in &mut state.slots {
            self.open_again(slot);
            let event = slot.observe();
            self.on(slot, event);
            self.empty(slot);
            self.write_down_owed(slot);
        }
        self.open_shut(state);
        self.end_expecting(state);
        // While another process has the volumes the register is its own.
        if !state.waits && now().saturating_sub(state.noted_at) >= self.note_every() {
            state.noted_at = now();
            self.note(state);
        }
    }

    /// Once all that another process had is open, or cannot be.
    fn end_expecting(&self, state: &State) {
        let is_settled = |slot: &Slot| slot.attached().is_some() || slot.why.is_some();
        if !state.waits && self.store.expects_volumes() && state.slots.iter().all(is_settled) {
            self.store.end_expecting();
            self.call(state);
        }
    }

    fn hear(self: &Arc<Inner>, state: &mut State, news: News) {
        let path = match &news {
            News::Opened(path, _) | News::Closed(path) | News::Emptied(path, _) => path,
        };
        let Some(at) = state.slots.iter().position(|slot| slot.path() == *path) else { return };
        let slot = &mut state.slots[at];
        match news {
            News::Opened(_, opened) => match *opened {
                Ok(opened) => self.take(slot, opened),
                Err(refused) => self.refuse(slot, &refused),
            },
            News::Closed(_) => slot.course = Course::Shut,
            News::Emptied(_, is_empty) => {
                if slot.drain == Drain::Passing {
                    slot.drain = if is_empty { Drain::Done } else { Drain::Rests(now() + EMPTY_PAUSE) };
                    if is_empty {
                        tracing::info!("volume {path} is empty and can be taken out", path = slot.path());
                    }
                }
            }
        }
    }

    fn refuse(self: &Arc<Inner>, slot: &mut Slot, refused: &Refused) {
        let why = format!("{:#}", refused.error());
        if slot.why.as_ref() != Some(&why) {
            tracing::error!("volume {} cannot be opened: {why}; Weir goes on without it", slot.path());
        }
        (slot.course, slot.why) = (Course::Shut, Some(why));
        self.on(slot, Event::NotOpened);
    }

    /// Does what follows from an event.
    fn on(self: &Arc<Inner>, slot: &mut Slot, event: Event) {
        // Its folder is free again only when it is closed.
        if event == Event::Tick && !matches!(slot.course, Course::Shut) {
            return;
        }
        let was = slot.state();
        let (breaker, act) = slot.breaker.on(event, now());
        slot.breaker = breaker;
        match act {
            Some(Act::Open) => self.open(slot),
            Some(Act::Eject) => {
                let why = slot.failure();
                tracing::error!("volume {} is let go: {why}", slot.path());
                self.let_go(slot, &why, true);
            }
            Some(Act::Pass) => {
                let most = slot.wanted.read_timeout.0;
                slot.why = Some(format!("something took longer than {most:?}"));
                tracing::warn!("volume {} is slow: something took longer than {most:?}", slot.path());
                slot.attached().inspect(|attached| attached.set_slow(true));
            }
            Some(Act::Await) => {
                if slot.why.take().is_some() {
                    tracing::warn!("volume {} is up again", slot.path());
                }
                slot.attached().inspect(|attached| attached.set_slow(false));
            }
            Some(Act::Write) => {
                slot.attached().inspect(|attached| attached.volume().write_again());
            }
            None => {}
        }
        slot.say_change(was);
    }

    /// Lets a volume go: nothing is asked of it any more, and a thread closes it.
    fn let_go(&self, slot: &mut Slot, why: &str, is_expected: bool) {
        let course = std::mem::replace(&mut slot.course, Course::Shut);
        let Course::Open(attached) = course else {
            slot.course = course;
            return;
        };
        if let Err(error) = self.register.leave(attached.id(), is_expected) {
            tracing::error!(%error, "cannot write the register of volumes");
        }
        self.store.detach(&attached);
        slot.last = told::held(attached.report());
        (slot.why, slot.course) = (Some(why.to_owned()), Course::Closing);
        self.close_apart(slot.path(), move || {
            attached.close();
            drop(attached);
        });
    }

    /// Closes a volume that was opened while nothing could be written, and now it could; it is opened again
    /// at once.
    fn open_again(&self, slot: &mut Slot) {
        if slot.attached().is_none_or(|attached| !attached.volume().is_unsealed()) {
            return;
        }
        let why = "its drive can be written again";
        tracing::warn!("volume {} is opened again: {why}", slot.path());
        self.let_go(slot, why, true);
        slot.breaker = CircuitBreaker::new();
    }

    /// Closes something on a thread of its own, and says when it is closed.
    fn close_apart(&self, path: String, close: impl FnOnce() + Send + 'static) {
        let news = self.news.clone();
        let name = path.clone();
        let work = move || {
            close();
            let _ = news.send(News::Closed(path));
        };
        if std::thread::Builder::new().name("weir-close".to_owned()).spawn(work).is_err() {
            tracing::error!("volume {name} cannot be closed: there is no thread for it");
        }
    }

    /// Begins a pass of emptying where one is due.
    fn empty(self: &Arc<Inner>, slot: &mut Slot) {
        let Drain::Rests(until) = slot.drain else { return };
        let Course::Open(attached) = &slot.course else { return };
        if now() < until {
            return;
        }
        let (store, attached) = (self.store.clone(), attached.clone());
        let (news, path) = (self.news.clone(), slot.path());
        let work = move || {
            let emptied = store.empty(&attached);
            let is_empty = emptied.is_ok_and(|emptied| emptied.left == 0)
                && attached.volume().sync().is_some()
                && attached.volume().usage().objects == 0;
            let _ = news.send(News::Emptied(path, is_empty));
        };
        if std::thread::Builder::new().name("weir-empty".to_owned()).spawn(work).is_ok() {
            slot.drain = Drain::Passing;
        }
    }

    /// How often it is written down.
    fn note_every(&self) -> Duration {
        if self.register.is_unwritten() { NOTE_AGAIN } else { NOTE_EVERY }
    }

    /// Writes down how far the volumes have come.
    fn note(&self, state: &State) {
        let mut epochs = Vec::new();
        for slot in &state.slots {
            let Course::Open(attached) = &slot.course else { continue };
            epochs.push((attached.id(), attached.volume().reached()));
        }
        let numbers = self.numbers.load(Ordering::Acquire) + NUMBERS_AHEAD;
        let was_unwritten = self.register.is_unwritten();
        match (self.register.note(&epochs, numbers, self.store.ledger()), was_unwritten) {
            (Err(error), false) => {
                tracing::error!(%error, "cannot write the register of volumes; tried again every second");
            }
            (Ok(()), true) => tracing::warn!("the register of volumes is written again"),
            _ => {}
        }
    }

    /// Writes down that what was to be removed may be back when it is opened the next time, and when that is
    /// over.
    fn write_down_owed(&self, slot: &mut Slot) {
        let Course::Open(attached) = &slot.course else { return };
        match (attached.has_failed_removals(), slot.owed) {
            (true, false) => slot.owed = self.register.leave(attached.id(), true).is_ok(),
            (false, true) => {
                slot.owed = self.register.settle(attached.id(), attached.volume().reached()).is_err();
            }
            _ => {}
        }
    }

    fn close(&self, patience: Duration) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_closed, true) {
            return;
        }
        let mut open: BTreeMap<String, u128> = BTreeMap::new();
        let mut epochs = Vec::new();
        for slot in &mut state.slots {
            if let Course::Open(attached) = &slot.course {
                let attached = attached.clone();
                open.insert(slot.path(), attached.id());
                self.close_apart(slot.path(), move || attached.close());
            }
        }
        let until = now() + patience;
        while !open.is_empty() && now() < until {
            if let Ok(News::Closed(path)) = state.heard.recv_timeout(TICK) {
                open.remove(&path);
            }
        }
        for slot in &state.slots {
            let Course::Open(attached) = &slot.course else { continue };
            if attached.has_failed_removals() || open.contains_key(&slot.path()) {
                // What was to be removed may be back when it is opened the next time.
                let _ = self.register.leave(attached.id(), true);
            } else {
                epochs.push((attached.id(), attached.volume().reached()));
            }
        }
        let numbers = self.numbers.load(Ordering::Acquire);
        let _ = self.register.note(&epochs, numbers, self.store.ledger());
        drop(state);
        self.bell.notify_one();
    }
}
