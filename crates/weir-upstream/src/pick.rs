//! Smooth weighted round robin: of the eligible, each is picked in proportion to its weight, and evenly
//! spread.
//!
//! Pure. The algorithm is nginx's: every eligible one gains its weight, the richest is picked and pays the
//! sum.

/// The balances of an upstream's origins.
#[derive(Clone, Debug)]
pub(crate) struct Wheel {
    balances: Vec<i64>,
}

impl Wheel {
    /// A wheel for so many origins.
    pub(crate) fn new(origins: usize) -> Self {
        Self { balances: vec![0; origins] }
    }

    /// Picks one of the eligible; `None` if there is none.
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
