//! The primaries that take a share, or the backups that do, and how one of them is chosen.
//!
//! Most picks propose one origin at once. Where it was tried or has no room, and for picks that compare, the
//! places are narrowed pick by pick. What is left open then is decided by turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::metered::{Metered, Sample};
use super::open::Open;
use super::ranks::{Ranks, mixed};
use super::sequence::Sequence;
use super::{Asked, Field, Moment, Pick, PickWord, Picked, Reason};
use crate::choice::load::{Load, Run, Sight};
use crate::clock;
use crate::gauges::Gauges;

/// The golden ratio of 2^64: multiples of it are spread evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// What a request under way costs where no response has shown how long one takes.
const UNKNOWN_US: f64 = 1e12;

/// Among so many origins picks that compare look at all,
const COMPARED_MAX: usize = 128;
/// and where there are more, at so many of them, others each time.
const COMPARED: usize = 32;
/// The number of the next lane.
static LANE_NEXT: AtomicU64 = AtomicU64::new(1);
/// So often one of several equal places is drawn before all are looked at again.
const DRAWS_MAX: u64 = 8;

/// An origin that takes a share.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its number in the roster.
    pub(crate) member: usize,
    /// Its share relative to the others', 1 or more.
    pub(crate) weight: u32,
    /// The number of its name ([`super::seed`]); no other origin has it.
    pub(crate) seed: u64,
    pub(crate) load: Load,
    pub(crate) gauges: Arc<Gauges>,
}

/// The origins that take a share, by place.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// Their numbers in the roster, ascending.
    members: Vec<usize>,
    weights: Vec<u32>,
    /// The weights up to each, itself included.
    sums: Vec<u64>,
    loads: Vec<Load>,
    /// The same, as they lie side by side.
    runs: Vec<Run>,
    /// Whether all have one weight.
    is_even: bool,
    sequence: Sequence,
    ranks: Ranks,
    /// Requests since the lane was made, where a pick goes by them.
    taken: Vec<AtomicU64>,
    /// Bytes when it was made.
    bytes_before: Vec<u64>,
    /// Its number; no other lane has it.
    number: u64,
    /// The numbers of the origins' names, and what is measured at them.
    seeds: Vec<u64>,
    gauges: Vec<Arc<Gauges>>,
}

/// The lower, the better.
type Score = (f64, f64);

/// The lowest score, the first place that has it, and how many have it.
#[derive(Clone, Copy)]
struct Least {
    at: usize,
    score: Score,
    alike: usize,
}

/// What a pick has done with the places that were open.
enum Narrowed {
    /// Some were left, for this reason.
    To(Reason),
    /// The request lacks what it goes by.
    Not,
}

impl Lane {
    /// A lane of these origins, in the order of their numbers.
    pub(crate) fn new(places: Vec<Place>) -> Lane {
        let weights: Vec<u32> = places.iter().map(|place| place.weight.max(1)).collect();
        let seeds: Vec<u64> = places.iter().map(|place| place.seed).collect();
        let mut so_far = 0;
        let sums = weights.iter().map(|weight| {
            so_far += u64::from(*weight);
            so_far
        });
        let loads: Vec<Load> = places.iter().map(|place| place.load.clone()).collect();
        Lane {
            sums: sums.collect(),
            runs: Run::all(&loads),
            is_even: weights.windows(2).all(|two| two[0] == two[1]),
            sequence: Sequence::new(&weights),
            ranks: Ranks::new(&weights, &seeds),
            number: LANE_NEXT.fetch_add(1, Ordering::Relaxed),
            seeds,
            gauges: places.iter().map(|place| place.gauges.clone()).collect(),
            weights,
            members: places.iter().map(|place| place.member).collect(),
            taken: places.iter().map(|_| AtomicU64::new(0)).collect(),
            bytes_before: places.iter().map(|place| place.load.bytes()).collect(),
            loads,
        }
    }

    /// Whether no origin takes a share.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The numbers of its origins, ascending.
    pub(crate) fn members(&self) -> &[usize] {
        &self.members
    }

    /// The share of an origin of this number, of 1; `None` where it takes none here.
    pub(crate) fn share(&self, member: usize) -> Option<f64> {
        let at = self.members.binary_search(&member).ok()?;
        Some(f64::from(self.weights[at]) / self.weight_all() as f64)
    }

    /// The origin for a request; one with room before one without. `None` where none is open.
    pub(crate) fn pick(
        &self,
        picks: &[Pick],
        field: &impl Field,
        asked: &Asked<'_>,
        moment: &Moment<'_>,
    ) -> Option<Picked> {
        let first = picks.first().map_or(PickWord::RoundRobin, Pick::word);
        let (at, pick, reason) = match self.propose(picks, field, asked, moment) {
            Some((at, reason)) if self.is_free(at, field) => (at, first, reason),
            _ => self.narrow_all(picks, field, asked, moment)?,
        };
        Some(Picked { at: self.members[at], pick, reason })
    }

    /// Notes that the origin of this number has a request.
    pub(crate) fn take(&self, picks: &[Pick], member: usize) {
        let counts = |pick: &Pick| matches!(pick, Pick::ByRequests | Pick::ByBusyness | Pick::Metered(_));
        if picks.iter().any(counts)
            && let Ok(at) = self.members.binary_search(&member)
        {
            self.taken[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One of its origins by weight, by its number; `chance` is any number.
    pub(crate) fn any(&self, chance: u64) -> Option<usize> {
        (!self.is_empty()).then(|| self.members[self.drawn(mixed(chance))])
    }

    fn weight_all(&self) -> u64 {
        self.sums.last().copied().unwrap_or_default()
    }

    fn is_free(&self, at: usize, field: &impl Field) -> bool {
        self.loads[at].has_room() && field.is_open(self.members[at])
    }

    /// The place that the first pick chooses without a look at all of them, where it can.
    fn propose(
        &self,
        picks: &[Pick],
        field: &impl Field,
        asked: &Asked<'_>,
        moment: &Moment<'_>,
    ) -> Option<(usize, Reason)> {
        if self.members.len() < 2 {
            return self.members.first().map(|_| (0, Reason::Only));
        }
        let pick = picks.first().unwrap_or(&Pick::RoundRobin);
        Some(match pick {
            Pick::RoundRobin => (self.sequence.at(moment.turn()), Reason::Turn),
            Pick::Random => (self.drawn(mixed(moment.chance)), Reason::Chance),
            Pick::TwoChoices => (self.better_of_two(moment.chance)?, Reason::Least),
            Pick::ClientAddress | Pick::Hash { .. } => match asked.point(pick) {
                Some(point) => self.hashed(pick, point, |at| self.is_free(at, field))?,
                None if picks.len() == 1 => (self.better_of_two(moment.chance)?, Reason::Fallback),
                None => return None,
            },
            Pick::Metered(metered) => {
                (self.metered(metered, moment, |at| self.is_free(at, field))?, Reason::Chance)
            }
            Pick::First => {
                let mut sights = self.runs.iter().flat_map(Run::sights);
                (sights.position(|sight| sight.has_room())?, Reason::First)
            }
            Pick::LeastRequests if picks.len() == 1 => match self.idle(moment) {
                Some(at) => (at, Reason::Turn),
                None if self.are_many(picks) => return self.propose_of_row(picks, field, moment),
                None => return self.propose_least(picks, moment),
            },
            // They look at some.
            _ if self.are_many(picks) => return self.propose_of_row(picks, field, moment),
            _ => return self.propose_least(picks, moment),
        })
    }

    /// Whether there are too many places for these picks to look at all.
    fn are_many(&self, picks: &[Pick]) -> bool {
        self.members.len() > COMPARED_MAX && picks.iter().all(Pick::compares)
    }

    /// The place with the lowest score in a row; of several by weight. `None` where further picks may decide.
    fn propose_of_row(
        &self,
        picks: &[Pick],
        field: &impl Field,
        moment: &Moment<'_>,
    ) -> Option<(usize, Reason)> {
        let [pick] = picks else { return None };
        let mut least: Option<(Score, usize)> = None;
        let (mut alike, mut chance) = (0, mixed(moment.chance));
        for at in self.row(moment) {
            let seen = self.loads[at].sight();
            if !seen.has_room() || !field.is_open(self.members[at]) {
                continue;
            }
            let (score, weight) = (self.score(pick, (at, &seen), moment.now_ms), u64::from(self.weights[at]));
            if least.is_none_or(|(other, _)| score < other) {
                (least, alike) = (Some((score, at)), weight);
            } else if least.is_some_and(|(other, _)| score == other) {
                alike += weight;
                chance = mixed(chance.wrapping_add(GOLDEN));
                // Each of those that are alike is taken as often as its weight says, whichever comes first.
                if part(chance, alike) < weight {
                    least = Some((score, at));
                }
            }
        }
        let (_, at) = least?;
        Some((at, if alike == u64::from(self.weights[at]) { Reason::Least } else { Reason::Turn }))
    }

    /// A row of places. The more weight, the more often a row begins there.
    fn row(&self, moment: &Moment<'_>) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.drawn(mixed(moment.chance ^ GOLDEN)), self.members.len());
        (first..first + COMPARED).map(move |at| if at < count { at } else { at - count })
    }

    /// The free places that picks compare: all, or a row of them where there are very many.
    fn looked_at(&self, picks: &[Pick], field: &impl Field, moment: &Moment<'_>) -> Open {
        let count = self.members.len();
        if !self.are_many(picks) {
            return Open::of(count, |at| self.is_free(at, field));
        }
        Open::among(count, self.row(moment).filter(|at| self.is_free(*at, field)))
    }

    /// A place with room and without a request, by turns, if a few looks find one: none has fewer.
    fn idle(&self, moment: &Moment<'_>) -> Option<usize> {
        let chance = moment.turn().wrapping_mul(GOLDEN);
        let drawn = (1..DRAWS_MAX).map(|draw| self.drawn(mixed(chance.wrapping_add(draw))));
        let mut places = std::iter::once(self.sequence.at(moment.turn())).chain(drawn);
        places.find(|at| self.loads[*at].requests() == 0 && self.loads[*at].has_room())
    }

    /// The place that a hash falls to, of those that are open; `None` where none is.
    fn hashed(&self, pick: &Pick, point: u64, is_open: impl Fn(usize) -> bool) -> Option<(usize, Reason)> {
        let best = self.ranks.best(point, &is_open)?;
        let Pick::Hash { bound, .. } = pick else { return Some((best, Reason::Hash)) };
        if self.loads[best].requests() == 0 {
            return Some((best, Reason::Hash));
        }
        let all: u64 = self.runs.iter().flat_map(Run::sights).map(|seen| u64::from(seen.requests)).sum();
        let limit = bound * (all + 1) as f64 / self.weight_all() as f64;
        if self.is_within(limit, best) {
            return Some((best, Reason::Hash));
        }
        let next = self.ranks.best(point, |at| self.is_within(limit, at) && is_open(at));
        // Where there is none, those within the bound were tried.
        Some(next.map_or((best, Reason::Hash), |next| (next, Reason::Bound)))
    }

    /// Whether an origin with one request more would have no more than its bound (Mirrokni, Thorup and
    /// Zadimoghaddam 2018): so many times its share of the requests under way, rounded up. `limit` is that
    /// for a weight of 1.
    fn is_within(&self, limit: f64, at: usize) -> bool {
        let own = self.loads[at].requests();
        own == 0 || f64::from(own) + 1.0 <= (limit * f64::from(self.weights[at])).ceil()
    }

    /// The place with the lowest score of those with room, for picks that compare. `None` where several are
    /// alike and further picks may decide.
    fn propose_least(&self, picks: &[Pick], moment: &Moment<'_>) -> Option<(usize, Reason)> {
        let pick = picks.first()?;
        let score = |at: usize, seen: &Sight<'_>| self.score(pick, (at, seen), moment.now_ms);
        let least = self.least(score)?;
        if least.alike == 1 {
            return Some((least.at, Reason::Least));
        }
        if picks.len() > 1 {
            return None;
        }
        if least.alike == self.members.len() {
            return Some((self.sequence.at(moment.turn()), Reason::Turn));
        }
        // One of those that are alike, by weight: drawn until it is one of them.
        let chance = moment.turn().wrapping_mul(GOLDEN);
        let draws = (0..DRAWS_MAX).map(|draw| self.drawn(mixed(chance.wrapping_add(draw))));
        let is_alike = |at: usize| {
            let seen = self.loads[at].sight();
            seen.has_room() && self.score(pick, (at, &seen), moment.now_ms) == least.score
        };
        draws.into_iter().find(|at| is_alike(*at)).map(|at| (at, Reason::Turn))
    }

    /// The lowest score among the places with room.
    fn least(&self, score: impl Fn(usize, &Sight<'_>) -> Score) -> Option<Least> {
        let mut least = Least { at: 0, score: (f64::INFINITY, f64::INFINITY), alike: 0 };
        let mut at = 0;
        for run in &self.runs {
            for seen in run.sights() {
                if seen.has_room() {
                    let score = score(at, &seen);
                    if score < least.score || least.alike == 0 {
                        least = Least { at, score, alike: 1 };
                    } else if score == least.score {
                        least.alike += 1;
                    }
                }
                at += 1;
            }
        }
        (least.alike > 0).then_some(least)
    }

    /// What a pick that compares goes by: the lower, the better; the second number decides between equals.
    fn score(&self, pick: &Pick, (at, seen): (usize, &Sight<'_>), now_ms: u32) -> Score {
        let of_weight = |number: f64| match self.is_even {
            true => number,
            false => number / f64::from(self.weights[at]),
        };
        let busy = || of_weight(f64::from(seen.requests));
        // With the half the order is evenly spread as well (Webster's method).
        let taken = || of_weight(self.taken[at].load(Ordering::Relaxed) as f64 + 0.5);
        match pick {
            Pick::Latency => {
                let (us, requests) = (seen.latency_us(now_ms), f64::from(seen.requests));
                (of_weight(wait(us, requests)), 0.0)
            }
            Pick::ByRequests => (taken(), 0.0),
            Pick::ByTraffic => (of_weight(seen.bytes().saturating_sub(self.bytes_before[at]) as f64), 0.0),
            Pick::ByBusyness => (busy(), taken()),
            _ => (busy(), 0.0),
        }
    }

    /// Narrows the open places pick by pick.
    fn narrow_all(
        &self,
        picks: &[Pick],
        field: &impl Field,
        asked: &Asked<'_>,
        moment: &Moment<'_>,
    ) -> Option<(usize, PickWord, Reason)> {
        let count = self.members.len();
        let mut open = self.looked_at(picks, field, moment);
        if open.count() == 0 && self.are_many(picks) {
            open = Open::of(count, |at| self.is_free(at, field));
        }
        if open.count() == 0 {
            open = Open::of(count, |at| field.is_open(self.members[at]));
        }
        let mut decided = (picks.first().map_or(PickWord::RoundRobin, Pick::word), Reason::Only);
        let mut lacks = false;
        for (number, pick) in picks.iter().enumerate() {
            if open.count() < 2 {
                break;
            }
            let chance = mixed(moment.chance.wrapping_add(number as u64));
            match self.narrow(pick, &mut open, asked, (moment, chance)) {
                Narrowed::To(reason) => decided = (pick.word(), reason),
                Narrowed::Not => lacks = true,
            }
        }
        if open.count() > 1 {
            let reason = if lacks { Reason::Fallback } else { Reason::Turn };
            decided.1 = reason;
            let at = match lacks {
                true => self.better_of_two_in(&open, moment.chance),
                false => self.next_in(&open, moment),
            };
            open.leave(at);
        }
        open.iter().next().map(|at| (at, decided.0, decided.1))
    }

    fn narrow(
        &self,
        pick: &Pick,
        open: &mut Open,
        asked: &Asked<'_>,
        (moment, chance): (&Moment<'_>, u64),
    ) -> Narrowed {
        match pick {
            Pick::RoundRobin => {
                open.leave(self.next_in(open, moment));
                return Narrowed::To(Reason::Turn);
            }
            Pick::Random => {
                open.leave(self.drawn_in(open, chance));
                return Narrowed::To(Reason::Chance);
            }
            Pick::TwoChoices => open.leave(self.better_of_two_in(open, chance)),
            Pick::LeastRequests | Pick::Latency | Pick::ByRequests | Pick::ByTraffic | Pick::ByBusyness => {
                open.leave_least(|at| self.score(pick, (at, &self.loads[at].sight()), moment.now_ms));
            }
            Pick::ClientAddress | Pick::Hash { .. } => return self.narrow_by_hash(pick, open, asked),
            Pick::Metered(metered) => {
                let Some(at) = self.metered(metered, moment, |at| open.has(at)) else { return Narrowed::Not };
                open.leave(at);
                return Narrowed::To(Reason::Chance);
            }
            Pick::First => {
                let first = open.iter().next();
                first.into_iter().for_each(|at| open.leave(at));
                return Narrowed::To(Reason::First);
            }
        }
        Narrowed::To(Reason::Least)
    }

    fn narrow_by_hash(&self, pick: &Pick, open: &mut Open, asked: &Asked<'_>) -> Narrowed {
        let Some(point) = asked.point(pick) else { return Narrowed::Not };
        let Some((at, reason)) = self.hashed(pick, point, |at| open.has(at)) else { return Narrowed::Not };
        open.leave(at);
        Narrowed::To(reason)
    }

    /// A place by what is measured, of those that are open. `None` where nothing is known.
    fn metered(
        &self,
        metered: &Metered,
        moment: &Moment<'_>,
        is_open: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let sample = || {
            let now = clock::now();
            let of = |at: usize| Sample {
                seed: self.seeds[at],
                weight: f64::from(self.weights[at]),
                taken: self.taken[at].load(Ordering::Relaxed),
                value: metered.value(&self.gauges[at], now),
            };
            ((0..self.members.len()).map(of).collect(), now)
        };
        let sums = metered.sums(self.number, moment.now_ms, sample)?;
        let drawn = |chance: u64| {
            let point = unit(chance) * sums.last().copied().unwrap_or_default();
            sums.partition_point(|sum| *sum <= point).min(sums.len() - 1)
        };
        let chances = (0..DRAWS_MAX).map(|draw| mixed(moment.chance.wrapping_add(draw.wrapping_mul(GOLDEN))));
        chances.map(drawn).find(|at| is_open(*at)).or_else(|| (0..sums.len()).find(|at| is_open(*at)))
    }

    fn busy_of(&self, at: usize) -> f64 {
        f64::from(self.loads[at].requests()) / f64::from(self.weights[at])
    }

    /// A place by weight; `chance` is any number.
    fn drawn(&self, chance: u64) -> usize {
        self.sums.partition_point(|sum| *sum <= part(chance, self.weight_all()))
    }

    /// Two places by weight: the one with fewer requests under way, for its weight; else the first drawn.
    fn better_of_two(&self, chance: u64) -> Option<usize> {
        let one = self.drawn(mixed(chance));
        let (before, own) = (self.sums[one] - u64::from(self.weights[one]), u64::from(self.weights[one]));
        let others = self.weight_all().checked_sub(own).filter(|others| *others > 0)?;
        let point = part(mixed(chance ^ GOLDEN), others);
        let point = if point < before { point } else { point + own };
        let other = self.sums.partition_point(|sum| *sum <= point);
        Some(if self.busy_of(other) < self.busy_of(one) { other } else { one })
    }

    /// The same among these places, of which there is at least one.
    fn better_of_two_in(&self, open: &Open, chance: u64) -> usize {
        let one = self.drawn_in(open, mixed(chance));
        let mut others = open.clone();
        others.remove(one);
        if others.count() == 0 {
            return one;
        }
        let other = self.drawn_in(&others, mixed(chance ^ GOLDEN));
        if self.busy_of(other) < self.busy_of(one) { other } else { one }
    }

    /// The place whose turn it is among these, of which there is at least one.
    fn next_in(&self, open: &Open, moment: &Moment<'_>) -> usize {
        if open.count() == self.members.len() {
            return self.sequence.at(moment.turn());
        }
        self.drawn_in(open, moment.turn().wrapping_mul(GOLDEN))
    }

    /// A place by weight among these, of which there is at least one; `chance` is any number.
    fn drawn_in(&self, open: &Open, chance: u64) -> usize {
        let weight = |at: usize| u64::from(self.weights[at]);
        let mut left = part(chance, open.iter().map(weight).sum());
        let mut last = 0;
        for at in open.iter() {
            last = at;
            match left.checked_sub(weight(at)) {
                Some(rest) => left = rest,
                None => break,
            }
        }
        last
    }
}

/// A number from 0 to 1 by any of 2^64.
fn unit(chance: u64) -> f64 {
    (chance >> 11) as f64 / (1_u64 << 53) as f64
}

/// How long a further request is expected to take, where one takes so many microseconds.
fn wait(us: u32, requests: f64) -> f64 {
    match us {
        // Asked once, until the answer says how long one takes.
        0 => requests * UNKNOWN_US,
        us => f64::from(us) * (requests + 1.0),
    }
}

/// A part of `all` by a number that is any of 2^64.
fn part(chance: u64, all: u64) -> u64 {
    ((u128::from(chance) * u128::from(all)) >> 64) as u64
}
