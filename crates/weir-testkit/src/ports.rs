//! Ports for servers that cannot report a port of the kernel's choice.

use std::fs::File;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Mutex;

use crate::socket::PATIENCE;

/// Below the range of ports for clients, so that no connection of a test uses one.
const FIRST: u16 = 10_000;
/// Blocks of ports, each for one process at a time.
const BLOCKS: u16 = 200;
/// Ports in a block.
const BLOCK: u16 = 100;

/// The ports that this process may give out, and the locks that say so to others.
struct Own {
    next: u16,
    end: u16,
    locks: Vec<File>,
}

/// A port of 127.0.0.1 on which nobody listens, never given twice within this process, nor to another process
/// of the kit while this one runs: two Weirs on one port would share its connections.
///
/// # Panics
/// Where there is none.
pub fn free_port() -> u16 {
    static OWN: Mutex<Own> = Mutex::new(Own { next: 0, end: 0, locks: Vec::new() });
    let mut own = OWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    loop {
        if own.next == own.end {
            let (block, lock) = free_block();
            own.locks.push(lock);
            own.next = FIRST + block * BLOCK;
            own.end = own.next + BLOCK;
        }
        let port = own.next;
        own.next += 1;
        if is_free(port) {
            return port;
        }
    }
}

/// Whether nobody listens there. To listen for a moment would not do: what another thread starts in that
/// moment has the socket as well until it runs, and would accept connections that are meant for a Weir.
fn is_free(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PATIENCE)
        .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Whether somebody listens on this port of IPv4.
pub(crate) fn is_listened_on(port: u16) -> bool {
    const LISTEN: &str = "0A";
    let end = format!(":{port:04X}");
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    sockets.lines().any(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        words.next().is_some_and(|local| local.ends_with(&end)) && words.nth(1) == Some(LISTEN)
    })
}

/// A block of ports that no other process has, and the lock that keeps it so until this one ends.
fn free_block() -> (u16, File) {
    let folder = std::env::temp_dir().join("weir-ports");
    std::fs::create_dir_all(&folder).unwrap();
    let start = (std::process::id().wrapping_mul(997) % u32::from(BLOCKS)) as u16;
    for step in 0..BLOCKS {
        let block = (start + step) % BLOCKS;
        let lock = File::options().create(true).append(true).open(folder.join(block.to_string())).unwrap();
        if lock.try_lock().is_ok() {
            return (block, lock);
        }
    }
    panic!("no free ports between {FIRST} and {}", FIRST + BLOCKS * BLOCK)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn who_has_a_block_has_it_alone() {
        let (one, _lock) = free_block();
        let (other, _other) = free_block();
        assert_ne!(one, other);
        assert_ne!(free_port(), free_port());
    }

    #[test]
    fn a_listener_is_seen_without_a_connection() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_listened_on(port) && !is_free(port));
        drop(listener);
        assert!(!is_listened_on(port) && is_free(port));
    }
}
