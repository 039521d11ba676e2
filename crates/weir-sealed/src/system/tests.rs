//! What would become of bytes that are not sealed.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::pipe;

use super::*;

const LENGTH: usize = 64 << 10;

fn file(seed: u8) -> File {
    let mut file = File::from(memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap());
    file.write_all(&[seed; LENGTH]).unwrap();
    file
}

#[test]
fn what_is_not_sealed_is_not_mapped() {
    let refused = map_sealed(&file(1)).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn bytes_that_could_change_would_have_been_noticed() {
    // This is what the seals guard against: the kernel sends what the pages hold when they leave.
    let file = file(1);
    // SAFETY: nobody looks at the bytes through the mapping while they change.
    let map = unsafe { MmapOptions::new().map_copy_read_only(&file).unwrap() };
    let (out, into) = pipe().unwrap();
    assert_eq!(refer(into.as_fd(), SealedPart::forged(&map)).unwrap(), LENGTH);
    file.write_all_at(&[2; LENGTH], 0).unwrap();
    let mut bytes = vec![0; LENGTH];
    File::from(out).read_exact(&mut bytes).unwrap();
    assert!(bytes == [2; LENGTH]);
}
