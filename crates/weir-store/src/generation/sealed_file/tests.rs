//! What a client gets that stops reading while the file is given up and its memory is used again.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate, ftruncate, sendfile};
use rustix::io::Errno;

use super::*;
use crate::budget::Budget;
use crate::samples;

const LENGTH: usize = 1 << 20;

fn blocks(seed: u64) -> Vec<Bytes> {
    (0..LENGTH).step_by(1 << 16).map(|at| samples::body(seed, at as u64, 1 << 16)).collect()
}

fn sealed(budget: &Arc<Budget>, files: &Arc<Files>, seed: u64) -> SealedFile {
    let charge = budget.charge(SealedFile::charge_bytes(LENGTH as u64)).unwrap();
    SealedFile::write(&blocks(seed), charge, files.place(LENGTH as u64).unwrap()).unwrap()
}

/// The server's end and the client's end of a connection whose buffers hold a body that nobody reads.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&client, 64 << 10).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (server, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&server, 4 * LENGTH).unwrap();
    server.set_nonblocking(true).unwrap();
    (server, client)
}

/// Has the kernel take what it takes of a file; returns how much that is.
fn take(server: &TcpStream, file: impl AsFd) -> usize {
    let mut offset = 0;
    while let Ok(1..) = sendfile(server, &file, Some(&mut offset), LENGTH) {}
    offset as usize
}

fn read(mut client: TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    client.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_client_that_stops_reading_gets_the_old_bytes_when_the_memory_is_used_again() {
    let (budget, files) = (Budget::new(1 << 30), Files::new(64));
    let (server, client) = connection();
    let file = sealed(&budget, &files, 1);
    let taken = take(&server, &file);
    assert!(taken > LENGTH / 4, "much of it waits in the kernel: {taken}");
    drop(file);
    // What was given up is there to be used again, many times over.
    let others: Vec<SealedFile> = (2..40).map(|seed| sealed(&budget, &files, seed)).collect();
    assert!(read(client, taken) == samples::body(1, 0, taken), "bytes of another body reached the client");
    drop(others);
}

#[test]
fn a_file_that_was_overwritten_would_have_been_noticed() {
    // This is what the test above guards against: the kernel sends what the pages hold when they leave.
    let (server, client) = connection();
    let mut file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
    file.write_all(&samples::body(1, 0, LENGTH)).unwrap();
    let taken = take(&server, &file);
    file.write_all_at(&samples::body(2, 0, LENGTH), 0).unwrap();
    assert!(read(client, taken) != samples::body(1, 0, taken));
}

#[test]
fn nobody_can_change_a_file_or_punch_a_hole_into_it() {
    let (budget, files) = (Budget::new(1 << 30), Files::new(64));
    let sealed = sealed(&budget, &files, 1);
    let file = &sealed.file;
    assert!(file.write_all_at(b"x", 0).is_err());
    assert!(file.write_all_at(b"x", LENGTH as u64).is_err());
    assert_eq!(ftruncate(file, 10), Err(Errno::PERM));
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(fallocate(file, punch, 0, 4096), Err(Errno::PERM));
    assert_eq!(fcntl_add_seals(file, SealFlags::empty()), Err(Errno::PERM), "the seals stay");
    assert_eq!(sealed.read(0, usize::MAX).unwrap(), samples::body(1, 0, PIECE_BYTES_MAX));
    assert_eq!(sealed.read(LENGTH as u64 - 3, 10).unwrap(), samples::body(1, LENGTH as u64 - 3, 3));
    assert!(sealed.read(LENGTH as u64, 10).is_none() && sealed.read(u64::MAX, 10).is_none());
}

#[test]
fn files_are_counted_charged_and_given_back() {
    let (budget, files) = (Budget::new(1 << 30), Files::new(1));
    let file = sealed(&budget, &files, 1);
    assert_eq!(files.held(), (1, LENGTH as u64));
    assert!(files.place(1).is_none(), "there is one at most");
    assert_eq!(budget.used_bytes(), SealedFile::charge_bytes(LENGTH as u64));
    assert!(budget.used_bytes() >= file.file.metadata().unwrap().blocks() * 512);
    drop(file);
    assert_eq!((files.held(), budget.used_bytes()), ((0, 0), 0));
}
