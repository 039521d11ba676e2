//! Purges and retentions: begun on a thread that may take its time, and waited for without one.

use std::time::Duration;

use tokio::sync::oneshot;
use weir_observe::{MARK_PATIENCE, SILENT_DRIVE};

use super::{Control, PurgeError, RetainError};
use crate::clock;
use crate::data_plane::{PurgeDone, PurgeOrder, PurgeScope, Purged, Retained, Taken};
use crate::status::rfc3339;

/// Marks that are in force, and on their way to the disk.
pub(crate) struct Begun<T> {
    written: oneshot::Receiver<Result<u64, String>>,
    said: T,
}

/// What is known of a purge at once: what it takes, and what of it lies by hand.
pub(crate) type Held = (Taken, u64);

fn acknowledged() -> (PurgeDone, oneshot::Receiver<Result<u64, String>>) {
    let (told, written) = oneshot::channel();
    (Box::new(move |result: Result<u64, String>| drop(told.send(result))), written)
}

impl<T> Begun<T> {
    /// The number of the marks, once they are durable, and what was said at once.
    ///
    /// # Errors
    /// They are not, or not for so long that nobody waits.
    async fn durable(self) -> Result<(u64, T), String> {
        match tokio::time::timeout(MARK_PATIENCE, self.written).await {
            Ok(Ok(written)) => written.map(|mark| (mark, self.said)),
            Ok(Err(_)) => Err("the ledger's thread has ended".to_owned()),
            Err(_) => Err(SILENT_DRIVE.to_owned()),
        }
    }
}

impl Control {
    /// Purges at once. Blocks for a while.
    ///
    /// # Errors
    /// The order makes no sense.
    pub(crate) fn begin_purge(&self, order: &PurgeOrder) -> Result<Begun<Held>, PurgeError> {
        let (tell, written) = acknowledged();
        let taken = self.data_plane.purge(order, tell).map_err(PurgeError::Order)?;
        Ok(Begun { written, said: (taken, self.data_plane.content_within(order)) })
    }

    /// A purge that has begun, once it is durable.
    ///
    /// # Errors
    /// It is not.
    ///
    /// # Cancel safety
    /// What was purged stays purged.
    pub(crate) async fn purged(&self, order: PurgeOrder, begun: Begun<Held>) -> Result<Purged, PurgeError> {
        let (mark, (Taken { held, wider }, by_hand)) =
            begun.durable().await.map_err(PurgeError::Unwritten)?;
        let scopes: Vec<_> = order.all().cloned().collect();
        tracing::info!(mark, ?scopes, soft = order.soft, ?wider, "purged");
        Ok(Purged { mark, scopes, soft: order.soft, held, wider, by_hand })
    }

    /// Makes what the scopes name fresh for so many seconds from now on, at once. Blocks for a while.
    ///
    /// # Errors
    /// See [`RetainError::Refused`].
    pub(crate) fn begin_retention(
        &self,
        scopes: &[PurgeScope],
        lifetime_s: u64,
    ) -> Result<Begun<String>, RetainError> {
        let (tell, written) = acknowledged();
        let lifetime = Duration::from_secs(lifetime_s);
        let until = rfc3339(clock::wall() + lifetime);
        self.data_plane.retain(scopes, lifetime, tell).map_err(RetainError::Refused)?;
        Ok(Begun { written, said: until })
    }

    /// A retention that has begun, once it is durable.
    ///
    /// # Errors
    /// It is not.
    ///
    /// # Cancel safety
    /// What was ordered stays ordered.
    pub(crate) async fn retained(
        &self,
        scopes: Vec<PurgeScope>,
        lifetime_s: u64,
        begun: Begun<String>,
    ) -> Result<Retained, RetainError> {
        let (mark, until) = begun.durable().await.map_err(RetainError::Unwritten)?;
        tracing::info!(mark, ?scopes, lifetime_s, "retained");
        Ok(Retained { mark, scopes, lifetime_s, until })
    }
}
