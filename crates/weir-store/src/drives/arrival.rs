//! A volume that was opened is put below the store: the register says what of it is to be believed.

use std::io;
use std::time::Duration;

use super::breaker::Event;
use super::drive::{Drive, Emptying, Files};
use super::machine::Change;
use super::opening::{Opened, Unopened};
use super::supervisor::Supervisor;
use crate::inside::Twice;
use crate::register::{Arrival, Arriving, Distrust};
use crate::tier::Seating;
use crate::volumes::AttachError;

impl Supervisor {
    /// A volume was opened: it is attached.
    pub(super) fn take(&self, drive: &mut Drive, opened: Opened) {
        if !drive.is_wanted {
            return self.close_apart(drive, move || drop(opened));
        }
        let id = opened.volume.id();
        if self.store.volumes().iter().any(|other| other.id == id) {
            // Before the register hears of it: what that knows is the other's.
            self.refuse(drive, &AttachError::from(Twice).into());
            return self.close_apart(drive, move || drop(opened));
        }
        let arrival = match self.announce(drive, &opened) {
            Ok(arrival) => arrival,
            Err(error) => {
                self.refuse(drive, &Unopened::Register(error));
                return self.close_apart(drive, move || drop(opened));
            }
        };
        let Opened { volume, rows, rows_bytes, .. } = opened;
        // The configuration may have changed while it was being opened.
        let wanted = &drive.wanted;
        wanted.size_bytes.inspect(|size_bytes| volume.resize(*size_bytes));
        volume.set_budget(wanted.write_budget_bytes);
        let size_bytes = wanted.size_bytes.unwrap_or_else(|| volume.size_bytes());
        let seating = Seating {
            name: drive.name().into(),
            weight: wanted.weight_of(size_bytes),
            suspect_before: arrival.suspect_before,
            dead_before: arrival.dead_before,
            is_unknown: arrival.distrust == Some(Distrust::Unknown),
            memory_bytes: rows_bytes,
        };
        match self.store.attach(volume, rows, seating, self.settings.now) {
            Ok(tier) => {
                tier.set_draining(drive.wanted.is_drained);
                drive.emptying = Emptying::Due(Duration::ZERO);
                (drive.written, drive.owed) = ((0, self.now()), false);
                drive.files = Files::Open(tier);
                self.on(drive, Event::Opened);
            }
            Err(error) => {
                // What happens from now on happens without it.
                self.leave(id, true);
                self.refuse(drive, &error.into());
            }
        }
    }

    /// Tells the register that a volume comes, and people what is amiss with it.
    fn announce(&self, drive: &Drive, opened: &Opened) -> io::Result<Arrival> {
        let Opened { volume, opening, is_mount, .. } = opened;
        let (name, id) = (drive.name(), volume.id());
        let arriving = Arriving::of(volume, &name, *opening, *is_mount);
        let other = self.register.other_in(&name, id);
        let arrival = self.register.arrive(arriving, self.store.ledger())?;
        if let Some(expected) = other {
            self.tell(drive, &Change::InPlaceOf { expected, found: id });
        }
        if let Some(distrust) = arrival.distrust {
            self.tell(drive, &Change::Distrusted(distrust));
        }
        if arrival.distrust == Some(Distrust::Ahead) {
            self.store.distrust(arrival.suspect_before);
        }
        Ok(arrival)
    }
}
