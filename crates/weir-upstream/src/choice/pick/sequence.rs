//! Whose turn it is, by weight and without state: the caller counts the turns.
//!
//! Up to [`ROUND_MAX`] turns a round is nginx's smooth weighted round robin, worked out beforehand: in each
//! round each origin has exactly its weight, evenly spread. Longer rounds are spread by the golden ratio
//! (Kronecker's sequence, of low discrepancy): shares are right over any longer time.

/// The most turns of a round that is worked out beforehand.
const ROUND_MAX: u64 = 4096;

/// Whose turn it is.
#[derive(Debug)]
pub(crate) enum Sequence {
    /// One after another; so many, at least 1.
    Even(usize),
    /// A whole round.
    Round(Vec<u32>),
    /// The sums of the weights up to each, itself included.
    Spread(Vec<u64>),
}

impl Default for Sequence {
    fn default() -> Sequence {
        Sequence::Even(1)
    }
}

impl Sequence {
    /// The turns of places with these weights, each 1 or more.
    pub(crate) fn new(weights: &[u32]) -> Sequence {
        let Some(first) = weights.first() else { return Sequence::default() };
        if weights.iter().all(|weight| weight == first) {
            return Sequence::Even(weights.len());
        }
        let divisor = weights.iter().fold(0, |divisor, weight| common_divisor(*weight, divisor)).max(1);
        let sum: u64 = weights.iter().map(|weight| u64::from(weight / divisor)).sum();
        if sum <= ROUND_MAX {
            return Sequence::Round(round(weights, divisor, sum));
        }
        let mut so_far = 0;
        let sums = weights.iter().map(|weight| {
            so_far += u64::from(*weight);
            so_far
        });
        Sequence::Spread(sums.collect())
    }

    /// The place whose turn it is.
    pub(crate) fn at(&self, turn: u64) -> usize {
        match self {
            Sequence::Even(count) => (turn % *count as u64) as usize,
            Sequence::Round(round) => round[(turn % round.len() as u64) as usize] as usize,
            Sequence::Spread(sums) => {
                let Some(all) = sums.last() else { return 0 };
                let point = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let point = ((u128::from(point) * u128::from(*all)) >> 64) as u64;
                sums.partition_point(|sum| *sum <= point)
            }
        }
    }
}

/// One round: each gains its weight at each turn, the one that has most is next, and pays the sum.
fn round(weights: &[u32], divisor: u32, sum: u64) -> Vec<u32> {
    let weights: Vec<i64> = weights.iter().map(|weight| i64::from(weight / divisor)).collect();
    let mut balances = vec![0_i64; weights.len()];
    let turns = (0..sum).map(|_| {
        let mut best = 0;
        for (place, weight) in weights.iter().enumerate() {
            balances[place] += weight;
            if balances[place] > balances[best] {
                best = place;
            }
        }
        balances[best] -= sum as i64;
        best as u32
    });
    turns.collect()
}

fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}
