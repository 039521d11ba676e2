//! How a data plane gives way to that of a new process, and how that one goes on.
//!
//! At any moment one process begins requests: the old one shuts its gates ([`Edge::shut`]), the new one
//! starts with the listeners' own sockets, the old one leaves ([`Edge::leave`]): each of its connections goes
//! to the new process where its next request would begin, with what was read of that. Requests under way end
//! where they began. Where the new process does not come up, the gates open again ([`Edge::open`]) and
//! nothing has happened but a short wait.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use weir_store::{Acknowledge, Mark, Successor, Unwritten};

use crate::edge::Edge;
use weir_front::listen::PassedListener;
use weir_front::worker::Order;
use weir_front::{HandedOver, HandoverSender};

impl Edge {
    /// Copies of the listening sockets, for another process.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn copy_listeners(&self) -> io::Result<Vec<PassedListener>> {
        self.state
            .lock()
            .listening
            .iter()
            .filter_map(|post| post.kept.as_ref())
            .map(|kept| kept.copy())
            .collect()
    }

    /// Lets no request begin; connections are neither taken nor lost. True once every worker has done so
    /// within the patience; otherwise [`Edge::open`] is to be called. Blocks.
    pub fn shut(&self, patience: Duration) -> bool {
        let (shut, done) = mpsc::channel();
        for worker in &self.workers {
            let _ = worker.orders.send(Order::Shut(shut.clone()));
        }
        drop(shut);
        let until = weir_clock::mono() + patience;
        let left = || until.saturating_duration_since(weir_clock::mono());
        self.workers.iter().all(|_| done.recv_timeout(left()).is_ok())
    }

    /// Lets requests begin again after [`Edge::shut`].
    pub fn open(&self) {
        for worker in &self.workers {
            let _ = worker.orders.send(Order::Open);
        }
    }

    /// Gives the listeners up, and every connection to the new process, each where its next request would
    /// begin. Socket files are the new process's from now on.
    pub fn leave(&self, handover: &HandoverSender) {
        for post in &mut self.state.lock().listening {
            if let Some(kept) = post.kept.take() {
                kept.hand_over_file();
            }
        }
        for worker in &self.workers {
            let _ = worker.orders.send(Order::Leave(handover.clone()));
        }
    }

    /// Blocks until the requests under way have ended after [`Edge::leave`], or the patience is over.
    pub fn finish_requests(&self, patience: Duration) {
        self.await_readers(patience);
    }

    /// Closes the ledger's file, once all that was marked so far is in it; see
    /// [`weir_store::Ledger::release`]. Blocks.
    ///
    /// # Errors
    /// It cannot be written; then it stays open.
    pub fn release_ledger(&self) -> Result<(), Unwritten> {
        self.shared.store.ledger().release()
    }

    /// Takes the ledger's file back after [`Edge::release_ledger`].
    pub fn resume_ledger(&self) {
        self.shared.store.ledger().resume();
    }

    /// Gives the marks made since [`Edge::release_ledger`], and those to come, to the process that writes the
    /// ledger now.
    pub fn hand_over_ledger(&self, successor: Box<dyn Successor>) {
        self.shared.store.ledger().hand_over(successor);
    }

    /// Makes marks of another process; `acknowledge` is called when they are durable.
    pub fn mark(&self, marks: &[Mark], acknowledge: Acknowledge) {
        self.shared.store.purge(marks, weir_clock::now(), acknowledge);
    }

    /// Goes on with a connection of the process before this one.
    pub fn adopt(&self, handed_over: HandedOver) {
        // Those that come in one go are not yet counted anywhere, so they are spread in turn.
        let turn = self.adopted.fetch_add(1, Ordering::Relaxed);
        let _ = self.workers[turn % self.workers.len()].orders.send(Order::Adopt(Box::new(handed_over)));
    }
}
