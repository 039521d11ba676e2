//! One volume under supervision: who has its files, what a look at it says, and what is told of it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::breaker::{CircuitBreaker, Event, STUCK_MAX};
use super::machine::Change;
use super::settings::Wanted;
use crate::tier::VolumeTier;
use crate::volume::VolumeState;
use crate::volumes::VolumeReport;

/// The writer may stand still for so long: a sync of a busy drive takes seconds.
const STALL_MIN: Duration = Duration::from_secs(5);
/// So long nothing was refused when it is told that a volume stores again.
const STORING_AFTER: Duration = Duration::from_secs(30);
/// A volume of which nothing has been asked for so long is looked at less often.
const CALM_AFTER: Duration = Duration::from_secs(5);

/// A volume of the configuration, or one that has left it and is not closed yet.
#[derive(Debug)]
pub(super) struct Drive {
    pub(super) wanted: Wanted,
    /// It is in the configuration.
    pub(super) is_wanted: bool,
    pub(super) breaker: CircuitBreaker,
    pub(super) files: Files,
    /// Why it is not up.
    pub(super) why: Option<String>,
    /// What the writer had done, and since when it stands still.
    pub(super) written: (u64, Duration),
    /// When it last stored nothing, though it was open.
    unstoring_at: Duration,
    /// How many jobs its reading threads had been given at the last look.
    jobs: u64,
    /// Since when nothing was read or written.
    calm_since: Option<Duration>,
    /// Where it is to be emptied.
    pub(super) emptying: Emptying,
    /// The register says that what was to be removed may be back.
    pub(super) owed: bool,
    /// What it held when it was let go.
    pub(super) last: Option<VolumeReport>,
}

/// Who has its files.
#[derive(Debug)]
pub(super) enum Files {
    /// Nobody.
    Free,
    /// A thread that opens or closes them.
    Busy,
    /// The store.
    Open(Arc<VolumeTier>),
}

/// How far emptying is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Emptying {
    /// The next pass begins then.
    Due(Duration),
    /// A pass is under way.
    Passing,
    /// Nothing is left.
    Done,
}

/// What is told of a volume.
#[derive(Debug, Clone)]
pub struct DriveReport {
    /// Its folder.
    pub name: String,
    /// The state it is in.
    pub state: VolumeState,
    /// Why, where it is not up.
    pub why: Option<String>,
    /// How long until it is tried again, where it is being left alone.
    pub rests_for: Option<Duration>,
    /// Whether it is being emptied.
    pub drain: Option<Drain>,
    /// What it holds, or held when it was let go; none where it was never open.
    pub held: Option<VolumeReport>,
}

/// How far a volume that is to be emptied is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drain {
    /// Something is left.
    Draining,
    /// It can be taken out.
    Drained,
}

impl Drive {
    pub(super) fn new(wanted: Wanted) -> Drive {
        Drive {
            wanted,
            is_wanted: true,
            breaker: CircuitBreaker::new(),
            files: Files::Free,
            why: None,
            written: (0, Duration::ZERO),
            unstoring_at: Duration::ZERO,
            jobs: 0,
            calm_since: None,
            emptying: Emptying::Due(Duration::ZERO),
            owed: false,
            last: None,
        }
    }

    pub(super) fn name(&self) -> String {
        self.wanted.name()
    }

    /// The volume, where it is open.
    pub(super) fn tier(&self) -> Option<&Arc<VolumeTier>> {
        match &self.files {
            Files::Open(tier) => Some(tier),
            Files::Free | Files::Busy => None,
        }
    }

    /// Its state, for all who ask: the volume's own while it is open, and the breaker's otherwise.
    pub(super) fn state(&self) -> VolumeState {
        self.tier().map_or(self.breaker.state(), |tier| tier.state())
    }

    /// What a look at it says.
    pub(super) fn observe(&mut self, now: Duration) -> Event {
        let Files::Open(tier) = &self.files else { return Event::Tick };
        let volume = tier.volume();
        let patience = self.wanted.read_timeout.max(Duration::from_millis(1));
        let usage = volume.usage();
        let written = volume.written_bytes();
        if written != self.written.0 || usage.queued_bytes == 0 {
            self.written = (written, now);
        }
        let stands_still = now.saturating_sub(self.written.1);
        let stuck = volume.stuck_for();
        let given_up = volume.give_up(patience);
        let jobs = volume.jobs();
        // Each look gives one job.
        let is_calm = usage.queued_bytes == 0 && stuck.is_zero() && jobs <= self.jobs + 1;
        self.calm_since = is_calm.then(|| self.calm_since.unwrap_or(now));
        self.jobs = jobs;
        match tier.state() {
            VolumeState::Ejected => Event::Fails,
            _ if !volume.is_there() => Event::Fails,
            _ if stuck >= STUCK_MAX => Event::Fails,
            VolumeState::ReadOnly => Event::Unwritable,
            VolumeState::Full => Event::Answers,
            _ if stands_still >= STUCK_MAX => Event::Fails,
            _ if given_up > 0 || stuck > patience || stands_still > patience.max(STALL_MIN) => Event::Lags,
            VolumeState::Up | VolumeState::Probing | VolumeState::Slow => Event::Answers,
        }
    }

    /// Whether it may be looked at less often: it is up, and nothing has been asked of it for a while.
    pub(super) fn is_calm(&self, now: Duration) -> bool {
        let is_settled = !self.wanted.is_drained || self.emptying == Emptying::Done;
        let is_up = self.breaker.state() == VolumeState::Up && self.state() == VolumeState::Up;
        is_settled && is_up && self.calm_since.is_some_and(|since| now.saturating_sub(since) >= CALM_AFTER)
    }

    /// Why it fails.
    pub(super) fn failure(&self) -> String {
        let Files::Open(tier) = &self.files else { return String::new() };
        let usage = tier.volume().usage();
        match tier.state() {
            VolumeState::Ejected => {
                format!("{} reads and {} writes failed", usage.read_errors, usage.write_errors)
            }
            _ if !tier.volume().is_there() => "its folder is not there any more".to_owned(),
            _ => format!("something has not come back from the drive for {} s", STUCK_MAX.as_secs()),
        }
    }

    /// What the volume itself has changed into since it was last asked, while it is open and keeps up. One
    /// that is full tries again every few seconds: only after a calm does it store again.
    pub(super) fn changed(&mut self, now: Duration) -> Option<Change> {
        if self.breaker.state() != VolumeState::Up {
            return None;
        }
        let why = match self.state() {
            VolumeState::Full => Some("others have filled the file system"),
            VolumeState::ReadOnly => Some("nothing can be written"),
            _ => None,
        };
        if why.is_some() {
            self.unstoring_at = now;
        }
        let is_calm = now.saturating_sub(self.unstoring_at) >= STORING_AFTER;
        if self.why.as_deref() == why || why.is_none() && !is_calm {
            return None;
        }
        self.why = why.map(ToOwned::to_owned);
        Some(why.map_or(Change::Storing, Change::Unstoring))
    }

    /// What is told of it, but for what the volume itself says.
    pub(super) fn told(&self, now: Duration) -> Told {
        let drain = match self.emptying {
            Emptying::Done => Drain::Drained,
            Emptying::Due(_) | Emptying::Passing => Drain::Draining,
        };
        let report = DriveReport {
            name: self.name(),
            state: self.breaker.state(),
            why: self.why.clone(),
            rests_for: self.breaker.rests_for(now).filter(|rest| !rest.is_zero()),
            drain: self.wanted.is_drained.then_some(drain),
            held: self.last.clone(),
        };
        Told { report, tier: self.tier().map(Arc::downgrade) }
    }
}

/// What a drive said when it was looked at. It keeps no volume open.
#[derive(Debug, Clone)]
pub(super) struct Told {
    report: DriveReport,
    tier: Option<Weak<VolumeTier>>,
}

impl Told {
    /// The same with what the volume says now.
    pub(super) fn report(self) -> DriveReport {
        let Told { mut report, tier } = self;
        if let Some(tier) = tier.and_then(|tier| tier.upgrade()) {
            (report.state, report.held) = (tier.state(), Some(tier.report()));
        }
        report.why = report.why.filter(|_| report.state != VolumeState::Up);
        report
    }
}
