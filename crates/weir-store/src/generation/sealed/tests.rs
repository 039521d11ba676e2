//! When a body earns a file.

use super::*;

fn many() -> Many {
    let blocks: Box<[Bytes]> = Box::new([Bytes::from(vec![1; BLOCK_BYTES]), Bytes::from_static(b"end")]);
    let Sealed::Many(many) = Sealed::of_many(blocks) else { panic!("it has two blocks") };
    *many
}

/// After how many of these responses in turn a body earns a file, of a hundred.
fn earned_after(ways: &[Way]) -> Option<usize> {
    let many = many();
    ways.iter().cycle().take(100).position(|way| many.note(*way))
}

#[test]
fn a_body_that_the_kernel_could_send_often_earns_a_file() {
    assert_eq!(earned_after(&[Way::Plain]), Some(3));
    assert_eq!(earned_after(&[Way::Other]), None);
    assert_eq!(earned_after(&[Way::Plain, Way::Other]), None, "half of it would be copied out again");
    assert_eq!(earned_after(&[Way::Plain, Way::Plain, Way::Other]), None);
    assert!(earned_after(&[Way::Plain, Way::Plain, Way::Plain, Way::Other]).is_some());
}

#[test]
fn a_body_that_got_no_file_earns_it_again() {
    let many = many();
    let earned: Vec<usize> = (0..12).filter(|_| many.note(Way::Plain)).collect();
    assert_eq!(earned, [3, 7, 11]);
}

#[test]
fn empty_and_short_bodies_have_one_form() {
    for empty in [Sealed::of_one(Bytes::new()), Sealed::of_many(Box::default())] {
        assert_eq!((empty.length(), empty.one().map(<[Bytes]>::len)), (0, Some(0)));
        assert!(matches!(empty.read(0, 10), Read::End));
    }
    assert_eq!(many().length(), BLOCK_BYTES as u64 + 3);
}
