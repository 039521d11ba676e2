//! Where sessions are among the origins of an upstream, and what became of them. It must not read a request.

use std::sync::Arc;
use std::time::Instant;

use crate::choice::pick::{Pick, PickWord, Picked, Reason};
use crate::choice::roster::Roster;
use crate::clock;
use crate::origin::{Origin, count};
use crate::sessions::affinity::{Affinity, OriginId, Reading, Session};
use crate::sessions::session_end::SessionEnd;
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
            && let roster = self.roster()
            && let Some(at) = roster.homes().at(answered)
        {
            roster.origin(at).follow_session(clock::now());
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
    pub(crate) fn follow(
        &self,
        session: &Session,
        (picks, may): (&[Pick], &dyn Fn(usize) -> bool),
        now: Instant,
    ) -> Option<Picked> {
        let picked = self.would_follow(session, picks).filter(|picked| may(picked.at))?;
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
            Session::At(id) => self.homes().at(*id).filter(|at| takes(*at)),
            Session::Hashed(number) => self.homes().ranked(*number, takes),
        }
    }

    /// The origin where a session is while all origins are up.
    fn home(&self, session: &Session) -> Option<OriginId> {
        match session {
            Session::At(id) => Some(*id),
            Session::Hashed(number) => self.homes().ranked(*number, |_| true).map(|at| self.members[at].id),
        }
    }
}
