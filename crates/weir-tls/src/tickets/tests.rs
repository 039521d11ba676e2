//! The ring of ticket keys.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::{Strategy, any, proptest};
use rustls::server::ProducesTickets;

use super::{KEYS, LIFETIME_S, Ring, RingError, TURN, Ticketer};
use crate::sample::now;

fn ticketer(ring: &Arc<Ring>, namespace: &[u8]) -> Ticketer {
    Ticketer::new(ring, namespace.into())
}

#[test]
fn a_ticket_opens_until_its_key_is_dropped() {
    let start = now();
    let ring = Arc::new(Ring::new(start));
    let tickets = ticketer(&ring, b"");
    let ticket = tickets.encrypt(b"session").unwrap();
    assert_eq!(tickets.decrypt(&ticket).unwrap(), b"session");
    assert!(!ring.turn(start + TURN - Duration::from_secs(1)));
    let mut at = start;
    for turn in 1..=KEYS {
        at += TURN;
        assert!(ring.turn(at) && !ring.turn(at));
        assert_eq!(tickets.decrypt(&ticket).is_some(), turn < KEYS, "after {turn} turns");
    }
    assert!(Duration::from_secs(LIFETIME_S.into()) <= TURN * (KEYS as u32 - 1));
}

#[test]
fn a_clock_that_is_put_back_keeps_no_key() {
    let start = now();
    let ring = Ring::new(start);
    assert!(ring.turn(start - Duration::from_secs(3600)));
}

#[test]
fn namespaces_do_not_open_each_other() {
    let ring = Arc::new(Ring::new(now()));
    let (one, other) = (ticketer(&ring, b"one"), ticketer(&ring, b"other"));
    let ticket = one.encrypt(b"session").unwrap();
    assert_eq!(other.decrypt(&ticket), None);
    assert_eq!(ticketer(&ring, b"one").decrypt(&ticket).unwrap(), b"session");
}

#[test]
fn a_ring_moves_to_another_process() {
    let start = now();
    let old = Arc::new(Ring::new(start));
    let first = ticketer(&old, b"").encrypt(b"first").unwrap();
    assert!(old.turn(start + TURN));
    let second = ticketer(&old, b"").encrypt(b"second").unwrap();
    let new = Arc::new(Ring::new(start));
    new.import(&old.export()).unwrap();
    let tickets = ticketer(&new, b"");
    assert_eq!(tickets.decrypt(&first).unwrap(), b"first");
    assert_eq!(tickets.decrypt(&second).unwrap(), b"second");
    assert_eq!(new.export(), old.export());
    // The age of the keys moves as well.
    assert!(!new.turn(start + TURN + Duration::from_secs(60)));
    for bytes in [&b""[..], b"\x01", b"\x02", &old.export()[..20], &[1; 1 + 4 * 56]] {
        assert_eq!(new.import(bytes), Err(RingError));
    }
    assert_eq!(new.export(), old.export());
}

proptest! {
    #[test]
    fn no_other_bytes_open(
        plain in any::<Vec<u8>>(),
        (at, bit) in (any::<proptest::sample::Index>(), 0..8).prop_map(|(at, bit)| (at, 1u8 << bit)),
        cut in any::<proptest::sample::Index>(),
    ) {
        let ring = Arc::new(Ring::new(now()));
        let tickets = ticketer(&ring, b"name");
        let mut ticket = tickets.encrypt(&plain).unwrap();
        assert_eq!(tickets.decrypt(&ticket).as_ref(), Some(&plain));
        assert_eq!(tickets.decrypt(&ticket[..cut.index(ticket.len())]), None);
        let at = at.index(ticket.len());
        ticket[at] ^= bit;
        assert_eq!(tickets.decrypt(&ticket), None);
    }
}
