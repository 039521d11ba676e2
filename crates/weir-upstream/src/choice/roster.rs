//! The origins of an upstream at one moment, and which of them take a share. A request keeps the roster that
//! it began with; a change makes another one.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::again::budget::Budget;
use crate::again::moves::Moves;
use crate::again::waits::Waits;
use crate::choice::load::Board;
use crate::choice::pick::{Asked, Field, Lane, Moment, Pick, PickWord, Picked, Place, Reason, Turns, mixed};
use crate::clock;
use crate::health::ejection::Suspect;
use crate::health::standing::{Naming, Standing};
use crate::origin::Origin;
use crate::sessions::affinity::OriginId;
use crate::sessions::homes::Homes;
use crate::sessions::session_end::SessionCounts;
use crate::settings::{RetryOn, Role};

/// An origin with what the upstream says about it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) origin: Arc<Origin>,
    /// Its share relative to the others, 1 to 1,000.
    pub(crate) weight: u32,
    pub(crate) role: Role,
    /// Its number in sessions.
    pub(crate) id: OriginId,
    /// Its name in session ids, if it has one.
    pub(crate) node: Option<String>,
}

impl Member {
    /// Its weight times its agent's factor, in hundredths.
    pub(crate) fn share(&self) -> u32 {
        self.weight.saturating_mul(self.origin.percent()).clamp(1, SHARE_MAX)
    }
}

/// The largest [`Member::share`]: the largest weight, which no agent exceeds.
const SHARE_MAX: u32 = 1000 * 100;

/// What origins and requests of an upstream count together. It outlives reloads.
#[derive(Debug)]
pub(crate) struct Signal {
    /// What is under way at the origins.
    pub(crate) board: Board,
    /// When its clock began.
    since: Instant,
    /// How often an origin has begun or ceased to take a share, or a weight has changed.
    changes: AtomicU64,
    /// How many picks there were.
    turns: AtomicU64,
    /// Wakes what tends the origins.
    woken: Notify,
    /// The upstreams that have had these origins one after another, each by its token.
    line: Mutex<Vec<Weak<()>>>,
    /// How often so many origins were ejected that all are used.
    panics: AtomicU64,
    /// Requests that wait for a connection and may go to another origin.
    pub(crate) moves: Moves<Arc<Origin>>,
    /// What became of sessions.
    pub(crate) sessions: SessionCounts,
    /// What may be sent again.
    pub(crate) budget: Budget,
    /// How often requests were sent again, by [`RetryOn`].
    pub(crate) again: [AtomicU64; RetryOn::ALL.len()],
    /// How often the budget forbade that.
    pub(crate) refused: AtomicU64,
    /// What became of hedges.
    pub(crate) hedges: HedgeCounts,
    /// How long answers took; made where hedging is on.
    waits: OnceLock<Box<Waits>>,
}

/// Requests sent a second time while the first was under way, since the start.
#[derive(Debug, Default)]
pub(crate) struct HedgeCounts {
    pub(crate) sent: AtomicU64,
    /// Those that answered first.
    pub(crate) won: AtomicU64,
    /// Those that the budget forbade.
    pub(crate) refused: AtomicU64,
}

impl Default for Signal {
    fn default() -> Signal {
        Signal {
            board: Board::default(),
            since: clock::now(),
            changes: AtomicU64::default(),
            turns: AtomicU64::default(),
            woken: Notify::default(),
            line: Mutex::default(),
            panics: AtomicU64::default(),
            moves: Moves::default(),
            sessions: SessionCounts::default(),
            budget: Budget::default(),
            again: Default::default(),
            refused: AtomicU64::default(),
            hedges: HedgeCounts::default(),
            waits: OnceLock::new(),
        }
    }
}

impl Signal {
    /// The roster no longer says what is.
    pub(crate) fn change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        self.woken.notify_waiters();
        self.moves.change();
    }

    /// Wakes what tends the origins.
    pub(crate) fn wake(&self) {
        self.woken.notify_waiters();
    }

    /// An upstream takes the place of those before: its token, which lives as long.
    pub(crate) fn follow(&self) -> Arc<()> {
        let token = Arc::new(());
        let mut line = self.line.lock();
        line.retain(|before| before.strong_count() > 0);
        line.push(Arc::downgrade(&token));
        token
    }

    /// Whether no living upstream has taken the place of the one with this token.
    pub(crate) fn is_last(&self, token: &Arc<()>) -> bool {
        let line = self.line.lock();
        let last = line.iter().rev().find(|one| one.strong_count() > 0);
        last.is_some_and(|last| std::ptr::eq(last.as_ptr(), Arc::as_ptr(token)))
    }

    /// Ends at the next change, or the next [`Signal::wake`].
    pub(crate) fn woken(&self) -> Notified<'_> {
        self.woken.notified()
    }

    /// How long answers took.
    pub(crate) fn waits(&self) -> &Waits {
        self.waits.get_or_init(Box::default)
    }

    /// The number of the last change.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The time on its clock, in milliseconds; after 49 days it is 0 again.
    pub(crate) fn time_ms(&self, now: Instant) -> u32 {
        now.saturating_duration_since(self.since).as_millis() as u32
    }

    /// The same in seconds, which does not begin again.
    pub(crate) fn time_s(&self, now: Instant) -> u32 {
        u32::try_from(now.saturating_duration_since(self.since).as_secs()).unwrap_or(u32::MAX)
    }

    /// A pick that counts as one.
    pub(crate) fn moment(&self, now: Instant) -> Moment<'_> {
        Moment::new(Turns::Counted(&self.turns), fastrand::u64(..), self.time_ms(now))
    }

    /// A pick that takes no turn: it is drawn by chance.
    pub(crate) fn draw(&self, now: Instant) -> Moment<'_> {
        Moment::new(Turns::At(fastrand::u64(..)), fastrand::u64(..), self.time_ms(now))
    }

    /// A pick that changes nothing: what the next one would see.
    pub(crate) fn preview(&self, now: Instant) -> Moment<'_> {
        let turn = self.turns.load(Ordering::Relaxed);
        Moment::new(Turns::At(turn), mixed(turn), self.time_ms(now))
    }

    /// How often so many origins were ejected that all were used.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}

/// The origins of an upstream.
#[derive(Debug)]
pub(crate) struct Roster {
    pub(crate) members: Arc<[Member]>,
    /// [`Signal::changes`] when it was made.
    pub(crate) changes: u64,
    /// Which of them take requests of their sessions.
    pub(crate) takes_sessions: Vec<bool>,
    /// Where sessions are; worked out for the first of them.
    homes: OnceLock<Homes>,
    /// Those that take a share, by role.
    primaries: Lane,
    backups: Lane,
    /// Those that are down, where no origin takes a share.
    last: Lane,
    /// Those that are ejected and take no share: one may be due for a trial.
    ejected: Vec<usize>,
    /// Whether more are ejected than may be, so that these take their share all the same.
    pub(crate) is_panicking: bool,
    /// What requests may have to wait for.
    pub(crate) awaits: Awaits,
    /// When an origin takes more of its share, where one has not the whole yet.
    pub(crate) next_step: Option<Instant>,
}

/// What is not known yet of origins, so that requests may have to wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// Nothing.
    Nothing,
    /// The addresses of a name.
    Addresses,
    /// Whether any origin is up: none takes a share, and one was not checked yet.
    Checks,
}

impl Roster {
    /// A roster of these members as they stand now.
    pub(crate) fn new(members: Arc<[Member]>, changes: u64) -> Roster {
        let standings: Vec<Standing> = members.iter().map(|member| member.origin.standing()).collect();
        let seeds = seeds(&members);
        let panicking = Panicking::among(&members, &standings);
        let takes_share = |at: usize| match standings[at] {
            Standing::Ready => true,
            Standing::Ejected => panicking.is_of(members[at].role),
            _ => false,
        };
        let now = clock::now();
        let ramps = members.iter().enumerate().map(|(at, member)| member.origin.ramp(takes_share(at), now));
        let (percents, steps): (Vec<u32>, Vec<Option<Instant>>) = ramps.unzip();
        let next_step = steps.into_iter().flatten().min();
        let lane_of = |takes: &dyn Fn(&usize) -> bool| {
            let place = |at: usize| Place {
                member: at,
                weight: (members[at].share() * percents[at] / 100).max(1),
                seed: seeds[at],
                load: members[at].origin.load.clone(),
                gauges: members[at].origin.gauges().clone(),
            };
            Lane::new((0..members.len()).filter(takes).map(place).collect())
        };
        let lane = |role: Role| lane_of(&|at| members[*at].role == role && takes_share(*at));
        let is_out = |at: &usize| standings[*at] == Standing::Ejected && !takes_share(*at);
        let ejected = (0..members.len()).filter(is_out).collect();
        let (primaries, backups) = (lane(Role::Primary), lane(Role::Backup));
        let is_panicking = panicking.primaries || panicking.backups;
        let is_none_up =
            primaries.is_empty() && backups.is_empty() && !standings.contains(&Standing::Ejected);
        let is_last = |at: &usize| is_none_up && standings[*at] == Standing::Down;
        let last_of = |role: Role| lane_of(&|at| is_last(at) && members[*at].role == role);
        let last = Some(last_of(Role::Primary)).filter(|lane| !lane.is_empty());
        let last = last.unwrap_or_else(|| last_of(Role::Backup));
        let of_sessions = |at: usize| takes_share(at) || members[at].origin.takes_sessions() || is_last(&at);
        let takes_sessions = (0..members.len()).map(of_sessions).collect();
        let homes = OnceLock::new();
        let awaits = if (0..members.len()).any(|at| is_last(&at) && members[at].origin.is_unchecked()) {
            Awaits::Checks
        } else if members.iter().any(|member| member.origin.naming() == Naming::Sought) {
            Awaits::Addresses
        } else {
            Awaits::Nothing
        };
        Roster {
            primaries,
            backups,
            last,
            ejected,
            is_panicking,
            awaits,
            next_step,
            members,
            takes_sessions,
            homes,
            changes,
        }
    }

    /// The same with one more member, which takes no share.
    pub(crate) fn with_guest(&self, guest: Member) -> Roster {
        let mut roster = Roster::new(self.members.clone(), self.changes);
        roster.members = self.members.iter().cloned().chain([guest]).collect();
        roster.takes_sessions.push(false);
        roster
    }

    /// The origin of this name, if it takes a share: a request asks for it.
    pub(crate) fn prefer(&self, name: &str, picks: &[Pick]) -> Option<Picked> {
        let at = self.members.iter().position(|member| member.origin.name() == name)?;
        if self.origin(at).standing() != Standing::Ready {
            return None;
        }
        let pick = picks.first().map_or(PickWord::RoundRobin, Pick::word);
        let picked = Picked { at, pick, reason: Reason::Preferred };
        self.origin(at).picks.count(picked);
        Some(picked)
    }

    /// Says and counts that all origins are used although too many are ejected, or that this is over.
    pub(crate) fn report(&self, before: &Roster, upstream: &str, signal: &Signal) {
        match (before.is_panicking, self.is_panicking) {
            (false, true) => {
                signal.panics.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(upstream, "too many origins are ejected: all are used again");
            }
            (true, false) => tracing::warn!(upstream, "ejected origins are left out again"),
            _ => {}
        }
    }

    /// Where sessions are at home, worked out for the first of them.
    pub(crate) fn homes(&self) -> &Homes {
        let of = |member: &Member| (member.id, member.weight, member.role);
        self.homes.get_or_init(|| Homes::new(&self.members.iter().map(of).collect::<Vec<_>>()))
    }

    /// The origin of this number.
    pub(crate) fn origin(&self, at: usize) -> &Arc<Origin> {
        &self.members[at].origin
    }

    /// Picks an origin that was not tried: one due for a trial, else a primary that takes a share (one with a
    /// free connection before one without), else such a backup, else the one whose backoff ends first. `None`
    /// where none is left that may be asked.
    pub(crate) fn choose(
        &self,
        picks: &[Pick],
        asked: &Asked<'_>,
        so_far: &SoFar<'_>,
        (moment, now): (&Moment<'_>, Instant),
    ) -> Option<Picked> {
        let begin_trial = |at: usize| self.origin(at).begin_trial((so_far.suspect)(), now);
        let picked = self.chosen(
            picks,
            asked,
            &Untried { tried: so_far.tried, among: so_far.among, begin_trial: &begin_trial },
            (moment, now),
        )?;
        self.took(picks, picked);
        Some(picked)
    }

    /// Counts an origin that was picked.
    pub(crate) fn took(&self, picks: &[Pick], picked: Picked) {
        for lane in [&self.primaries, &self.backups, &self.last] {
            lane.take(picks, picked.at);
        }
        self.origin(picked.at).picks.count(picked);
    }

    /// The role of those that are asked next, after these were tried: the primaries that take a share, else
    /// the backups that do. `None` where all of them were.
    pub(crate) fn next_role(&self, tried: &[usize]) -> Option<Role> {
        let is_left = |role: &Role| self.lane(*role).members().iter().any(|at| !tried.contains(at));
        [Role::Primary, Role::Backup].into_iter().find(is_left)
    }

    /// An origin of this role that takes a share and has a free connection, none of `but`. It is not counted.
    pub(crate) fn choose_room(
        &self,
        picks: &[Pick],
        asked: &Asked<'_>,
        (role, but): (Role, &[usize]),
        moment: &Moment<'_>,
    ) -> Option<Picked> {
        self.lane(role).pick(picks, &Roomy { roster: self, but }, asked, moment)
    }

    fn lane(&self, role: Role) -> &Lane {
        match role {
            Role::Primary => &self.primaries,
            Role::Backup => &self.backups,
        }
    }

    /// Whether the origin of this number takes a share, as primary or as backup.
    pub(crate) fn takes_share(&self, at: usize) -> bool {
        [&self.primaries, &self.backups].into_iter().any(|lane| lane.members().binary_search(&at).is_ok())
    }

    /// The number of the origin that is at this address now.
    pub(crate) fn at_socket(&self, socket: SocketAddr) -> Option<usize> {
        self.members.iter().position(|member| member.origin.is_at(socket))
    }

    /// One of this role that takes a share; `chance` is any number.
    pub(crate) fn any_of(&self, role: Role, chance: u64) -> Option<usize> {
        self.lane(role).any(chance)
    }

    /// The number of an origin that is here.
    pub(crate) fn number_of(&self, origin: &Arc<Origin>) -> Option<usize> {
        self.members.iter().position(|member| Arc::ptr_eq(&member.origin, origin))
    }

    /// The same without a change of anything: what a request would get.
    pub(crate) fn would_choose(
        &self,
        picks: &[Pick],
        asked: &Asked<'_>,
        (moment, now): (&Moment<'_>, Instant),
    ) -> Option<Picked> {
        let is_due = |at: usize| self.origin(at).is_trial_due(now);
        self.chosen(picks, asked, &Untried { tried: &[], among: None, begin_trial: &is_due }, (moment, now))
    }

    fn chosen(
        &self,
        picks: &[Pick],
        asked: &Asked<'_>,
        field: &Untried<'_>,
        (moment, now): (&Moment<'_>, Instant),
    ) -> Option<Picked> {
        let first = picks.first().map_or(PickWord::RoundRobin, Pick::word);
        for (role, lane) in [(Role::Primary, &self.primaries), (Role::Backup, &self.backups)] {
            let mut ejected = self.ejected.iter().filter(|at| self.members[**at].role == role);
            if let Some(due) = ejected.find(|at| field.is_open(**at) && (field.begin_trial)(**at)) {
                return Some(Picked { at: *due, pick: first, reason: Reason::Trial });
            }
            if let Some(picked) = lane.pick(picks, field, asked, moment) {
                let reason = match role {
                    _ if !field.tried.is_empty() => Reason::Retry,
                    Role::Backup => Reason::Backup,
                    Role::Primary => picked.reason,
                };
                return Some(Picked { reason, ..picked });
            }
        }
        // One that fails its checks only where there is no other: one of all such.
        let left = (0..self.members.len())
            .filter(|at| field.is_open(*at) && self.origin(*at).standing().is_last_resort());
        let is_down = |at: &usize| self.origin(*at).standing() == Standing::Down;
        let at = match left
            .clone()
            .filter(|at| !is_down(at))
            .min_by_key(|at| self.origin(*at).health().due(now))
        {
            Some(at) => at,
            None => match self.last.pick(picks, field, asked, moment) {
                Some(picked) => picked.at,
                // It went down, or came up, since the roster was made.
                None => left.min_by_key(|at| self.origin(*at).health().due(now))?,
            },
        };
        Some(Picked { at, pick: first, reason: Reason::LastResort })
    }

    /// The share of an origin while all is as it is, of 1: among the primaries, or among the backups where no
    /// primary takes one. 0 for one that takes none.
    pub(crate) fn share(&self, at: usize) -> f64 {
        let lane = if self.primaries.is_empty() { &self.backups } else { &self.primaries };
        lane.share(at).unwrap_or(0.0)
    }
}

/// The numbers of the origins' names. A name that stands twice has two.
fn seeds(members: &[Member]) -> Vec<u64> {
    let mut known = HashMap::with_capacity(members.len());
    let of = |member: &Member| {
        let times = known.entry(member.origin.seed).and_modify(|times| *times += 1).or_insert(0_u64);
        if *times == 0 { member.origin.seed } else { mixed(member.origin.seed.wrapping_add(*times)) }
    };
    members.iter().map(of).collect()
}

/// Of which roles more origins are ejected than may be.
#[derive(Clone, Copy, Debug)]
struct Panicking {
    primaries: bool,
    backups: bool,
}

impl Panicking {
    /// Of those that would take a share if they were not ejected: others are left out for reasons of their
    /// own. Primaries whose backups are up may all be ejected: the backups are there for that.
    fn among(members: &[Member], standings: &[Standing]) -> Panicking {
        let is_beyond = |role: Role| {
            let count = |standing: Standing| {
                let is_it = |at: &usize| members[*at].role == role && standings[*at] == standing;
                (0..members.len()).filter(is_it).count()
            };
            let (ready, ejected) = (count(Standing::Ready), count(Standing::Ejected));
            let rules = members.first().map(|member| member.origin.ejection());
            (rules.is_some_and(|rules| ejected > rules.left_out_max(ready + ejected)), ready)
        };
        let (backups, backups_ready) = is_beyond(Role::Backup);
        let (primaries, _) = is_beyond(Role::Primary);
        Panicking { primaries: primaries && backups_ready == 0, backups }
    }

    fn is_of(self, role: Role) -> bool {
        match role {
            Role::Primary => self.primaries,
            Role::Backup => self.backups,
        }
    }
}

/// What is known of a request on its way.
pub(crate) struct SoFar<'r> {
    /// The origins that it has tried.
    pub(crate) tried: &'r [usize],
    /// The only ones that it may go to, where a decider has named some.
    pub(crate) among: Option<&'r [usize]>,
    /// What may be the cause of a failure besides its origin.
    pub(crate) suspect: &'r dyn Fn() -> Suspect,
}

/// The origins that a request may go to and has not tried.
struct Untried<'r> {
    tried: &'r [usize],
    among: Option<&'r [usize]>,
    /// Whether a trial of an origin begins now.
    begin_trial: &'r dyn Fn(usize) -> bool,
}

impl Field for Untried<'_> {
    fn is_open(&self, at: usize) -> bool {
        !self.tried.contains(&at) && self.among.is_none_or(|among| among.contains(&at))
    }
}

/// The origins that have a free connection.
struct Roomy<'r> {
    roster: &'r Roster,
    but: &'r [usize],
}

impl Field for Roomy<'_> {
    fn is_open(&self, at: usize) -> bool {
        self.roster.origin(at).load.has_room() && !self.but.contains(&at)
    }
}
