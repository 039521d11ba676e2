//! Runs the fuzz bodies of this room over their seeds and bounded mutations of them, on any toolchain.

use weir_testkit::fuzz;

/// What mutations insert, beside bytes of other seeds.
const WORDS: &[&[u8]] = &[
    &[0],
    &[1],
    &[0xff],
    &[0; 8],
    &[0xff; 4],
    &[0xff; 8],
    b"WRec",
    b"WFrm",
    b"WEIRLEDG",
    &[1, 0, 0, 0],
    &[64, 0, 0, 0],
    &[0, 0, 1, 0, 0, 0, 0, 0],
];

#[test]
fn ledgers_keep_their_promises() {
    fuzz("ledger", WORDS, super::ledger);
}

#[test]
fn records_keep_their_promises() {
    fuzz("record", WORDS, super::record);
}

#[test]
fn journals_keep_their_promises() {
    fuzz("journal", WORDS, super::journal);
}

#[test]
fn heads_keep_their_promises() {
    fuzz("head", WORDS, super::head);
}
