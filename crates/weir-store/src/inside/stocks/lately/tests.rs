//! One count at a time, which rests, and is seen until the next.

use super::*;
use crate::samples::{now, until};

fn counted(objects: u64) -> BySite {
    let own = Stock { objects, bytes: objects };
    vec![(7, InMemory { own, beyond: own })]
}

fn objects(lately: &Arc<Lately>, next: u64) -> Option<u64> {
    lately.seen(now, move || counted(next)).map(|(sites, _)| sites[0].1.own.objects)
}

fn set(lately: &Lately, is_counting: bool, took: Duration) {
    let sites = Arc::new(counted(1));
    *lately.0.lock() = State { last: Some(Counted { sites, at: now(), took }), is_counting };
}

#[test]
fn the_first_count_is_waited_for_by_nobody() {
    let lately = Arc::<Lately>::default();
    let (go, wait) = std::sync::mpsc::channel();
    let count = move || {
        wait.recv().unwrap();
        counted(1)
    };
    assert!(lately.seen(now, count).is_none());
    assert!(lately.seen(now, || unreachable!("one is under way")).is_none());
    go.send(()).unwrap();
    until(|| objects(&lately, 1) == Some(1));
}

#[test]
fn a_count_begins_when_the_last_has_rested_and_none_is_under_way() {
    let lately = Arc::<Lately>::default();
    set(&lately, false, Duration::from_secs(3600));
    assert_eq!(objects(&lately, 2), Some(1));
    assert!(!lately.0.lock().is_counting, "it rests");
    set(&lately, true, Duration::ZERO);
    assert_eq!(objects(&lately, 2), Some(1), "one is under way");
    set(&lately, false, Duration::ZERO);
    until(|| objects(&lately, 2) == Some(2));
}

#[test]
fn another_count_begins_after_one_that_panicked() {
    let lately = Arc::<Lately>::default();
    let _ = lately.seen(now, || panic!("as if the index were broken"));
    until(|| objects(&lately, 3) == Some(3));
}
