//! A body around a body: what a stage makes of its bytes. It must not end cleanly unless its body did.
//!
//! States: `More` of the body's bytes are to come; its `Last` are in the stage; `Ended`; or it was `Cut`, by
//! the body or by the stage, and stays so. Bytes that came out before go first.

use std::future::poll_fn;
use std::task::Poll;

use bytes::{Buf, Bytes};
use http::HeaderMap;

use crate::stage::{FAILED, OUT_BYTES_MAX, Out, Rest, Stage};
use crate::{Body, Cut, kept};

/// The most bytes that are asked of the body at once.
const IN_BYTES_MAX: usize = 64 << 10;
/// The most bytes that the stage is given at once.
const TAKE_BYTES_MAX: usize = 16 << 10;
/// After so many bytes without one that comes out, other tasks run. It is little: a runtime may run one task
/// many times before it looks at its sockets again.
const TURN_BYTES: usize = 32 << 10;
/// A step counts for at least so many, however little the stage took.
const STEP_BYTES_MIN: usize = 4 << 10;

/// What a stage makes of a body.
#[derive(Debug)]
pub struct Staged<B, S> {
    body: B,
    stage: S,
    /// The last bytes of the body, which the stage has not taken yet.
    bytes: Bytes,
    out: Out,
    coming: Coming,
}

/// What is still to come out.
#[derive(Clone, Copy, Debug)]
enum Coming {
    More,
    Last,
    Ended,
    Cut(Cut),
}

impl<B: Body, S: Stage> Staged<B, S> {
    /// A body of which nothing was taken, through a stage that has taken nothing.
    pub fn new(body: B, stage: S) -> Staged<B, S> {
        Staged { body, stage, bytes: Bytes::new(), out: Out::default(), coming: Coming::More }
    }

    /// The bytes that the stage holds, and that wait before and behind it.
    pub fn held_bytes(&self) -> usize {
        self.stage.held_bytes() + self.bytes.len() + self.out.held_bytes()
    }

    /// The most that [`Staged::held_bytes`] ever is: what is to be charged for it.
    pub fn held_bytes_max(&self) -> usize {
        self.stage.held_bytes_max() + IN_BYTES_MAX + OUT_BYTES_MAX
    }

    /// Gives the stage some of the body's bytes. Returns how many it took.
    fn take(&mut self) -> usize {
        let mut some = self.bytes.slice(..self.bytes.len().min(TAKE_BYTES_MAX));
        let given = some.len();
        let result = self.stage.take(&mut some, &mut self.out);
        let taken = given.saturating_sub(some.len());
        match result {
            Err(cut) => self.coming = Coming::Cut(cut),
            Ok(()) if taken == 0 && self.out.held_bytes() == 0 => self.coming = Coming::Cut(FAILED),
            Ok(()) => {}
        }
        self.bytes.advance(taken);
        if self.bytes.is_empty() {
            // An empty slice would keep its block.
            self.bytes = Bytes::new();
        }
        taken
    }

    /// The body has ended cleanly: has the stage put its rest.
    fn end(&mut self) {
        self.coming = match self.stage.end(&mut self.out) {
            Err(cut) => Coming::Cut(cut),
            Ok(Rest::Nothing) => Coming::Ended,
            Ok(Rest::More) if self.out.held_bytes() == 0 => Coming::Cut(FAILED),
            Ok(Rest::More) => Coming::Last,
        };
    }
}

impl<B: Body, S: Stage> Body for Staged<B, S> {
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        let mut done = 0;
        loop {
            if let Some(bytes) = self.out.first(bytes_max) {
                return Ok(Some(bytes));
            }
            if done >= TURN_BYTES {
                others().await;
                done = 0;
            }
            let mut taken = 0;
            match self.coming {
                Coming::Ended => return Ok(None),
                Coming::Cut(cut) => return Err(cut),
                Coming::Last => self.end(),
                Coming::More if !self.bytes.is_empty() => taken = self.take(),
                Coming::More => match self.body.next(IN_BYTES_MAX).await {
                    Ok(Some(bytes)) => self.bytes = bytes,
                    Ok(None) => self.coming = Coming::Last,
                    Err(cut) => self.coming = Coming::Cut(cut),
                },
            }
            done += taken.max(STEP_BYTES_MIN);
        }
    }

    fn let_go(&mut self, unsent: Bytes) -> Option<Bytes> {
        // What came out cannot be had again; of the body, what the stage has not taken can.
        let bytes = self.body.let_go(std::mem::take(&mut self.bytes));
        self.bytes = bytes.unwrap_or_default();
        self.out.let_go();
        kept(Bytes::copy_from_slice(&unsent))
    }

    fn may_let_go(&self) -> bool {
        self.body.may_let_go()
    }

    fn holds_origin(&self) -> bool {
        self.body.holds_origin()
    }

    fn trailers(&mut self) -> Option<HeaderMap> {
        self.body.trailers()
    }
}

/// Ready once the tasks that are ready now have run.
async fn others() {
    let mut is_behind = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut is_behind, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
