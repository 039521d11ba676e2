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
