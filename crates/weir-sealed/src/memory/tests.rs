//! What nobody can change, and how long it stays.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::Errno;

use super::*;

fn sealed(bytes: &[u8]) -> (Sealed, File) {
    let draft = Draft::new("test").unwrap();
    draft.file().write_all_at(bytes, 0).unwrap();
    let other = draft.file().try_clone().unwrap();
    (draft.seal(()).unwrap(), other)
}

#[test]
fn nobody_can_change_sealed_bytes_or_punch_a_hole_into_them() {
    let (sealed, file) = sealed(&[7; 10_000]);
    assert!(file.write_all_at(b"x", 0).is_err());
    assert!(file.write_all_at(b"x", 10_000).is_err());
    assert_eq!(ftruncate(&file, 10), Err(Errno::PERM));
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(fallocate(&file, punch, 0, 4096), Err(Errno::PERM));
    assert_eq!(fcntl_add_seals(&file, SealFlags::empty()), Err(Errno::PERM), "the seals stay");
    assert_eq!(&sealed.bytes()[..], [7; 10_000]);
}

#[test]
fn a_part_lies_within_the_bytes() {
    let (sealed, _) = sealed(b"0123456789");
    assert_eq!(sealed.part(2..5).unwrap().bytes(), b"234");
    assert_eq!(sealed.part(2..10).unwrap().at_most(3).after(1).bytes(), b"34");
    assert_eq!(sealed.part(2..10).unwrap().at_most(u64::MAX).len(), 8);
    assert!(sealed.part(10..10).unwrap().is_empty() && sealed.part(0..10).unwrap().after(11).is_empty());
    #[expect(clippy::reversed_empty_ranges, reason = "it is what must be refused")]
    let reversed = sealed.part(5..2);
    assert!(reversed.is_none() && sealed.part(0..11).is_none() && sealed.part(0..u64::MAX).is_none());
}

#[test]
fn an_empty_file_is_sealed_too() {
    let (sealed, _) = sealed(b"");
    assert!(sealed.bytes().is_empty() && sealed.part(0..0).unwrap().is_empty());
}

#[test]
fn what_stands_beside_goes_with_the_last_reader() {
    let (draft, beside) = (Draft::new("test").unwrap(), Arc::new(()));
    draft.file().write_all_at(b"bytes", 0).unwrap();
    assert!(draft.taken_bytes().unwrap() > 0);
    let sealed = draft.seal(Arc::clone(&beside)).unwrap();
    let reader = sealed.bytes().slice(1..3);
    drop(sealed);
    assert_eq!((Arc::strong_count(&beside), &reader[..]), (2, &b"yt"[..]));
    drop(reader);
    assert_eq!(Arc::strong_count(&beside), 1);
}
