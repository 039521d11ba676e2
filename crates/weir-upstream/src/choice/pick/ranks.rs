//! Which origin a hash falls to: weighted rendezvous hashing (Thaler and Ravishankar 1998; weights as
//! Schindler and Schomaker 2005). Each origin draws a lot from the hash and its own name, and the best lot
//! wins. So an origin that leaves moves its own keys alone, to all others by weight, and one that comes takes
//! its share alone. Nothing is remembered; the same in all processes.
//!
//! All lots are drawn, which a thousand origins make dear: a lot is one multiplication, and a logarithm is
//! worked out only where a lot may be the best so far.

/// So many lots are compared at once.
const ROW: usize = 4;
const TWO_64: f64 = 18_446_744_073_709_551_616.0;

/// The origins by weight.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    classes: Vec<Class>,
    /// Whether all weights are alike: then the least lot is the best.
    is_even: bool,
}

/// Origins whose weights differ by less than a factor of two.
#[derive(Debug)]
struct Class {
    /// The largest weight.
    most: f64,
    weights: Vec<f64>,
    /// The numbers of their names.
    seeds: Vec<u64>,
    /// Their places.
    at: Vec<usize>,
}

/// What draws the lots of a hash.
#[derive(Clone, Copy)]
struct Draw {
    point: u64,
    /// An odd number.
    factor: u64,
}

/// The best so far.
#[derive(Clone, Copy)]
struct Best {
    cost: f64,
    at: Option<usize>,
}

impl Ranks {
    /// The origins with these weights and numbers of names.
    pub(crate) fn new(weights: &[u32], seeds: &[u64]) -> Ranks {
        let size = |at: &usize| weights[*at].max(1).ilog2();
        let weight = |at: &usize| f64::from(weights[*at].max(1));
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by_key(size);
        let classes = order.chunk_by(|one, other| size(one) == size(other)).map(|at| Class {
            most: at.iter().map(weight).fold(1.0, f64::max),
            weights: at.iter().map(weight).collect(),
            seeds: at.iter().map(|at| seeds[*at]).collect(),
            at: at.to_vec(),
        });
        let is_even = weights.windows(2).all(|two| two[0] == two[1]);
        Ranks { classes: classes.collect(), is_even }
    }

    /// The place that the hash falls to, of those that are open; `None` where none is.
    pub(crate) fn best(&self, point: u64, is_open: impl Fn(usize) -> bool) -> Option<usize> {
        let draw = Draw { point, factor: mixed(point) | 1 };
        let mut best = Best { cost: f64::INFINITY, at: None };
        for class in &self.classes {
            match self.is_even {
                // Not its logarithm: all are divided by one weight.
                true => class.improve(&mut best, draw, |lot, _| lot as f64 / class.most, &is_open),
                false => class.improve(&mut best, draw, cost, &is_open),
            }
        }
        best.at
    }
}

impl Class {
    /// Puts the best of these in the place of the best so far, if it is better.
    fn improve(
        &self,
        best: &mut Best,
        draw: Draw,
        cost: impl Fn(u64, f64) -> f64,
        is_open: impl Fn(usize) -> bool,
    ) {
        let mut limit = self.limit(*best);
        let mut look = |limit: &mut u64, number: usize, lot: u64| {
            if lot > *limit {
                return;
            }
            let cost = cost(lot, self.weights[number]);
            if cost < best.cost && is_open(self.at[number]) {
                *best = Best { cost, at: Some(self.at[number]) };
                *limit = self.limit(*best);
            }
        };
        let (rows, rest) = self.seeds.as_chunks::<ROW>();
        for (row, seeds) in rows.iter().enumerate() {
            let lots = seeds.map(|seed| draw.lot(seed));
            // Few rows have one that is better.
            if lots.iter().copied().fold(u64::MAX, u64::min) <= limit {
                (row * ROW..).zip(lots).for_each(|(number, lot)| look(&mut limit, number, lot));
            }
        }
        let numbers = rows.len() * ROW..;
        numbers.zip(rest).for_each(|(number, seed)| look(&mut limit, number, draw.lot(*seed)));
    }

    /// The largest lot that may be better: a cost is no less than the lot divided by the weight, as
    /// -ln(1 - x) is no less than x.
    fn limit(&self, best: Best) -> u64 {
        // More than a cost is rounded by. What is beyond all lots is the largest.
        (best.cost * self.most * (1.0 + 1e-9)) as u64
    }
}

impl Draw {
    /// The lot of an origin of this number: the upper bits of a product with a number of the hash's own.
    fn lot(self, seed: u64) -> u64 {
        (self.point ^ seed).wrapping_mul(self.factor)
    }
}

/// The lower, the better; the share of the wins is the weight.
fn cost(lot: u64, weight: f64) -> f64 {
    // A lot of nearly 2^64 is rounded to that.
    let part = ((lot as f64 + 0.5) / TWO_64).min(1.0 - f64::EPSILON);
    -(-part).ln_1p() * TWO_64 / weight
}

/// Every bit depends on every other one (the finalizer of splitmix64).
pub(crate) fn mixed(mut number: u64) -> u64 {
    number ^= number >> 30;
    number = number.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number ^= number >> 27;
    number = number.wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
