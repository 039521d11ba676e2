//! What the lists of what is asked for most are told of a request: its URL, client and origin. It is asked
//! for few of them.

use weir_front::listen::Peer;
use weir_observe::{Seen, text};

use crate::exchange::Note;

/// Of a request whose head was read.
#[cold]
pub(crate) fn of(note: &Note<'_>) -> Seen {
    let asked = &note.asked;
    let (host, target) = (asked.request.host.as_str(), asked.path_and_query());
    let mut url = Vec::with_capacity(asked.scheme.len() + 3 + host.len() + target.len());
    for part in [asked.scheme, "://", host, target] {
        url.extend_from_slice(part.as_bytes());
    }
    let client = asked.client_or_peer().sharer();
    Seen { url: Some(text(&url)), client, origin: note.told.origin.clone() }
}

/// Of a request that was refused before its head was read.
#[cold]
pub(crate) fn of_refused(peer: Peer) -> Seen {
    Seen { url: None, client: peer.sharer(), origin: None }
}
