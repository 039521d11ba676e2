//! What a worker hands in of the past: so many requests of each kind a second for each client of each site.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use weir_share::Client;

use super::PastKind;
use crate::record::Facts;

/// Counts of a worker; clients that share one share its room for a second, then others do.
const SLOTS: usize = 256;
/// Requests of a kind and a client that a worker hands in in a second.
const EACH_SECOND: u64 = 4;
/// The most of them, where each is slower than those before.
const SLOWER_EACH_SECOND: u64 = 16;

/// A worker's gate. Exact as long as one thread at a time uses it.
#[derive(Debug)]
pub(crate) struct Gate {
    slots: Box<[AtomicU64]>,
    hashed: RandomState,
    begun: Instant,
}

/// A count, as it lies in 64 bits: its second, how many went through, and the slowest of them in
/// milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    second: u32,
    count: u64,
    slowest_ms: u64,
}

impl Slot {
    const SLOWEST_MAX: u64 = (1 << 24) - 1;

    fn of(bits: u64) -> Slot {
        // Cut to the 32 bits that are left.
        Slot { second: (bits >> 32) as u32, count: bits >> 24 & 0xff, slowest_ms: bits & Slot::SLOWEST_MAX }
    }

    fn bits(self) -> u64 {
        u64::from(self.second) << 32 | (self.count & 0xff) << 24 | self.slowest_ms
    }
}

impl Gate {
    pub(crate) fn new(begun: Instant) -> Gate {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Gate { slots, hashed: RandomState::new(), begun }
    }

    /// Whether a finished request is handed in. `client` is called only for one that is of a kind.
    #[inline]
    pub(crate) fn takes(&self, facts: &Facts, client: impl FnOnce() -> Option<Client>) -> bool {
        match PastKind::of(facts) {
            None => false,
            Some(kind) => self.lets_through(kind, facts, client(), weir_clock::mono()),
        }
    }

    #[cold]
    fn lets_through(&self, kind: PastKind, facts: &Facts, client: Option<Client>, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.begun).as_secs();
        // 136 years from the start, the count would begin again. A slot that was never used is of no second.
        let second = u32::try_from(since + 1).unwrap_or(u32::MAX);
        // Others share a slot in the next second.
        let hash = self.hashed.hash_one((second, kind, facts.site, client));
        let at = hash as usize % SLOTS;
        let own = &self.slots[at];
        let slot = Slot::of(own.load(Ordering::Relaxed));
        let slot = if slot.second == second { slot } else { Slot { second, count: 0, slowest_ms: 0 } };
        let took = facts.first_byte.unwrap_or_default().as_millis();
        let took_ms = u64::try_from(took).unwrap_or(u64::MAX).min(Slot::SLOWEST_MAX);
        let is_slower =
            kind == PastKind::Slow && took_ms > slot.slowest_ms && slot.count < SLOWER_EACH_SECOND;
        if slot.count >= EACH_SECOND && !is_slower {
            return false;
        }
        let slowest_ms = slot.slowest_ms.max(took_ms);
        own.store(Slot { second, count: slot.count + 1, slowest_ms }.bits(), Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::record::Completion;
    use crate::site::SiteId;

    fn slow(ms: u64) -> Facts {
        Facts { status: 200, first_byte: Some(Duration::from_millis(ms)), ..Facts::default() }
    }

    #[test]
    fn each_client_has_its_own_room_and_gets_it_back() {
        let begun = weir_clock::mono();
        let gate = Gate::new(begun);
        let taken = |kind, facts: &Facts, client: u8, second| {
            let now = begun + Duration::from_secs(second);
            let client = Some(Client::of([192, 0, 2, client].into()));
            (0..100).filter(|_| gate.lets_through(kind, facts, client, now)).count()
        };
        let failed = Facts { status: 502, ..Facts::default() };
        assert_eq!(taken(PastKind::Failed, &failed, 1, 0), 4);
        assert_eq!(taken(PastKind::Failed, &failed, 1, 1), 4);
        // Of many clients nearly all get something: few share a slot with another.
        let clients = (2..34).filter(|client| taken(PastKind::Failed, &failed, *client, 2) > 0).count();
        assert!(clients >= 16, "{clients}");
        // Another kind, and another site, have their own: one of these seconds they do not share a slot.
        let apart = (10..20).any(|second| {
            let other = Facts { site: SiteId::new(7), ..failed };
            taken(PastKind::Failed, &failed, 1, second) == 4
                && taken(PastKind::Cut, &failed, 1, second) == 4
                && taken(PastKind::Failed, &other, 1, second) == 4
        });
        assert!(apart);
    }

    #[test]
    fn the_slowest_goes_through() {
        let begun = weir_clock::mono();
        let gate = Gate::new(begun);
        let takes = |ms| gate.lets_through(PastKind::Slow, &slow(ms), None, begun);
        let taken: Vec<bool> = [20, 20, 20, 20, 20, 30, 25, 31].map(takes).to_vec();
        assert_eq!(taken, [true, true, true, true, false, true, false, true]);
        // Not without a bound.
        assert_eq!((100..200).filter(|ms| takes(*ms)).count(), 10);
    }

    #[test]
    fn what_is_in_order_is_not_looked_at() {
        let gate = Gate::new(weir_clock::mono());
        for facts in [slow(9), Facts { status: 404, ..Facts::default() }, Facts::default()] {
            assert!(!gate.takes(&facts, || panic!("the client was asked for")));
        }
        for facts in [
            slow(10),
            Facts { status: 500, ..Facts::default() },
            Facts { completion: Completion::Cut, ..slow(1) },
            Facts { completion: Completion::ClientGone, ..slow(1) },
        ] {
            assert!(gate.takes(&facts, || None), "{facts:?}");
        }
    }

    #[test]
    fn a_slot_is_what_was_put_in() {
        for slot in [
            Slot { second: u32::MAX, count: 16, slowest_ms: Slot::SLOWEST_MAX },
            Slot { second: 1, count: 0, slowest_ms: 0 },
        ] {
            assert_eq!(Slot::of(slot.bits()), slot);
        }
    }
}
