//! One volume of the configuration: where it is, and what a look at it says.

use std::path::PathBuf;
use std::time::Duration;

use weir_config::model;
use weir_control::VolumeUse;
use weir_store::life::{Event, Life, Phase, STUCK_MAX};
use weir_store::{Attached, Standing};

use super::now;

/// The writer may stand still for so long: a sync of a busy drive takes seconds.
const STALL_MIN: Duration = Duration::from_secs(5);

/// A volume of the configuration, or one that has left it and is not closed yet.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) wanted: model::Volume,
    /// It is in the configuration.
    pub(super) is_wanted: bool,
    pub(super) life: Life,
    pub(super) course: Course,
    /// Why it is not up.
    pub(super) why: Option<String>,
    /// What the writer had done, and since when it stands still.
    pub(super) written: (u64, Duration),
    pub(super) drain: Drain,
    pub(super) owed: bool,
    /// What was told of it when it was let go.
    pub(super) last: VolumeUse,
}

/// Where it is.
#[derive(Debug)]
pub(super) enum Course {
    /// Nobody has it.
    Shut,
    /// A thread opens it.
    Opening,
    /// It is attached.
    Open(Attached),
    /// A thread closes it.
    Closing,
}

/// How far emptying is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drain {
    No,
    /// A pass is under way.
    Passing,
    /// The next pass begins then.
    Rests(Duration),
    Done,
}

impl Slot {
    pub(super) fn new(wanted: model::Volume) -> Slot {
        Slot {
            wanted,
            is_wanted: true,
            life: Life::new(),
            course: Course::Shut,
            why: None,
            written: (0, Duration::ZERO),
            drain: Drain::No,
            owed: false,
            last: VolumeUse::default(),
        }
    }

    /// Its folder, written in one way however the configuration writes it.
    pub(super) fn path(&self) -> String {
        self.wanted.path.0.components().collect::<PathBuf>().display().to_string()
    }

    pub(super) fn attached(&self) -> Option<&Attached> {
        match &self.course {
            Course::Open(attached) => Some(attached),
            Course::Shut | Course::Opening | Course::Closing => None,
        }
    }

    pub(super) fn standing(&self) -> Option<Standing> {
        self.attached().map(Attached::standing)
    }

    /// What a look at it says.
    pub(super) fn observe(&mut self) -> Event {
        let Course::Open(attached) = &self.course else { return Event::Tick };
        let patience = self.wanted.read_timeout.0.max(Duration::from_millis(1));
        let usage = attached.volume().usage();
        let written = usage.body_bytes + usage.head_bytes + usage.journal_bytes + usage.checkpoint_bytes;
        if written != self.written.0 || usage.queued_bytes == 0 {
            self.written = (written, now());
        }
        let stands_still = now().saturating_sub(self.written.1);
        let stuck = attached.volume().stuck_for();
        let given_up = attached.give_up(patience);
        match attached.standing() {
            Standing::Ejected => Event::Fails,
            _ if !attached.volume().is_there() => Event::Fails,
            _ if stuck >= STUCK_MAX => Event::Fails,
            Standing::ReadOnly => Event::Unwritable,
            Standing::Full => Event::Answers,
            _ if stands_still >= STUCK_MAX => Event::Fails,
            _ if given_up > 0 || stuck > patience || stands_still > patience.max(STALL_MIN) => Event::Lags,
            Standing::Up | Standing::Slow => Event::Answers,
        }
    }

    /// Why it fails.
    pub(super) fn failure(&self) -> String {
        let Course::Open(attached) = &self.course else { return String::new() };
        let usage = attached.volume().usage();
        match attached.standing() {
            Standing::Ejected => {
                format!("{} reads and {} writes failed", usage.read_errors, usage.write_errors)
            }
            _ if !attached.volume().is_there() => "its folder is not there any more".to_owned(),
            _ => format!("something has not come back from the drive for {} s", STUCK_MAX.as_secs()),
        }
    }

    /// Says what the volume itself has changed into.
    pub(super) fn say_change(&mut self, was: Option<Standing>) {
        let is = self.standing();
        if self.life.phase() != Phase::Up || is == was && self.why.is_some() {
            return;
        }
        let (path, before) = (self.path(), self.why.take());
        self.why = match is {
            Some(Standing::Full) => Some("others have filled the file system".to_owned()),
            Some(Standing::ReadOnly) => Some("nothing can be written".to_owned()),
            _ => None,
        };
        match (&before, &self.why) {
            (None, Some(why)) => tracing::warn!("volume {path} stores nothing more: {why}"),
            (Some(_), None) => tracing::warn!("volume {path} is up again: it stores again"),
            _ => {}
        }
    }
}
