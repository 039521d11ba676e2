//! The tunnels of a worker, to wake them when the process ends. It must not know what they do then.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::{Context, Waker};

thread_local! {
    static TUNNELS: Tunnels = Tunnels::default();
}

#[derive(Default)]
struct Tunnels {
    is_ending: Cell<bool>,
    open: RefCell<HashMap<u64, Waiting>>,
    next: Cell<u64>,
}

/// The waker of a tunnel's task.
type Waiting = Rc<RefCell<Option<Waker>>>;

/// Has all tunnels of this thread end, and those that begin later.
pub(crate) fn end_all() {
    TUNNELS.with(|tunnels| {
        tunnels.is_ending.set(true);
        for waiting in tunnels.open.borrow().values() {
            waiting.take().into_iter().for_each(Waker::wake);
        }
    });
}

/// Whether this thread has a tunnel.
pub(crate) fn are_any() -> bool {
    TUNNELS.with(|tunnels| !tunnels.open.borrow().is_empty())
}

/// A tunnel's place among those of its thread, until it is dropped.
pub(super) struct Place {
    number: u64,
    waiting: Waiting,
}

impl Place {
    pub(super) fn take() -> Place {
        TUNNELS.with(|tunnels| {
            let (number, waiting) = (tunnels.next.get(), Waiting::default());
            tunnels.next.set(number + 1);
            tunnels.open.borrow_mut().insert(number, Rc::clone(&waiting));
            Place { number, waiting }
        })
    }

    /// Whether the process ends. Where not, the task of `cx` is woken once it does.
    pub(super) fn poll_ending(&self, cx: &Context<'_>) -> bool {
        if TUNNELS.with(|tunnels| tunnels.is_ending.get()) {
            return true;
        }
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waiting = Some(cx.waker().clone());
        }
        false
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Where the thread itself ends, there is nobody to be told.
        let _ = TUNNELS.try_with(|tunnels| tunnels.open.borrow_mut().remove(&self.number));
    }
}

/// For tests, which share a thread.
#[cfg(test)]
pub(super) fn begin_again() {
    TUNNELS.with(|tunnels| tunnels.is_ending.set(false));
}
