//! Byte intervals and sorted sets of them: which bytes of a body are held. No HTTP here.

use smallvec::SmallVec;

/// The bytes from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interval {
    /// The first byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl Interval {
    /// The interval [start, end).
    ///
    /// # Panics
    /// Where `end` lies before `start`.
    pub fn new(start: u64, end: u64) -> Interval {
        assert!(start <= end, "interval runs backwards");
        Interval { start, end }
    }

    /// How many bytes it has.
    pub fn length(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it has no byte.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether all of `other` lies in it.
    pub fn contains(&self, other: Interval) -> bool {
        other.is_empty() || (self.start <= other.start && other.end <= self.end)
    }

    /// The bytes of both; `None` if there are none.
    pub fn intersection(&self, other: Interval) -> Option<Interval> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some(Interval { start, end })
    }
}

/// A sorted set of intervals that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    parts: SmallVec<[Interval; 2]>,
}

impl Intervals {
    /// The empty set.
    pub fn new() -> Intervals {
        Intervals::default()
    }

    /// The set of one interval.
    pub fn of(interval: Interval) -> Intervals {
        let mut set = Intervals::new();
        set.insert(interval);
        set
    }

    /// Adds an interval, joining it with what it touches.
    pub fn insert(&mut self, added: Interval) {
        if added.is_empty() {
            return;
        }
        let first = self.parts.partition_point(|part| part.end < added.start);
        let after = self.parts.partition_point(|part| part.start <= added.end);
        if first == after {
            self.parts.insert(first, added);
            return;
        }
        let joined = Interval {
            start: added.start.min(self.parts[first].start),
            end: added.end.max(self.parts[after - 1].end),
        };
        self.parts[first] = joined;
        self.parts.drain(first + 1..after);
    }

    /// Removes an interval.
    pub fn remove(&mut self, taken: Interval) {
        if taken.is_empty() {
            return;
        }
        let old = std::mem::take(&mut self.parts);
        for part in old {
            for rest in [
                Interval { start: part.start, end: part.end.min(taken.start) },
                Interval { start: part.start.max(taken.end), end: part.end },
            ] {
                if rest.start < rest.end {
                    self.parts.push(rest);
                }
            }
        }
    }

    /// Whether every byte of `wanted` is in the set.
    pub fn contains(&self, wanted: Interval) -> bool {
        wanted.is_empty() || self.at(wanted.start).is_some_and(|part| wanted.end <= part.end)
    }

    /// How many bytes from `offset` on are in the set without a hole.
    pub fn run_at(&self, offset: u64) -> u64 {
        self.at(offset).map_or(0, |part| part.end - offset)
    }

    /// The holes of the set within `wanted`, in order.
    pub fn gaps(&self, wanted: Interval) -> impl Iterator<Item = Interval> + '_ {
        let first = self.parts.partition_point(|part| part.end <= wanted.start);
        let mut parts = self.parts[first..].iter().copied().take_while(move |part| part.start < wanted.end);
        let mut at = wanted.start;
        let mut ended = false;
        std::iter::from_fn(move || {
            while !ended {
                let (hole_end, next) = match parts.next() {
                    Some(part) => (part.start, part.end),
                    None => {
                        ended = true;
                        (wanted.end, wanted.end)
                    }
                };
                let hole = (at < hole_end).then_some(Interval { start: at, end: hole_end });
                at = next.max(at);
                if hole.is_some() {
                    return hole;
                }
            }
            None
        })
    }

    /// The intervals, in order.
    pub fn iter(&self) -> impl Iterator<Item = Interval> + '_ {
        self.parts.iter().copied()
    }

    /// How many bytes are in the set.
    pub fn length(&self) -> u64 {
        self.parts.iter().map(Interval::length).sum()
    }

    /// How many separate intervals there are.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    fn at(&self, offset: u64) -> Option<Interval> {
        let index = self.parts.partition_point(|part| part.end <= offset);
        self.parts.get(index).copied().filter(|part| part.start <= offset)
    }
}

#[cfg(test)]
mod tests;
