//! Reading a body that lies on the volume.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use super::Tier;
use crate::body::Piece;
use crate::volume::{Part, Position, ReadError, Record};

/// The bytes are there no more, or are not what was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are gone from the volume")]
pub struct Gone;

/// What a reader remembers between two reads of one body on the volume.
#[derive(Debug, Default)]
pub struct Place(Position);

/// Where the bytes of a generation are that came up without them.
#[derive(Debug)]
pub(crate) struct Below {
    tier: Arc<Tier>,
    record: Arc<Record>,
    /// A read has found that something of it is gone.
    is_gone: AtomicBool,
}

impl Below {
    pub(crate) fn new(tier: Arc<Tier>, record: Arc<Record>) -> Below {
        Below { tier, record, is_gone: AtomicBool::new(false) }
    }

    /// Whether all of it was there when it was last looked at.
    pub(crate) fn is_whole(&self) -> bool {
        self.record.was_whole() && !self.is_gone.load(Ordering::Acquire)
    }

    /// What is at an offset: at once where it lies in the page cache, else by a thread that may wait for the drive.
    pub(crate) async fn read(
        &self,
        place: &mut Place,
        offset: u64,
        max: usize,
    ) -> Result<Option<Piece>, Gone> {
        let result = self.look(place, offset, max).await;
        if result.is_err() {
            self.is_gone.store(true, Ordering::Release);
        }
        result
    }

    async fn look(&self, place: &mut Place, offset: u64, max: usize) -> Result<Option<Piece>, Gone> {
        match self.tier.volume.try_read(&self.record, &mut place.0, offset, max) {
            Err(ReadError::NotResident) => {}
            result => return piece(result),
        }
        let (tier, record) = (Arc::clone(&self.tier), Arc::clone(&self.record));
        let mut position = std::mem::take(&mut place.0);
        let (done, wait) = oneshot::channel();
        let job = move || {
            let result = tier.volume.read(&record, &mut position, offset, max);
            let _ = done.send((result, position));
        };
        self.tier.volume.on_reader(job).map_err(|_| Gone)?;
        let (result, position) = wait.await.map_err(|_| Gone)?;
        place.0 = position;
        piece(result)
    }
}

fn piece(result: Result<Part, ReadError>) -> Result<Option<Piece>, Gone> {
    match result {
        Ok(Part::Bytes(checked)) => Ok(Some(Piece::Bytes(checked.into_bytes()))),
        Ok(Part::End) => Ok(None),
        Ok(Part::Gap) | Err(_) => Err(Gone),
    }
}
