//! Traces: lists of requests (object, bytes) that follow from a seed, each with the size of its cache.

/// A list of requests.
pub(crate) struct Trace {
    pub(crate) name: &'static str,
    pub(crate) cache_bytes: u64,
    pub(crate) requests: Vec<(u64, u64)>,
}

/// The bytes of an object in traces with one size.
const OBJECT_BYTES: u64 = 10_240;
/// The requests of a trace.
const REQUESTS: usize = 200_000;
/// The size of all caches but the first: 6,400 objects.
const CACHE_BYTES: u64 = 64 << 20;
/// The first number of objects that are requested once.
const WONDERS: u64 = 1_000_000_000;

/// All traces.
pub(crate) fn all(seed: u64) -> Vec<Trace> {
    vec![
        lab(),
        zipf(seed, 0.9),
        wonders(seed),
        scans(seed),
        looped("loop of 0.9 × the cache", 5_400),
        looped("loop of 1.2 × the cache", 7_600),
        looped("loop of 2 × the cache", 12_800),
        shifting(seed),
        cdn(seed),
    ]
}

/// Numbers by xorshift, and the rejection-inversion sampling of Zipf's law (Hörmann and Derflinger 1996).
pub(crate) struct Random {
    state: u64,
}

const STATE: u64 = 88_172_645_463_325_252;

impl Random {
    /// The same seed gives the same numbers; 0 gives those of the trace `lab`.
    pub(crate) fn new(seed: u64) -> Random {
        Random { state: STATE ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Between 0 and 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Zipf's law over a number of objects. Its exponent is not 1.
struct Zipf {
    objects: f64,
    exponent: f64,
    low: f64,
    high: f64,
    sure: f64,
}

impl Zipf {
    fn new(objects: u64, exponent: f64) -> Zipf {
        let objects = objects as f64;
        let mut zipf = Zipf { objects, exponent, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(objects + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - 2f64.powf(-exponent));
        zipf
    }

    fn integral(&self, x: f64) -> f64 {
        (x.powf(1.0 - self.exponent) - 1.0) / (1.0 - self.exponent)
    }

    fn inverse(&self, x: f64) -> f64 {
        (1.0 + x * (1.0 - self.exponent)).powf(1.0 / (1.0 - self.exponent))
    }

    /// The rank of an object, from 0 on.
    fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let at = self.high + random.unit() * (self.low - self.high);
            let x = self.inverse(at);
            let rank = (x + 0.5).floor().clamp(1.0, self.objects);
            if rank - x <= self.sure || at >= self.integral(rank + 0.5) - rank.powf(-self.exponent) {
                return rank as u64 - 1;
            }
        }
    }
}

/// The trace `lab`: half of the requests are for objects that are requested once, the rest follow Zipf(0.9)
/// over 50,000 objects; 512 MiB.
pub(crate) fn lab() -> Trace {
    let (mut random, zipf) = (Random::new(0), Zipf::new(50_000, 0.9));
    let mut wonder = WONDERS;
    let requests = (0..REQUESTS).map(|_| {
        if random.unit() < 0.5 {
            wonder += 1;
            return (wonder, OBJECT_BYTES);
        }
        (zipf.draw(&mut random), OBJECT_BYTES)
    });
    Trace { name: "the issue's, 512 MiB", cache_bytes: 512 << 20, requests: requests.collect() }
}

fn zipf(seed: u64, exponent: f64) -> Trace {
    let (mut random, zipf) = (Random::new(seed), Zipf::new(50_000, exponent));
    let requests = (0..REQUESTS).map(|_| (zipf.draw(&mut random), OBJECT_BYTES));
    Trace { name: "Zipf(0.9)", cache_bytes: CACHE_BYTES, requests: requests.collect() }
}

fn wonders(seed: u64) -> Trace {
    let (mut random, zipf) = (Random::new(seed), Zipf::new(50_000, 0.9));
    let requests = (0..REQUESTS as u64).map(|number| match random.unit() < 0.5 {
        true => (WONDERS + number, OBJECT_BYTES),
        false => (zipf.draw(&mut random), OBJECT_BYTES),
    });
    Trace { name: "Zipf(0.9), half asked for once", cache_bytes: CACHE_BYTES, requests: requests.collect() }
}

/// Zipf, with a walk over 10,000 other objects every 20,000 requests.
fn scans(seed: u64) -> Trace {
    let (mut random, zipf) = (Random::new(seed), Zipf::new(50_000, 0.9));
    let requests = (0..REQUESTS as u64).map(|number| match number % 20_000 {
        at @ 10_000.. => (WONDERS + at, OBJECT_BYTES),
        _ => (zipf.draw(&mut random), OBJECT_BYTES),
    });
    Trace { name: "Zipf(0.9) and scans", cache_bytes: CACHE_BYTES, requests: requests.collect() }
}

fn looped(name: &'static str, objects: u64) -> Trace {
    let requests = (0..REQUESTS as u64).map(|number| (number % objects, OBJECT_BYTES));
    Trace { name, cache_bytes: CACHE_BYTES, requests: requests.collect() }
}

/// Zipf whose ranks move to other objects bit by bit, all of them within 100,000 requests.
fn shifting(seed: u64) -> Trace {
    let (mut random, zipf) = (Random::new(seed), Zipf::new(20_000, 0.9));
    let requests = (0..REQUESTS as u64).map(|number| {
        let rank = zipf.draw(&mut random);
        let epoch = (number + rank * 7919 % 100_000) / 100_000;
        (rank + epoch * 1_000_000, OBJECT_BYTES)
    });
    Trace { name: "shifting popularity", cache_bytes: CACHE_BYTES, requests: requests.collect() }
}

/// Log-normal sizes about 12 KB, from 200 bytes to 512 KB, each object with its own; Zipf(0.8), a third
/// requested once.
fn cdn(seed: u64) -> Trace {
    let (mut random, zipf) = (Random::new(seed), Zipf::new(40_000, 0.8));
    let requests = (0..REQUESTS as u64).map(|number| {
        let object = match random.unit() < 0.33 {
            true => WONDERS + number,
            false => zipf.draw(&mut random),
        };
        let mut own = Random::new(object + 1);
        own.next();
        let normal: f64 = (0..12).map(|_| own.unit()).sum::<f64>() - 6.0;
        (object, (12_000.0 * (1.3 * normal).exp()).clamp(200.0, 512e3) as u64)
    });
    Trace { name: "a CDN's sizes", cache_bytes: 2 * CACHE_BYTES, requests: requests.collect() }
}
