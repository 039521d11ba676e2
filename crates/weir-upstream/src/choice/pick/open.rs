//! The places of a lane that a pick has left open.

use smallvec::SmallVec;

/// Lanes of up to so many words are narrowed without an allocation: 1,024 origins.
const WORDS: usize = 16;

/// A set of places.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    words: SmallVec<[u64; WORDS]>,
    count: usize,
}

impl Open {
    /// Those of the first `size` places that `is_in` says.
    pub(crate) fn of(size: usize, is_in: impl Fn(usize) -> bool) -> Open {
        Open::among(size, (0..size).filter(|at| is_in(*at)))
    }

    /// These of the first `size` places, each once.
    pub(crate) fn among(size: usize, places: impl Iterator<Item = usize>) -> Open {
        let mut open = Open { words: SmallVec::from_elem(0, size.div_ceil(64)), count: 0 };
        places.for_each(|at| open.add(at));
        open
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn has(&self, at: usize) -> bool {
        self.words[at / 64] >> (at % 64) & 1 == 1
    }

    /// In order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(number, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(number * 64 + bit)
            })
        })
    }

    /// Leaves this one open alone.
    pub(crate) fn leave(&mut self, at: usize) {
        self.words.fill(0);
        self.count = 0;
        self.add(at);
    }

    /// Leaves those with the lowest score.
    pub(crate) fn leave_least<S: PartialOrd>(&mut self, score: impl Fn(usize) -> S) {
        let mut least: Option<S> = None;
        let mut alike = Open { words: SmallVec::from_elem(0, self.words.len()), count: 0 };
        let mut first = None;
        for at in self.iter() {
            let score = score(at);
            match &least {
                Some(least) if score == *least => alike.add(at),
                Some(least) if score > *least => {}
                _ => {
                    if alike.count > 0 {
                        alike.words.fill(0);
                        alike.count = 0;
                    }
                    (least, first) = (Some(score), Some(at));
                }
            }
        }
        first.into_iter().for_each(|at| alike.add(at));
        *self = alike;
    }

    /// Takes one out that is in.
    pub(crate) fn remove(&mut self, at: usize) {
        self.words[at / 64] &= !(1 << (at % 64));
        self.count -= 1;
    }

    fn add(&mut self, at: usize) {
        self.words[at / 64] |= 1 << (at % 64);
        self.count += 1;
    }
}
