//! What is done with volumes: one look at all of them, a few times a second, and what follows from it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::breaker::{Act, CircuitBreaker, Event};
use super::drive::{Drive, DriveReport, Emptying, Files, Told};
use super::machine::{Change, Machine, RegisterChange};
use super::opening::{Blame, Opened, Opener, Share, Unopened};
use super::settings::{Begin, Settings, Wanted};
use crate::register::Register;
use crate::store::Store;
use crate::tier::VolumeTier;
use crate::volume::VolumeState;

/// How often each volume is looked at.
const TICK: Duration = Duration::from_millis(100);
/// The same while nothing has been asked of any of them for a while.
const TICK_CALM: Duration = Duration::from_secs(1);
/// How often it is written down how far they have come.
const NOTE_EVERY: Duration = Duration::from_secs(10);
/// And how often where what it should say could not be written.
const NOTE_AGAIN: Duration = Duration::from_secs(1);
/// So long the start waits for volumes that are being opened; then it goes on without them.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at what another process has dropped of a volume that is still read here.
const DROPPED_LOOK: Duration = Duration::from_secs(1);
/// Between two passes over a volume that is being emptied.
const EMPTY_PAUSE: Duration = Duration::from_secs(2);
/// So many numbers may be given out between two notes.
const NUMBERS_AHEAD: u64 = 1 << 24;

/// All volumes, and what is needed to look after them.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) store: Store,
    pub(super) register: Arc<Register>,
    pub(super) settings: Settings,
    numbers: Arc<AtomicU64>,
    /// How many volumes share the memory.
    count: AtomicUsize,
    state: Mutex<State>,
    /// What is told of the volumes while they are being looked at: that may wait for the state folder.
    told: Mutex<Vec<Told>>,
    /// It was told that the register cannot be written.
    is_unwritten: AtomicBool,
    bell: Condvar,
    done: Sender<Done>,
}

#[derive(Debug)]
struct State {
    drives: Vec<Drive>,
    heard: Receiver<Done>,
    noted_at: Duration,
    /// Another process still has the volumes: nothing is opened.
    waits: bool,
    is_closed: bool,
}

/// What a thread has done, with the volume of that name.
#[derive(Debug)]
enum Done {
    /// It was opened, or not.
    Opened(String, Box<Result<Opened, Unopened>>),
    /// It is closed, so that its folder can be used again.
    Closed(String),
    /// A pass of emptying is over: whether nothing is left there.
    Emptied(String, bool),
}

impl Supervisor {
    pub(super) fn new(store: Store, register: Register, settings: Settings, begin: Begin) -> Arc<Supervisor> {
        let register = Arc::new(register);
        store.set_register(Arc::clone(&register));
        match begin {
            Begin::Now => register.announce(),
            Begin::Later => store.expect_volumes(),
        }
        let (done, heard) = channel();
        let state = State {
            drives: Vec::new(),
            heard,
            noted_at: moment(&settings),
            waits: begin == Begin::Later,
            is_closed: false,
        };
        Arc::new(Supervisor {
            store,
            numbers: Arc::new(AtomicU64::new(register.numbers())),
            register,
            settings,
            count: AtomicUsize::new(0),
            state: Mutex::new(state),
            told: Mutex::default(),
            is_unwritten: AtomicBool::new(false),
            bell: Condvar::new(),
            done,
        })
    }

    pub(super) fn now(&self) -> Duration {
        moment(&self.settings)
    }

    pub(super) fn machine(&self) -> &dyn Machine {
        &*self.settings.machine
    }

    pub(super) fn tell(&self, drive: &Drive, change: &Change) {
        self.machine().volume_changed(&drive.name(), change);
    }

    pub(super) fn configure(self: &Arc<Supervisor>, volumes: &[Wanted]) {
        self.count.store(volumes.len(), Ordering::Relaxed);
        let mut state = self.state.lock();
        for drive in &mut state.drives {
            match volumes.iter().find(|volume| volume.path == drive.wanted.path) {
                Some(wanted) => self.change(drive, wanted),
                None => {
                    drive.is_wanted = false;
                    self.let_go(drive, "it is not in the configuration any more", false);
                    drive.breaker = CircuitBreaker::new();
                }
            }
        }
        for wanted in volumes {
            if !state.drives.iter().any(|drive| drive.wanted.path == wanted.path) {
                state.drives.push(Drive::new(wanted.clone()));
            }
        }
        self.open_free(&mut state);
        self.tell_apart(&state);
        drop(state);
        self.bell.notify_one();
    }

    /// Opens what is wanted and free, and forgets what is not wanted any more.
    fn open_free(&self, state: &mut State) {
        if state.waits {
            return;
        }
        state.drives.retain(|drive| drive.is_wanted || !matches!(drive.files, Files::Free));
        for drive in &mut state.drives {
            if matches!(drive.files, Files::Free) && drive.breaker.state() == VolumeState::Probing {
                self.open(drive);
            }
        }
    }

    /// Gives a volume that stays its new size, weight and so on.
    fn change(&self, drive: &mut Drive, wanted: &Wanted) {
        let before = std::mem::replace(&mut drive.wanted, wanted.clone());
        drive.is_wanted = true;
        if before.is_drained != wanted.is_drained {
            drive.emptying = Emptying::Due(Duration::ZERO);
        }
        let Some(tier) = drive.tier() else { return };
        if let Some(size_bytes) = wanted.size_bytes.filter(|_| before.size_bytes != wanted.size_bytes) {
            tier.volume().resize(size_bytes);
            self.tell(drive, &Change::Resized(size_bytes));
        }
        if before.weight != wanted.weight || before.size_bytes != wanted.size_bytes {
            self.store.weigh(tier, wanted.weight_of(tier.volume().size_bytes()));
        }
        if before.write_budget_bytes != wanted.write_budget_bytes {
            tier.volume().set_budget(wanted.write_budget_bytes);
            self.tell(drive, &Change::Budgeted);
        }
        tier.set_draining(wanted.is_drained);
    }

    /// Opens a volume, on a thread of its own.
    fn open(&self, drive: &mut Drive) {
        let (name, done) = (drive.name(), self.done.clone());
        let opener = Opener {
            wanted: drive.wanted.clone(),
            share: Share::of(&self.settings, self.count.load(Ordering::Relaxed)),
            numbers: Arc::clone(&self.numbers),
            register: Arc::clone(&self.register),
            listener: self.store.volume_watcher(&name),
            settings: self.settings.clone(),
        };
        let work = {
            let name = name.clone();
            move || {
                let _ = done.send(Done::Opened(name, Box::new(opener.open())));
            }
        };
        drive.files = Files::Busy;
        if let Err(error) = std::thread::Builder::new().name("weir-open".to_owned()).spawn(work) {
            let _ = self.done.send(Done::Opened(name, Box::new(Err(Unopened::Thread(error)))));
        }
    }

    /// Waits until all that is to be opened at the start is, or was not.
    pub(super) fn await_start(&self) -> Result<(), Unopened> {
        let until = self.now() + START_PATIENCE;
        let mut state = self.state.lock();
        while state.drives.iter().any(|drive| matches!(drive.files, Files::Busy)) && self.now() < until {
            match state.heard.recv_timeout(TICK) {
                Ok(Done::Opened(name, opened)) => match *opened {
                    Err(unopened) if self.is_mistake(&name, &unopened) => return Err(unopened),
                    opened => self.hear(&mut state, Done::Opened(name, Box::new(opened))),
                },
                Ok(done) => self.hear(&mut state, done),
                Err(_) => {}
            }
        }
        self.tell_apart(&state);
        if !state.waits {
            self.call(&state);
        }
        Ok(())
    }

    /// Whether a person has to mend it before Weir starts.
    fn is_mistake(&self, name: &str, unopened: &Unopened) -> bool {
        match unopened.blame() {
            Blame::Config => true,
            Blame::Folder => !self.register.knows(name),
            Blame::Drive => false,
        }
    }

    /// Writes down who is there, and who is missing. Where that cannot be done it is tried again with each
    /// note.
    fn call(&self, state: &State) {
        let names: Vec<String> = state.drives.iter().map(Drive::name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let tiers = state.drives.iter().filter_map(Drive::tier);
        let present: Vec<u128> = tiers.map(|tier| tier.volume().id()).collect();
        self.tell_register(self.register.call(&names, &present));
    }

    /// Starts the thread that looks at everything, until the volumes are closed or nobody has the supervisor
    /// any more.
    ///
    /// # Errors
    /// There is no thread.
    pub(super) fn watch(self: &Arc<Supervisor>) -> io::Result<()> {
        let weak = Arc::downgrade(self);
        let look = |supervisor: Arc<Supervisor>| supervisor.look_after(supervisor.tick());
        let watch = move || while weak.upgrade().is_some_and(look) {};
        std::thread::Builder::new().name("weir-drives".to_owned()).spawn(watch).map(drop)
    }

    /// The time until the next look. A read that hangs after a calm is given up later by as much.
    fn tick(&self) -> Duration {
        let (state, now) = (self.state.lock(), self.now());
        if !state.waits && state.drives.iter().all(|drive| drive.is_calm(now)) { TICK_CALM } else { TICK }
    }

    /// Waits for so long, or until there is something to do, and looks at everything; whether there is more
    /// to look after.
    pub(super) fn look_after(&self, pause: Duration) -> bool {
        let mut state = self.state.lock();
        self.bell.wait_for(&mut state, pause);
        if !state.is_closed {
            self.look(&mut state);
        }
        !state.is_closed
    }

    /// One look at everything.
    fn look(&self, state: &mut State) {
        self.tell_apart(state);
        while let Ok(done) = state.heard.try_recv() {
            self.hear(state, done);
        }
        for drive in &mut state.drives {
            self.open_again(drive);
            let event = drive.observe(self.now());
            self.on(drive, event);
            self.empty(drive);
            self.write_down_owed(drive);
        }
        self.open_free(state);
        self.end_expecting(state);
        // While another process has the volumes the register is its own.
        if !state.waits && self.now().saturating_sub(state.noted_at) >= self.note_every() {
            state.noted_at = self.now();
            self.note(state);
        }
    }

    /// Once all that another process had is open, or cannot be.
    fn end_expecting(&self, state: &State) {
        let is_settled = |drive: &Drive| drive.tier().is_some() || drive.why.is_some();
        if !state.waits && self.store.expects_volumes() && state.drives.iter().all(is_settled) {
            self.store.end_expecting();
            self.call(state);
        }
    }

    fn hear(&self, state: &mut State, done: Done) {
        let (Done::Opened(name, _) | Done::Closed(name) | Done::Emptied(name, _)) = &done;
        let Some(drive) = state.drives.iter_mut().find(|drive| drive.name() == *name) else { return };
        match done {
            Done::Opened(_, opened) => match *opened {
                Ok(opened) => self.take(drive, opened),
                Err(unopened) => self.refuse(drive, &unopened),
            },
            Done::Closed(_) => drive.files = Files::Free,
            Done::Emptied(_, is_empty) if drive.emptying == Emptying::Passing => {
                if is_empty {
                    drive.emptying = Emptying::Done;
                    self.tell(drive, &Change::Emptied);
                } else {
                    drive.emptying = Emptying::Due(self.now() + EMPTY_PAUSE);
                }
            }
            Done::Emptied(..) => {}
        }
    }

    /// A volume was not opened, or cannot be used.
    pub(super) fn refuse(&self, drive: &mut Drive, unopened: &Unopened) {
        let why = unopened.sentence();
        if drive.why.as_ref() != Some(&why) {
            self.tell(drive, &Change::NotOpened(why.clone()));
        }
        (drive.files, drive.why) = (Files::Free, Some(why));
        self.on(drive, Event::NotOpened);
    }

    /// Does what follows from an event.
    pub(super) fn on(&self, drive: &mut Drive, event: Event) {
        // Its folder is free again only when it is closed.
        if event == Event::Tick && !matches!(drive.files, Files::Free) {
            return;
        }
        let (breaker, act) = drive.breaker.on(event, self.now());
        drive.breaker = breaker;
        match act {
            Some(Act::Open) => self.open(drive),
            Some(Act::Eject) => {
                let why = drive.failure();
                self.tell(drive, &Change::LetGo(why.clone()));
                self.let_go(drive, &why, true);
            }
            Some(Act::Pass) => {
                let most = drive.wanted.read_timeout;
                drive.why = Some(format!("something took longer than {most:?}"));
                self.tell(drive, &Change::Slow(most));
                drive.tier().inspect(|tier| tier.set_slow(true));
            }
            Some(Act::Await) => {
                if drive.why.take().is_some() {
                    self.tell(drive, &Change::Up);
                }
                drive.tier().inspect(|tier| tier.set_slow(false));
            }
            Some(Act::Write) => {
                drive.tier().inspect(|tier| tier.volume().write_again());
            }
            None => {}
        }
        if let Some(change) = drive.changed(self.now()) {
            self.tell(drive, &change);
        }
    }

    /// Lets a volume go: nothing is asked of it any more, and a thread closes it.
    fn let_go(&self, drive: &mut Drive, why: &str, is_expected: bool) {
        let Some(tier) = drive.tier().map(Arc::clone) else { return };
        self.leave(tier.volume().id(), is_expected);
        self.store.detach(&tier);
        (drive.last, drive.why) = (Some(tier.report()), Some(why.to_owned()));
        self.close_apart(drive, move || {
            tier.close();
            drop(tier);
        });
    }

    /// Writes down that a volume is not there from now on.
    pub(super) fn leave(&self, id: u128, is_expected: bool) {
        self.tell_register(self.register.leave(id, is_expected));
    }

    /// Closes a volume that was opened while nothing could be written, and now it could; it is opened again
    /// at once.
    fn open_again(&self, drive: &mut Drive) {
        if drive.tier().is_none_or(|tier| !tier.volume().is_unsealed()) {
            return;
        }
        let why = "its drive can be written again";
        self.tell(drive, &Change::OpenedAgain(why));
        self.let_go(drive, why, true);
        drive.breaker = CircuitBreaker::new();
    }

    /// Closes a volume's files on a thread of its own; they are free when it says so.
    pub(super) fn close_apart(&self, drive: &mut Drive, close: impl FnOnce() + Send + 'static) {
        drive.files = Files::Busy;
        self.close_on_thread(drive, close);
    }

    fn close_on_thread(&self, drive: &Drive, close: impl FnOnce() + Send + 'static) {
        let (done, name) = (self.done.clone(), drive.name());
        let work = move || {
            close();
            let _ = done.send(Done::Closed(name));
        };
        if std::thread::Builder::new().name("weir-close".to_owned()).spawn(work).is_err() {
            self.tell(drive, &Change::Unclosed);
        }
    }

    /// Begins a pass of emptying where one is due.
    fn empty(&self, drive: &mut Drive) {
        let (Emptying::Due(at), Files::Open(tier)) = (drive.emptying, &drive.files) else { return };
        if !drive.wanted.is_drained || self.now() < at {
            return;
        }
        let (store, tier) = (self.store.clone(), Arc::clone(tier));
        let (done, name) = (self.done.clone(), drive.name());
        let work = move || {
            let emptied = store.empty(&tier);
            let is_empty = emptied.is_ok_and(|emptied| emptied.left == 0)
                && tier.volume().sync().is_some()
                && tier.volume().usage().objects == 0;
            let _ = done.send(Done::Emptied(name, is_empty));
        };
        if std::thread::Builder::new().name("weir-empty".to_owned()).spawn(work).is_ok() {
            drive.emptying = Emptying::Passing;
        }
    }

    /// How often it is written down.
    fn note_every(&self) -> Duration {
        let is_due = self.register.is_unwritten() || self.is_unwritten.load(Ordering::Relaxed);
        if is_due { NOTE_AGAIN } else { NOTE_EVERY }
    }

    /// Writes down how far the volumes have come.
    fn note(&self, state: &State) {
        let volumes = state.drives.iter().filter_map(Drive::tier).map(|tier| tier.volume());
        let reached: Vec<_> = volumes.map(|volume| (volume.id(), volume.reached())).collect();
        let numbers = self.numbers.load(Ordering::Acquire) + NUMBERS_AHEAD;
        self.tell_register(self.register.note(&reached, numbers, self.store.ledger()));
    }

    /// Says when the register cannot be written, and when it can again.
    fn tell_register(&self, written: io::Result<()>) {
        let was_unwritten = self.is_unwritten.swap(written.is_err(), Ordering::Relaxed);
        match (written, was_unwritten) {
            (Err(error), false) => self.machine().register_changed(&RegisterChange::Unwritten(error)),
            (Ok(()), true) => self.machine().register_changed(&RegisterChange::Written),
            (Err(_), true) | (Ok(()), false) => {}
        }
    }

    /// Writes down that what was to be removed may be back when it is opened the next time, and when that is
    /// over.
    fn write_down_owed(&self, drive: &mut Drive) {
        let Files::Open(tier) = &drive.files else { return };
        let id = tier.volume().id();
        match (tier.has_failed_removals(), drive.owed) {
            (true, false) => drive.owed = self.register.leave(id, true).is_ok(),
            (false, true) => drive.owed = self.register.settle(id, tier.volume().reached()).is_err(),
            _ => {}
        }
    }

    pub(super) fn close(&self, patience: Duration) {
        self.close_by(VolumeTier::close, patience);
    }

    fn close_by(&self, close: fn(&VolumeTier), patience: Duration) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_closed, true) {
            return;
        }
        let mut open: BTreeMap<String, u128> = BTreeMap::new();
        for drive in &state.drives {
            if let Some(tier) = drive.tier().map(Arc::clone) {
                open.insert(drive.name(), tier.volume().id());
                self.close_on_thread(drive, move || close(&tier));
            }
        }
        let until = self.now() + patience;
        while !open.is_empty() && self.now() < until {
            if let Ok(Done::Closed(name)) = state.heard.recv_timeout(TICK) {
                open.remove(&name);
            }
        }
        let mut reached = Vec::new();
        for drive in &state.drives {
            let Some(tier) = drive.tier() else { continue };
            let id = tier.volume().id();
            if tier.has_failed_removals() || open.contains_key(&drive.name()) {
                // What was to be removed may be back when it is opened the next time.
                let _ = self.register.leave(id, true);
            } else {
                reached.push((id, tier.volume().reached()));
            }
        }
        let numbers = self.numbers.load(Ordering::Acquire);
        let _ = self.register.note(&reached, numbers, self.store.ledger());
        drop(state);
        self.bell.notify_one();
    }

    pub(super) fn release(&self, patience: Duration) {
        self.close_by(VolumeTier::hand_over, patience);
        for drive in &mut self.state.lock().drives {
            let Some(tier) = drive.tier().map(Arc::clone) else { continue };
            self.store.detach(&tier);
            (drive.files, drive.last) = (Files::Free, Some(tier.report()));
            self.close_on_thread(drive, move || outlive_readers(tier));
        }
    }

    /// Opens what another process has closed.
    pub(super) fn begin(&self) {
        let mut state = self.state.lock();
        if !std::mem::replace(&mut state.waits, false) {
            return;
        }
        if let Err(error) = self.register.reload() {
            self.machine().register_changed(&RegisterChange::Unread(error));
        }
        self.register.announce();
        self.numbers.fetch_max(self.register.numbers(), Ordering::AcqRel);
        drop(state);
        self.bell.notify_one();
    }

    /// Waits for nothing: what is told is at most as old as the last look.
    pub(super) fn reports(&self) -> Vec<DriveReport> {
        let told = match self.state.try_lock() {
            Some(state) => self.told_of(&state),
            None => self.told.lock().clone(),
        };
        told.into_iter().map(Told::report).collect()
    }

    fn told_of(&self, state: &State) -> Vec<Told> {
        let now = self.now();
        state.drives.iter().map(|drive| drive.told(now)).collect()
    }

    /// Before anything is done that may wait for the state folder.
    fn tell_apart(&self, state: &State) {
        *self.told.lock() = self.told_of(state);
    }

    #[cfg(test)]
    pub(super) fn tiers_for_tests(&self) -> Vec<Arc<crate::tier::VolumeTier>> {
        self.state.lock().drives.iter().filter_map(Drive::tier).map(Arc::clone).collect()
    }
}

/// Lets a volume go that another process has, and meanwhile what that process drops of it: a file that is
/// open here takes room on the drive.
fn outlive_readers(tier: Arc<VolumeTier>) {
    let readers = Arc::downgrade(&tier);
    drop(tier);
    while let Some(tier) = readers.upgrade() {
        // A folder that cannot be listed now is listed later.
        let _ = tier.volume().let_dropped_go();
        drop(tier);
        std::thread::sleep(DROPPED_LOOK);
    }
}

/// The supervisor's clock. Moments are after zero, which means never.
fn moment(settings: &Settings) -> Duration {
    settings.clock.now() + TICK
}
