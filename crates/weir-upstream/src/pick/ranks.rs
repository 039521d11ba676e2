//! Which origin a hash falls to: weighted rendezvous hashing (Thaler and Ravishankar 1998; weights as
//! Schindler and Schomaker 2005). Each origin draws a lot from the hash and its own name, and the best lot
//! wins. So an origin that leaves moves its own keys alone, to all others by weight, and one that comes takes
//! its share alone. Nothing is remembered; the same in all processes.

/// The origins by weight.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    classes: Vec<Class>,
}

/// Origins of one weight. Among them the largest lot is the best: a logarithm for each class is enough.
#[derive(Debug)]
struct Class {
    weight: f64,
    /// The numbers of their names.
    seeds: Vec<u64>,
    /// Their places in the lane.
    at: Vec<usize>,
}

impl Ranks {
    /// The origins with these weights and numbers of names.
    pub(crate) fn new(weights: &[u32], seeds: &[u64]) -> Ranks {
        let mut order: Vec<usize> = (0..weights.len()).collect();
        // The heavy ones first: the light ones seldom win.
        order.sort_by_key(|at| std::cmp::Reverse(weights[*at]));
        let classes = order.chunk_by(|one, other| weights[*one] == weights[*other]);
        let classes = classes.map(|at| Class {
            weight: f64::from(weights[at[0]].max(1)),
            seeds: at.iter().map(|at| seeds[*at]).collect(),
            at: at.to_vec(),
        });
        Ranks { classes: classes.collect() }
    }

    /// The place in the lane that the hash falls to, of those that are open; `None` where none is.
    pub(crate) fn best(&self, point: u64, is_open: impl Fn(usize) -> bool) -> Option<usize> {
        let of_class = |class: &Class| {
            let mut best: Option<(u64, usize)> = None;
            for (seed, at) in class.seeds.iter().zip(&class.at) {
                let lot = mixed(point ^ seed);
                if best.is_none_or(|(other, _)| lot > other) && is_open(*at) {
                    best = Some((lot, *at));
                }
            }
            best
        };
        if let [class] = self.classes.as_slice() {
            return of_class(class).map(|(_, at)| at);
        }
        let mut best: Option<(f64, usize)> = None;
        for class in &self.classes {
            let Some((lot, at)) = of_class(class) else { continue };
            // Most classes lose by what is cheap to say.
            if best.is_none_or(|(least, _)| cost_min(lot, class.weight) <= least) {
                let cost = cost(lot, class.weight);
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, at));
                }
            }
        }
        best.map(|(_, at)| at)
    }
}

/// The lower, the better; the share of the wins is the weight.
fn cost(lot: u64, weight: f64) -> f64 {
    -of_one(lot).ln() / weight
}

/// No more than the cost: `-ln(x)` is at least `1 - x`.
fn cost_min(lot: u64, weight: f64) -> f64 {
    (1.0 - of_one(lot)) / weight
}

/// The lot as a number between 0 and 1.
fn of_one(lot: u64) -> f64 {
    ((lot >> 11) as f64 + 0.5) * (1.0 / (1_u64 << 53) as f64)
}

/// Every bit depends on every other one (the finalizer of splitmix64).
pub(crate) fn mixed(mut number: u64) -> u64 {
    number ^= number >> 30;
    number = number.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number ^= number >> 27;
    number = number.wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
