//! A volume that was opened is attached: the register says what of it is to be believed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use weir_store::breaker::Event;
use weir_store::{Arrival, Arriving, Distrust, Seating, Twice};

use super::slot::{Course, Drain, Slot};
use super::{Inner, now};
use crate::volume::{self, Opened, Refused};

impl Inner {
    /// A volume was opened: it is attached.
    pub(super) fn take(self: &Arc<Inner>, slot: &mut Slot, opened: Opened) {
        if !slot.is_wanted {
            slot.course = Course::Closing;
            return self.close_apart(slot.path(), move || drop(opened));
        }
        let Opened { volume, opening, rows, rows_bytes, is_mount } = opened;
        let (path, usage, id) = (slot.path(), volume.usage(), volume.id());
        if self.store.volumes().iter().any(|other| other.id == id) {
            // Before the register hears of it: what that knows is the other's.
            self.refuse(slot, &Refused::Drive(Twice.into()));
            slot.course = Course::Closing;
            return self.close_apart(path, move || drop((volume, rows)));
        }
        // The configuration may have changed while it was being opened.
        slot.wanted.size.inspect(|size| volume.resize(size.0));
        volume.set_budget(slot.wanted.write_budget.map(|budget| budget.0));
        let size_bytes = slot.wanted.size.map_or(usage.size_bytes, |size| size.0);
        let arriving = Arriving {
            id,
            path: &path,
            reached: volume.found(),
            opening,
            bears: volume.bears(),
            is_empty: usage.objects == 0,
            is_mount,
        };
        let arrival = match self.announce(arriving) {
            Ok(arrival) => arrival,
            Err(error) => {
                let error = anyhow::Error::new(error).context("cannot write the register of volumes");
                self.refuse(slot, &Refused::Drive(error));
                slot.course = Course::Closing;
                return self.close_apart(path, move || drop((volume, rows)));
            }
        };
        let seating = Seating {
            name: path.as_str().into(),
            weight: volume::weight(&slot.wanted, size_bytes),
            suspect_before: arrival.suspect_before,
            dead_before: arrival.dead_before,
            is_unknown: arrival.distrust == Some(Distrust::Unknown),
            memory_bytes: rows_bytes,
        };
        match self.store.attach(volume, rows, seating, weir_clock::now) {
            Ok(attached) => {
                attached.set_draining(slot.wanted.drain);
                slot.drain = if slot.wanted.drain { Drain::Rests(Duration::ZERO) } else { Drain::No };
                (slot.written, slot.owed) = ((0, now()), false);
                slot.course = Course::Open(attached);
                self.on(slot, Event::Opened);
            }
            Err(error) => {
                // What happens from now on happens without it.
                if let Err(error) = self.register.leave(id, true) {
                    tracing::error!(%error, "cannot write the register of volumes");
                }
                self.refuse(slot, &Refused::Drive(error.into()));
            }
        }
    }

    /// Tells the register that a volume comes, and people what is amiss with it.
    fn announce(&self, arriving: Arriving<'_>) -> io::Result<Arrival> {
        let Arriving { id, path, .. } = arriving;
        let other = self.register.other_in(path, id);
        let arrival = self.register.arrive(arriving, self.store.ledger())?;
        if let Some(other) = other {
            tracing::warn!(
                "volume {other:032x} was in {path} and is not there: {id:032x} is used in its place"
            );
        }
        if let Some(distrust) = arrival.distrust {
            tracing::warn!("volume {path} {}", distrust.sentence());
        }
        if arrival.distrust == Some(Distrust::Ahead) {
            self.store.distrust(arrival.suspect_before);
        }
        Ok(arrival)
    }
}
