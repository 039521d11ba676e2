//! What is made of the objects that are found: a page, the first of an order, a sum. All are bounded.

use std::collections::BinaryHeap;
use std::time::Duration;

use super::listed::{Form, Listed, Order, Sum};
use super::wanted::{LISTED_MAX, Listing};

/// The most bytes of keys in one answer: a page with very long keys is full before it has its objects, and
/// of an order there are fewer.
pub const LISTED_BYTES_MAX: usize = 16 << 20;

impl Sum {
    fn add(&mut self, object: &Listed) {
        self.objects += 1;
        self.held_bytes += object.held_bytes;
    }
}

/// Where an object stands in an order: what is smaller comes first. Between equals the key decides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Most(std::cmp::Reverse<u64>),
    Oldest(std::cmp::Reverse<Duration>),
    /// Milliseconds until it expires.
    Soonest(i128),
    Key,
}

impl Rank {
    fn of(order: Order, object: &Listed) -> Rank {
        let ms = |time: Duration| time.as_millis().min(i128::MAX as u128) as i128;
        match order {
            Order::Url => Rank::Key,
            Order::Size => Rank::Most(std::cmp::Reverse(object.held_bytes)),
            Order::Age => Rank::Oldest(std::cmp::Reverse(object.age)),
            Order::Expires => Rank::Soonest(ms(object.lifetime) - ms(object.age)),
        }
    }
}

/// An object and where it stands.
#[derive(Debug)]
pub(super) struct Ranked {
    rank: Rank,
    object: Listed,
}

impl Ranked {
    fn place(&self) -> (&Rank, &[u8], u64) {
        (&self.rank, &self.object.key.full, self.object.key.site)
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Ranked) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

/// What was taken so far.
#[derive(Debug)]
pub(super) enum Taken {
    Page { objects: Vec<Listed>, bytes: usize, limit: usize },
    First { order: Order, heap: BinaryHeap<Ranked>, bytes: usize, limit: usize, sum: Sum },
    Sum(Sum),
}

impl Taken {
    pub(super) fn new(listing: &Listing) -> Taken {
        let limit = listing.limit.clamp(1, LISTED_MAX);
        match listing.form {
            Form::Page => Taken::Page { objects: Vec::new(), bytes: 0, limit },
            Form::First(order) => {
                Taken::First { order, heap: BinaryHeap::new(), bytes: 0, limit, sum: Sum::default() }
            }
            Form::Sum => Taken::Sum(Sum::default()),
        }
    }

    /// Whether nothing more goes in.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Taken::Page { objects, bytes, limit }
            if objects.len() >= *limit || *bytes >= LISTED_BYTES_MAX)
    }

    /// How many rows to read ahead at first.
    pub(super) fn limit(&self) -> Option<usize> {
        match self {
            Taken::Page { limit, .. } => Some(*limit),
            Taken::First { .. } | Taken::Sum(_) => None,
        }
    }

    /// Takes an object that is wanted.
    pub(super) fn take(&mut self, object: Listed) {
        match self {
            Taken::Page { objects, bytes, .. } => {
                *bytes += object.key.full.len();
                objects.push(object);
            }
            Taken::First { order, heap, bytes, limit, sum } => {
                sum.add(&object);
                *bytes += object.key.full.len();
                heap.push(Ranked { rank: Rank::of(*order, &object), object });
                while heap.len() > *limit || *bytes > LISTED_BYTES_MAX {
                    let Some(last) = heap.pop() else { break };
                    *bytes -= last.object.key.full.len();
                }
            }
            Taken::Sum(sum) => sum.add(&object),
        }
    }

    /// The objects in order, and the sum.
    pub(super) fn into_parts(self) -> (Vec<Listed>, Option<Sum>) {
        match self {
            Taken::Page { objects, .. } => (objects, None),
            Taken::First { heap, sum, .. } => {
                (heap.into_sorted_vec().into_iter().map(|ranked| ranked.object).collect(), Some(sum))
            }
            Taken::Sum(sum) => (Vec::new(), Some(sum)),
        }
    }
}
