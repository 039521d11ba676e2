//! A generation as a representation: held, or being filled.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use weir_fill::ReaderGuard;
use weir_fill::reader::refill::Refill;
use weir_fill::reader::{Filled, Reader};
use weir_fill::refetch::Refetch;
use weir_policy::Interval;
use weir_store::Generation;

use super::Holding;
use crate::deliver::source::{Kept, Whole};
use crate::exchange::{Exchange, Told};
use crate::parts;
use crate::plan::Route;
use crate::present::{self, Reader as Client};

/// What the kernel does not take at once from a client that reads slowly: 1 MiB.
const SLOW_BYTES_MIN: u64 = 1 << 20;

/// Where a generation's bytes are.
pub(crate) enum Lies {
    /// It is complete, or a part that grows no more by itself.
    Held,
    /// Its fill is running.
    Filling(ReaderGuard, Arc<Refetch>),
}

/// A generation that is sent.
pub(crate) struct OfGeneration<'g> {
    pub(crate) generation: Arc<Generation>,
    pub(crate) lies: Lies,
    /// How missing bytes are brought, where they were already asked for.
    pub(crate) refill: Option<Box<Refill>>,
    pub(crate) route: &'g Route,
    pub(crate) client: Client<'g>,
}

impl Holding for OfGeneration<'_> {
    fn present(&self, fields: HeaderMap, status: StatusCode) -> HeaderMap {
        present::kept(fields, status, self.route, self.client)
    }

    fn note_unmet(&self, _: &mut Told<'_>, _: &'static str) {
        // It came about as it did.
    }

    fn generation(&self) -> Option<&Arc<Generation>> {
        Some(&self.generation)
    }

    fn kept(self, exchange: &mut Exchange<'_, '_>, interval: Interval) -> Kept {
        let OfGeneration { generation, lies, refill, .. } = self;
        let asked = exchange.asked;
        match lies {
            Lies::Held if generation.is_whole_in_memory() => {
                asked.core.shared.store.note_sent(&generation, interval.length(), || exchange.client.way());
                let refill = match is_read_slowly(&generation, interval) {
                    true => refill.or_else(|| parts::refill(exchange, &generation)),
                    false => None,
                };
                Kept::Whole(Whole::new(generation, interval, refill))
            }
            Lies::Held => {
                let refill = refill.or_else(|| parts::refill(exchange, &generation));
                Kept::Reader(Box::new(Reader::new(generation, interval, refill)))
            }
            Lies::Filling(guard, refetch) => {
                let store = asked.core.shared.store.clone();
                let refill = parts::refill(exchange, &generation);
                let filled = Filled::new(guard, generation, refetch, store);
                Kept::Reader(Box::new(Reader::filling(filled, interval, refill)))
            }
        }
    }
}

/// Whether a client may read so long that it lets go of the blocks and reads on from the volume. Where the
/// volume fails it, it asks the origin for the rest.
fn is_read_slowly(generation: &Generation, interval: Interval) -> bool {
    interval.length() >= SLOW_BYTES_MIN && generation.is_stored_on_disk()
}
