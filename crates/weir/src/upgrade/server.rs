//! What a server does in an upgrade, as the old or the new process.

use std::io;
use std::time::Duration;

use weir_control::{UpgradeOrder, Upgraded};
use weir_front::listen::PassedListener;
use weir_front::{HandedOver, HandoverSender};
use weir_store::{Acknowledge, Mark, Successor};

use crate::print::sentence;
use crate::wire_up::Server;

impl Server {
    /// Sets how to upgrade. Called once.
    pub(crate) fn upgrade_by(
        &self,
        upgrader: impl Fn(&UpgradeOrder) -> Result<Upgraded, String> + Send + Sync + 'static,
    ) {
        // The first stays; there is no second.
        let _ = self.upgrader.set(Box::new(upgrader));
    }

    /// Copies of the listening sockets.
    pub(crate) fn copy_listeners(&self) -> io::Result<Vec<PassedListener>> {
        self.edge.copy_listeners()
    }

    /// Finds out whether what an upgrade hands over can be written. Blocks, for a bounded time.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn prove_state(&self) -> Result<(), String> {
        self.edge.prove_ledger().map_err(|error| sentence(&error.into()))
    }

    /// Lets no request begin. Returns whether that succeeded. Blocks.
    pub(crate) fn shut(&self, patience: Duration) -> bool {
        self.ordering.stop();
        self.edge.stop_warming();
        self.edge.shut(patience)
    }

    /// Closes the ledger with all its marks, and leaves the accounts and the content by hand to the new
    /// process. Blocks.
    pub(crate) fn release_ledger(&self) -> Result<(), String> {
        self.accounts.step_aside()?;
        self.edge.release_content().map_err(|error| error.to_string())?;
        self.edge.release_ledger().map_err(|error| sentence(&error.into()))
    }

    /// Resumes after [`Server::shut`] and [`Server::release_ledger`].
    pub(crate) fn resume(&self) {
        self.edge.resume_ledger();
        self.edge.resume_content();
        self.edge.open();
        self.edge.resume_warming();
        self.origins.thaw();
        if let Err(error) = self.ordering.resume() {
            tracing::error!(%error, "certificates are not ordered any more; restart Weir");
        }
    }

    /// Sends marks to the new process from now on.
    pub(crate) fn hand_over_ledger(&self, successor: Box<dyn Successor>) {
        self.edge.hand_over_ledger(successor);
    }

    /// Sends connections to the new process from now on, each where its next request would begin. What is
    /// known of origins is the new one's to find out.
    pub(crate) fn leave(&self, handover: &HandoverSender) {
        self.edge.leave(handover);
        self.warmings.leave();
        self.collector.configure(Vec::new(), Vec::new());
    }

    /// Gives the cache back after [`Server::leave`]. Blocks for a moment.
    pub(crate) fn give_back(&self) {
        self.edge.give_back();
    }

    /// Continues a connection of the old process.
    pub(crate) fn adopt(&self, handed_over: HandedOver) {
        self.edge.adopt(handed_over);
    }

    /// Makes marks of the old process.
    pub(crate) fn mark(&self, marks: &[Mark], acknowledge: Acknowledge) {
        self.edge.mark(marks, acknowledge);
    }

    /// Closes the volumes for the new process; memory still serves what it holds. Blocks for as long as the
    /// drives do, at most `patience`.
    pub(crate) fn close_volumes(&self, patience: Duration) {
        self.drives.release(patience);
    }

    /// Opens the volumes that the old process has closed.
    pub(crate) fn take_volumes(&self) {
        self.drives.take();
    }
}
