//! Picks by what is measured at origins: `[pick.NAME]` with `least` or `pack`.
//!
//! A value is seconds old when a pick reads it, and part of it is what Weir itself has sent. A pick that goes
//! straight by it rushes to one origin and back. So it is split: what the requests of its time account for is
//! Weir's own, and the rest is what others do there. Shares follow the rest, which does not change when Weir
//! sends elsewhere. What Weir has sent since then counts at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::gauges::Gauges;

/// How often shares are worked out, in milliseconds.
const RENEWED_MS: u32 = 200;
/// An origin that has nothing free gets so much all the same, so that Weir sees what requests cost it.
const FREE_MIN: f64 = 0.01;
/// Fewer requests than this say nothing of what one costs.
const REQUESTS_MIN: f64 = 20.0;
/// Above this share of an origin more requests hardly show in its values.
const FILLED: f64 = 0.95;
/// What has been sent is a rate over at least this time.
const RATE_MIN: Duration = Duration::from_secs(1);
/// How much of a new finding counts beside those before.
const NEWS: f64 = 0.5;
/// What is known of an origin that is gone is forgotten once there are so many.
const KNOWN_MAX: usize = 4096;

/// What a pick by metrics is told by the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct MeteredSettings {
    /// Its name.
    pub name: String,
    /// The metrics, each with its factor.
    pub parts: Vec<(String, f64)>,
    /// The value at which an origin has nothing free.
    pub full: f64,
    /// The share of `full` up to which one origin after another is filled; `None` spreads requests by what is
    /// free.
    pub mark: Option<f64>,
}

/// A pick by metrics, with what it has learnt. Two are equal where their settings are.
#[derive(Debug)]
pub struct Metered {
    settings: MeteredSettings,
    learnt: Mutex<Learnt>,
    /// The shares in each lane that it was asked for.
    shares: ArcSwap<Vec<Shares>>,
}

impl PartialEq for Metered {
    fn eq(&self, other: &Metered) -> bool {
        self.settings == other.settings
    }
}

/// What has been learnt of origins, by the numbers of their names.
#[derive(Debug, Default)]
struct Learnt {
    known: HashMap<u64, Known>,
    /// What a request a second takes of an origin.
    cost: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// The lane in which requests were counted, and how many it had.
    counted: (u64, u64),
    /// Requests so far.
    sent: f64,
    /// When the last value was measured, and how many requests there were by then.
    measured: Option<(Instant, f64)>,
    /// The last value, as a share of `full`.
    value: f64,
    /// Requests a second while it was measured, where there were enough.
    rate: Option<f64>,
    /// What others take of it, and whether that knows the last value.
    foreign: Option<f64>,
    is_heard: bool,
}

/// What is seen of an origin now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// The number of its name.
    pub(crate) seed: u64,
    pub(crate) weight: f64,
    /// How many requests its lane has sent there.
    pub(crate) taken: u64,
    /// The value, as a share of `full`, and when it was measured.
    pub(crate) value: Option<(f64, Instant)>,
}

/// The shares of a lane.
#[derive(Debug)]
struct Shares {
    lane: u64,
    renewed_ms: u32,
    /// The shares up to each place, itself included; none where no origin has a value.
    sums: Option<Arc<[f64]>>,
}

impl Metered {
    /// One that has learnt nothing.
    pub fn new(settings: MeteredSettings) -> Arc<Metered> {
        Arc::new(Metered { settings, learnt: Mutex::default(), shares: ArcSwap::default() })
    }

    /// What it was told.
    pub fn settings(&self) -> &MeteredSettings {
        &self.settings
    }

    /// The value of an origin, as a share of `full`, and when its oldest part was measured. `None` where a
    /// part is missing or too old.
    pub(crate) fn value(&self, gauges: &Gauges, now: Instant) -> Option<(f64, Instant)> {
        let (mut sum, mut oldest) = (0.0, now);
        for (name, factor) in &self.settings.parts {
            let reading = gauges.read(name, now).filter(|reading| reading.is_fresh)?;
            sum += factor * reading.value;
            oldest = oldest.min(reading.measured);
        }
        Some(((sum / self.settings.full).max(0.0), oldest))
    }

    /// The shares up to each place of a lane, itself included. `None` where no origin has a value. `sample`
    /// is asked for all places now and then.
    pub(crate) fn sums(
        &self,
        lane: u64,
        now_ms: u32,
        sample: impl Fn() -> (Vec<Sample>, Instant),
    ) -> Option<Arc<[f64]>> {
        let shares = self.shares.load();
        let own = shares.iter().find(|shares| shares.lane == lane);
        let is_fresh = |shares: &&Shares| now_ms.wrapping_sub(shares.renewed_ms) < RENEWED_MS;
        if let Some(fresh) = own.filter(is_fresh) {
            return fresh.sums.clone();
        }
        // Others go by the shares of before while one works them out.
        let mut learnt = match own {
            Some(own) => match self.learnt.try_lock() {
                Some(learnt) => learnt,
                None => return own.sums.clone(),
            },
            None => self.learnt.lock(),
        };
        let (samples, now) = sample();
        let sums: Option<Arc<[f64]>> = learnt.judge(&samples, (lane, now), self.settings.mark).map(|all| {
            let mut so_far = 0.0;
            let summed = all.into_iter().map(|share| {
                so_far += share;
                so_far
            });
            summed.collect()
        });
        // The lanes before the last change of the origins are gone.
        let others = self.shares.load();
        let newest = others.iter().rev().filter(|shares| shares.lane != lane).take(3);
        let mut next: Vec<Shares> = newest.map(Shares::again).collect();
        next.reverse();
        next.push(Shares { lane, renewed_ms: now_ms, sums: sums.clone() });
        self.shares.store(Arc::new(next));
        sums
    }
}

impl Shares {
    fn again(&self) -> Shares {
        Shares { lane: self.lane, renewed_ms: self.renewed_ms, sums: self.sums.clone() }
    }
}

/// What is known of a place now.
#[derive(Clone, Copy, Debug)]
struct Place {
    weight: f64,
    /// What others take of it; `None` where it has no value.
    foreign: Option<f64>,
    /// Requests a second of late.
    now_rate: f64,
    /// Requests a second beyond those that its value knows of.
    more: f64,
}

impl Learnt {
    /// The shares of these places. `None` where none has a value.
    fn judge(
        &mut self,
        samples: &[Sample],
        (lane, now): (u64, Instant),
        mark: Option<f64>,
    ) -> Option<Vec<f64>> {
        if self.known.len() > KNOWN_MAX {
            self.known.retain(|seed, _| samples.iter().any(|sample| sample.seed == *seed));
        }
        for sample in samples {
            self.hear(sample, lane);
        }
        self.learn_cost(samples);
        let places: Vec<Place> = samples.iter().map(|sample| self.place(sample, now)).collect();
        if places.iter().all(|place| place.foreign.is_none()) {
            return None;
        }
        Some(match (mark, self.cost) {
            (None, cost) => spread(&places, cost.unwrap_or_default()),
            (Some(mark), cost) => packed(&places, cost, mark),
        })
    }

    /// Counts what was sent, and takes a new value.
    fn hear(&mut self, sample: &Sample, lane: u64) {
        let known = self.known.entry(sample.seed).or_insert(Known {
            counted: (lane, 0),
            sent: 0.0,
            measured: None,
            value: 0.0,
            rate: None,
            foreign: None,
            is_heard: false,
        });
        let before = if known.counted.0 == lane { known.counted.1 } else { 0 };
        known.sent += sample.taken.saturating_sub(before) as f64;
        known.counted = (lane, sample.taken);
        let Some((value, measured)) = sample.value else { return };
        let last = known.measured;
        if last.is_some_and(|(at, _)| measured <= at) {
            return;
        }
        known.rate = last.and_then(|(at, sent)| {
            let window = measured.saturating_duration_since(at).as_secs_f64();
            let requests = known.sent - sent;
            (window > 0.0 && requests >= REQUESTS_MIN).then(|| requests / window)
        });
        known.is_heard = true;
        known.value = value;
        known.measured = Some((measured, known.sent));
    }

    /// What a request a second takes: the least that it seems to take anywhere, since elsewhere others take
    /// the rest. It is not learnt while all are filled: then each seems the dearer the less it gets.
    fn learn_cost(&mut self, samples: &[Sample]) {
        let mut least = f64::INFINITY;
        let (mut is_any_unfilled, mut is_news) = (false, false);
        for sample in samples.iter().filter(|sample| sample.value.is_some()) {
            let Some(known) = self.known.get(&sample.seed) else { continue };
            let Some(rate) = known.rate else { continue };
            least = least.min(known.value / rate);
            is_any_unfilled |= known.value < FILLED;
            is_news |= known.is_heard;
        }
        if is_any_unfilled && is_news {
            self.cost = Some(self.cost.map_or(least, |cost| cost + (least - cost) * NEWS));
        }
    }

    fn place(&mut self, sample: &Sample, now: Instant) -> Place {
        let cost = self.cost.unwrap_or_default();
        let unknown = Place { weight: sample.weight, foreign: None, now_rate: 0.0, more: 0.0 };
        let Some(known) = self.known.get_mut(&sample.seed) else { return unknown };
        let Some((measured, sent)) = known.measured else { return unknown };
        let since = now.saturating_duration_since(measured).max(RATE_MIN).as_secs_f64();
        let now_rate = (known.sent - sent) / since;
        let own = known.rate.unwrap_or_default() * cost;
        if std::mem::take(&mut known.is_heard) {
            let foreign = (known.value - own).clamp(0.0, 1.0);
            known.foreign = Some(known.foreign.map_or(foreign, |before| before + (foreign - before) * NEWS));
        }
        Place {
            weight: sample.weight,
            foreign: known.foreign.filter(|_| sample.value.is_some()),
            now_rate,
            more: (now_rate - known.rate.unwrap_or(now_rate)).max(0.0),
        }
    }
}

/// Shares in proportion to what is free.
fn spread(places: &[Place], cost: f64) -> Vec<f64> {
    let free = |place: &Place| {
        let foreign = place.foreign?;
        Some((1.0 - foreign - place.more * cost).clamp(FREE_MIN, 1.0))
    };
    let known: Vec<f64> = places.iter().filter_map(free).collect();
    let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
    places.iter().map(|place| free(place).unwrap_or(mean) * place.weight).collect()
}

/// Shares that fill one place after another up to the mark; what is more is spread by what is free.
fn packed(places: &[Place], cost: Option<f64>, mark: f64) -> Vec<f64> {
    let room = |place: &Place| place.foreign.map_or(0.0, |foreign| (mark - foreign).max(0.0));
    let Some(cost) = cost.filter(|cost| *cost > 0.0) else {
        // Not known yet: the first that has room gets all.
        let first = places.iter().position(|place| room(place) > 0.0);
        return match first {
            Some(first) => (0..places.len()).map(|at| if at == first { 1.0 } else { 0.0 }).collect(),
            None => spread(places, 0.0),
        };
    };
    let mut left = places.iter().map(|place| place.now_rate * cost).sum::<f64>();
    if left <= 0.0 {
        left = f64::MIN_POSITIVE;
    }
    let all = left;
    let mut shares: Vec<f64> = places
        .iter()
        .map(|place| {
            let taken = room(place).min(left);
            left -= taken;
            taken / all
        })
        .collect();
    if left > 0.0 {
        let more = spread(places, cost);
        let sum: f64 = more.iter().sum();
        shares.iter_mut().zip(more).for_each(|(share, more)| *share += left / all * more / sum);
    }
    shares
}

#[cfg(test)]
mod tests;
