//! Who is cut first.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_policy::Interval;

use super::first_to_go;
use crate::format::record::{ExtentRef, Header, Kind, Place};
use crate::index::Location;
use crate::read::known::{KnownReader, KnownReaders};
use crate::read::reader::Record;

/// The bytes of a body in each of its segments.
const EACH: u64 = 1000;

/// Readers of bodies, which lie in some segments each.
#[derive(Default)]
struct Scene {
    readers: Arc<KnownReaders>,
    open: Vec<KnownReader>,
}

impl Scene {
    /// A client reads a body that lies in those segments, from `at` on.
    fn reads(&mut self, object: u64, client: u64, at: u64, segments: &[u64]) {
        let extent = |(number, segment): (usize, &u64)| ExtentRef {
            offset: number as u64 * EACH,
            length: EACH as u32,
            place: Place { segment: *segment, unit: 1 },
        };
        let extents: Vec<ExtentRef> = segments.iter().enumerate().map(extent).collect();
        let end = segments.len() as u64 * EACH;
        let (stamp, digest) = (0, 0);
        let (kind, key_bytes, head_bytes, count) = (Kind::Head, 0, 0, 0);
        let header = Header { kind, key_bytes, number: object, stamp, digest, span: end, head_bytes, count };
        let place = Place { segment: 1, unit: 1 };
        let mut reader = self.readers.begin(object, client, Interval { start: at, end });
        reader.tell(|| Arc::new(Record::written(header, (Location::of(0), place), extents)));
        self.open.push(reader);
    }

    /// In which order segments of so many bytes go.
    fn order(&self, segments: &[(u64, u64)]) -> Vec<u64> {
        let mut bytes: BTreeMap<u64, u64> = segments.iter().copied().collect();
        let wants = self.readers.wants(|asked| bytes.contains_key(&asked));
        let mut order = Vec::new();
        while let Some(number) = first_to_go(&bytes, &wants) {
            bytes.remove(&number);
            order.push(number);
        }
        order
    }
}

#[test]
fn what_nobody_reads_goes_first_and_what_is_read_last_of_a_body_then() {
    let mut scene = Scene::default();
    scene.reads(1, 1, 1500, &[10, 11, 12]);
    assert_eq!(scene.order(&[(10, 5), (11, 5), (12, 5), (13, 5)]), [13, 10, 12, 11]);
    scene.open.clear();
    assert!(scene.readers.wants(|_| true).is_empty(), "nobody reads any more");
}

#[test]
fn the_client_for_which_most_is_kept_loses_first_and_others_with_it_last() {
    let mut scene = Scene::default();
    // One client reads a body in each of four segments, another a single one; a third shares one of them.
    for object in 0..4 {
        scene.reads(object, 7, 0, &[20 + object]);
    }
    scene.reads(4, 8, 0, &[30]);
    scene.reads(5, 9, 0, &[21]);
    let order = scene.order(&[(20, 8), (21, 8), (22, 8), (23, 8), (30, 8)]);
    assert_eq!(order[..3], [23, 22, 20], "it loses down to the share of the others");
}

#[test]
fn a_client_is_one_however_many_connections_it_has() {
    let mut scene = Scene::default();
    for _ in 0..50 {
        scene.reads(1, 7, 0, &[40]);
    }
    scene.reads(2, 8, 0, &[41]);
    scene.reads(3, 8, 0, &[42]);
    assert_eq!(scene.order(&[(40, 8), (41, 8), (42, 8)])[0], 42);
}
