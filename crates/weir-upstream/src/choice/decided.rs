//! Asks the deciders of a request, and says what their word means for the first attempt.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use crate::choice::decider::{
    About, Decider, DeciderForm, Deciders, Deciding, Decision, Denial, Kind, OriginView, Origins, Question,
};
use crate::choice::guests;
use crate::choice::pick::{PickWord, Picked, Reason};
use crate::choice::roster::Roster;
use crate::clock;
use crate::error::OriginError;
use crate::origin::Origin;
use crate::request::OriginRequest;
use crate::settings::Role;
use crate::upstream::Upstream;

/// What the deciders of a request have said.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    /// The origin that one has named, if it takes a share.
    pub(crate) picked: Option<Picked>,
    /// The roster that has it, where that is no origin of the upstream.
    pub(crate) guest: Option<Arc<Roster>>,
    /// The only origins that there are for this request.
    pub(crate) among: Option<Box<[usize]>>,
}

impl Upstream {
    /// The deciders of a request: those of its route, or the upstream's.
    fn deciders_of<'r>(&'r self, request: &'r OriginRequest) -> &'r Deciders {
        request.picking.deciders.as_ref().unwrap_or(&self.settings.deciders)
    }

    /// Whether a request of this route's deciders (`None`: the upstream's) is decided by any.
    pub fn asks_deciders(&self, of_route: Option<&Deciders>) -> bool {
        !of_route.unwrap_or(&self.settings.deciders).is_empty()
    }

    /// The deciders of a request of this route, as people read them: `calm (script)`.
    pub fn deciders_asked(&self, of_route: Option<&Deciders>) -> Vec<String> {
        let form = |decider: &Arc<dyn Decider>| match decider.form() {
            DeciderForm::Script => "script",
            DeciderForm::Distributor => "distributor",
        };
        let deciders = of_route.unwrap_or(&self.settings.deciders);
        deciders.iter().map(|decider| format!("{} ({})", decider.name(), form(decider))).collect()
    }

    /// What the deciders say, one after another until one has decided.
    ///
    /// # Errors
    /// [`OriginError::Denied`].
    pub(crate) async fn decided(
        &self,
        roster: &Arc<Roster>,
        request: &OriginRequest,
    ) -> Result<Decided, OriginError> {
        let deciders = self.deciders_of(request);
        // The rest of a body comes from where its beginning came from.
        if deciders.is_empty() || request.prefer.is_some() {
            return Ok(Decided::default());
        }
        let nothing = About::default();
        let about = request.picking.about.as_deref().unwrap_or(&nothing);
        let origins = Seen { roster, upstream: self.name(), now: clock::now() };
        let OriginRequest { method, target, headers, .. } = request;
        let question = Question { method, target, headers, about, origins: &origins };
        let mut decided = Decided::default();
        for decider in deciders.iter() {
            let said = match decider.decide(question) {
                Deciding::Now(decision) => decision,
                Deciding::Later(later) => later.await,
            };
            if let Decision::Deny(denial) = said {
                if about.kind == Kind::Fill {
                    continue;
                }
                return Err(OriginError::Denied(denial));
            }
            let pick = match decider.form() {
                DeciderForm::Script => PickWord::Script,
                DeciderForm::Distributor => PickWord::Distributor,
            };
            if let Decision::At(socket) = said
                && roster.at_socket(socket).is_none()
            {
                let allowed = decided.among.is_none().then(|| self.with_guest(roster, socket)).flatten();
                let last = roster.members.len();
                decided.picked =
                    allowed.as_ref().map(|_| Picked { at: last, pick, reason: Reason::Answered });
                decided.guest = allowed;
            } else {
                decided.hear(said, pick, roster);
            }
            if decided.picked.is_some() {
                break;
            }
        }
        Ok(decided)
    }
}

impl Upstream {
    fn with_guest(&self, roster: &Arc<Roster>, socket: SocketAddr) -> Option<Arc<Roster>> {
        self.guests.seat(roster, (socket, clock::now()), || self.origin_at(socket))
    }

    /// An origin at this address, which is none of its own.
    pub(crate) fn origin_at(&self, socket: SocketAddr) -> Option<Origin> {
        let settings = guests::settings(&self.settings.origins, socket);
        Origin::new(&settings, &self.settings, (&self.signal, &self.resolver)).ok()
    }
}

/// The origins as a decider sees them.
struct Seen<'r> {
    roster: &'r Roster,
    upstream: &'r str,
    now: Instant,
}

impl Origins for Seen<'_> {
    fn upstream(&self) -> &str {
        self.upstream
    }

    fn count(&self) -> usize {
        self.roster.members.len()
    }

    fn get(&self, at: usize) -> Option<OriginView<'_>> {
        let member = self.roster.members.get(at)?;
        Some(OriginView {
            number: at,
            name: member.origin.name(),
            id: member.node.as_deref(),
            weight: f64::from(member.share()) / 100.0,
            is_backup: member.role == Role::Backup,
            standing: member.origin.standing(),
            takes_share: self.roster.takes_share(at),
            in_flight: member.origin.load.requests(),
            latency: member.origin.latency(self.now),
            gauges: member.origin.gauges(),
        })
    }

    fn at(&self, socket: SocketAddr) -> Option<usize> {
        self.roster.at_socket(socket)
    }
}

impl Decided {
    fn hear(&mut self, said: Decision, pick: PickWord, roster: &Roster) {
        let named = |at: usize, reason: Reason| Picked { at, pick, reason };
        let may = |at: &usize| {
            roster.takes_share(*at) && self.among.as_ref().is_none_or(|among| among.contains(at))
        };
        match said {
            Decision::Origin(at) => {
                self.picked = Some(at).filter(may).map(|at| named(at, Reason::Answered));
            }
            Decision::At(socket) => {
                let at = roster.at_socket(socket);
                self.picked = at.filter(may).map(|at| named(at, Reason::Answered));
            }
            Decision::Among(all) => {
                let both = |among: Box<[usize]>| among.into_iter().filter(|at| all.contains(at)).collect();
                self.among = Some(match self.among.take() {
                    Some(among) => both(among),
                    None => all.clone(),
                });
            }
            Decision::Unanswered => {
                let backup = roster.any_of(Role::Backup, fastrand::u64(..));
                self.picked = backup.filter(may).map(|at| named(at, Reason::Backup));
            }
            Decision::Open | Decision::Failed | Decision::Deny(_) => {}
        }
    }
}

impl Denial {
    /// A denial that a client may be told; `None` for a status that is no refusal.
    pub fn new(status: u16, retry_after_s: Option<u32>) -> Option<Denial> {
        let status = http::StatusCode::from_u16(status).ok().filter(|_| (400..600).contains(&status))?;
        Some(Denial { status, retry_after_s })
    }
}
