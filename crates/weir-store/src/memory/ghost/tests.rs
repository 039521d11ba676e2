//! What `ghost` must do, by example.

use super::*;

#[test]
fn the_oldest_is_forgotten() {
    let mut ghosts = Ghosts::default();
    (0..10).for_each(|digest| ghosts.add(digest, 4));
    assert_eq!(ghosts.len(), 4);
    assert!(!ghosts.take(5) && ghosts.take(6) && !ghosts.take(6) && ghosts.take(9));
}

#[test]
fn one_that_came_again_is_as_young_as_its_last_coming() {
    let mut ghosts = Ghosts::default();
    [1, 2, 1, 3, 4].into_iter().for_each(|digest| ghosts.add(digest, 3));
    assert!(ghosts.take(1) && !ghosts.take(2) && ghosts.take(3) && ghosts.take(4));
}

#[test]
fn it_stays_bounded_when_all_are_taken() {
    let mut ghosts = Ghosts::default();
    for digest in 0..1000 {
        ghosts.add(digest, 8);
        assert!(ghosts.take(digest));
    }
    assert!(ghosts.order.len() <= 8 && ghosts.numbers.is_empty());
}
