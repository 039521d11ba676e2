//! What a file costs and gives back. What clients get of it is tested in `weir-sealed`.

use super::*;
use crate::budget::Budget;
use crate::samples;

const LENGTH: usize = 1 << 20;

fn sealed(budget: &Arc<Budget>, files: &Arc<Files>, seed: u64) -> SealedFile {
    let blocks: Vec<Bytes> =
        (0..LENGTH).step_by(1 << 16).map(|at| samples::body(seed, at as u64, 1 << 16)).collect();
    let charge = budget.charge(SealedFile::charge_bytes(LENGTH as u64)).unwrap();
    SealedFile::write(SealedFile::draft().unwrap(), &blocks, charge, files.place(LENGTH as u64).unwrap())
        .unwrap()
}

#[test]
fn a_file_is_read_in_pieces_and_as_parts() {
    let (budget, files) = (Budget::new(1 << 30), Files::new(64));
    let sealed = sealed(&budget, &files, 1);
    assert_eq!(sealed.read(0, usize::MAX).unwrap(), samples::body(1, 0, PIECE_BYTES_MAX));
    assert_eq!(sealed.read(LENGTH as u64 - 3, 10).unwrap(), samples::body(1, LENGTH as u64 - 3, 3));
    assert!(sealed.read(LENGTH as u64, 10).is_none() && sealed.read(u64::MAX, 10).is_none());
    assert!(sealed.read(0, 0).is_none());
    assert_eq!(sealed.part(9..LENGTH as u64).unwrap().bytes(), samples::body(1, 9, LENGTH - 9));
    assert!(sealed.part(9..LENGTH as u64 + 1).is_none());
}

#[test]
fn files_are_counted_charged_and_given_back() {
    let (budget, files) = (Budget::new(1 << 30), Files::new(2));
    let file = sealed(&budget, &files, 1);
    assert_eq!(files.held(), (1, LENGTH as u64));
    assert!(files.place(SHORT_BYTES - 1).is_none(), "short ones get half of them");
    let last = files.place(SHORT_BYTES).unwrap();
    assert!(files.place(SHORT_BYTES).is_none(), "there are two at most");
    drop(last);
    assert_eq!(budget.used_bytes(), SealedFile::charge_bytes(LENGTH as u64));
    let (reader, copied) = (file.read(0, BLOCK_BYTES + 1).unwrap(), file.read(0, BLOCK_BYTES).unwrap());
    drop(file);
    assert_eq!(budget.used_bytes(), SealedFile::charge_bytes(LENGTH as u64), "a reader still has it");
    drop(reader);
    assert_eq!((files.held(), budget.used_bytes()), ((0, 0), 0));
    assert_eq!(copied, samples::body(1, 0, BLOCK_BYTES), "a short piece holds nothing else");
}
