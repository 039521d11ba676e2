//! Which volumes there are, and which of them a key belongs to.
//!
//! A body goes to the volume that wins its key ([`crate::volume::placement`]) among those that store at the
//! moment. A look-up asks all of them, which costs an index look-up in memory each: so whatever was stored
//! under another layout is found, however often that changed. What is stored anew takes the older one out
//! wherever that lies ([`Tiers::remove`]).

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use super::Tier;
use crate::generation::Generation;
use crate::index::Index;
use crate::volume::VolumeState;
use crate::volume::placement::Bidder;
use crate::volume::{Named, key};

/// A volume of that identity is attached already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a volume of that identity is in use already: one is a copy of the other")]
pub struct Twice;

/// The volumes below the shelf.
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
    tier: Arc<Tier>,
    bidder: Bidder,
}

impl Seat {
    fn of(tier: &Arc<Tier>) -> Seat {
        Seat { tier: Arc::clone(tier), bidder: Bidder::new(tier.volume.id(), tier.weight()) }
    }
}

impl Layout {
    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Tier>> {
        self.seats.iter().map(|seat| &seat.tier)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// The one that is to store what has that digest (of the key as volumes have it). `None` where there is
    /// none, or where the one whose it is has too much to do just now.
    pub(crate) fn home(&self, digest: u128) -> Option<&Arc<Tier>> {
        let mut best: Option<(f64, VolumeState, &Arc<Tier>)> = None;
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
    /// Those that there are now.
    pub(crate) fn all(&self) -> Guard<Arc<Layout>> {
        self.layout.load()
    }

    /// Where to store what has that digest.
    pub(crate) fn home(&self, digest: u128) -> Option<Arc<Tier>> {
        self.layout.load().home(digest).cloned()
    }

    /// One more.
    ///
    /// # Errors
    /// [`Twice`].
    pub(crate) fn attach(&self, tier: &Arc<Tier>) -> Result<(), Twice> {
        let _changing = self.changing.lock();
        let mut layout = Layout::clone(&self.layout.load());
        if layout.iter().any(|other| other.volume.id() == tier.volume.id()) {
            return Err(Twice);
        }
        layout.seats.push(Seat::of(tier));
        self.layout.store(Arc::new(layout));
        Ok(())
    }

    /// One fewer.
    pub(crate) fn detach(&self, tier: &Arc<Tier>) {
        let _changing = self.changing.lock();
        let mut layout = Layout::clone(&self.layout.load());
        layout.seats.retain(|seat| !Arc::ptr_eq(&seat.tier, tier));
        self.layout.store(Arc::new(layout));
    }

    /// A weight has changed.
    pub(crate) fn weigh(&self) {
        let _changing = self.changing.lock();
        let seats = self.layout.load().iter().map(Seat::of).collect();
        self.layout.store(Arc::new(Layout { seats }));
    }

    /// Whether volumes may hold more under a key than has come up. Looks at memory alone.
    pub(crate) fn hold_more(&self, digest: u128, full: &[u8], site: u64, index: &Index) -> bool {
        let layout = self.layout.load();
        if layout.is_empty() {
            return false;
        }
        let below = key::digest(full, site);
        let held: usize = layout.iter().map(|tier| tier.count_of(below)).sum();
        held > 0 && held > index.all(digest).iter().filter(|generation| generation.object() > 0).count()
    }

    /// Whether a volume may hold something under a key, by its digest as volumes have it, or be writing it.
    /// Looks at memory alone.
    pub(crate) fn may_hold(&self, below: u128) -> bool {
        self.layout.load().iter().any(|tier| tier.may_hold(below))
    }

    /// Takes a generation out wherever it may lie. Where even that cannot be said, it is outdone when it
    /// comes up again.
    pub(crate) fn remove(&self, generation: &Generation) {
        let object = generation.object();
        if object == 0 {
            return;
        }
        let key = generation.key();
        let named = Named { digest: key::digest(&key.full, key.site), object };
        let home = generation.home();
        let layout = self.layout.load();
        // One that is being moved may lie on two. It is said first where it comes from, so that who moves it
        // hears of it if there is nothing at the other place yet.
        let (draining, others): (Vec<_>, Vec<_>) = layout.iter().partition(|tier| tier.is_draining());
        for tier in draining.into_iter().chain(others) {
            let is_home = home.as_ref().is_some_and(|home| Arc::ptr_eq(home, tier));
            if is_home || tier.count_of(named.digest) > 0 {
                tier.remove(named);
            }
        }
    }

    /// Whether a generation lies on a volume, too. May wait for the drive.
    pub(crate) fn hold(&self, generation: &Generation) -> bool {
        self.layout.load().iter().any(|tier| tier.holds(generation))
    }
}
