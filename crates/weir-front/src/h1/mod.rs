//! HTTP/1 (RFC 9112): [`serve`] reads requests one after another and has each answered; [`socket`] is the
//! client's side with its deadlines, [`content`] a request's content, [`send`] writes responses into a
//! [`sink`], [`switch`] what comes after a 101. It must not decide how a request is answered.

mod content;
mod send;
mod serve;
mod sink;
mod socket;
mod switch;

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use http::{HeaderMap, StatusCode};
use weir_observe::SiteId;
use weir_sealed::Way;
use weir_wire::{Persistence, RequestReader, Version, print};

use self::content::Content;
use self::socket::Socket;
use crate::interim::Interims;
use crate::limits::ContentLimits;
use crate::message::{Client, ContentError, LocalFuture, Part, PeerInfo};

pub(crate) use self::serve::serve;

/// One connection.
struct Conn {
    socket: Socket,
    reader: RequestReader,
    content: Content,
    interims: Interims,
    peer: Rc<PeerInfo>,
    /// Whether the next request is the last: another process relays the connection.
    is_last: bool,
    /// Since when no request is under way.
    free_since: Instant,
    /// Whether it went on after a response, which may still be on its way.
    has_gone_on: bool,
}

/// What a request says of its connection; no response depends on it.
#[derive(Clone, Copy, Debug)]
struct Framed {
    version: Version,
    persistence: Persistence,
    is_head: bool,
}

/// What becomes of the connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The connection goes on.
    KeepAlive,
    /// It is closed. The client may still be sending.
    Close,
    /// It is closed at once: the client has all that it asked for, and sends no more.
    Over,
    /// It is closed at once, in the middle of a message; framing tells the client so.
    Cut,
    /// It is reset, so that the client does not take the part for a whole message.
    Reset,
}

impl Client for Conn {
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_gone(cx)
    }

    fn content(&mut self) -> LocalFuture<'_, Result<Part, ContentError>> {
        Box::pin(self.content.next(&mut self.socket))
    }

    fn bound_content(&mut self, limits: ContentLimits) {
        self.content.bound(limits);
    }

    fn interim(&mut self, status: StatusCode, headers: &HeaderMap) -> Result<(), ContentError> {
        if self.socket.has_unsent() || !self.interims.take(headers) {
            return Ok(());
        }
        print::interim(&mut self.socket.out, status, headers);
        // What is not taken now of one that has begun leaves before what comes next.
        self.socket.send_now(&[]).map(drop).map_err(|_| ContentError::Gone)
    }

    fn has_ended(&self) -> bool {
        self.socket.has_ended()
    }

    fn way(&self) -> Way {
        self.socket.way()
    }

    fn moved(&mut self) {
        self.socket.moved();
    }

    fn count_for(&mut self, site: SiteId) {
        self.socket.site = site;
    }
}

/// Prints the persistence field unless the version's default is meant (RFC 9112 §9.3).
fn print_persistence(out: &mut Vec<u8>, after: After, version: Version) {
    match (after, version) {
        (After::KeepAlive, Version::Http11) => {}
        (After::KeepAlive, Version::Http10) => out.extend_from_slice(b"connection: keep-alive\r\n"),
        _ => out.extend_from_slice(b"connection: close\r\n"),
    }
}
