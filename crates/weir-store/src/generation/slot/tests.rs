//! What `slot` must do, by example.

use super::*;
use proptest::prelude::*;

fn bytes_at(at: usize, length: usize) -> Bytes {
    (at..at + length).map(|place| (place * 31 % 251) as u8).collect()
}

#[test]
fn single_bytes_make_few_parts() {
    let mut slot = Slot::empty();
    for at in 0..65_536 {
        assert_eq!(slot.add(at, bytes_at(at, 1)), 1);
        let Slot::Loose(parts) = &slot else { panic!("not joined to a block here") };
        assert!(parts.len() <= 32, "{} parts", parts.len());
    }
    assert_eq!(slot.held_bytes(), 65_536);
}

proptest! {
    #[test]
    fn any_adds_hold_what_a_bitmap_holds(adds in prop::collection::vec((0usize..300, 1usize..80), 0..40)) {
        let mut slot = Slot::empty();
        let mut bitmap = [false; 400];
        for (at, length) in adds {
            let new = bitmap[at..at + length].iter().filter(|held| !**held).count();
            bitmap[at..at + length].fill(true);
            prop_assert_eq!(slot.add(at, bytes_at(at, length)), new);
        }
        prop_assert_eq!(slot.held_bytes(), bitmap.iter().filter(|held| **held).count());
        for (at, held) in bitmap.iter().enumerate() {
            let found = slot.at(at);
            prop_assert_eq!(found.is_some(), *held);
            if let Some(found) = found {
                prop_assert!(!found.is_empty());
                prop_assert_eq!(&found, &bytes_at(at, found.len()));
            }
        }
        for (start, end) in slot.runs() {
            prop_assert!(bitmap[start..end].iter().all(|held| *held));
        }
    }
}

#[test]
fn a_block_that_came_by_itself_stays_where_it_lies() {
    let received = vec![7; BLOCK_BYTES];
    let place = received.as_ptr();
    let mut slot = Slot::empty();
    slot.add(0, Bytes::from(received));
    let block = slot.take_block().unwrap();
    assert_eq!(block.as_ptr(), place);
}

#[test]
fn a_part_that_another_holds_or_that_holds_more_is_no_block() {
    let received = Bytes::from(vec![7; BLOCK_BYTES]);
    let mut slot = Slot::empty();
    slot.add(0, received.clone());
    assert!(slot.take_block().is_none(), "a reader has it");
    assert_eq!(slot.at(0).unwrap(), received);
    let mut larger = Vec::with_capacity(BLOCK_BYTES + 1);
    larger.resize(BLOCK_BYTES, 7);
    let mut slot = Slot::empty();
    slot.add(0, Bytes::from(larger));
    assert!(slot.take_block().is_none(), "its memory has more room");
    assert_eq!(slot.at(0).unwrap(), received);
    let mut slot = Slot::empty();
    slot.add(0, received.slice(..BLOCK_BYTES / 2));
    slot.add(BLOCK_BYTES / 2, received.slice(BLOCK_BYTES / 2..));
    assert!(slot.take_block().is_none(), "it came in two parts");
    assert_eq!(slot.held_bytes(), BLOCK_BYTES);
}
