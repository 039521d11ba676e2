//! The supervisor of volumes. It opens those of the configuration, watches them, lets them go when their
//! drives fail, and tries again.
//!
//! One thread looks at all of them. What may block for long (opening, closing, emptying) has a thread of its
//! own, so that a drive that is stuck in the kernel holds up no other. What is done with a volume is in
//! `supervisor`; when it is done in `breaker`, which is pure; whom it asks and tells is [`Machine`]. It knows
//! neither the configuration's form nor the log.

mod arrival;
mod breaker;
mod drive;
mod machine;
mod opening;
mod settings;
mod supervisor;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use self::drive::{Drain, DriveReport};
pub use self::machine::{Change, Machine, RegisterChange};
pub use self::opening::Unopened;
pub use self::settings::{Begin, Settings, Wanted};
use self::supervisor::Supervisor;
use crate::register::Register;
use crate::store::Store;

/// The volumes below a store, under supervision. Dropped, they are watched no more.
#[derive(Debug)]
pub struct Drives {
    supervisor: Arc<Supervisor>,
}

/// Why there is no supervisor.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration asks for what cannot be.
    #[error(transparent)]
    Volume(#[from] Unopened),
    /// There is no thread for it.
    #[error("cannot start the thread that watches the volumes")]
    Thread(#[source] io::Error),
}

impl Drives {
    /// Opens volumes and puts them below the store, and waits for them, for a bounded time. One whose drive
    /// fails is tried again later.
    ///
    /// # Errors
    /// [`StartError::Volume`] where a person has to mend the configuration: a folder that another Weir uses,
    /// or that is none of Weir's.
    pub fn start(
        store: Store,
        register: Register,
        volumes: &[Wanted],
        settings: Settings,
        begin: Begin,
    ) -> Result<Drives, StartError> {
        let supervisor = Supervisor::new(store, register, settings, begin);
        supervisor.configure(volumes);
        supervisor.await_start()?;
        supervisor.watch().map_err(StartError::Thread)?;
        Ok(Drives { supervisor })
    }

    /// Takes another configuration: opens what is new, lets go what is gone, and changes the others.
    pub fn configure(&self, volumes: &[Wanted]) {
        self.supervisor.configure(volumes);
    }

    /// Closes all volumes for another process, which takes them; this one goes on from memory and the origin.
    /// Blocks, for `patience` at most.
    pub fn release(&self, patience: Duration) {
        self.supervisor.release(patience);
    }

    /// Opens the volumes that another process has closed; after [`Begin::Later`].
    pub fn take(&self) {
        self.supervisor.begin();
    }

    /// The state of each volume, in the order of the configuration.
    pub fn reports(&self) -> Vec<DriveReport> {
        self.supervisor.reports()
    }

    /// Makes durable what was stored, for `patience` at most: before the process ends.
    pub fn close(&self, patience: Duration) {
        self.supervisor.close(patience);
    }
}
