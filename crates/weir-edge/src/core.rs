//! What the walks on one core use, and the [`Service`] that connections call. It owns nothing of a request.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use weir_front::listen::{Clients, Peer, Trusted};
use weir_front::{Client, ClientLimits, Done, Refused, Request, Service};
use weir_observe::Observer;

use crate::exchange::Note;
use crate::late::Late;
use crate::limit::Pace;
use crate::plane::{Plane, Running};
use crate::response::{Content, Response};
use crate::{local, walk};

/// The running plan as a request holds it: counted by this core alone, so that no request writes to a
/// counter that all cores share.
#[allow(clippy::redundant_allocation, reason = "the outer count belongs to one core")]
pub(crate) type HeldPlan = Rc<Arc<Running>>;

/// One core's side of the data plane.
pub(crate) struct Core {
    /// Its number.
    pub(crate) number: usize,
    pub(crate) plane: Arc<Plane>,
    pub(crate) observer: Observer,
    /// The key of the request being looked up.
    pub(crate) key: RefCell<Vec<u8>>,
    running: RefCell<HeldPlan>,
}

impl Core {
    pub(crate) fn new(number: usize, plane: Arc<Plane>) -> Core {
        Core {
            number,
            observer: plane.observatory.observer(number),
            running: RefCell::new(Rc::new(plane.running.load_full())),
            key: RefCell::default(),
            plane,
        }
    }

    /// One for a worker of its own, whose bell it answers. Called within that worker's runtime.
    pub(crate) fn of_worker(number: usize, plane: Arc<Plane>) -> Rc<Core> {
        let bells = plane.bells.clone();
        tokio::task::spawn_local(async move { bells.answer(number).await });
        Rc::new(Core::new(number, plane))
    }

    /// The running plan; a request keeps the one that it began on.
    fn running(&self) -> HeldPlan {
        let now = self.plane.running.load();
        let mut held = self.running.borrow_mut();
        if !Arc::ptr_eq(&now, &held) {
            *held = Rc::new(Arc::clone(&now));
        }
        held.clone()
    }
}

impl Service for Core {
    type Plan = HeldPlan;
    type Body = Content;
    type Pace = Pace;
    type Late = Late;
    type Note<'c> = Note<'c>;

    fn plan(&self) -> HeldPlan {
        self.running()
    }

    async fn call<'c>(
        &'c self,
        plan: &'c HeldPlan,
        request: &'c mut Request,
        client: &mut dyn Client,
    ) -> (Response, Note<'c>) {
        walk::walk(self, plan, request, client).await
    }

    fn done(&self, note: Note<'_>, done: &Done) {
        note.finish(done);
    }

    fn refuse(&self, why: &Refused) -> Response {
        self.observer.counters().request_begun();
        local::refuse(self, why)
    }

    fn refused(&self, why: &Refused, peer: Peer, done: &Done) {
        local::note_refusal(self, why, peer, done);
    }

    fn limits(&self) -> Arc<ClientLimits> {
        self.plane.running.load().limits.clone()
    }

    fn trusted(&self) -> Arc<Trusted> {
        self.plane.running.load().trusted.clone()
    }

    fn clients(&self) -> &Arc<Clients> {
        &self.plane.clients
    }

    fn observer(&self) -> &Observer {
        &self.observer
    }

    fn is_draining(&self) -> bool {
        self.plane.is_draining()
    }
}
