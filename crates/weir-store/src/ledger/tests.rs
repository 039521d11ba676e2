//! What `ledger` must do, by example.

use super::*;

#[test]
fn a_mark_makes_dead_what_is_older_and_nothing_else() {
    let ledger = Ledger::default();
    let before = ledger.current();
    let mark = ledger.mark(Scope::Key(1));
    assert!(ledger.is_dead(1, before) && !ledger.is_dead(2, before));
    assert_eq!(ledger.current(), mark);
    assert!(!ledger.is_dead(1, mark));
    ledger.mark(Scope::All);
    assert!(ledger.is_dead(1, mark) && ledger.is_dead(2, mark));
    assert!(!ledger.is_dead(2, ledger.current()));
    assert_eq!(ledger.marks(), 0);
}

#[test]
fn beyond_the_limit_the_marks_become_one_of_everything() {
    let ledger = Ledger::new(4);
    let before = ledger.current();
    for digest in 0..4 {
        ledger.mark(Scope::Key(digest));
    }
    assert!(!ledger.is_dead(99, before));
    let between = ledger.current();
    ledger.mark(Scope::Key(4));
    assert_eq!(ledger.marks(), 1);
    assert!(ledger.is_dead(99, before));
    assert!((0..5).all(|digest| ledger.is_dead(digest, before)));
    assert!(ledger.is_dead(4, between) && !ledger.is_dead(3, between));
}

#[test]
fn a_key_marked_again_takes_no_further_room() {
    let ledger = Ledger::new(2);
    for _ in 0..10 {
        ledger.mark(Scope::Key(1));
    }
    assert_eq!(ledger.marks(), 1);
}

#[test]
fn retired_marks_leave_later_ones() {
    let ledger = Ledger::default();
    let before = ledger.current();
    let first = ledger.mark(Scope::Key(1));
    let second = ledger.mark(Scope::Key(2));
    ledger.retire_marks(first);
    assert_eq!(ledger.marks(), 1);
    assert!(ledger.is_dead(3, before) && !ledger.is_dead(1, first));
    assert!(ledger.is_dead(2, first) && !ledger.is_dead(2, second));
}
