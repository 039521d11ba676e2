//! The memory that connections hold beyond what each is reckoned with. It is charged to the store, of which
//! what is stored gives way, up to a part of it. It must not know what is held.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_front::CHARGE_BYTES;
use weir_share::{Client, Clients, Counted};
use weir_store::{Beside, Store};

/// Connections hold at most this part of the memory's ceiling beyond their own.
const MEMORY_PART: u64 = 2;
/// A quarter of the pieces is kept for clients that have few. Of what is left of the others one client may
/// have a quarter.
const PART: usize = 4;
/// So many are few: 64 KiB.
const FEW: usize = 2;

/// Pieces of memory for connections.
#[derive(Debug)]
pub(crate) struct BesideRoom {
    pieces_max: usize,
    used: AtomicUsize,
    clients: Arc<Clients>,
}

/// A piece, given back when dropped.
#[derive(Debug)]
pub(crate) struct Piece {
    room: Arc<BesideRoom>,
    counted: Option<Counted>,
    charge: Option<Beside>,
}

impl BesideRoom {
    /// A room in a memory of so many bytes.
    pub(crate) fn new(memory_bytes: u64) -> Arc<BesideRoom> {
        let pieces = memory_bytes / MEMORY_PART / CHARGE_BYTES as u64;
        let pieces_max = usize::try_from(pieces).unwrap_or(usize::MAX);
        Arc::new(BesideRoom { pieces_max, used: AtomicUsize::new(0), clients: Arc::default() })
    }

    /// One more piece for a client. Connections that speak for many have none of what is kept for few.
    pub(crate) fn take(self: &Arc<Self>, client: Option<Client>, store: &Store) -> Option<Piece> {
        let mut piece = self.count(client)?;
        piece.charge = Some(store.charge_beside(CHARGE_BYTES as u64)?);
        Some(piece)
    }

    fn count(self: &Arc<Self>, client: Option<Client>) -> Option<Piece> {
        let used = self.used.fetch_add(1, Ordering::Relaxed);
        let mut piece = Piece { room: self.clone(), counted: None, charge: None };
        let left = self.pieces_max.checked_sub(used).filter(|left| *left > 0)?;
        let left_to_all = left.saturating_sub(self.pieces_max / PART);
        match client {
            Some(client) => {
                piece.counted = Some(self.clients.count(client, FEW.max(left_to_all / PART))?);
            }
            None if left_to_all == 0 => return None,
            None => {}
        }
        Some(piece)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.room.used.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: u64 = 64 << 20;

    fn some(number: u32) -> Option<Client> {
        Some(Client::V4(number))
    }

    /// All that one takes.
    fn all(room: &Arc<BesideRoom>, client: Option<Client>) -> Vec<Piece> {
        std::iter::from_fn(|| room.count(client)).collect()
    }

    #[test]
    fn clients_that_take_all_they_can_leave_some_to_the_next() {
        let room = BesideRoom::new(MEMORY);
        let mut held = Vec::new();
        for client in 0..100 {
            let pieces = all(&room, some(client));
            assert!(!pieces.is_empty(), "the client {client} has nothing");
            assert!(pieces.len() <= room.pieces_max * 3 / 20 + 1, "{} for one client", pieces.len());
            held.push(pieces);
        }
        let bytes = held.iter().flatten().count() * CHARGE_BYTES;
        assert!(bytes as u64 <= MEMORY / 2, "{bytes}");
        drop(held);
        assert_eq!(room.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_speaks_for_many_leaves_some_to_others() {
        let room = BesideRoom::new(MEMORY);
        let proxys = all(&room, None);
        assert!(proxys.len() >= room.pieces_max / 2 && proxys.len() < room.pieces_max);
        assert_eq!(all(&room, some(1)).len(), FEW);
    }

    #[test]
    fn the_store_gives_way_to_what_is_held() {
        let (room, store) = (BesideRoom::new(1 << 20), Store::new(1 << 20));
        let held: Vec<_> = (0..3).filter_map(|_| room.take(None, &store)).collect();
        assert_eq!(store.usage().used_bytes, held.len() as u64 * CHARGE_BYTES as u64);
        assert_eq!(held.len(), 3);
        drop(held);
        assert_eq!(store.usage().used_bytes, 0);
        let full = store.charge_beside((1 << 20) - 1000);
        assert!(full.is_some() && room.take(None, &store).is_none());
        assert_eq!(room.used.load(Ordering::Relaxed), 0);
    }
}
