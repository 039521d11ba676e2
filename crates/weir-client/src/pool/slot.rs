//! What the pool gives out: permits, each the right to have one request under way, and slots, which are a
//! permit with the connection that its request is sent on. It must not know the queue.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;

use super::carrier::Carrier;
use super::state::{Client, Entered};
use super::{Pool, count};
use crate::connection::Connection;
use crate::error::{Bound, ExchangeError};
use crate::login::stage::Stage;

/// The right to have one request under way, or one connection idle. Dropped, it goes to a waiter, or back to
/// the pool.
#[derive(Debug)]
pub struct Permit {
    pub(super) pool: Option<Arc<Pool>>,
    pub(super) client: Client,
    pub(super) kind: Held,
}

/// What a permit is for.
#[derive(Debug)]
pub(super) enum Held {
    /// Requests, one after another.
    Requests,
    /// A tunnel, or a response that lasts for as long as its client likes: its ticket, and what says that it
    /// gives way.
    Stream(u64, oneshot::Receiver<()>),
    /// It has given way to another client's.
    Gone,
}

impl Permit {
    /// Ends the permit without giving it back: the pool goes on counting it.
    pub(super) fn surrender(mut self) {
        self.pool = None;
    }

    /// Leaves the connections that requests share.
    ///
    /// # Errors
    /// The bound is reached, for all clients or for this one.
    pub(crate) fn outlast(&mut self) -> Result<(), Bound> {
        let Some(pool) = self.pool.as_ref().filter(|_| matches!(self.kind, Held::Requests)) else {
            return Ok(());
        };
        let entered = pool.state.lock().enter_stream(self.client, &pool.bounds());
        let Entered { ticket, is_gone, .. } = entered?;
        self.kind = Held::Stream(ticket, is_gone);
        pool.clone().pass_on(self.client);
        Ok(())
    }

    /// Ready once a stream has given way to another client's: its connection is to be closed.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.kind {
            Held::Requests => return Poll::Pending,
            Held::Stream(_, is_gone) => std::task::ready!(Pin::new(is_gone).poll(cx).map(drop)),
            Held::Gone => {}
        }
        self.kind = Held::Gone;
        Poll::Ready(())
    }

    /// The pool that it is of.
    pub(crate) fn pool(&self) -> Option<Arc<Pool>> {
        self.pool.clone()
    }

    /// There is no place for its request, or no more: the error of that, which is counted.
    pub(crate) fn refuse(&self, bound: Bound, retry_after: Duration) -> ExchangeError {
        self.pool.iter().for_each(|pool| count(&pool.counts.busy));
        ExchangeError::Busy { bound, retry_after }
    }

    /// Whether it is a stream's, which may give way.
    pub(crate) fn is_stream(&self) -> bool {
        !matches!(self.kind, Held::Requests)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        match self.kind {
            Held::Requests => pool.pass_on(self.client),
            Held::Stream(ticket, _) => {
                let stream = pool.state.lock().leave_stream(ticket);
                drop(stream);
            }
            Held::Gone => {}
        }
    }
}

/// The right to one request on a connection.
#[derive(Debug)]
pub struct Slot {
    // Fields drop in this order: the place is free, or the socket closed, before its permit frees.
    pub(crate) carrier: Carrier,
    /// What it has beside `permit` where it belongs to a client.
    pub(crate) own: Option<Own>,
    pub(crate) permit: Permit,
}

impl From<Lease> for Slot {
    fn from(Lease { connection, own, permit }: Lease) -> Slot {
        Slot { carrier: Carrier::H1(connection), own, permit }
    }
}

/// A slot of a connection that carries one request after another.
#[derive(Debug)]
pub(crate) struct Lease {
    // Fields drop in this order: the socket is closed before its permit frees.
    pub(crate) connection: Box<Connection>,
    /// As [`Slot::own`].
    pub(crate) own: Option<Own>,
    pub(crate) permit: Permit,
}

/// What a connection has on which a client has begun to log in ([`crate::login`]).
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) stage: Stage,
    /// Its place among the streams.
    pub(crate) permit: Permit,
}

impl Lease {
    /// As [`Permit::outlast`]. What has a place among the streams goes on with that one.
    pub(crate) fn outlast(&mut self) -> Result<(), Bound> {
        if let Some(own) = self.own.take() {
            self.permit = own.permit;
        }
        self.permit.outlast()
    }
}

/// What a request gets.
#[derive(Debug)]
pub enum Grant {
    /// A place on a connection that has served before and is quiet.
    Idle(Slot),
    /// The right to make a connection.
    Fresh(Permit),
}

impl Grant {
    pub(super) fn permit(&mut self) -> &mut Permit {
        match self {
            Grant::Idle(slot) => &mut slot.permit,
            Grant::Fresh(permit) => permit,
        }
    }

    /// The permit alone: what it is for is closed, or has one request less.
    pub(super) fn into_permit(self) -> Permit {
        match self {
            Grant::Idle(slot) => slot.permit,
            Grant::Fresh(permit) => permit,
        }
    }
}

/// Where a request got something.
#[derive(Debug)]
pub enum Took<T> {
    /// Here.
    Here(Grant),
    /// It was served elsewhere meanwhile.
    There(T),
}
