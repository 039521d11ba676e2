//! How much one server is of another, over turns that they took one beside the other, and how sure that is.
//!
//! The k-th turns of two servers ran at nearly the same time, so a slow minute of the machine hits both: what
//! is looked at is the logarithm of the k-th ratio. The ratio is the geometric mean. Its interval of 95 % is
//! a bootstrap over the turns (Efron, Tibshirani: "An Introduction to the Bootstrap", 1993) with the expanded
//! percentiles of Hesterberg ("What Teachers Should Know about the Bootstrap", The American Statistician 69,
//! 2015): with few turns the plain percentiles would be too sure of themselves. With four or five turns it is
//! about their whole width; with fewer than three there is none.

use fastrand::Rng;

/// How often the turns are drawn again.
const DRAWS: usize = 4000;
/// Fewer turns have no interval.
const TURNS_MIN: usize = 3;
/// Student's t at 97.5 % for 1, 2, … degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// A ratio with the interval in which it lies with 95 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The geometric mean of the turns' ratios.
    pub value: f64,
    /// The interval's ends, where there are enough turns.
    pub interval: Option<(f64, f64)>,
}

impl Ratio {
    /// `of` by `to`, turn by turn. `None` where no turn has both.
    pub(crate) fn of_turns(of: &[f64], to: &[f64]) -> Option<Self> {
        let is_some = |value: f64| value.is_finite() && value > 0.0;
        let pairs = of.iter().zip(to).filter(|(of, to)| is_some(**of) && is_some(**to));
        let logs: Vec<f64> = pairs.map(|(of, to)| (of / to).ln()).collect();
        if logs.is_empty() {
            return None;
        }
        let interval = (logs.len() >= TURNS_MIN).then(|| interval(&logs));
        Some(Self { value: mean(&logs).exp(), interval: interval.map(|(low, high)| (low.exp(), high.exp())) })
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.interval {
            Some((low, high)) => write!(f, "{:.2} ({low:.2} to {high:.2})", self.value),
            None => write!(f, "{:.2}", self.value),
        }
    }
}

/// The expanded percentiles of the means of samples drawn again.
fn interval(logs: &[f64]) -> (f64, f64) {
    let count = logs.len();
    let mut rng = Rng::with_seed(count as u64);
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|_| (0..count).map(|_| logs[rng.usize(..count)]).sum::<f64>() / count as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    let t = T.get(count - 2).copied().unwrap_or(1.96);
    let tail = normal_below(-t * (count as f64 / (count as f64 - 1.0)).sqrt());
    let at = (tail * DRAWS as f64) as usize;
    (means[at], means[DRAWS - 1 - at])
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The normal distribution's share below a negative `x` (Abramowitz, Stegun: 26.2.17).
fn normal_below(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * -x);
    let series = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = series.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A draw from the normal distribution, by the sum of twelve.
    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
    }

    #[test]
    fn the_tails_of_the_normal_distribution() {
        for (x, share) in [(-1.0, 0.158_655), (-1.96, 0.024_998), (-3.0, 0.001_350)] {
            assert!((normal_below(x) - share).abs() < 1e-6, "{x}: {}", normal_below(x));
        }
    }

    #[test]
    fn drift_that_hits_both_cancels() {
        let drift = [1.0, 3.0, 0.5, 2.0, 1.5, 0.7];
        let twice: Vec<f64> = drift.iter().map(|one| one * 2.0).collect();
        let ratio = Ratio::of_turns(&twice, &drift).unwrap();
        assert_eq!(ratio.to_string(), "2.00 (2.00 to 2.00)");
    }

    #[test]
    fn few_turns_have_no_interval_and_none_no_ratio() {
        assert_eq!(Ratio::of_turns(&[2.0, 8.0], &[1.0, 1.0]).unwrap().to_string(), "4.00");
        assert_eq!(Ratio::of_turns(&[0.0, f64::NAN], &[1.0, 1.0]), None);
        let four = Ratio::of_turns(&[1.0, 2.0, 4.0, 8.0], &[1.0; 4]).unwrap();
        assert_eq!(four.to_string(), "2.83 (1.00 to 8.00)", "the whole width");
    }

    /// What an interval is for: of a hundred, 95 hold the truth.
    #[test]
    fn intervals_hold_the_truth() {
        let mut rng = Rng::with_seed(7);
        for (turns, least) in [(6, 91.0), (12, 92.0)] {
            let mut draw = || {
                let of: Vec<f64> = (0..turns).map(|_| 1.2 * (0.1 * normal(&mut rng)).exp()).collect();
                let (low, high) = Ratio::of_turns(&of, &vec![1.0; turns]).unwrap().interval.unwrap();
                (low..=high).contains(&1.2)
            };
            let held = (0..1000).filter(|_| draw()).count() as f64 / 10.0;
            assert!((least..99.0).contains(&held), "{turns} turns: {held} %");
        }
    }
}
