//! The memory of all lists that are made or sent. A list is sent from here, piece by piece, so that it can
//! give way although its client takes nothing: where all is taken, the latest one of the client that has most
//! goes for one that has less.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use weir_body::{Body, Cut, kept};
use weir_share::{ByClient, Client, gives_way};

/// The most bytes of all lists.
const BYTES_MAX: u64 = 64 << 20;

/// The memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room(Arc<Mutex<Used>>);

#[derive(Debug, Default)]
struct Used {
    bytes: u64,
    clients: ByClient<u64>,
    /// The texts that are being sent, by their tickets.
    texts: BTreeMap<u64, Sent>,
    tickets: u64,
}

/// A text that may give way.
#[derive(Debug)]
struct Sent {
    client: Option<Client>,
    bytes: u64,
    text: Text,
}

/// None once it has given way.
type Text = Arc<Mutex<Option<String>>>;

/// A part of the memory, given back when dropped. It does not give way.
#[derive(Debug)]
pub(super) struct Taken {
    room: Room,
    client: Option<Client>,
    bytes: u64,
}

/// The text of a list on its way to a client.
#[derive(Debug)]
pub struct ListText {
    room: Room,
    ticket: u64,
    text: Text,
    at: usize,
    length: usize,
}

/// The list has given way to one of another client.
const GAVE_WAY: Cut = Cut { word: "client-share" };

impl Room {
    /// Takes so much for a client.
    pub(super) fn take(&self, client: Option<Client>, bytes: u64) -> Option<Taken> {
        // Dropped once the lock is free.
        let mut gone = Vec::new();
        let mut used = self.0.lock();
        used.make_room(client, bytes, &mut gone)?;
        Some(Taken { room: self.clone(), client, bytes })
    }

    /// Has a text sent to a client.
    pub(super) fn send(&self, client: Option<Client>, text: String) -> Option<ListText> {
        let mut gone = Vec::new();
        let (length, bytes) = (text.len(), text.len() as u64);
        let text = Arc::new(Mutex::new(Some(text)));
        let mut used = self.0.lock();
        used.make_room(client, bytes, &mut gone)?;
        used.tickets += 1;
        let ticket = used.tickets;
        used.texts.insert(ticket, Sent { client, bytes, text: text.clone() });
        Some(ListText { room: self.clone(), ticket, text, at: 0, length })
    }
}

impl Used {
    /// Counts so much for a client, with what gives way to it.
    fn make_room(&mut self, client: Option<Client>, bytes: u64, gone: &mut Vec<String>) -> Option<()> {
        while self.bytes + bytes > BYTES_MAX {
            let after = client.map_or(bytes, |client| self.clients.after(client, |had| *had, bytes));
            let of = |(ticket, sent): (&u64, &Sent)| sent.client.map(|client| (*ticket, client));
            let has = |client| self.clients.used(client, |had| *had);
            let ticket = gives_way(self.texts.iter().rev().filter_map(of), has, after)?;
            gone.extend(self.leave(ticket).and_then(|text| text.lock().take()));
        }
        self.bytes += bytes;
        client.into_iter().for_each(|client| self.clients.change(client, |had| *had += bytes));
        Some(())
    }

    /// A text has been sent, or gives way. It is known no more where it gave way before.
    fn leave(&mut self, ticket: u64) -> Option<Text> {
        let Sent { client, bytes, text } = self.texts.remove(&ticket)?;
        self.give_back(client, bytes);
        Some(text)
    }

    fn give_back(&mut self, client: Option<Client>, bytes: u64) {
        self.bytes -= bytes;
        client.into_iter().for_each(|client| self.clients.change(client, |had| *had -= bytes));
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.0.lock().give_back(self.client, self.bytes);
    }
}

impl ListText {
    /// How many bytes it has.
    pub fn length(&self) -> usize {
        self.length
    }

    /// A copy of the next bytes: what is on its way keeps no text.
    fn copied(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        let text = self.text.lock();
        let rest = &text.as_ref().ok_or(GAVE_WAY)?.as_bytes()[self.at..];
        let piece = &rest[..rest.len().min(bytes_max)];
        self.at += piece.len();
        Ok(kept(Bytes::copy_from_slice(piece)))
    }
}

impl Body for ListText {
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        self.copied(bytes_max)
    }
}

impl Drop for ListText {
    fn drop(&mut self) {
        let text = self.room.0.lock().leave(self.ticket);
        drop(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn text(bytes: usize) -> String {
        "x".repeat(bytes)
    }

    #[test]
    fn texts_that_are_being_sent_have_a_bound() {
        let room = Room::default();
        let sent = room.send(None, text(1000)).unwrap();
        let rest = room.take(None, BYTES_MAX - 1000).unwrap();
        assert!(room.send(None, text(1)).is_none(), "nothing of nobody gives way");
        drop((sent, rest));
        let mut sent = room.send(None, text(100_000)).unwrap();
        assert_eq!(sent.length(), 100_000);
        let lengths: Vec<usize> =
            std::iter::from_fn(|| sent.copied(65_536).unwrap().map(|piece| piece.len())).collect();
        assert_eq!(lengths, [65_536, 34_464]);
        drop(sent);
        assert_eq!(room.0.lock().bytes, 0);
    }

    #[test]
    fn two_clients_that_read_nothing_leave_lists_to_others() {
        let room = Room::default();
        let [one, other, third] = [1, 2, 3].map(|address| Some(Client::V4(address)));
        let mut stalled: Vec<ListText> =
            (0..64).map(|at| room.send([one, other][at % 2], text(MIB)).unwrap()).collect();
        assert!(room.send(one, text(MIB)).is_none() && room.send(other, text(MIB)).is_none());
        // What is made for a third one, and its text.
        let made: Vec<Taken> = (0..4).map(|_| room.take(third, MIB as u64).unwrap()).collect();
        let mut sent: Vec<ListText> = (0..4).map(|_| room.send(third, text(MIB)).unwrap()).collect();
        assert!(sent.iter_mut().all(|text| text.copied(10).is_ok()));
        let is_gone: Vec<bool> = stalled.iter_mut().map(|text| text.copied(10) == Err(GAVE_WAY)).collect();
        assert_eq!(is_gone.iter().filter(|gone| **gone).count(), 8);
        assert!(is_gone[56..].iter().all(|gone| *gone), "the latest ones of both");
        assert_eq!(room.0.lock().bytes, BYTES_MAX);
        drop((stalled, made, sent));
        assert!(room.0.lock().bytes == 0 && room.0.lock().clients.is_empty());
    }
}
