//! One volume as the tier below memory: reads and writes by keys and numbers. It knows no generation.

mod day_budget;
mod late;
mod on_disk;
mod pending;
mod seating;
mod shared_put;
mod sweeping;
mod volume_tier;

pub(crate) use self::late::{Entered, LATE_PAUSE, LateWrite, Stall};
pub use self::on_disk::{Gone, Place};
pub(crate) use self::on_disk::{NotResident, OnDiskBody, Wait};
pub(crate) use self::pending::{PendingVolumes, Superseded};
pub use self::seating::Seating;
pub(crate) use self::shared_put::{SharedPut, SharedPuts};
pub use self::sweeping::SweepUsage;
pub(crate) use self::sweeping::SweeperThread;
pub(crate) use self::volume_tier::VolumeTier;
