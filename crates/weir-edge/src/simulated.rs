//! The data plane on its caller's own runtime, so that tests can run it whole on virtual time: one worker that listens,
//! walks, fills and stores as it does on a core of its own. No part of the product calls it.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::{mpsc, watch};
use weir_policy::Now;
use weir_store::{Scope, Store, Usage};
use weir_upstream::Upstream;

use crate::edge::StartError;
use crate::explain::{self, Explanation, Question};
use crate::plan::Plan;
use crate::plane::{Plane, Running};
use weir_front::listen::{bind, seats};
use weir_front::worker::{self, Manner, Order, Start};

use crate::service;
use weir_clock as clock;
use weir_observe::{Observatory, Snapshot};

/// A data plane of one worker.
pub struct House {
    plane: Arc<Plane>,
    orders: mpsc::UnboundedSender<Order>,
    held: watch::Receiver<usize>,
}

impl House {
    /// Binds the plan's listeners; the future is the worker, to be run in a `LocalSet` until the house is dropped.
    ///
    /// # Errors
    /// An address that cannot be had, an upstream that cannot be made.
    pub fn begin(
        plan: Plan,
        observatory: Arc<Observatory>,
    ) -> Result<(House, impl Future<Output = ()> + use<>), StartError> {
        let mut bound = Vec::new();
        let mut manners = Vec::new();
        for (number, (address, greeting)) in plan.listeners().iter().enumerate() {
            bound.extend(bind(address, 1)?.into_iter().map(|bound| (number, bound)));
            manners.push(Manner { greeting: *greeting });
        }
        let mut upstreams = HashMap::new();
        for settings in plan.upstreams() {
            let name = settings.name.clone();
            let made = Upstream::new(settings);
            let upstream = made.map_err(|source| StartError::Upstream { name: name.clone(), source })?;
            upstreams.insert(name, upstream);
        }
        let store = Store::new(plan.memory_bytes());
        let (limits, trusted) = (Arc::new(plan.limits()), Arc::new(plan.trusted()));
        let running = Running { limits, trusted, plan: Arc::new(plan), upstreams };
        let plane = Arc::new(Plane::new(store, 1, running, observatory));
        let (orders, receiver) = mpsc::unbounded_channel();
        let (count, held) = watch::channel(0);
        // Invariant: there is one seat for one worker.
        let seat = seats(1).remove(0);
        let start = Start { core: 0, bound, manners, seat, orders: receiver, held: count };
        let own = plane.clone();
        let worker = async move { worker::run(start, service::of_worker(0, own)).await };
        Ok((House { plane, orders, held }, worker))
    }

    /// What the store holds.
    pub fn usage(&self) -> Usage {
        self.plane.store.usage()
    }

    /// Fills under way.
    pub fn fills(&self) -> usize {
        self.plane.desk.running()
    }

    /// Connections of clients.
    pub fn connections(&self) -> usize {
        *self.held.borrow()
    }

    /// What was counted so far.
    pub fn snapshot(&self) -> Snapshot {
        self.plane.observatory.snapshot()
    }

    /// Makes all that is held dead and gives its space back.
    pub fn clear(&self) {
        self.plane.store.invalidate(Scope::All, clock::now());
        while self.plane.store.sweep() {}
    }

    /// Takes no more connections and closes the idle ones.
    pub fn drain(&self) {
        self.plane.begin_draining();
        let _ = self.orders.send(Order::Drain(std::sync::mpsc::channel().0));
    }

    /// What would happen to a request.
    ///
    /// # Errors
    /// A sentence, where the question is not a request.
    pub fn explain(&self, question: &Question) -> Result<Explanation, String> {
        explain::explain(&self.plane, question)
    }
}

/// Both clocks as this thread has them.
pub fn now() -> Now {
    clock::now()
}

/// Sets this thread's wall clock; it goes with the runtime's time from now on.
pub fn set_wall(to: SystemTime) {
    clock::set_wall(to);
}
