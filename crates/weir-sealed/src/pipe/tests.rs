//! What clients get that stop reading, and clients that come behind them on the same thread.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::*;
use crate::{Draft, Sealed};

const LENGTH: usize = 3 << 20;

/// Bytes in which each page, and each body, differs from all others.
fn body(seed: usize) -> Vec<u8> {
    (0..LENGTH).map(|at| (at / 4096 * 31 + at % 251 + seed * 7) as u8).collect()
}

fn sealed(seed: usize) -> Sealed {
    let draft = Draft::new("test").unwrap();
    draft.file().write_all_at(&body(seed), 0).unwrap();
    draft.seal(()).unwrap()
}

/// The server's end, with buffers for most of a body, and the client's end of a connection.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&client, 64 << 10).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (server, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&server, LENGTH / 3).unwrap();
    server.set_nonblocking(true).unwrap();
    (server, client)
}

/// Sends from `offset` on, until the socket takes no more. Returns how much it took.
fn fill(socket: impl AsFd, sealed: &Sealed, offset: usize) -> usize {
    let mut at = offset;
    loop {
        match send(socket.as_fd(), sealed.part(at as u64..LENGTH as u64).unwrap()) {
            Ok(0) => return at - offset,
            Ok(sent) => at += sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return at - offset,
            Err(error) => panic!("{error}"),
        }
    }
}

fn read(client: &mut impl Read, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    client.read_exact(&mut bytes).unwrap();
    bytes
}

/// A pipe of this thread that fails.
fn broken(breaks: impl FnOnce(&mut Pipe)) {
    let mut pipe = Pipe::new().unwrap();
    breaks(&mut pipe);
    MEANS.set(Means::Pipe(pipe));
}

fn is_copying() -> bool {
    MEANS.with_borrow(|means| matches!(means, Means::Copies(_)))
}

#[test]
fn a_client_that_stops_reading_gets_the_old_bytes_when_the_memory_is_used_again() {
    let (server, mut client) = connection();
    let first = sealed(1);
    let taken = fill(&server, &first, 5);
    assert!(LENGTH / 4 < taken && taken < LENGTH - 5, "a part of it waits in the kernel: {taken}");
    assert!(!is_copying());
    drop(first);
    // What was given up is there to be used again, many times over.
    let others: Vec<Sealed> = (2..20).map(sealed).collect();
    assert!(read(&mut client, taken) == body(1)[5..5 + taken], "bytes of another body reached the client");
    drop(others);
}

#[test]
fn what_one_client_does_not_take_reaches_no_other() {
    let (one, other) = (sealed(1), sealed(2));
    let (slow, mut slow_client) = connection();
    let (mut sent, mut offset) = (Vec::new(), 0);
    // The slow one is full each time when the next client's bytes leave by the same pipe.
    for turn in 0..20 {
        let taken = fill(&slow, &one, offset);
        sent.extend_from_slice(&body(1)[offset..offset + taken]);
        offset += taken;
        let (quick, mut client) = connection();
        let taken = fill(&quick, &other, turn * 1_001);
        assert!(read(&mut client, taken) == body(2)[turn * 1_001..turn * 1_001 + taken], "turn {turn}");
        let amount = (100_000 + turn * 4_097).min(sent.len());
        let expected: Vec<u8> = sent.drain(..amount).collect();
        assert!(read(&mut slow_client, amount) == expected, "turn {turn}");
    }
    assert!(read(&mut slow_client, sent.len()) == sent);
}

#[test]
fn a_thread_without_a_pipe_copies_and_tries_again_later() {
    MEANS.set(Means::Copies(100_000));
    let (server, mut client) = connection();
    let sealed = sealed(1);
    for _ in 0..2 {
        assert!(is_copying());
        let sent = send(server.as_fd(), sealed.part(7..60_007).unwrap()).unwrap();
        assert_eq!(sent, 60_000);
        assert!(read(&mut client, sent) == body(1)[7..60_007]);
    }
    let taken = fill(&server, &sealed, 0);
    assert!(!is_copying() && read(&mut client, taken) == body(1)[..taken]);
}

#[test]
fn where_the_system_refers_to_no_pages_bytes_are_copied() {
    broken(|pipe| pipe.into = File::open("/dev/null").unwrap().into());
    let (server, mut client) = connection();
    let sealed = sealed(1);
    let taken = fill(&server, &sealed, 7);
    assert!(is_copying(), "it is not tried at each send");
    assert!(taken > 0 && read(&mut client, taken) == body(1)[7..7 + taken]);
}

#[test]
fn a_pipe_that_cannot_be_emptied_is_given_up_and_its_bytes_are_copied() {
    let mut reader = None;
    broken(|pipe| reader = Some(std::mem::replace(&mut pipe.out, File::open("/dev/zero").unwrap().into())));
    let (server, mut client) = connection();
    let sealed = sealed(1);
    let sent = send(server.as_fd(), sealed.part(0..LENGTH as u64).unwrap()).unwrap();
    assert!(is_copying(), "it still refers to pages");
    assert!(sent > 0 && read(&mut client, sent) == body(1)[..sent]);
    let taken = fill(&server, &sealed, sent);
    assert!(read(&mut client, taken) == body(1)[sent..sent + taken]);
}

#[test]
fn what_was_sent_before_a_pipe_fails_is_not_sent_again() {
    let (server, mut client) = connection();
    let sealed = sealed(1);
    let (part, half) = (sealed.part(0..200_000).unwrap(), sealed.part(0..100_000).unwrap());
    let (sent, ended) = MEANS.with_borrow_mut(|means| means.send(server.as_fd(), half));
    assert!(ended.is_ok());
    assert_eq!(finish(server.as_fd(), part, (sent, Err(Stop::Unfit))).unwrap(), 200_000);
    assert!(read(&mut client, 200_000) == body(1)[..200_000]);
}

#[test]
fn unix_sockets_take_it_too() {
    let (server, mut client) = UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    let sealed = sealed(1);
    let taken = fill(&server, &sealed, 0);
    assert!(taken > 0 && read(&mut client, taken) == body(1)[..taken]);
}

#[test]
fn a_client_that_is_gone_is_an_error_and_leaves_nothing_behind() {
    let (server, client) = connection();
    let sealed = sealed(1);
    assert!(fill(&server, &sealed, 0) > 0);
    drop(client);
    let part = sealed.part(0..LENGTH as u64).unwrap();
    let error = loop {
        match send(server.as_fd(), part) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => break error,
            Ok(_) => {}
        }
    };
    assert!(matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe), "{error}");
    let (server, mut client) = connection();
    let taken = fill(&server, &sealed, 9);
    assert!(read(&mut client, taken) == body(1)[9..9 + taken]);
}
