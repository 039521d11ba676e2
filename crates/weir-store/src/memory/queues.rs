//! Which generations leave when space is needed: S3-FIFO by bytes (Yang et al., "FIFO queues are all you need
//! for cache eviction", SOSP '23). A small queue holds what is new, a main queue what was used twice, ghosts
//! remember what was not.
//!
//! Pure bookkeeping under its owner's lock. It departs from the paper twice, to stay predictable: it passes
//! over what is being read, since dropping that would free nothing; and a search ends after a fixed number of
//! steps.

use std::sync::Arc;

use smallvec::SmallVec;

use super::ghost::Ghosts;
use crate::generation::{Generation, NO_PLACE};

/// The share of the small queue in percent.
const SMALL_PERCENT: u64 = 10;
/// With so many uses a generation that leaves the small queue goes to the main queue.
const USES_FOR_MAIN: u8 = 2;
/// After so many steps without a victim, used generations leave as well.
const STEPS_GENTLE_MAX: usize = 512;
/// After so many steps a search ends, whatever it has found.
const STEPS_MAX: usize = 4096;
/// The fewest ghosts that are kept.
const GHOSTS_MIN: usize = 256;
/// What a node costs in memory.
pub(crate) const NODE_BYTES: u64 = 48;

/// Generations that leave together.
pub(crate) type Victims = SmallVec<[Arc<Generation>; 8]>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Home {
    Small,
    Main,
}

/// A generation in a queue. `older` and `newer` are places.
#[derive(Debug)]
struct Node {
    generation: Arc<Generation>,
    weight_bytes: u64,
    home: Home,
    older: u32,
    newer: u32,
}

/// One queue: a linked list through the nodes.
#[derive(Debug)]
struct Queue {
    oldest: u32,
    newest: u32,
    count: usize,
    bytes: u64,
}

impl Queue {
    fn new() -> Queue {
        Queue { oldest: NO_PLACE, newest: NO_PLACE, count: 0, bytes: 0 }
    }
}

/// The result of a step.
enum Step {
    /// It leaves, and weighs this much.
    Leaves(Arc<Generation>, u64),
    /// It was used, and has one more turn.
    Stays,
    /// A reader holds it.
    IsRead,
}

/// The two queues, the ghosts, and the nodes of both.
#[derive(Debug)]
pub(crate) struct Queues {
    nodes: Vec<Option<Node>>,
    free: Vec<u32>,
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
    small_bytes_max: u64,
}

/// What is in the queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) count: usize,
    pub(crate) bytes: u64,
}

impl Queues {
    pub(crate) fn new(limit_bytes: u64) -> Queues {
        Queues {
            nodes: Vec::new(),
            free: Vec::new(),
            small: Queue::new(),
            main: Queue::new(),
            ghosts: Ghosts::default(),
            small_bytes_max: limit_bytes / 100 * SMALL_PERCENT,
        }
    }

    pub(crate) fn load(&self) -> Load {
        Load { count: self.small.count + self.main.count, bytes: self.small.bytes + self.main.bytes }
    }

    /// Puts a generation at the new end of the small queue; of the main queue if its ghost is there.
    pub(crate) fn link(&mut self, generation: Arc<Generation>, weight_bytes: u64) {
        debug_assert_eq!(generation.place(), NO_PLACE);
        let is_returning = self.ghosts.take(generation.key().digest);
        let home = if is_returning { Home::Main } else { Home::Small };
        let node = Node { generation, weight_bytes, home, older: NO_PLACE, newer: NO_PLACE };
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                // Invariant: fewer than 2^32 generations fit, each costing hundreds of bytes.
                assert!(self.nodes.len() < NO_PLACE as usize, "the queues are full");
                self.nodes.push(None);
                (self.nodes.len() - 1) as u32
            }
        };
        node.generation.set_place(place);
        self.nodes[place as usize] = Some(node);
        self.attach(place, home);
    }

    /// Whether what is loaded now was here a while ago, or could have been. The next time it was.
    pub(crate) fn is_returning(&mut self, digest: u128) -> bool {
        let is_returning = self.ghosts.has(digest);
        if !is_returning {
            self.ghosts.add(digest, self.load().count.max(GHOSTS_MIN));
        }
        is_returning
    }

    /// Takes a generation out, if it is in.
    pub(crate) fn unlink(&mut self, generation: &Generation) -> Option<Arc<Generation>> {
        let place = generation.place();
        if place == NO_PLACE {
            return None;
        }
        Some(self.release(place))
    }

    /// Takes the node at a linked place away.
    fn release(&mut self, place: u32) -> Arc<Generation> {
        self.detach(place);
        self.free.push(place);
        match self.nodes[place as usize].take() {
            Some(node) => {
                node.generation.set_place(NO_PLACE);
                node.generation
            }
            None => unreachable!("a linked place holds a node"),
        }
    }

    /// Takes out what should leave first, until it weighs `need_bytes`. Where all that can leave weighs less,
    /// nothing does: it would leave in vain.
    pub(crate) fn pick(&mut self, need_bytes: u64) -> Victims {
        if self.load().bytes < need_bytes {
            return Victims::new();
        }
        let mut leaving = SmallVec::<[(Arc<Generation>, u64); 8]>::new();
        let (mut freed, mut passed_over) = (0, 0);
        for step in 0..STEPS_MAX {
            if freed >= need_bytes {
                break;
            }
            // While readers hold all of the main queue, it has nothing to give.
            let is_main_stuck = passed_over >= self.main.count;
            let from_small = self.small.bytes > self.small_bytes_max || is_main_stuck;
            let oldest = if from_small { self.small.oldest } else { self.main.oldest };
            if oldest == NO_PLACE {
                for (victim, weight_bytes) in leaving.drain(..) {
                    self.link(victim, weight_bytes);
                }
                break;
            }
            match self.step(oldest, step < STEPS_GENTLE_MAX) {
                Step::Leaves(victim, weight_bytes) => {
                    leaving.push((victim, weight_bytes));
                    freed += weight_bytes;
                    passed_over = 0;
                }
                Step::Stays => passed_over = 0,
                Step::IsRead => passed_over += usize::from(!from_small),
            }
        }
        leaving.into_iter().map(|(victim, _)| victim).collect()
    }

    /// One step of S3-FIFO at the old end of a queue: the generation there leaves, or moves on.
    fn step(&mut self, place: u32, is_gentle: bool) -> Step {
        let node = self.node(place);
        let (home, weight_bytes) = (node.home, node.weight_bytes);
        let uses = node.generation.label.uses();
        let is_read_now = Arc::strong_count(&node.generation) > 1;
        let is_kept = match home {
            Home::Small => uses >= USES_FOR_MAIN,
            Home::Main => uses > 0,
        };
        if is_read_now || (is_kept && is_gentle) {
            let left = if home == Home::Small { 0 } else { uses.saturating_sub(u8::from(!is_read_now)) };
            if left != uses {
                node.generation.label.set_uses(left);
            }
            self.detach(place);
            self.attach(place, Home::Main);
            return if is_read_now { Step::IsRead } else { Step::Stays };
        }
        if home == Home::Small {
            let digest = node.generation.key().digest;
            self.ghosts.add(digest, self.load().count.max(GHOSTS_MIN));
        }
        let generation = self.release(place);
        Step::Leaves(generation, weight_bytes)
    }

    /// Visits at most `count` nodes from `cursor` on; returns where to go on, or `None` at the end.
    pub(crate) fn visit(
        &self,
        cursor: usize,
        count: usize,
        mut visit: impl FnMut(&Arc<Generation>),
    ) -> Option<usize> {
        let end = self.nodes.len().min(cursor.saturating_add(count));
        for node in self.nodes.get(cursor..end).unwrap_or_default().iter().flatten() {
            visit(&node.generation);
        }
        (end < self.nodes.len()).then_some(end)
    }

    fn node(&self, place: u32) -> &Node {
        match &self.nodes[place as usize] {
            Some(node) => node,
            None => unreachable!("a linked place holds a node"),
        }
    }

    fn node_mut(&mut self, place: u32) -> &mut Node {
        match &mut self.nodes[place as usize] {
            Some(node) => node,
            None => unreachable!("a linked place holds a node"),
        }
    }

    fn queue_mut(&mut self, home: Home) -> &mut Queue {
        match home {
            Home::Small => &mut self.small,
            Home::Main => &mut self.main,
        }
    }

    fn attach(&mut self, place: u32, home: Home) {
        let newest = self.queue_mut(home).newest;
        let node = self.node_mut(place);
        (node.home, node.older, node.newer) = (home, newest, NO_PLACE);
        let weight_bytes = node.weight_bytes;
        if newest != NO_PLACE {
            self.node_mut(newest).newer = place;
        }
        let queue = self.queue_mut(home);
        queue.newest = place;
        if newest == NO_PLACE {
            queue.oldest = place;
        }
        queue.count += 1;
        queue.bytes += weight_bytes;
    }

    fn detach(&mut self, place: u32) {
        let Node { home, older, newer, weight_bytes, .. } = *self.node(place);
        if older != NO_PLACE {
            self.node_mut(older).newer = newer;
        }
        if newer != NO_PLACE {
            self.node_mut(newer).older = older;
        }
        let queue = self.queue_mut(home);
        if queue.oldest == place {
            queue.oldest = newer;
        }
        if queue.newest == place {
            queue.newest = older;
        }
        queue.count -= 1;
        queue.bytes -= weight_bytes;
    }
}

#[cfg(test)]
mod tests;
