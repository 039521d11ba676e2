//! What else runs while a body is sent that always has more.

use std::cell::RefCell;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use bytes::Bytes;
use tokio::task::LocalSet;
use weir_body::{Body, Cut};
use weir_observe::Observatory;

use super::super::sink::tests::conn;
use super::*;
use crate::message::{Pace, Turn};

const PIECES: u64 = 400;
/// As many pieces as a body may send before others run.
const TOGETHER_MAX: usize = 8;

/// What was done, in order: a piece of the body, or a turn of the other task.
type Done = Rc<RefCell<Vec<&'static str>>>;

/// A body of single bytes that are all there already.
struct Drops {
    bytes: Bytes,
    left: u64,
    lies_in_memory: bool,
    done: Done,
}

impl Body for Drops {
    fn at_hand(&self) -> Option<(&[Bytes], usize, u64)> {
        self.lies_in_memory.then(|| (std::slice::from_ref(&self.bytes), 0, 1))
    }

    fn advance(&mut self, bytes: u64) {
        self.left -= bytes;
        self.done.borrow_mut().push("piece");
    }

    async fn next(&mut self, _: usize) -> Result<Option<Bytes>, Cut> {
        if self.left == 0 {
            return Ok(None);
        }
        self.advance(1);
        Ok(Some(self.bytes.clone()))
    }
}

/// No pace.
struct Free;

impl Pace for Free {
    async fn look(&mut self) {}

    fn turn(&mut self, _: std::time::Instant, wanted: u64, _: u64) -> Turn {
        Turn::Go(wanted)
    }

    fn took(&mut self, _: u64) {}
}

/// Sends a body beside a task that runs whenever it may. Asserts that the body comes whole.
fn done(lies_in_memory: bool) -> Vec<&'static str> {
    let done = Done::default();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let client = std::thread::spawn(move || {
        let mut got = Vec::new();
        theirs.read_to_end(&mut got).unwrap();
        got
    });
    let observatory = Observatory::start(1, &[]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let mut conn = conn(ours, &observatory.observer(0));
        let seen = Rc::clone(&done);
        let other = tokio::task::spawn_local(async move {
            loop {
                seen.borrow_mut().push("other");
                tokio::task::yield_now().await;
            }
        });
        let mut body =
            Drops { bytes: Bytes::from_static(b"."), left: PIECES, lies_in_memory, done: Rc::clone(&done) };
        let extent = if lies_in_memory { Extent::Length(PIECES) } else { Extent::Open };
        let sink = Written::new(&mut conn, framing(extent, Version::Http11));
        let (pace, upload) = (&mut None::<Box<Free>>, &mut None);
        let mut sending = Sending::new(sink, extent, &mut body, pace, upload);
        let end = sending.rest().await;
        let sent = sending.finish(end);
        assert_eq!((sent.end, sent.body_bytes), (End::Whole, PIECES));
        other.abort();
    });
    let got = client.join().unwrap();
    assert_eq!(got.iter().filter(|byte| **byte == b'.').count() as u64, PIECES);
    done.take()
}

#[test]
fn others_run_between_the_pieces_of_a_body_that_always_has_more() {
    for lies_in_memory in [false, true] {
        let done = done(lies_in_memory);
        let together = done.split(|one| *one == "other").map(<[_]>::len).max();
        assert!(together <= Some(TOGETHER_MAX), "{together:?} pieces together, in memory: {lies_in_memory}");
    }
}
