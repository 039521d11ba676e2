//! The handover at an upgrade: how the data plane of the old process gives way to that of the new one.
//!
//! At any moment only one process begins requests. The old one shuts its gates ([`Edge::shut`]). The new one
//! starts with the same listening sockets. Then the old one leaves ([`Edge::leave`]): it hands over each
//! connection at the point where its next request would begin, with the bytes already read of that request.
//! Requests under way end in the old process, which gives its cache back ([`Edge::give_back`]). Where the new
//! process does not start, the gates open again ([`Edge::open`]), and clients have only waited for a moment.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use weir_files::HotLimits;
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

    /// Stops new requests from beginning. Connections are neither accepted nor lost. True once every worker
    /// has stopped within the patience; otherwise call [`Edge::open`]. Blocks.
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

    /// Hands the listeners over, and each connection when its next request would begin. Socket files belong
    /// to the new process from now on.
    pub fn leave(&self, handover: &HandoverSender) {
        self.has_left.store(true, Ordering::Release);
        for post in &mut self.state.lock().listening {
            if let Some(kept) = post.kept.take() {
                kept.hand_over_file();
            }
        }
        for worker in &self.workers {
            let _ = worker.orders.send(Order::Leave(handover.clone()));
        }
        self.stop_checks();
    }

    /// Whether another process has taken over.
    pub fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    /// Gives the cache back after [`Edge::leave`]: nothing is found or kept here any more. What is under way
    /// goes on with what its readers hold. Blocks for a moment.
    pub fn give_back(&self) {
        self.shared.files.limit(HotLimits { memory_bytes: 0, file_bytes_max: 0 });
        self.shared.store.give_back();
    }

    /// How many connections there are, those on their way to another process included.
    pub fn connections(&self) -> usize {
        let held: usize = self.workers.iter().map(|worker| *worker.held.borrow()).sum();
        held.max(self.table.held())
    }

    /// Ends what is under way: WebSockets get a close frame, connections of HTTP/2 GOAWAY, and all else is
    /// cut. Blocks until nothing is left, or the patience is over.
    pub fn end_requests(&self, patience: Duration) {
        for worker in &self.workers {
            let _ = worker.orders.send(Order::End);
        }
        self.await_readers(patience);
    }

    /// Closes the ledger's file once all marks made so far are in it; see [`weir_store::Ledger::release`].
    /// Blocks.
    ///
    /// # Errors
    /// The file cannot be written; then it stays open.
    pub fn release_ledger(&self) -> Result<(), Unwritten> {
        self.shared.store.ledger().release()
    }

    /// Finds out whether the drive of the state folder answers: writes the ledger. Blocks, for a bounded
    /// time.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn prove_ledger(&self) -> Result<(), Unwritten> {
        self.shared.store.ledger().prove()
    }

    /// Takes the ledger's file back after [`Edge::release_ledger`].
    pub fn resume_ledger(&self) {
        self.shared.store.ledger().resume();
    }

    /// Hands the marks made since [`Edge::release_ledger`], and all later ones, to the process that now
    /// writes the ledger.
    pub fn hand_over_ledger(&self, successor: Box<dyn Successor>) {
        self.shared.store.ledger().hand_over(successor);
    }

    /// Applies the marks of another process; `acknowledge` is called when they are durable.
    pub fn mark(&self, marks: &[Mark], acknowledge: Acknowledge) {
        self.shared.store.purge(marks, weir_clock::now(), acknowledge);
    }

    /// Continues a connection of the previous process.
    pub fn adopt(&self, handed_over: HandedOver) {
        // Connections that arrive together are not counted anywhere yet, so they go to the workers in turn.
        let turn = self.adopted.fetch_add(1, Ordering::Relaxed);
        let _ = self.workers[turn % self.workers.len()].orders.send(Order::Adopt(Box::new(handed_over)));
    }
}
