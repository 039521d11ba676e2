//! The plain form: its answers have no numbers, so each question has a socket of its own while it is open.
//!
//! A socket that was used lingers for a second before it is closed, so that no later question gets its port,
//! and with it an answer that came late.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::unix::AsyncFd;

use super::{AskedFor, Asker, Fits, Heard};
use crate::clock;
use crate::counts::Count;
use crate::format::{Answer, DATAGRAM_MAX, plain_answer, plain_question};
use crate::place::Place;
use crate::readable::readable;

/// Questions that are open at once, at most: each has a socket.
const OPEN_MAX: usize = 1024;
/// Sockets that linger, at most.
const LINGERING_MAX: usize = 1024;
const LINGER: Duration = Duration::from_secs(1);

/// The plain questions of one asker.
#[derive(Debug, Default)]
pub(super) struct Pool {
    open: AtomicUsize,
    lingering: Mutex<VecDeque<Lingering>>,
}

#[derive(Debug)]
struct Lingering {
    since: Instant,
    socket: UdpSocket,
    /// What an answer that still comes counts as.
    count: Count,
}

impl Pool {
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    pub(super) async fn ask(
        &self,
        asker: &Asker,
        asked: &AskedFor<'_>,
        ready: &[usize],
        fits: Fits<'_>,
    ) -> Heard {
        self.sweep(asker);
        let _place = match Taken::of(&self.open) {
            Some(taken) => taken,
            None => {
                asker.counts.add(Count::Full);
                return Heard::Silence;
            }
        };
        let udp = |at: &usize| match &asker.settings.distributors[*at] {
            Place::Udp(address) => Some((*at, *address)),
            _ => None,
        };
        let ready: Vec<(usize, SocketAddr)> = ready.iter().filter_map(udp).collect();
        let Some(socket) = ready.first().and_then(|(_, first)| open(first, &ready)) else {
            asker.counts.add(Count::Unsent);
            return Heard::Silence;
        };
        let heard = tries(asker, asked, (&ready, fits), &socket).await;
        let count = if matches!(heard, Heard::Silence) { Count::Late } else { Count::Duplicate };
        let mut lingering = self.lingering.lock();
        lingering.push_back(Lingering { since: clock::now(), socket: socket.into_inner(), count });
        heard
    }

    /// Closes sockets that have lingered.
    fn sweep(&self, asker: &Asker) {
        let now = clock::now();
        let mut lingering = self.lingering.lock();
        let is_over = |one: &Lingering| now.saturating_duration_since(one.since) >= LINGER;
        while lingering.len() >= LINGERING_MAX || lingering.front().is_some_and(is_over) {
            let Some(Lingering { socket, count, .. }) = lingering.pop_front() else { break };
            for _ in 0..4 {
                if socket.recv_from(&mut [0; 64]).is_err() {
                    break;
                }
                asker.counts.add(count);
            }
        }
    }
}

fn open(first: &SocketAddr, all: &[(usize, SocketAddr)]) -> Option<AsyncFd<UdpSocket>> {
    let is_local = all.iter().all(|(_, address)| address.ip().is_loopback());
    let socket = super::udp::bound(first, is_local).ok()?;
    readable(socket).ok()
}

async fn tries(
    asker: &Asker,
    asked: &AskedFor<'_>,
    (ready, fits): (&[(usize, SocketAddr)], Fits<'_>),
    socket: &AsyncFd<UdpSocket>,
) -> Heard {
    let settings = &asker.settings;
    let (mut head, mut bytes) = (Vec::new(), Vec::new());
    let around = settings.policy.len() + 64;
    asked.head.print(&settings.send, DATAGRAM_MAX - around, &mut head);
    plain_question(&settings.policy, asked.client, &head, &mut bytes);
    let client = asked.client.map(|client| client.ip());
    let family = ready[0].1.is_ipv4();
    // One socket has one family.
    let ready: Vec<_> = ready.iter().filter(|(_, address)| address.is_ipv4() == family).collect();
    for number in 0..usize::from(settings.tries) {
        let (at, address) = *ready[number % ready.len()];
        let now = clock::now();
        if socket.get_ref().send_to(&bytes, address).is_err() {
            asker.counts.add(Count::Unsent);
            asker.silent(at, client, now);
            continue;
        }
        asker.counts.add(Count::Sent);
        let asked = &ready[..ready.len().min(number + 1)];
        let until = tokio::time::Instant::from_std(now + settings.timeout);
        match tokio::time::timeout_at(until, heard(asker, socket, asked)).await {
            Ok(Some((answer, by))) => {
                asker.answered(by);
                if asker.is_of_use(&answer, fits) {
                    return Heard::Answer(answer);
                }
            }
            Ok(None) => return Heard::Silence,
            Err(_) => asker.silent(at, client, now),
        }
    }
    Heard::Silence
}

/// An answer from one of those that were asked; `None` where the socket is of no use.
async fn heard(
    asker: &Asker,
    socket: &AsyncFd<UdpSocket>,
    asked: &[&(usize, SocketAddr)],
) -> Option<(Answer, usize)> {
    let mut bytes = [0; 128];
    loop {
        let mut guard = socket.readable().await.ok()?;
        match socket.get_ref().recv_from(&mut bytes) {
            Ok((length, from)) => {
                let Some((by, _)) = asked.iter().find(|(_, address)| *address == from) else {
                    asker.counts.add(Count::Foreign);
                    continue;
                };
                match plain_answer(&bytes[..length]) {
                    Ok(answer) => return Some((answer, *by)),
                    Err(_) => asker.counts.add(Count::Malformed),
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => guard.clear_ready(),
            Err(_) => {}
        }
    }
}

/// A place among the open questions.
struct Taken<'p>(&'p AtomicUsize);

impl Taken<'_> {
    fn of(open: &AtomicUsize) -> Option<Taken<'_>> {
        let taken = Taken(open);
        // Dropped where it was one too many, it gives the place back.
        (open.fetch_add(1, Ordering::Relaxed) < OPEN_MAX).then_some(taken)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
