//! A request's content on its way to an origin.

use tokio::sync::mpsc;
use weir_front::{Client, ContentError, LocalFuture, Part, message};
use weir_upstream::OutPart;

/// A request's content on its way to an origin, part by part.
pub(crate) struct Upload {
    parts: Option<mpsc::Sender<OutPart>>,
}

impl Upload {
    /// No content.
    pub(crate) fn none() -> Upload {
        Upload { parts: None }
    }

    /// Content goes into `parts`, from which the origin's connection reads.
    pub(crate) fn into(parts: mpsc::Sender<OutPart>) -> Upload {
        Upload { parts: Some(parts) }
    }

    /// The content for the connection to send on; `None` where nothing is left.
    pub(crate) fn boxed(self) -> Option<Box<dyn weir_front::Upload>> {
        self.parts.is_some().then(|| Box::new(self) as Box<dyn weir_front::Upload>)
    }

    /// Moves one piece of the content. When nothing is left, waits until the client leaves.
    ///
    /// # Errors
    /// The content cannot be read further, or the client left.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn pump_to(&mut self, client: &mut dyn Client) -> Result<(), ContentError> {
        let Some(parts) = &self.parts else {
            message::gone(client).await;
            return Err(ContentError::Gone);
        };
        let place = tokio::select! {
            biased;
            place = parts.clone().reserve_owned() => place,
            () = message::gone(client) => return Err(ContentError::Gone),
        };
        // A closed channel means that the origin wants no more of it.
        let Ok(place) = place else {
            self.parts = None;
            return Ok(());
        };
        client.moved();
        match client.content().await? {
            Part::Data(bytes) => drop(place.send(OutPart::Data(bytes))),
            Part::End => {
                drop(place.send(OutPart::End(None)));
                self.parts = None;
            }
        }
        Ok(())
    }
}

impl weir_front::Upload for Upload {
    fn pump<'f>(&'f mut self, client: &'f mut dyn Client) -> LocalFuture<'f, Result<(), ContentError>> {
        Box::pin(self.pump_to(client))
    }

    fn is_over(&self) -> bool {
        self.parts.is_none()
    }
}
