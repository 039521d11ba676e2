//! Answering datagrams: reads until nothing is left, and answers each at once.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use super::sources::Sources;
use super::{Room, What, answered};
use crate::clock;
use crate::format::{ANSWER_BYTES_MAX, FRAME_MAX};
use crate::readable::readable;

/// Datagrams that are answered before others have their turn.
const AT_ONCE: usize = 256;

/// Answers what comes to a socket, for good.
pub(super) async fn answer(socket: UdpSocket, room: Room, sources: Arc<Sources>) {
    let socket = match readable(socket) {
        Ok(socket) => socket,
        Err(error) => return tracing::error!("a socket that answers cannot be used: {error}"),
    };
    let mut bytes = vec![0; FRAME_MAX + 1];
    let mut out = Vec::with_capacity(ANSWER_BYTES_MAX);
    loop {
        // An error is one of a runtime that ends.
        let Ok(mut guard) = socket.readable().await else { return };
        let terms = room.terms.load_full();
        let judge = Judge { room: &room, terms: &terms, sources: &sources };
        for _ in 0..AT_ONCE {
            match socket.get_ref().recv_from(&mut bytes) {
                Ok((length, from)) => {
                    let judged = judge.answer(&bytes[..length], from, &mut out);
                    let sent = judged.and_then(|()| match socket.get_ref().send_to(&out, from) {
                        Ok(_) => Ok(()),
                        Err(_) => Err(What::Unsent),
                    });
                    sent.unwrap_or_else(|what| room.served.dropped(what, from.ip()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    guard.clear_ready();
                    break;
                }
                Err(_) => {}
            }
        }
        drop(guard);
        tokio::task::yield_now().await;
    }
}

/// What one datagram is judged by.
struct Judge<'j> {
    room: &'j Room,
    terms: &'j super::Terms,
    sources: &'j Sources,
}

impl Judge<'_> {
    /// Answers a datagram into `out`.
    fn answer(&self, bytes: &[u8], from: SocketAddr, out: &mut Vec<u8>) -> Result<(), What> {
        out.clear();
        let Judge { room, terms, sources } = self;
        if !terms.allow.iter().any(|net| net.contains(&from.ip())) {
            return Err(What::Refused);
        }
        if !sources.may_ask(from.ip(), terms.rate, clock::now()) {
            return Err(What::TooMany);
        }
        answered(bytes, terms, &room.served, out)
    }
}
