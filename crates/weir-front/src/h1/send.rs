//! Writes a response: its head, in a framing that the client understands, and then its content. It must not
//! change what the service answered.

use http::HeaderName;
use weir_clock as clock;
use weir_wire::{Persistence, Version, print};

use super::sink::{Framing, Written};
use super::{After, Conn, Framed, print_persistence, switch};
use crate::message::{Done, End, Fields, Head, Late, Response, Service};
use crate::out::{Extent, Sending, unsent};

/// What tells the client where a body ends.
fn framing(extent: Extent, version: Version) -> Framing {
    match (extent, version) {
        (Extent::Nothing(_) | Extent::Length(_), _) => Framing::Head,
        (Extent::Open, Version::Http11) => Framing::Chunked,
        (Extent::Open, Version::Http10) => Framing::Close,
    }
}

/// Prints the fields that say so.
fn print_framing(out: &mut Vec<u8>, extent: Extent, framing: Framing) {
    if let Some(length) = extent.declared() {
        out.extend_from_slice(b"content-length: ");
        print::number(out, length);
        out.extend_from_slice(b"\r\n");
    } else if framing == Framing::Chunked {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
}

/// Sends a response. Returns what was sent, and what becomes of the connection.
///
/// # Cancel safety
/// Not safe: after a drop the connection must be closed.
pub(super) async fn respond<S: Service>(
    conn: &mut Conn,
    framed: Framed,
    service: &S,
    response: &mut Response<S>,
) -> (Done, After) {
    let Response { head, late, length, body, pace, upload, switch, must_close } = response;
    let Some(status) = head.status() else {
        let end = if conn.socket.has_ended() { End::HalfClosed } else { End::ClientGone };
        return (unsent(None, end), After::Cut);
    };
    let extent = Extent::choose(framed.is_head, status, *length);
    let framing = framing(extent, framed.version);
    let must_close = *must_close
        || conn.is_last
        || framed.persistence == Persistence::Close
        || framing == Framing::Close
        || service.is_draining();
    let after = if must_close { After::Close } else { After::KeepAlive };
    conn.content.answered();
    let out = &mut conn.socket.out;
    print_head(out, head, late);
    if let Some(switch) = switch.take() {
        return (switch::run(conn, *switch, status, service.observer().counters()).await, After::Cut);
    }
    print_framing(out, extent, framing);
    print_persistence(out, after, framed.version);
    print::end(out);
    // The printed head need not be kept while it is sent.
    *head = Head::None;
    weir_yield::before_sending().await;
    let mut sending = Sending::new(Written::new(conn, framing), extent, body, pace, upload);
    let end = match sending.at_once() {
        Some(end) => end,
        None => sending.rest().await,
    };
    let sent = sending.finish(end);
    let after = match end {
        End::Whole => after,
        End::Cut(_) if framing == Framing::Close => After::Reset,
        End::Cut(_) | End::ClientGone | End::HalfClosed => After::Cut,
    };
    (Done { status: Some(status), sent, ended: sent.last_byte.unwrap_or_else(clock::mono) }, after)
}

/// Prints status line and fields, without those of this connection.
fn print_head(out: &mut Vec<u8>, head: &Head, late: &impl Late) {
    match head {
        Head::Prepared(prepared) => out.extend_from_slice(prepared.text()),
        Head::Made(status, fields) => {
            print::status_line(out, *status);
            print::fields(out, fields);
        }
        Head::None => {}
    }
    late.write(&mut Lines(out));
}

/// Fields as lines.
struct Lines<'o>(&'o mut Vec<u8>);

impl Fields for Lines<'_> {
    fn add(&mut self, name: &'static str, value: impl FnOnce(&mut Vec<u8>)) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": ");
        value(self.0);
        self.0.extend_from_slice(b"\r\n");
    }

    fn field(&mut self, name: &HeaderName, value: &[u8]) {
        for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
            self.0.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests;
