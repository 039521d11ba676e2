//! What runs between the turns of many transfers.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::task::LocalSet;

use super::*;

const TRANSFERS: usize = 40;
const EACH: usize = 5;

/// Runs transfers that always have more to receive, beside a task that is woken by the kernel each time the
/// worker looks at its sockets. A turn is one long piece, or many of one byte. What was done, in order: a
/// transfer's number, or none for the other task.
fn done(piece: usize) -> Vec<Option<usize>> {
    let done = Rc::new(RefCell::new(Vec::new()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let transfers: Vec<_> = (0..TRANSFERS)
            .map(|number| {
                let done = Rc::clone(&done);
                tokio::task::spawn_local(async move {
                    let mut turn = Turn::default();
                    for _ in 0..EACH {
                        done.borrow_mut().push(Some(number));
                        for _ in 0..if piece < TURN_BYTES { TURN_PIECES } else { 1 } {
                            turn.received(piece).await;
                        }
                    }
                })
            })
            .collect();
        let looks = Rc::clone(&done);
        let other = tokio::task::spawn_local(async move {
            loop {
                looks.borrow_mut().push(None);
                tokio::task::yield_now().await;
            }
        });
        for transfer in transfers {
            transfer.await.unwrap();
        }
        other.abort();
    });
    done.take()
}

#[test]
fn few_have_a_turn_between_two_looks_at_the_sockets() {
    for piece in [TURN_BYTES, 1] {
        let done = done(piece);
        // At first each begins with what it has.
        let begun = done.iter().position(Option::is_none).unwrap();
        for between in done[begun..].split(Option::is_none) {
            // The other may be the first after one look, and the last after the next.
            assert!(between.len() <= 2 * TURNS, "{piece}: {between:?}");
        }
    }
}

#[test]
fn all_get_the_same_number_of_turns() {
    for piece in [TURN_BYTES, 1] {
        let done = done(piece);
        let half = &done[..done.len() / 2];
        for number in 0..TRANSFERS {
            let turns = half.iter().filter(|one| **one == Some(number)).count();
            assert!((EACH / 2..=EACH / 2 + 2).contains(&turns), "{piece}: {number}: {turns}");
        }
    }
}

#[test]
fn a_short_piece_waits_for_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let _all = TURNS_LEFT.with(Arc::clone).acquire_many_owned(TURNS as u32).await;
        Turn::default().received(TURN_BYTES - 1).await;
    });
}
