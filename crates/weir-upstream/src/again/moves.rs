//! The requests of an upstream that wait for a connection and may go to another origin meanwhile. An origin
//! that gets room is offered to one after another, in the order in which they came, until it has no room
//! left. It knows nothing of queues and connections.
//!
//! An offer is not lost: a request that does not use it passes it on to those that came later. Those that
//! came earlier have looked already, or will.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::poll_fn;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// What can have room.
pub(crate) trait Room: Clone + Debug {
    /// Whom room may be for.
    type Who: Copy + Debug + PartialEq;

    /// Whether there is any.
    fn has_room(&self) -> bool;

    /// Whether it is for this one as well.
    fn is_for(&self, who: Self::Who) -> bool;
}

/// The requests that wait.
#[derive(Debug)]
pub(crate) struct Moves<R: Room> {
    /// How many.
    count: AtomicUsize,
    line: Mutex<Line<R>>,
}

#[derive(Debug)]
struct Line<R: Room> {
    /// The next one's number.
    next: u64,
    waiting: BTreeMap<u64, Waiting<R>>,
}

#[derive(Debug)]
struct Waiting<R: Room> {
    who: R::Who,
    offer: Option<Offer<R>>,
    waker: Option<Waker>,
}

/// Why to look for room.
#[derive(Debug)]
pub(crate) enum Offer<R> {
    /// It may be here.
    Room(R),
    /// All were told to look.
    Change,
}

impl<R: Room> Default for Moves<R> {
    fn default() -> Moves<R> {
        let line = Line { next: 0, waiting: BTreeMap::new() };
        Moves { count: AtomicUsize::new(0), line: Mutex::new(line) }
    }
}

impl<R: Room> Moves<R> {
    /// A request begins to wait. It looks for room afterwards: what frees later is offered.
    pub(crate) fn enter(&self, who: R::Who) -> Mover<'_, R> {
        let mut line = self.line.lock();
        let number = line.next;
        line.next += 1;
        line.waiting.insert(number, Waiting { who, offer: None, waker: None });
        drop(line);
        self.count.fetch_add(1, Ordering::SeqCst);
        // Pairs with `is_empty`: either the offer sees this request, or this request sees the room.
        fence(Ordering::SeqCst);
        Mover { moves: self, number }
    }

    /// Whether nobody waits. To be asked after room was made, by a `SeqCst` change.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Offers room to the first who was not told to look yet.
    pub(crate) fn offer(&self, room: &R) {
        if !self.is_empty() {
            self.offer_behind(None, room);
        }
    }

    fn offer_behind(&self, number: Option<u64>, room: &R) {
        if !room.has_room() {
            return;
        }
        let mut asked = None;
        let mut is_for = |who: R::Who| match asked {
            Some((last, is_for)) if last == who => is_for,
            _ => {
                let is_for = room.is_for(who);
                asked = Some((who, is_for));
                is_for
            }
        };
        let mut line = self.line.lock();
        let mut behind = line.waiting.range_mut((number.map_or(Unbounded, Excluded), Unbounded));
        let first = behind.find(|(_, one)| one.offer.is_none() && is_for(one.who));
        let waker = first.and_then(|(_, one)| {
            one.offer = Some(Offer::Room(room.clone()));
            one.waker.take()
        });
        drop(line);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Tells all to look: origins have come, gone, or got other bounds.
    pub(crate) fn change(&self) {
        if self.is_empty() {
            return;
        }
        let mut line = self.line.lock();
        let tell = |one: &mut Waiting<R>| {
            one.offer.get_or_insert(Offer::Change);
            one.waker.take()
        };
        let wakers: Vec<Waker> = line.waiting.values_mut().filter_map(tell).collect();
        drop(line);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

/// A request that waits, until it is dropped.
#[derive(Debug)]
pub(crate) struct Mover<'m, R: Room> {
    moves: &'m Moves<R>,
    number: u64,
}

impl<R: Room> Mover<'_, R> {
    /// Waits until there may be room. [`Mover::pass_on`] is to be called once it has been looked for.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub(crate) async fn offered(&mut self) -> Offer<R> {
        poll_fn(|cx| {
            let mut line = self.moves.line.lock();
            let Some(own) = line.waiting.get_mut(&self.number) else { return Poll::Pending };
            match own.offer.take() {
                Some(offer) => Poll::Ready(offer),
                None => {
                    own.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// This request has looked: what is still there is for those behind it.
    pub(crate) fn pass_on(&self, offer: &Offer<R>) {
        if let Offer::Room(room) = offer {
            self.moves.offer_behind(Some(self.number), room);
        }
    }
}

impl<R: Room> Drop for Mover<'_, R> {
    fn drop(&mut self) {
        let own = self.moves.line.lock().waiting.remove(&self.number);
        self.moves.count.fetch_sub(1, Ordering::SeqCst);
        if let Some(Waiting { offer: Some(offer), .. }) = own {
            self.pass_on(&offer);
        }
    }
}
