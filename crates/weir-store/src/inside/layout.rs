//! Which volumes there are, and which of them a key belongs to.
//!
//! A body is written to the volume that wins its key ([`crate::volume::placement`]) among those that store at
//! the moment. A look-up asks all of them, at the cost of an index look-up in memory each. So an object is
//! found wherever it was stored, however often the layout changed. A new version removes the older one from
//! every volume ([`Tiers::remove`]).

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use crate::generation::Generation;
use crate::tier::VolumeTier;
use crate::volume::VolumeState;
use crate::volume::placement::Bidder;
use crate::volume::{Named, key};

/// A volume of this identity is attached already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a volume of that identity is in use already: one is a copy of the other")]
pub struct Twice;

/// The volumes below memory.
#[derive(Debug, Default)]
pub(crate) struct Tiers {
    layout: ArcSwap<Layout>,
    /// Held while the layout is changed.
    changing: Mutex<()>,
}

/// The volumes at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    seats: Vec<Seat>,
}

#[derive(Debug, Clone)]
struct Seat {
    tier: Arc<VolumeTier>,
    bidder: Bidder,
}

impl Seat {
    fn of(tier: &Arc<VolumeTier>) -> Seat {
        Seat { tier: Arc::clone(tier), bidder: Bidder::new(tier.volume.id(), tier.weight()) }
    }
}

impl Layout {
    /// All volumes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<VolumeTier>> {
        self.seats.iter().map(|seat| &seat.tier)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// The volume that should store this digest (of the key as volumes have it). `None` where there is none,
    /// or where the right one does not keep up.
    pub(crate) fn home(&self, digest: u128) -> Option<&Arc<VolumeTier>> {
        let mut best: Option<(f64, VolumeState, &Arc<VolumeTier>)> = None;
        for Seat { tier, bidder } in &self.seats {
            let state = tier.state();
            if tier.is_draining() || !matches!(state, VolumeState::Up | VolumeState::Slow) {
                continue;
            }
            let score = bidder.score(digest);
            if best.is_none_or(|(most, ..)| score > most) {
                best = Some((score, state, tier));
            }
        }
        best.filter(|(_, state, _)| *state == VolumeState::Up).map(|(.., tier)| tier)
    }
}

impl Tiers {
    /// The volumes that are attached now.
    pub(crate) fn all(&self) -> Guard<Arc<Layout>> {
        self.layout.load()
    }

    /// The volume that should store this digest.
    pub(crate) fn home(&self, digest: u128) -> Option<Arc<VolumeTier>> {
        self.layout.load().home(digest).cloned()
    }

    /// Adds a volume.
    ///
    /// # Errors
    /// [`Twice`].
    pub(crate) fn attach(&self, tier: &Arc<VolumeTier>) -> Result<(), Twice> {
        let _changing = self.changing.lock();
        let mut layout = Layout::clone(&self.layout.load());
        if layout.iter().any(|other| other.volume.id() == tier.volume.id()) {
            return Err(Twice);
        }
        layout.seats.push(Seat::of(tier));
        self.layout.store(Arc::new(layout));
        Ok(())
    }

    /// Removes a volume.
    pub(crate) fn detach(&self, tier: &Arc<VolumeTier>) {
        let _changing = self.changing.lock();
        let mut layout = Layout::clone(&self.layout.load());
        layout.seats.retain(|seat| !Arc::ptr_eq(&seat.tier, tier));
        self.layout.store(Arc::new(layout));
    }

    /// Applies a changed weight.
    pub(crate) fn weigh(&self) {
        let _changing = self.changing.lock();
        let seats = self.layout.load().iter().map(Seat::of).collect();
        self.layout.store(Arc::new(Layout { seats }));
    }

    /// Whether volumes may hold more under a key than the `loaded` generations in memory. Reads memory only.
    pub(crate) fn hold_more(&self, full: &[u8], site: u64, loaded: impl FnOnce() -> usize) -> bool {
        let layout = self.layout.load();
        if layout.is_empty() {
            return false;
        }
        let digest = key::digest(full, site);
        let held: usize = layout.iter().map(|tier| tier.count_of(digest)).sum();
        held > 0 && held > loaded()
    }

    /// Whether a volume holds something under a key, or is writing it, by the digest that volumes use. Reads
    /// memory only.
    pub(crate) fn may_hold(&self, digest: u128) -> bool {
        self.layout.load().iter().any(|tier| tier.may_hold(digest))
    }

    /// Removes a generation from all volumes. Where even that cannot be queued, it is superseded when it is
    /// loaded again.
    pub(crate) fn remove(&self, generation: &Generation) {
        let object = generation.object();
        if object == 0 {
            return;
        }
        let key = generation.key();
        let named = Named { digest: key::digest(&key.full, key.site), object };
        let home = generation.home();
        let layout = self.layout.load();
        // An object that is being moved may lie on two volumes. The one that it moves from hears first: so
        // the move notices a removal even where there is nothing to remove at the other one yet.
        let (draining, others): (Vec<_>, Vec<_>) = layout.iter().partition(|tier| tier.is_draining());
        for tier in draining.into_iter().chain(others) {
            let is_home = home.as_ref().is_some_and(|home| Arc::ptr_eq(home, tier));
            if is_home || tier.count_of(named.digest) > 0 {
                tier.remove(named);
            }
        }
    }
}
