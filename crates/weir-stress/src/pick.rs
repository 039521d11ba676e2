//! Chooses which object is requested next.
//!
//! Zipf by rejection-inversion (Hörmann, Derflinger: "Rejection-inversion to generate variates from monotone
//! discrete distributions", ACM TOMACS 6, 1996): constant time and memory for any number of objects.

use fastrand::Rng;

use crate::args::Pick;

/// The first number of the objects that are requested only once.
pub(crate) const WONDERS_FROM: u64 = 1_000_000_000_000;

/// Chooses object numbers.
#[derive(Debug)]
pub(crate) struct Picker {
    rng: Rng,
    first: u64,
    objects: u64,
    order: Order,
    wonders: f64,
    wonder_next: u64,
}

#[derive(Debug)]
enum Order {
    Seq(u64),
    Uniform,
    Zipf(Zipf),
}

impl Picker {
    pub(crate) fn new(pick: Pick, first: u64, objects: u64, wonders: f64, seed: u64) -> Self {
        assert!(objects > 0, "at least one object");
        let order = match pick {
            Pick::Seq => Order::Seq(0),
            Pick::Uniform => Order::Uniform,
            Pick::Zipf(exponent) => Order::Zipf(Zipf::new(objects, exponent)),
        };
        // Runs with different seeds must not repeat each other's one-time objects.
        let wonder_next = WONDERS_FROM.wrapping_mul(1 + seed % 1_000_000);
        Self { rng: Rng::with_seed(seed), first, objects, order, wonders, wonder_next }
    }

    pub(crate) fn next(&mut self) -> u64 {
        if self.wonders > 0.0 && self.rng.f64() < self.wonders {
            self.wonder_next += 1;
            return self.wonder_next - 1;
        }
        self.first
            + match &mut self.order {
                Order::Seq(at) => {
                    *at += 1;
                    (*at - 1) % self.objects
                }
                Order::Uniform => self.rng.u64(..self.objects),
                Order::Zipf(zipf) => zipf.next(&mut self.rng),
            }
    }

    /// A random interval of an object of `length` bytes, its size spread over all magnitudes.
    pub(crate) fn interval(&mut self, length: u64) -> (u64, u64) {
        let magnitude = self.rng.u32(0..=length.ilog2());
        let bytes = self.rng.u64(1..=(1 << magnitude).min(length));
        let start = self.rng.u64(0..=length - bytes);
        (start, start + bytes)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.rng.u64(..end)
    }
}

/// The distribution over 0..objects with weights (k + 1) to the minus exponent.
#[derive(Debug)]
struct Zipf {
    exponent: f64,
    objects: f64,
    low: f64,
    high: f64,
    accept: f64,
}

impl Zipf {
    fn new(objects: u64, exponent: f64) -> Self {
        let mut zipf = Self { exponent, objects: objects as f64, low: 0.0, high: 0.0, accept: 0.0 };
        zipf.low = zipf.area(1.5) - 1.0;
        zipf.high = zipf.area(zipf.objects + 0.5);
        zipf.accept = 2.0 - zipf.inverse(zipf.area(2.5) - 2f64.powf(-exponent));
        zipf
    }

    fn next(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.high + rng.f64() * (self.low - self.high);
            let x = self.inverse(area);
            let k = x.round().clamp(1.0, self.objects);
            if k - x <= self.accept || area >= self.area(k + 0.5) - k.powf(-self.exponent) {
                return k as u64 - 1;
            }
        }
    }

    /// The integral of the weight.
    fn area(&self, x: f64) -> f64 {
        let rest = 1.0 - self.exponent;
        if rest.abs() < 1e-9 { x.ln() } else { (x.powf(rest) - 1.0) / rest }
    }

    fn inverse(&self, area: f64) -> f64 {
        let rest = 1.0 - self.exponent;
        if rest.abs() < 1e-9 { area.exp() } else { (1.0 + area * rest).powf(1.0 / rest) }
    }
}
