//! What a volume's supervisor asks of its reading threads: how long something waits for the drive already.

use std::time::Duration;

use super::Volume;

impl Volume {
    /// Gives up the waits for reading threads that are longer than `patience`. Returns how many; each sees a
    /// miss.
    pub fn give_up(&self, patience: Duration) -> usize {
        self.clock.now().checked_sub(patience).map_or(0, |moment| self.waits.give_up_before(moment))
    }

    /// How many jobs the reading threads were given so far, checks of [`Volume::is_there`] included.
    pub fn jobs(&self) -> u64 {
        self.waits.begun()
    }

    /// How long the oldest job has held its thread or waited for one; zero if there is no job.
    pub fn stuck_for(&self) -> Duration {
        let since = |began| self.clock.now().saturating_sub(began);
        self.waits.oldest().map_or(Duration::ZERO, since)
    }
}
