//! The double keeps what the trait promises, and no more.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::CrashRows;
use crate::catalogue::{Change, Rows};
use crate::testing::conformance;

fn put(rows: &CrashRows, number: u8) {
    let key = [number];
    rows.apply(&[Change::Put { key: &key, value: b"a" }, Change::Put { key: &[number, 1], value: b"b" }])
        .unwrap();
}

#[test]
fn a_crash_keeps_a_prefix_with_all_that_was_synced() {
    let mut lengths = BTreeMap::new();
    for seed in 0..100 {
        let rows = CrashRows::new(seed);
        for number in 0..4 {
            put(&rows, number);
        }
        rows.sync().unwrap();
        for number in 4..8 {
            put(&rows, number);
        }
        rows.crash();
        let content = rows.content();
        let expected: Vec<Vec<u8>> =
            (0..content.len() as u8 / 2).flat_map(|number| [vec![number], vec![number, 1]]).collect();
        assert_eq!(content.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), expected);
        *lengths.entry(expected.len()).or_insert(0) += 1;
    }
    assert_eq!(lengths.keys().copied().collect::<Vec<_>>(), [8, 10, 12, 14, 16]);
}

#[test]
fn scans_begin_where_they_are_told_to_and_end_where_they_are_broken() {
    let rows = CrashRows::new(1);
    (0..5).for_each(|number| put(&rows, number));
    rows.apply(&[Change::Remove { key: &[3] }, Change::Remove { key: &[9] }]).unwrap();
    let mut seen = Vec::new();
    rows.scan(&[2, 1], &mut |key, _| {
        seen.push(key.to_vec());
        if seen.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(seen, [vec![2, 1], vec![3, 1], vec![4]]);
}

#[test]
fn what_is_not_wanted_goes_and_what_is_wanted_stays() {
    let rows = CrashRows::new(3);
    rows.tidy_by(Some(Arc::new(|key: &[u8], _: &[u8]| key[0].is_multiple_of(2))));
    (0..200).for_each(|number| put(&rows, number));
    let content = rows.content();
    let wanted = content.iter().filter(|(key, _)| key[0].is_multiple_of(2)).count();
    assert_eq!(wanted, 200);
    assert!(content.len() < 400);
}

#[test]
fn it_fails_when_it_is_told_to_and_has_changed_nothing() {
    let rows = CrashRows::new(3);
    rows.fail_in(1);
    put(&rows, 1);
    assert!(rows.apply(&[Change::Remove { key: &[1] }]).is_err());
    assert_eq!(rows.content().len(), 2);
    rows.sync().unwrap();
}

#[test]
fn it_does_what_all_rows_must() {
    let rows = CrashRows::new(5);
    let mut open = |wanted| {
        rows.tidy_by(Some(wanted));
        Arc::new(rows.clone()) as Arc<dyn Rows>
    };
    conformance::like_a_map(7, &mut open);
    let rows = CrashRows::new(6);
    let mut open = |wanted| {
        rows.tidy_by(Some(wanted));
        Arc::new(rows.clone()) as Arc<dyn Rows>
    };
    conformance::removes_only_unwanted_rows(8, &mut open);
}
