//! The shares that picks by metrics give, against origins that are simulated second by second.

use super::*;

/// Origins of which each second of time tells how busy they were.
struct Origins {
    learnt: Learnt,
    begin: Instant,
    /// What others take of each.
    foreign: Vec<f64>,
    /// What a request a second takes of each.
    cost: Vec<f64>,
    taken: Vec<f64>,
    /// Taken at the last sample.
    before: Vec<f64>,
    values: Vec<Option<(f64, Instant)>>,
    shares: Vec<f64>,
}

impl Origins {
    fn new(foreign: &[f64], cost: &[f64]) -> Origins {
        let count = foreign.len();
        Origins {
            learnt: Learnt::default(),
            begin: crate::clock::now(),
            foreign: foreign.to_vec(),
            cost: cost.to_vec(),
            taken: vec![0.0; count],
            before: vec![0.0; count],
            values: vec![None; count],
            shares: vec![1.0 / count as f64; count],
        }
    }

    /// So many seconds at so many requests a second, with a value every five. The shares of each second.
    fn run(&mut self, from_s: u32, seconds: u32, rate: f64, mark: Option<f64>) -> Vec<Vec<f64>> {
        let mut seen = Vec::new();
        for second in from_s..from_s + seconds {
            for tick in 0..5 {
                let now = self.begin + Duration::from_millis((second * 1000 + tick * 200).into());
                if tick == 0 && second % 5 == 0 && second > 0 {
                    for at in 0..self.taken.len() {
                        let own = (self.taken[at] - self.before[at]) / 5.0 * self.cost[at];
                        self.values[at] = Some(((self.foreign[at] + own).min(1.0), now));
                        self.before[at] = self.taken[at];
                    }
                }
                let sample = |at: usize| Sample {
                    seed: at as u64,
                    weight: 1.0,
                    taken: self.taken[at] as u64,
                    value: self.values[at],
                };
                let samples: Vec<Sample> = (0..self.taken.len()).map(sample).collect();
                if let Some(shares) = self.learnt.judge(&samples, (1, now), mark) {
                    let sum: f64 = shares.iter().sum();
                    self.shares = shares.iter().map(|share| share / sum).collect();
                }
                for at in 0..self.taken.len() {
                    self.taken[at] += self.shares[at] * rate / 5.0;
                }
            }
            seen.push(self.shares.clone());
        }
        seen
    }
}

/// Whether the share of each origin stays within a fifth of its mean.
fn is_calm(seen: &[Vec<f64>]) -> bool {
    (0..seen[0].len()).all(|at| {
        let mean = seen.iter().map(|shares| shares[at]).sum::<f64>() / seen.len() as f64;
        seen.iter().all(|shares| (shares[at] - mean).abs() <= 0.2 * mean)
    })
}

#[test]
fn shares_follow_what_others_take_and_stay() {
    for rate in [30.0, 120.0, 220.0] {
        let mut origins = Origins::new(&[0.6, 0.0, 0.0], &[0.01; 3]);
        origins.run(0, 20, rate, None);
        let seen = origins.run(20, 60, rate, None);
        assert!(is_calm(&seen), "{rate}: {seen:?}");
        let last = seen.last().unwrap();
        assert!((0.1..0.25).contains(&last[0]), "{rate}: {last:?}");
        assert!((last[1] - last[2]).abs() < 0.05, "{rate}: {last:?}");
    }
}

#[test]
fn a_load_that_fills_all_does_not_swing() {
    for rate in [240.0, 290.0, 400.0] {
        let mut origins = Origins::new(&[0.0; 3], &[0.01; 3]);
        origins.run(0, 10, rate, None);
        let seen = origins.run(10, 60, rate, None);
        assert!(is_calm(&seen), "{rate}: {seen:?}");
    }
}

#[test]
fn a_slower_machine_gets_less() {
    let mut origins = Origins::new(&[0.0; 3], &[0.02, 0.01, 0.01]);
    origins.run(0, 30, 100.0, None);
    let seen = origins.run(30, 60, 100.0, None);
    assert!(is_calm(&seen), "{seen:?}");
    assert!(seen[59][0] < seen[59][1], "{:?}", seen[59]);
}

#[test]
fn a_hog_that_comes_is_left_within_three_values() {
    let mut origins = Origins::new(&[0.0; 3], &[0.01; 3]);
    origins.run(0, 30, 90.0, None);
    origins.foreign[1] = 0.7;
    let seen = origins.run(30, 20, 90.0, None);
    assert!(seen[19][1] < 0.2, "{:?}", seen[19]);
    origins.foreign[1] = 0.0;
    let seen = origins.run(50, 30, 90.0, None);
    assert!(seen[29][1] > 0.28, "{:?}", seen[29]);
}

#[test]
fn packing_fills_the_first_and_leaves_the_last() {
    let mut origins = Origins::new(&[0.0; 3], &[0.01; 3]);
    origins.run(0, 40, 90.0, Some(0.7));
    let seen = origins.run(40, 60, 90.0, Some(0.7));
    let last = &seen[59];
    assert!((last[0] - 0.78).abs() < 0.1 && last[1] > 0.1 && last[2] < 0.02, "{last:?}");
    // More than all can take up to the mark is spread.
    let seen = origins.run(100, 60, 270.0, Some(0.7));
    assert!(seen[59].iter().all(|share| (0.2..0.45).contains(share)), "{:?}", seen[59]);
}

#[test]
fn without_a_value_an_origin_counts_as_the_others_do() {
    let mut learnt = Learnt::default();
    let now = crate::clock::now();
    let sample = |seed, value: Option<f64>| Sample {
        seed,
        weight: 1.0,
        taken: 0,
        value: value.map(|value| (value, now)),
    };
    let none = [sample(1, None), sample(2, None)];
    assert_eq!(learnt.judge(&none, (1, now), None), None);
    let some = [sample(1, None), sample(2, Some(0.2)), sample(3, Some(0.6))];
    let shares = learnt.judge(&some, (1, now), None).unwrap();
    assert!((shares[0] - 0.6).abs() < 1e-9, "{shares:?}");
    assert_eq!(learnt.judge(&some, (1, now), Some(0.7)).unwrap()[0], 0.0);
}

#[test]
fn many_origins_that_come_and_go_are_forgotten() {
    let mut learnt = Learnt::default();
    let now = crate::clock::now();
    for seed in 0..20_000 {
        let sample = Sample { seed, weight: 1.0, taken: 1, value: Some((0.5, now)) };
        learnt.judge(&[sample], (1, now), None);
    }
    assert!(learnt.known.len() <= KNOWN_MAX + 1);
}
