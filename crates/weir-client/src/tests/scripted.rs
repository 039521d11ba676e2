//! A connection that carries several requests at once, as tests have it: the second kind of slot, until there
//! is another version of HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::connection::Home;
use crate::error::{Bound, ExchangeError};
use crate::incoming::{Incoming, Response};
use crate::message::{Length, RequestHead};
use crate::pool::carrier::{Carrier, Trunk};
use crate::pool::slot::{Permit, Slot};

/// How long an idle connection is kept.
pub(crate) const KEEP: Duration = Duration::from_secs(4);

/// The pieces of a body.
type Pieces = mpsc::UnboundedReceiver<Bytes>;

/// A server that is connected to so.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    places_max: usize,
    wires: Arc<Mutex<Vec<Arc<Wire>>>>,
}

/// A connection.
#[derive(Debug)]
struct Wire {
    home: Home,
    places_max: usize,
    places: AtomicUsize,
    /// What was asked for, and where the pieces of its body go.
    asked: Mutex<Vec<(Vec<u8>, mpsc::UnboundedSender<Bytes>)>>,
}

/// A place on it.
#[derive(Debug)]
pub struct Place(Arc<Wire>);

/// A body that is still to come.
#[derive(Debug)]
pub struct Streaming {
    slot: Option<Slot>,
    pieces: Pieces,
}

impl Script {
    /// Connections of so many places.
    pub(crate) fn new(places_max: usize) -> Script {
        Script { places_max, wires: Arc::default() }
    }

    pub(crate) fn connect(&self) -> Place {
        let wire = Wire {
            home: Home::current(),
            places_max: self.places_max,
            places: AtomicUsize::new(1),
            asked: Mutex::default(),
        };
        let wire = Arc::new(wire);
        self.wires.lock().push(wire.clone());
        Place(wire)
    }

    /// The places taken on each connection that was made.
    pub(crate) fn places(&self) -> Vec<usize> {
        self.wires.lock().iter().map(|wire| wire.places.load(Ordering::SeqCst)).collect()
    }

    /// Where the pieces of the response to this request go. It ends where that is dropped.
    pub(crate) fn response(&self, target: &str) -> mpsc::UnboundedSender<Bytes> {
        let wires = self.wires.lock();
        let found = wires.iter().find_map(|wire| {
            let mut asked = wire.asked.lock();
            let at = asked.iter().position(|(asked, _)| asked == target.as_bytes())?;
            Some(asked.remove(at).1)
        });
        found.expect("it was asked for")
    }
}

impl Trunk for Wire {
    fn home(&self) -> Home {
        self.home
    }

    fn is_over(&self) -> bool {
        self.places.load(Ordering::SeqCst) == 0
    }

    fn place(self: Arc<Self>) -> Option<Carrier> {
        let more = |places| (0 < places && places < self.places_max).then_some(places + 1);
        self.places.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok()?;
        Some(Carrier::Scripted(Place(self)))
    }
}

impl Place {
    pub(crate) fn home(&self) -> Home {
        self.0.home
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_over()
    }

    pub(crate) fn carries_others(&self) -> bool {
        self.0.places.load(Ordering::SeqCst) > 1
    }

    pub(crate) fn trunk(&self) -> Arc<dyn Trunk> {
        self.0.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.places.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Place {
    /// Asks; the head comes at once.
    pub(crate) fn response(self, permit: Permit, request: &RequestHead<'_>) -> Response {
        let (to, pieces) = mpsc::unbounded_channel();
        self.0.asked.lock().push((request.target.to_vec(), to));
        let slot = Slot { carrier: Carrier::Scripted(self), own: None, permit };
        let body = Incoming::Scripted(Box::new(Streaming { slot: Some(slot), pieces }));
        let (status, headers) = (StatusCode::OK, HeaderMap::new());
        Response { status, headers, length: Length::Unknown, body, upgraded: None }
    }
}

impl Streaming {
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        let piece = ready!(self.pieces.poll_recv(cx));
        if piece.is_none()
            && let Some(slot) = self.slot.take()
            && let Some(pool) = slot.permit.pool()
        {
            pool.put(slot, KEEP);
        }
        Poll::Ready(Ok(piece))
    }

    pub(crate) fn outlast(&mut self) -> Result<(), Bound> {
        self.slot.as_mut().map_or(Ok(()), |slot| slot.permit.outlast())
    }
}
