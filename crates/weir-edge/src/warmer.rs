//! The edge as warmings ask it. It must not walk anything.

use tokio::sync::mpsc;

use crate::edge::Edge;
use crate::warming::{Document, GaveWay, Wanted, Warm, Warmed};

/// Pieces of a document that wait for its reader.
const PIECES_MAX: usize = 4;

impl Edge {
    /// Warms a URL. `done` is called with what came of it, from any thread, perhaps at once.
    pub fn warm(&self, warm: Warm, done: Box<dyn FnOnce(Warmed) + Send>) {
        if let Err(Wanted::Warm(_, done)) = self.shared.walks.send(Wanted::Warm(Box::new(warm), done)) {
            done(Warmed::GaveWay(GaveWay::Places));
        }
    }

    /// Lets no URL be warmed until [`Edge::resume_warming`].
    pub fn stop_warming(&self) {
        self.shared.walks.stop(true);
    }

    /// Lets URLs be warmed again.
    pub fn resume_warming(&self) {
        self.shared.walks.stop(false);
    }

    /// Reads the content of a URL, stored or fetched, as a client would get it. `done` is called with what
    /// came of its head before the first piece comes: anything but [`Warmed::Stored`] means that none will.
    pub fn read(&self, warm: Warm, done: Box<dyn FnOnce(Warmed) + Send>) -> Document {
        let (pieces, document) = mpsc::channel(PIECES_MAX);
        if let Err(Wanted::Read(_, _, done)) =
            self.shared.walks.send(Wanted::Read(Box::new(warm), pieces, done))
        {
            done(Warmed::GaveWay(GaveWay::Places));
        }
        document
    }
}
