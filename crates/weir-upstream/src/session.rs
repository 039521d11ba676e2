//! Where sessions are among the origins of an upstream, and what became of them. It must not read a request.

use std::sync::Arc;
use std::time::Instant;

use crate::affinity::{Affinity, OriginId, Reading, Session};
use crate::clock;
use crate::origin::{Origin, count};
use crate::pick::{Pick, PickWord, Picked, Reason};
use crate::roster::Roster;
use crate::session_end::SessionEnd;
use crate::settings::Role;
use crate::upstream::Upstream;

impl Upstream {
    /// What it says about sessions.
    pub fn affinity(&self) -> Option<&Affinity> {
        self.affinity.as_ref()
    }

    /// The origin that a session leads to, if it is up or drains.
    pub fn origin_of(&self, session: &Session) -> Option<Arc<Origin>> {
        let roster = self.roster();
        roster.of_session(session).map(|at| roster.origin(at).clone())
    }

    /// What became of a request's session: the origin of this number answered, and may have begun one. Counts
    /// it.
    pub fn settle(&self, reading: &Reading, answered: OriginId, begins: bool) -> Option<SessionEnd> {
        let counts = &self.signal.sessions;
        if *reading == Reading::Refused {
            count(&counts.refused);
        }
        let end = match reading.session() {
            None if begins => SessionEnd::Created,
            None => return None,
            Some(session) if self.roster().home(&session) == Some(answered) => SessionEnd::Kept,
            Some(_) => SessionEnd::Moved,
        };
        if end == SessionEnd::Created
            && let Some(member) = self.roster().members.iter().find(|member| member.id == answered)
        {
            member.origin.follow_session(clock::now());
        }
        count(match end {
            SessionEnd::Created => &counts.created,
            SessionEnd::Kept => &counts.kept,
            SessionEnd::Moved => &counts.moved,
        });
        Some(end)
    }
}

impl Roster {
    /// The origin of a request's session, if it takes requests of sessions. It is counted.
    pub(crate) fn follow(&self, session: &Session, picks: &[Pick], now: Instant) -> Option<Picked> {
        let picked = self.would_follow(session, picks)?;
        let origin = self.origin(picked.at);
        origin.picks.count(picked);
        if matches!(session, Session::At(_)) {
            origin.follow_session(now);
        }
        Some(picked)
    }

    /// The same without a change of anything.
    pub(crate) fn would_follow(&self, session: &Session, picks: &[Pick]) -> Option<Picked> {
        let at = self.of_session(session)?;
        let pick = picks.first().map_or(PickWord::RoundRobin, Pick::word);
        Some(Picked { at, pick, reason: Reason::Session })
    }

    /// The origin of a session, if it takes requests of sessions.
    pub(crate) fn of_session(&self, session: &Session) -> Option<usize> {
        let takes = |at: usize| self.takes_sessions[at];
        match session {
            Session::At(id) => {
                self.members.iter().position(|member| member.id == *id).filter(|at| takes(*at))
            }
            Session::Hashed(number) => self.ranked(*number, takes),
        }
    }

    /// The origin where a session is while all origins are up.
    fn home(&self, session: &Session) -> Option<OriginId> {
        match session {
            Session::At(id) => Some(*id),
            Session::Hashed(number) => self.ranked(*number, |_| true).map(|at| self.members[at].id),
        }
    }

    /// The first of the origins that a number ranks by weight (rendezvous hashing): an origin that comes or
    /// goes moves its own share only. Backups rank behind all primaries.
    fn ranked(&self, number: u64, takes: impl Fn(usize) -> bool) -> Option<usize> {
        let is_even = self.members.windows(2).all(|two| two[0].weight == two[1].weight);
        let rank = |at: &usize| {
            let member = &self.members[*at];
            let drawn = mixed(number ^ member.id.0);
            let score = match is_even {
                true => drawn as f64,
                false => f64::from(member.weight) / -(((drawn >> 11) as f64 + 0.5) * UNIT).ln(),
            };
            (member.role == Role::Primary, score)
        };
        let taking = (0..self.members.len()).filter(|at| takes(*at)).map(|at| (rank(&at), at));
        let by_rank = |a: &((bool, f64), usize), b: &((bool, f64), usize)| {
            a.0.0.cmp(&b.0.0).then(a.0.1.total_cmp(&b.0.1)).then(b.1.cmp(&a.1))
        };
        taking.max_by(by_rank).map(|(_, at)| at)
    }
}

/// 2 to the power of -53.
const UNIT: f64 = 1.0 / (1u64 << 53) as f64;

/// Every bit of the result depends on every bit of the number (the finalizer of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
