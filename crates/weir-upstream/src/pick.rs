//! Smooth weighted round robin: each eligible origin is picked in proportion to its weight, evenly spread.
//!
//! Pure. The algorithm is nginx's: each eligible origin's balance gains its weight, the one with the largest
//! balance is picked, and pays the sum of the weights.

/// The balances of an upstream's origins.
#[derive(Clone, Debug)]
pub(crate) struct Wheel {
    balances: Vec<i64>,
}

impl Wheel {
    /// Balances for so many origins.
    pub(crate) fn new(origins: usize) -> Self {
        Self { balances: vec![0; origins] }
    }

    /// Picks an eligible origin; `None` if there is none.
    pub(crate) fn turn(
        &mut self,
        weight: impl Fn(usize) -> u32,
        eligible: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut sum = 0;
        let mut best: Option<usize> = None;
        for index in 0..self.balances.len() {
            if !eligible(index) {
                continue;
            }
            let gain = i64::from(weight(index));
            self.balances[index] += gain;
            sum += gain;
            if best.is_none_or(|other| self.balances[index] > self.balances[other]) {
                best = Some(index);
            }
        }
        if let Some(index) = best {
            self.balances[index] -= sum;
        }
        best
    }
}
