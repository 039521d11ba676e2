//! Passive ejection of origins (elsewhere: *outlier detection*), as a pure state machine that is told how
//! exchanges end.
//!
//! A failure that a request may have caused counts against an origin only when several clients have met such
//! failures with several URLs: otherwise one client, or one broken page, could have an origin ejected for
//! all.
//!
//! States: `Up` counts failures in a row; `Ejected` gets no requests until its backoff is over; `Trial` has
//! one request under way, which decides. It must not make a request itself.

use std::time::{Duration, Instant};

use crate::request::{OriginRequest, UNNAMED};
use crate::settings::Ejection;

/// Whether an origin takes its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Takes its share. `failures` in a row, the first at `since`.
    Up { failures: u32, since: Instant, against: Against, last: Option<Last> },
    /// Left out until then. `against`: what trials met that their requests may have caused.
    Ejected { until: Instant, backoff: Duration, cause: Cause, against: Against },
    /// One request is under way since then. It may be lost: after another `backoff` a new trial may begin.
    Trial { since: Instant, backoff: Duration, against: Against },
}

/// The last time that an origin was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Last {
    backoff: Duration,
    ended: Instant,
}

/// So many clients must have met such failures, with so many URLs.
pub(crate) const SUSPECTS_MIN: usize = 3;

/// What may have caused a failure besides the origin: the client and the URL of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Suspect {
    /// The client; `None` where none can be the cause.
    pub(crate) client: Option<u64>,
    /// The URL's digest.
    pub(crate) url: u64,
}

impl Suspect {
    /// The client and the URL of a request.
    pub(crate) fn of(request: &OriginRequest) -> Suspect {
        let host = request.headers.get(http::header::HOST).map_or(&b""[..], |host| host.as_bytes());
        let url = digest(digest(0xcbf2_9ce4_8422_2325, host), &request.target);
        Suspect { client: request.witness, url }
    }

    /// What may be the cause of an exchange that broke: nothing but the origin where no client can be.
    pub(crate) fn of_break(self) -> Option<Suspect> {
        self.client.map(|_| self)
    }

    /// Whether nobody knows which client it is.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.client == Some(UNNAMED)
    }

    /// Whether it may be the cause of what the other one may have caused.
    pub(crate) fn is_like(self, other: Suspect) -> bool {
        self.url == other.url || (self.client.is_some() && self.client == other.client)
    }
}

/// Mixes bytes into a digest. Who makes two URLs of one digest has them counted once, which helps nobody.
fn digest(seed: u64, bytes: &[u8]) -> u64 {
    let mix = |digest: u64, word: u64| {
        let mixed = (digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let digest = words.iter().fold(seed, |digest, word| mix(digest, u64::from_le_bytes(*word)));
    let rest = rest.iter().fold(0, |rest, byte| (rest << 8) | u64::from(*byte));
    mix(mix(digest, rest), bytes.len() as u64)
}

/// What the failures in a row say about the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Against {
    /// How many no request can have caused.
    sure: u32,
    /// Requests that met the others, no two of one client or of one URL.
    suspects: [Option<Suspect>; SUSPECTS_MIN],
}

impl Against {
    fn with(mut self, suspect: Option<Suspect>) -> Against {
        let Some(suspect) = suspect else {
            self.sure += 1;
            return self;
        };
        if !suspect.is_unnamed()
            && !self.knows(suspect)
            && let Some(place) = self.suspects.iter_mut().find(|place| place.is_none())
        {
            *place = Some(suspect);
        }
        self
    }

    /// Whether what trials met is the origin's fault.
    fn is_sure(&self) -> bool {
        self.sure > 0 || self.suspects.iter().all(Option::is_some)
    }

    /// Whether this client, or this URL, has met one of the failures.
    fn knows(&self, suspect: Suspect) -> bool {
        self.suspects.iter().flatten().any(|known| known.is_like(suspect))
    }

    /// Whether so many failures are enough.
    fn is_enough(&self, failures: u32, failures_min: u32) -> bool {
        let met = self.suspects.iter().flatten().count() + self.sure as usize;
        self.sure >= failures_min || (failures >= failures_min && met >= SUSPECTS_MIN)
    }
}

/// What the status of a response says about its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It does its work.
    Good,
    /// It has failed.
    Bad,
}

/// Why an origin is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Failures in a row, the last one no response.
    Failures,
    /// Failures in a row, the last one a response with a bad status.
    Status,
    /// The share of failures.
    Share,
    /// It answers more slowly than the others.
    Slow,
}

impl Cause {
    /// All, in the order of their counts.
    pub(crate) const ALL: [Cause; 4] = [Cause::Failures, Cause::Status, Cause::Share, Cause::Slow];

    /// The word for logs and metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Cause::Failures => "failures",
            Cause::Status => "status",
            Cause::Share => "share",
            Cause::Slow => "slow",
        }
    }

    /// The phrase for operators.
    pub(crate) fn phrase(self) -> &'static str {
        match self {
            Cause::Failures => "failures in a row",
            Cause::Status => "bad statuses",
            Cause::Share => "share of failures",
            Cause::Slow => "slower than the others",
        }
    }

    /// Whether no single answer says anything against it.
    fn is_of_many(self) -> bool {
        matches!(self, Cause::Share | Cause::Slow)
    }
}

/// What happened at an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A response head came whole, its body not yet. It ends a trial, but does not undo earlier failures.
    Answered,
    /// A response came whole.
    Success,
    /// No connection, no response, a response that broke off or one with a bad status. With what may be the
    /// cause besides the origin.
    Failure(Option<Suspect>),
    /// Its answers together are bad, for this cause.
    Condemned(Cause),
    /// A request was sent to try an ejected origin.
    TrialBegun,
}

impl Health {
    /// A new origin counts as up.
    pub(crate) fn new(now: Instant) -> Self {
        Self::up(now, None)
    }

    fn up(now: Instant, last: Option<Last>) -> Self {
        Self::Up { failures: 0, since: now, against: Against::default(), last }
    }

    /// The next state.
    pub(crate) fn on(self, event: Event, now: Instant, rules: &Ejection) -> Self {
        match (self, event) {
            (Self::Up { last, .. }, Event::Success) => Self::up(now, last),
            // Good ones were among them all the time.
            (state @ Self::Ejected { until, cause, .. }, Event::Answered | Event::Success)
                if cause.is_of_many() && now < until =>
            {
                state
            }
            (
                Self::Ejected { backoff, .. } | Self::Trial { backoff, .. },
                Event::Answered | Event::Success,
            ) => Self::up(now, Some(Last { backoff, ended: now })),
            (Self::Up { failures, since, against, last }, Event::Failure(suspect)) => {
                let stale = failures == 0 || now.saturating_duration_since(since) > rules.window;
                let before = if stale { (0, now, Against::default()) } else { (failures, since, against) };
                let (failures, since, against) = (before.0 + 1, before.1, before.2.with(suspect));
                if rules.failures > 0 && against.is_enough(failures, rules.failures) {
                    return Self::ejected(last, now, (Cause::Failures, rules));
                }
                Self::Up { failures, since, against, last }
            }
            (Self::Up { last, .. }, Event::Condemned(cause)) => Self::ejected(last, now, (cause, rules)),
            (Self::Trial { backoff, against, .. }, Event::Failure(suspect)) => {
                let (cause, against) = (Cause::Failures, against.with(suspect));
                if against.is_sure() {
                    let backoff = longer(backoff, rules);
                    return Self::Ejected {
                        until: now + backoff,
                        backoff,
                        cause,
                        against: Against::default(),
                    };
                }
                // It may be the request's: another client's is to try it soon.
                Self::Ejected { until: now + rules.backoff.min(backoff), backoff, cause, against }
            }
            (
                Self::Ejected { backoff, against, .. } | Self::Trial { backoff, against, .. },
                Event::TrialBegun,
            ) => Self::Trial { since: now, backoff, against },
            (state @ Self::Ejected { .. }, Event::Failure(_) | Event::Condemned(_)) => state,
            (state @ Self::Trial { .. }, Event::Condemned(_)) => state,
            (state @ Self::Up { .. }, Event::TrialBegun | Event::Answered) => state,
        }
    }

    /// Left out: for longer where it has not been back for the time of a window.
    fn ejected(last: Option<Last>, now: Instant, (cause, rules): (Cause, &Ejection)) -> Self {
        let soon = |last: &Last| now.saturating_duration_since(last.ended) <= rules.window;
        let backoff = last.filter(soon).map_or(rules.backoff, |last| longer(last.backoff, rules));
        Self::Ejected { until: now + backoff, backoff, cause, against: Against::default() }
    }

    /// Whether it takes its share.
    pub(crate) fn is_up(self) -> bool {
        matches!(self, Self::Up { .. })
    }

    /// Why it takes no share, as a phrase for operators.
    pub(crate) fn phrase(self) -> Option<&'static str> {
        match self {
            Self::Up { .. } => None,
            Self::Ejected { cause, .. } => Some(cause.phrase()),
            Self::Trial { .. } => Some("a request tries it"),
        }
    }

    /// Whether a trial may begin now.
    pub(crate) fn is_due(self, now: Instant) -> bool {
        match self {
            Self::Up { .. } => false,
            Self::Ejected { until, .. } => now >= until,
            Self::Trial { since, backoff, .. } => now >= since + backoff,
        }
    }

    /// Whether a request may be the trial: none whose client or URL has met a failure of an earlier one. So a
    /// client that asks for what fails cannot keep an origin out that is well again.
    pub(crate) fn may_try(self, suspect: Suspect) -> bool {
        match self {
            Self::Up { .. } => false,
            Self::Ejected { against, .. } | Self::Trial { against, .. } => !against.knows(suspect),
        }
    }

    /// When it may be tried next, by which the least bad origin is chosen.
    pub(crate) fn due(self, now: Instant) -> Instant {
        match self {
            Self::Up { .. } => now,
            Self::Ejected { until, .. } => until,
            Self::Trial { since, backoff, .. } => since + backoff,
        }
    }
}

/// The next time that an origin is left out for.
fn longer(backoff: Duration, rules: &Ejection) -> Duration {
    (backoff * 2).min(rules.backoff_max.max(rules.backoff))
}
