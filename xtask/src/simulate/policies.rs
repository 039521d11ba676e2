//! The policies that Weir is compared with: exact, by bytes, and without limits on their steps.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// A cache that is asked for objects.
pub(crate) trait Policy {
    /// Requests an object. True for a hit; a miss is stored.
    fn request(&mut self, object: u64, bytes: u64) -> bool;
}

/// Objects in the order of a number, with their bytes.
#[derive(Default)]
struct Order {
    next: u64,
    used_bytes: u64,
    by_number: BTreeMap<u64, u64>,
    held: HashMap<u64, (u64, u64)>,
}

impl Order {
    fn has(&self, object: u64) -> bool {
        self.held.contains_key(&object)
    }

    fn push(&mut self, object: u64, bytes: u64) {
        self.next += 1;
        self.by_number.insert(self.next, object);
        self.held.insert(object, (self.next, bytes));
        self.used_bytes += bytes;
    }

    fn remove(&mut self, object: u64) -> Option<u64> {
        let (number, bytes) = self.held.remove(&object)?;
        self.by_number.remove(&number);
        self.used_bytes -= bytes;
        Some(bytes)
    }

    fn touch(&mut self, object: u64) {
        if let Some(bytes) = self.remove(object) {
            self.push(object, bytes);
        }
    }

    fn oldest(&self) -> Option<u64> {
        self.by_number.values().next().copied()
    }

    fn pop(&mut self) -> Option<(u64, u64)> {
        let object = self.oldest()?;
        Some((object, self.remove(object)?))
    }
}

/// Least recently used.
pub(crate) struct Lru {
    size: u64,
    order: Order,
}

impl Lru {
    pub(crate) fn new(size: u64) -> Lru {
        Lru { size, order: Order::default() }
    }
}

impl Policy for Lru {
    fn request(&mut self, object: u64, bytes: u64) -> bool {
        if self.order.has(object) {
            self.order.touch(object);
            return true;
        }
        self.order.push(object, bytes);
        while self.order.used_bytes > self.size && self.order.pop().is_some() {}
        false
    }
}

/// First in, first out.
pub(crate) struct Fifo(Lru);

impl Fifo {
    pub(crate) fn new(size: u64) -> Fifo {
        Fifo(Lru::new(size))
    }
}

impl Policy for Fifo {
    fn request(&mut self, object: u64, bytes: u64) -> bool {
        self.0.order.has(object) || self.0.request(object, bytes)
    }
}

/// S3-FIFO (Yang et al., SOSP '23): a tenth is the small queue.
pub(crate) struct S3Fifo {
    size: u64,
    small: Order,
    main: Order,
    uses: HashMap<u64, u8>,
    ghosts: VecDeque<u64>,
    is_ghost: HashSet<u64>,
}

impl S3Fifo {
    pub(crate) fn new(size: u64) -> S3Fifo {
        let (small, main) = (Order::default(), Order::default());
        S3Fifo { size, small, main, uses: HashMap::new(), ghosts: VecDeque::new(), is_ghost: HashSet::new() }
    }

    fn evict(&mut self) {
        if self.small.used_bytes * 10 > self.size {
            let Some((object, bytes)) = self.small.pop() else { return };
            if self.uses.get(&object).is_some_and(|uses| *uses > 1) {
                self.uses.insert(object, 0);
                return self.main.push(object, bytes);
            }
            self.uses.remove(&object);
            self.is_ghost.insert(object);
            self.ghosts.push_back(object);
            while self.ghosts.len() > self.main.held.len().max(256) {
                if let Some(oldest) = self.ghosts.pop_front() {
                    self.is_ghost.remove(&oldest);
                }
            }
            return;
        }
        let Some((object, bytes)) = self.main.pop() else { return };
        match self.uses.get_mut(&object).filter(|uses| **uses > 0) {
            Some(uses) => {
                *uses -= 1;
                self.main.push(object, bytes);
            }
            None => drop(self.uses.remove(&object)),
        }
    }
}

impl Policy for S3Fifo {
    fn request(&mut self, object: u64, bytes: u64) -> bool {
        if self.small.has(object) || self.main.has(object) {
            let uses = self.uses.entry(object).or_default();
            *uses = (*uses + 1).min(3);
            return true;
        }
        let home = if self.is_ghost.remove(&object) { &mut self.main } else { &mut self.small };
        home.push(object, bytes);
        self.uses.insert(object, 0);
        while self.small.used_bytes + self.main.used_bytes > self.size {
            self.evict();
        }
        false
    }
}

/// SIEVE (Zhang et al., NSDI '24).
pub(crate) struct Sieve {
    size: u64,
    order: Order,
    was_used: HashSet<u64>,
    hand: u64,
}

impl Sieve {
    pub(crate) fn new(size: u64) -> Sieve {
        Sieve { size, order: Order::default(), was_used: HashSet::new(), hand: 0 }
    }
}

impl Policy for Sieve {
    fn request(&mut self, object: u64, bytes: u64) -> bool {
        if self.order.has(object) {
            self.was_used.insert(object);
            return true;
        }
        while self.order.used_bytes + bytes > self.size {
            let Some((number, at)) = self.order.by_number.range(self.hand..).next().map(|(n, o)| (*n, *o))
            else {
                if self.hand == 0 {
                    break;
                }
                self.hand = 0;
                continue;
            };
            self.hand = number + 1;
            if !self.was_used.remove(&at) {
                self.order.remove(at);
            }
        }
        self.order.push(object, bytes);
        false
    }
}

/// W-TinyLFU (Einziger et al., TOS '17): a window of a hundredth before a segmented LRU. Frequencies are
/// counted exactly, and halved after ten times as many requests as there are objects.
pub(crate) struct TinyLfu {
    size: u64,
    window: Order,
    probation: Order,
    protected: Order,
    counts: HashMap<u64, u8>,
    noted: usize,
}

impl TinyLfu {
    pub(crate) fn new(size: u64) -> TinyLfu {
        let (window, probation, protected) = (Order::default(), Order::default(), Order::default());
        TinyLfu { size, window, probation, protected, counts: HashMap::new(), noted: 0 }
    }

    fn note(&mut self, object: u64) {
        let count = self.counts.entry(object).or_default();
        *count = (*count + 1).min(15);
        self.noted += 1;
        let objects = self.window.held.len() + self.probation.held.len() + self.protected.held.len();
        if self.noted > 10 * objects.max(100) {
            self.noted = 0;
            self.counts.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
        }
    }

    fn count(&self, object: u64) -> u8 {
        self.counts.get(&object).copied().unwrap_or(0)
    }

    fn admit(&mut self, candidate: u64, bytes: u64) {
        let main_bytes = self.size - self.size / 100;
        while self.probation.used_bytes + self.protected.used_bytes + bytes > main_bytes {
            let victim = self.probation.oldest().or_else(|| self.protected.oldest());
            let Some(victim) = victim else { return };
            if self.count(candidate) <= self.count(victim) {
                return;
            }
            self.probation.remove(victim).or_else(|| self.protected.remove(victim));
        }
        self.probation.push(candidate, bytes);
    }
}

impl Policy for TinyLfu {
    fn request(&mut self, object: u64, bytes: u64) -> bool {
        self.note(object);
        if self.window.has(object) {
            self.window.touch(object);
            return true;
        }
        if self.protected.has(object) {
            self.protected.touch(object);
            return true;
        }
        if let Some(bytes) = self.probation.remove(object) {
            self.protected.push(object, bytes);
            while self.protected.used_bytes > self.size / 100 * 79 {
                let Some((oldest, bytes)) = self.protected.pop() else { break };
                self.probation.push(oldest, bytes);
            }
            return true;
        }
        self.window.push(object, bytes);
        while self.window.used_bytes > self.size / 100 {
            let Some((candidate, bytes)) = self.window.pop() else { break };
            self.admit(candidate, bytes);
        }
        false
    }
}
