//! What a script is asked about: one request, its client, and a row of origins. The row is a trait, because
//! sample runs and tests have origins that no upstream has. Nothing is copied here.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::time::Instant;

use http::{HeaderMap, Method};
use smallvec::SmallVec;
use weir_upstream::{About, OriginView, Origins, Question};

/// A request for which a script picks.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'q> {
    /// The method.
    pub method: &'q Method,
    /// Path and query as the origin gets them.
    pub target: &'q [u8],
    /// The fields as the origin gets them.
    pub headers: &'q HeaderMap,
    /// What is known besides.
    pub about: &'q About,
}

impl<'q> Asked<'q> {
    /// The request of a question.
    pub fn of(question: &Question<'q>) -> Asked<'q> {
        let Question { method, target, headers, about, .. } = *question;
        Asked { method, target, headers, about }
    }

    /// The path.
    pub(crate) fn path(&self) -> &'q [u8] {
        self.target.split(|byte| *byte == b'?').next().unwrap_or_default()
    }

    /// The query without `?`; empty where there is none.
    pub(crate) fn query(&self) -> &'q [u8] {
        self.target.splitn(2, |byte| *byte == b'?').nth(1).unwrap_or_default()
    }

    /// The client, of a pass alone.
    pub(crate) fn client(&self) -> Option<SocketAddr> {
        self.about.client.filter(|_| self.is_pass())
    }

    /// Whether the answer is for one client.
    pub(crate) fn is_pass(&self) -> bool {
        self.about.kind == weir_upstream::Kind::Pass
    }
}

/// Origins by number.
pub trait Row {
    /// How many there are.
    fn count(&self) -> usize;
    /// The URL that an origin is named by.
    fn name(&self, at: usize) -> &str;
    /// Its name in sessions.
    fn id(&self, at: usize) -> Option<&str>;
    /// Its share relative to the others.
    fn weight(&self, at: usize) -> f64;
    /// Whether it is a backup.
    fn is_backup(&self, at: usize) -> bool;
    /// How it stands, in a word.
    fn standing(&self, at: usize) -> &'static str;
    /// Whether it may get requests.
    fn is_up(&self, at: usize) -> bool;
    /// Requests under way.
    fn in_flight(&self, at: usize) -> u32;
    /// The average time to the first byte in milliseconds; 0 where it is not known.
    fn latency_ms(&self, at: usize) -> f64;
    /// A metric's value, where it is fresh.
    fn metric(&self, at: usize, name: &str, now: Instant) -> Option<f64>;
    /// The age of a metric's value in seconds, fresh or not.
    fn age_s(&self, at: usize, name: &str, now: Instant) -> Option<f64>;
}

/// The origins of an upstream. They are looked at once in a call, when the script first asks for one.
pub(crate) struct Seen<'q> {
    origins: &'q dyn Origins,
    views: OnceCell<SmallVec<[OriginView<'q>; 4]>>,
}

impl<'q> Seen<'q> {
    pub(crate) fn new(origins: &'q dyn Origins) -> Seen<'q> {
        Seen { origins, views: OnceCell::new() }
    }

    fn view(&self, at: usize) -> &OriginView<'q> {
        let all = || (0..self.origins.count()).filter_map(|at| self.origins.get(at)).collect();
        // Invariant: numbers come from `count`, and a row does not change during a call.
        &self.views.get_or_init(all)[at]
    }
}

impl Row for Seen<'_> {
    fn count(&self) -> usize {
        self.origins.count()
    }

    fn name(&self, at: usize) -> &str {
        self.view(at).name
    }

    fn id(&self, at: usize) -> Option<&str> {
        self.view(at).id
    }

    fn weight(&self, at: usize) -> f64 {
        self.view(at).weight
    }

    fn is_backup(&self, at: usize) -> bool {
        self.view(at).is_backup
    }

    fn standing(&self, at: usize) -> &'static str {
        self.view(at).standing.word()
    }

    fn is_up(&self, at: usize) -> bool {
        self.view(at).takes_share
    }

    fn in_flight(&self, at: usize) -> u32 {
        self.view(at).in_flight
    }

    fn latency_ms(&self, at: usize) -> f64 {
        self.view(at).latency.as_secs_f64() * 1000.0
    }

    fn metric(&self, at: usize, name: &str, now: Instant) -> Option<f64> {
        self.view(at).gauges.get(name, now).fresh()
    }

    fn age_s(&self, at: usize, name: &str, now: Instant) -> Option<f64> {
        Some(self.view(at).gauges.read(name, now)?.age.as_secs_f64())
    }
}
