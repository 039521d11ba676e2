//! A reader that asks an origin for the rest by itself: what nobody else gets.

use std::sync::Arc;

use bytes::Bytes;
use weir_body::Cut;
use weir_upstream::OriginBody;

use super::Reader;
use crate::asks::Asks;
use crate::refetch::{Remainder, skip};
use crate::turn::Turn;

/// A reader's own request to an origin.
pub(super) struct Own {
    body: OriginBody,
    /// So many bytes come before those that it reads.
    skip_bytes: u64,
    /// What has come and was not asked for yet.
    came: Bytes,
}

impl Reader {
    /// Asks for the rest, if the origin still has the same version.
    pub(super) async fn ask_own(&mut self) -> Result<Option<Bytes>, Cut> {
        let behind = self.cut_by("reader-behind");
        let (refetch, generation) = match (self.filled.as_deref_mut(), self.refill.as_deref()) {
            (Some(filled), _) => {
                filled.guard = None;
                (&filled.refetch, &filled.generation)
            }
            (None, Some(refill)) => (&refill.refetch, &*self.generation),
            (None, None) => return Err(behind),
        };
        let asks = Arc::<Asks>::default();
        let rest = refetch.rest(generation, self.rest.start, || asks.clone()).await;
        // It goes to one client alone.
        asks.end(None);
        let Remainder { body, skip_bytes, length } = rest.ok_or(behind)?;
        self.rest.end = length.map_or(self.rest.end, |length| self.rest.end.min(length));
        self.own = Some(Box::new(Own { body, skip_bytes, came: Bytes::new() }));
        Ok(None)
    }

    /// The next bytes, at most `bytes_max`. So many are left.
    pub(super) async fn next_own(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        let Some(own) = &mut self.own else { return Ok(None) };
        let too_short = Cut { word: "rest-too-short" };
        let mut turn = Turn::default();
        let bytes = loop {
            if !own.came.is_empty() {
                break Some(std::mem::take(&mut own.came));
            }
            match own.body.next().await.map_err(|error| Cut { word: error.word() })? {
                None if own.skip_bytes > 0 => return Err(too_short),
                None => break None,
                Some(mut bytes) => {
                    let received = bytes.len();
                    skip(&mut bytes, &mut own.skip_bytes);
                    if !bytes.is_empty() {
                        break Some(bytes);
                    }
                    turn.received(received).await;
                }
            }
        };
        let Some(mut bytes) = bytes else {
            // Of a body whose length nobody knows even now, this is the end.
            let is_early = self.read_from().length().is_some_and(|length| length > self.rest.start);
            if self.rest.end < u64::MAX || is_early {
                return Err(too_short);
            }
            self.rest.end = self.rest.start;
            return Ok(None);
        };
        let came = bytes.split_off(bytes.len().min(bytes_max));
        if let Some(own) = &mut self.own {
            own.came = came;
        }
        Ok(Some(self.take(bytes)))
    }
}
