//! What is read is what was written, or nothing.

use super::{from_bytes, read, to_bytes, write};
use crate::admission::{Extent, Sketch};
use crate::volume::testing::samples::golden_of;
use weir_disk::testing::{CrashDisk, Fault};

fn extent() -> Extent {
    Extent::of(1024, u64::MAX)
}

fn digest(number: u128) -> u128 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

/// A sketch that knows the keys `1..100`, the multiples of ten twice.
fn noted() -> Sketch {
    let sketch = Sketch::new(extent());
    (1..100).for_each(|number| sketch.note(digest(number)));
    (1..10).for_each(|ten| sketch.note(digest(ten * 10)));
    sketch
}

#[test]
fn a_sketch_is_the_same_after_a_restart() {
    let disk = CrashDisk::new(1);
    let sketch = noted();
    sketch.grow_old();
    (1..50).for_each(|number| sketch.note(digest(number)));
    write(&disk, &sketch).unwrap();
    write(&disk, &sketch).unwrap();
    let again = read(&disk, extent()).unwrap();
    assert_eq!(again.course(), sketch.course());
    assert!(again.words().eq(sketch.words()));
}

/// The power fails at every operation of a write: the old sketch is read, or the new one.
#[test]
fn a_sketch_is_whole_after_any_power_cut() {
    for cut in 0..8 {
        for seed in 0..20 {
            let disk = CrashDisk::new(seed);
            write(&disk, &Sketch::new(extent())).unwrap();
            disk.fail_at(cut, Fault::PowerCut);
            let written = write(&disk, &noted());
            disk.restart();
            let uses = read(&disk, extent()).unwrap().frequency(digest(10));
            assert!(uses == noted().frequency(digest(10)) || uses == 0 && written.is_err(), "{uses}");
        }
    }
}

#[test]
fn a_lost_torn_or_other_sketch_is_none() {
    let disk = CrashDisk::new(1);
    assert!(read(&disk, extent()).is_none());
    let bytes = to_bytes(&noted());
    assert!(from_bytes(&bytes, extent()).is_some());
    for end in (0..bytes.len()).step_by(97) {
        assert!(from_bytes(&bytes[..end], extent()).is_none(), "torn at {end}");
    }
    for at in (0..bytes.len()).step_by(101) {
        let mut other = bytes.clone();
        other[at] ^= 4;
        assert!(from_bytes(&other, extent()).is_none(), "damaged at {at}");
    }
    assert!(from_bytes(&bytes, Extent::of(1 << 20, u64::MAX)).is_none(), "of another size");
}

#[test]
fn the_form_of_a_sketch_is_that_of_version_1() {
    let small = Extent { counter_words: 4, door_words: 2, period: 2048 };
    let sketch = Sketch::new(small);
    (0..3).for_each(|_| sketch.note(0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978));
    let golden = golden_of(env!("CARGO_MANIFEST_DIR"), "frequencies-1.bin", &to_bytes(&sketch));
    assert_eq!(to_bytes(&sketch), golden);
    assert_eq!(from_bytes(&golden, small).unwrap().frequency(0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978), 3);
}
