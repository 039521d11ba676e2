//! Which origin a request would get, and why the others would not. Nothing is changed by asking: no turn is
//! taken, no trial begins, nothing is counted.

use std::sync::Arc;
use std::time::Duration;

use crate::choice::pick::{Asked, Picked, Reason};
use crate::clock;
use crate::health::standing::Standing;
use crate::sessions::affinity::Session;
use crate::settings::Role;
use crate::upstream::Upstream;

/// Which origin a request would get.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The one that would be picked; `None` where none may be asked.
    pub picked: Option<Picked>,
    /// All origins, in the order of the config.
    pub origins: Vec<ExplainedOrigin>,
}

/// An origin, as a request would find it.
#[derive(Clone, Debug)]
pub struct ExplainedOrigin {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it takes a share.
    pub standing: Standing,
    /// Its share of the requests while all stays as it is, of 1.
    pub share: f64,
    /// Requests under way.
    pub in_flight: u32,
    /// The time to the first byte; zero where it is not known.
    pub latency: Duration,
    /// Why it would not be picked; `None` for the one that would.
    pub why_not: Option<WhyNot>,
}

/// Why an origin would not be picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// It takes no share.
    Standing(Standing),
    /// It is a backup, and a primary takes a share.
    Backup,
    /// Another one is tried after an ejection, or none may be asked.
    Other,
    /// All its connections are in use, and others have free ones.
    Full,
    /// Others are before it, for this reason of theirs.
    Pick(Reason),
}

impl WhyNot {
    /// The word for `weir explain`.
    pub fn word(self) -> &'static str {
        match self {
            WhyNot::Standing(standing) => standing.word(),
            WhyNot::Backup => "backup",
            WhyNot::Other => "other",
            WhyNot::Full => "full",
            WhyNot::Pick(reason) => reason.word(),
        }
    }
}

impl Upstream {
    /// Which origin such a request of this session would get now. A turn that is drawn at random may fall
    /// otherwise.
    pub fn explain(&self, asked: &Asked<'_>, session: Option<&Session>) -> Explained {
        let (roster, now) = (self.roster(), clock::now());
        let picks = asked.picking.picks.as_deref().unwrap_or(&self.picks);
        let of_session = session.and_then(|session| roster.would_follow(session, picks));
        let choose = || roster.would_choose(picks, asked, (&self.signal.preview(now), now));
        let picked = of_session.or_else(choose);
        let chosen = picked.map(|picked| (picked, &roster.members[picked.at]));
        let origins = roster.members.iter().enumerate().map(|(at, member)| {
            let standing = member.origin.standing();
            let why_not = match chosen {
                Some((picked, _)) if picked.at == at => None,
                _ if standing != Standing::Ready => Some(WhyNot::Standing(standing)),
                Some((_, other)) if other.role == Role::Primary && member.role == Role::Backup => {
                    Some(WhyNot::Backup)
                }
                Some((_, other)) if !member.origin.load.has_room() && other.origin.load.has_room() => {
                    Some(WhyNot::Full)
                }
                Some((picked, _)) if !matches!(picked.reason, Reason::Trial) => {
                    Some(WhyNot::Pick(picked.reason))
                }
                _ => Some(WhyNot::Other),
            };
            let latency =
                Duration::from_micros(member.origin.load.latency_us(self.signal.time_ms(now)).into());
            ExplainedOrigin {
                name: member.origin.name_shared().clone(),
                standing,
                share: roster.share(at),
                in_flight: member.origin.load.requests(),
                latency,
                why_not,
            }
        });
        Explained { picked, origins: origins.collect() }
    }
}
