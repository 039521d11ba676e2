//! What the walks on one core use. It owns nothing of a request.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use weir_observe::Observer;

use crate::shared::{Running, Shared};
use weir_fill::resources::Resources;

/// The running plan as a request holds it. Only this core counts the references, so that no request writes to
/// a counter that all cores share.
#[allow(clippy::redundant_allocation, reason = "the outer count belongs to one core")]
pub(crate) type HeldPlan = Rc<Arc<Running>>;

/// One core's side of the data plane.
pub(crate) struct Core {
    /// The core's number.
    pub(crate) number: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) observer: Observer,
    /// What the fills and readers of this core work with.
    pub(crate) resources: Arc<Resources>,
    /// The key of the request being looked up.
    pub(crate) key: RefCell<Vec<u8>>,
    running: RefCell<HeldPlan>,
}

impl Core {
    pub(crate) fn new(number: usize, shared: Arc<Shared>) -> Core {
        let resources = shared.resources(number);
        Core {
            number,
            observer: resources.observer.clone(),
            resources: Arc::new(resources),
            running: RefCell::new(Rc::new(shared.running.load_full())),
            key: RefCell::default(),
            shared,
        }
    }

    /// The running plan. A request keeps the plan that it began with.
    pub(crate) fn running(&self) -> HeldPlan {
        let now = self.shared.running.load();
        let mut held = self.running.borrow_mut();
        if !Arc::ptr_eq(&now, &held) {
            *held = Rc::new(Arc::clone(&now));
        }
        held.clone()
    }
}
