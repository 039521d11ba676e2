//! Bodies that go to a volume alone, while their origins pause.

use super::{Folder, MEMORY, open, wait};
use crate::samples::{body, key, proof, until};
use crate::tier::Place;

const LENGTH: u64 = 3_000_000;
const ARRIVED: usize = 700_000;

#[test]
fn what_a_volume_has_of_a_body_that_pauses_leaves_memory_where_others_need_it() {
    let folder = Folder::new("parts");
    let store = open(&folder);
    let stamp = store.ledger().current();
    let (generation, mut writer) = store.begin_partable(proof(&[], &[]), key(1), stamp, LENGTH).unwrap();
    assert!(generation.is_part() && LENGTH > MEMORY / 2);
    writer.push(body(1, 0, ARRIVED)).unwrap();
    until(|| store.written_bytes() > ARRIVED as u64 * 9 / 10);
    let before = store.usage().used_bytes;
    assert!(before > ARRIVED as u64 / 2, "{before}: nothing comes, so nothing is dropped");
    until(|| {
        store.forget_written();
        store.usage().used_bytes < 200_000
    });
    let mut place = Place::default();
    for offset in [0, 65_536, 300_001] {
        let piece = wait(generation.fetch(&mut place, offset, 1000)).unwrap();
        let Some(bytes) = piece else { panic!("nothing at {offset}") };
        assert!(!bytes.is_empty() && bytes == body(1, offset, bytes.len()), "{offset}");
    }
}
