//! A volume's write budget, from day to day.

use weir_disk::Disk;

use super::VolumeTier;
use crate::volume::SpentFile;

impl VolumeTier {
    /// Goes on with the day's budget where it was left.
    pub(crate) fn open_budget(&self, disk: Option<&dyn Disk>) {
        self.tick_budget();
        let opened = disk.and_then(|disk| SpentFile::open(disk, self.volume.id()).ok());
        if let Some((file, found)) = opened {
            self.volume.carry_budget(file, found);
        }
    }

    /// Tells the volume the time, and how much its catalogue has written.
    pub(crate) fn tick_budget(&self) {
        let beside = self.catalogue.as_ref().map_or(0, |catalogue| catalogue.usage().written_bytes);
        self.volume.tick_budget(self.now().wall, beside);
    }

    /// Writes down how much counts as written today, and makes a further grant of the budget durable. What
    /// cannot be written is forgotten by a restart.
    pub(crate) fn write_budget(&self) {
        self.volume.renew_budget();
        if self.volume.budget().limit_bytes.is_some() {
            self.sync_budget();
        }
    }

    /// Syncs what was written down.
    pub(crate) fn sync_budget(&self) {
        if let Some(file) = self.volume.unsynced_budget() {
            let _ = file.sync_data();
        }
    }
}
