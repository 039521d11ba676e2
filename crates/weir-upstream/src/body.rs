//! The body of an origin's response, and what its end says of the origin.

use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use weir_client::{Bound, Incoming};

use crate::error::OriginError;
use crate::health::ejection::{Event, Suspect, Verdict};
use crate::origin::{Busy, Origin};

/// The longest body that is kept while its request is sent again.
const HELD_BYTES_MAX: usize = 16 * 1024;
/// How long its end is waited for.
const HELD_WITHIN: Duration = Duration::from_millis(100);

/// The body of a response. Dropped before its end, it closes the connection.
#[derive(Debug)]
pub struct OriginBody {
    // Fields drop in this order: a connection is free before its origin has room.
    incoming: Incoming,
    /// Until its end.
    judge: Option<Judge>,
}

/// What its end is noted at, and with what.
#[derive(Debug)]
pub(crate) struct Judge {
    pub(crate) origin: Arc<Origin>,
    /// What may be the cause of a failure besides the origin.
    pub(crate) suspect: Suspect,
    /// Whether the status alone makes it a failure: then its end is no success.
    pub(crate) verdict: Verdict,
    /// Its request, unless it has left those that share the origin's connections.
    pub(crate) busy: Option<Busy>,
}

impl Deref for OriginBody {
    type Target = Incoming;

    fn deref(&self) -> &Incoming {
        &self.incoming
    }
}

impl DerefMut for OriginBody {
    fn deref_mut(&mut self) -> &mut Incoming {
        &mut self.incoming
    }
}

impl OriginBody {
    pub(crate) fn new(incoming: Incoming, judge: Judge) -> OriginBody {
        let mut body = OriginBody { incoming, judge: Some(judge) };
        if body.incoming.is_ended() {
            body.came();
        }
        body
    }

    /// No body, of a response that is a tunnel.
    pub(crate) fn none() -> OriginBody {
        OriginBody { incoming: Incoming::empty(), judge: None }
    }

    /// The next bytes, at most 256 KiB, as soon as there are some; `None` at the end of a body that came
    /// whole. A body delimited by close ends at the close: [`crate::OriginResponse::length`] says whether it
    /// is one.
    ///
    /// # Errors
    /// When the body breaks off, is malformed or stalls. The same error comes again if asked again.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub async fn next(&mut self) -> Result<Option<Bytes>, OriginError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// [`Self::next`] as a poll.
    ///
    /// # Errors
    /// Those of [`Self::next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, OriginError>> {
        match std::task::ready!(self.incoming.poll_next(cx)) {
            Ok(data) => {
                if self.incoming.is_ended() {
                    self.came();
                }
                Poll::Ready(Ok(data))
            }
            Err(error) => {
                if let Some(judge) = self.judge.take() {
                    judge.origin.failed(&error, judge.suspect);
                }
                Poll::Ready(Err(error.into()))
            }
        }
    }

    /// It came whole.
    fn came(&mut self) {
        if let Some(judge) = self.judge.take()
            && judge.verdict == Verdict::Good
        {
            judge.origin.note(Event::Success);
        }
    }

    /// As [`Incoming::outlast`].
    ///
    /// # Errors
    /// The bound that such connections have reached.
    pub fn outlast(&mut self) -> Result<(), Bound> {
        self.incoming.outlast()?;
        self.judge.iter_mut().for_each(|judge| judge.busy = None);
        Ok(())
    }

    /// Reads a short body to its end and keeps it, so that its connection can be used again. False where it
    /// is longer, late or broken.
    pub(crate) async fn hold(&mut self) -> bool {
        let whole = async {
            let mut whole = BytesMut::new();
            while let Some(data) = self.next().await.ok()? {
                if whole.len() + data.len() > HELD_BYTES_MAX {
                    return None;
                }
                whole.extend_from_slice(&data);
            }
            Some(whole.freeze())
        };
        let Ok(Some(whole)) = tokio::time::timeout(HELD_WITHIN, whole).await else { return false };
        if !whole.is_empty() {
            self.incoming = Incoming::Held(whole, self.incoming.trailers());
        }
        true
    }
}
