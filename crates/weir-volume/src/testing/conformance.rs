//! What every kind of rows must do, for the tests of each: compared with a sorted map, opened again, after a
//! crash.
//!
//! The changes come from a seed, so that who died while it applied them need not tell what they were:
//! [`Script`] makes the n-th of them again, and each writes its number beside its rows. It panics where a
//! test would have to.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::catalogue::{Change, Rows, Wanted};

/// Opens the same rows again; those opened before were dropped.
pub type Open<'a> = dyn FnMut(Wanted) -> Arc<dyn Rows> + 'a;

/// What rows hold.
pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Under this key stands the number of the last batch of a [`Script`], big-endian. It is first of all keys.
const STEP_KEY: &[u8] = b"\0step";
/// Different keys of a script: few enough that most are put again and removed.
const KEYS: u64 = 3000;
/// Changes in a batch, at most.
const CHANGES_MAX: u64 = 96;
/// Bytes of most values, at most, and of one in a hundred.
const VALUE_BYTES_MAX: u64 = 160;
const LONG_VALUE_BYTES: u64 = 20_000;
/// Batches that [`like_a_map`] and [`removes_only_unwanted_rows`] apply.
const BATCHES: u64 = 300;

/// A change of a [`Script`]: key and new value, or none where it is removed.
pub type Planned = (Vec<u8>, Option<Vec<u8>>);

/// Batches of changes, the same for the same seed. The first one has the number 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Script {
    /// What all numbers come from.
    pub seed: u64,
}

impl Script {
    /// The changes of a batch, in their order.
    pub fn batch(self, number: u64) -> Vec<Planned> {
        let mut random = Random(self.seed.wrapping_mul(1_000_003) ^ number);
        let mut changes = vec![(STEP_KEY.to_vec(), Some(number.to_be_bytes().to_vec()))];
        for _ in 0..1 + random.below(CHANGES_MAX) {
            let key = key(random.below(KEYS));
            let value = (random.below(5) > 0).then(|| random.value());
            changes.push((key, value));
        }
        changes
    }

    /// Applies a batch.
    pub fn apply(self, rows: &dyn Rows, number: u64) {
        let changes = self.batch(number);
        let result = rows.apply(&borrowed(&changes));
        assert_eq!(result, Ok(()), "seed {}, batch {number}", self.seed);
    }

    /// What rows hold after so many batches.
    pub fn model(self, batches: u64) -> Model {
        let mut model = Model::new();
        (1..=batches).for_each(|number| self.note(&mut model, number));
        model
    }

    fn note(self, model: &mut Model, number: u64) {
        for (key, value) in self.batch(number) {
            match value {
                Some(value) => model.insert(key, value),
                None => model.remove(&key),
            };
        }
    }

    /// How many batches are in the rows, all of which must be wanted: a prefix of the script, whole batches,
    /// each row as it was put. After a crash this is at least what was synced, and at most one more than what
    /// is known to have been applied.
    pub fn prefix(self, rows: &dyn Rows) -> u64 {
        let held = dump(rows);
        let number = held.get(STEP_KEY).map_or(0, |value| number(value));
        let model = self.model(number);
        assert_same(&held, &model, &format!("seed {}, after batch {number}", self.seed));
        number
    }
}

/// All rows.
pub fn dump(rows: &dyn Rows) -> Model {
    let mut held = Model::new();
    let mut last: Option<Vec<u8>> = None;
    let result = rows.scan(b"", &mut |key, value| {
        assert!(last.as_deref().is_none_or(|last| last < key), "rows out of order");
        last = Some(key.to_vec());
        held.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    });
    assert_eq!(result, Ok(()));
    held
}

/// Rows do what a sorted map does: random batches, scans from anywhere and broken off anywhere, syncs, and
/// opened again.
pub fn like_a_map(seed: u64, open: &mut Open<'_>) {
    let (script, mut random) = (Script { seed }, Random(seed ^ 0x5eed));
    let wanted: Wanted = Arc::new(|_, _| true);
    let (mut rows, mut model) = (open(wanted.clone()), Model::new());
    for number in 1..=BATCHES {
        script.apply(&*rows, number);
        script.note(&mut model, number);
        match random.below(20) {
            0 => assert_eq!(rows.sync(), Ok(())),
            1 => {
                assert_eq!(rows.sync(), Ok(()));
                drop(rows);
                rows = open(wanted.clone());
            }
            2..10 => {
                let (from, count) = (key(random.below(KEYS)), random.below(40) as usize);
                let place = format!("seed {seed}, batch {number}, {count} from {from:?}");
                assert_eq!(some(&*rows, &from, count), expected(&model, &from, count), "{place}");
                let keys: BTreeSet<Vec<u8>> = (0..count).map(|_| key(random.below(KEYS))).collect();
                check_found(&*rows, &model, &keys.into_iter().collect::<Vec<_>>(), &place);
            }
            _ => {}
        }
    }
    assert_eq!(rows.apply(&[]), Ok(()), "no change at all");
    assert_same(&dump(&*rows), &model, &format!("seed {seed}, at the end"));
}

/// What is wanted stays, as it was put last; what is unwanted may go, and only that. What is unwanted is what
/// was put before a batch that becomes later and later.
pub fn removes_only_unwanted_rows(seed: u64, open: &mut Open<'_>) {
    let first_wanted = Arc::new(AtomicU64::new(0));
    let wanted: Wanted = {
        let first_wanted = first_wanted.clone();
        Arc::new(move |_, value| value.len() < 8 || number(value) >= first_wanted.load(Ordering::Relaxed))
    };
    let (mut random, mut model) = (Random(seed), Model::new());
    let mut rows = open(wanted.clone());
    for batch in 1..=BATCHES {
        let mut changes: Vec<Planned> = Vec::new();
        for _ in 0..1 + random.below(CHANGES_MAX) {
            let mut value = batch.to_be_bytes().to_vec();
            value.extend(random.value());
            changes.push((key(random.below(KEYS)), (random.below(8) > 0).then_some(value)));
        }
        assert_eq!(rows.apply(&borrowed(&changes)), Ok(()));
        for (key, value) in changes {
            match value {
                Some(value) => model.insert(key, value),
                None => model.remove(&key),
            };
        }
        if random.below(10) == 0 {
            first_wanted.fetch_max(batch.saturating_sub(random.below(60)), Ordering::Relaxed);
            assert_eq!(rows.sync(), Ok(()));
        }
        if random.below(40) == 0 {
            drop(rows);
            rows = open(wanted.clone());
            check_wanted(&*rows, &model, &wanted, seed);
        }
    }
    check_wanted(&*rows, &model, &wanted, seed);
}

/// What is found by its keys is what the model has of them.
fn check_found(rows: &dyn Rows, model: &Model, keys: &[Vec<u8>], place: &str) {
    let (mut found, most) = (Vec::new(), keys.len() / 2);
    let found_all = rows.find(keys, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    let expect: Vec<_> = keys.iter().filter_map(|key| Some((key.clone(), model.get(key)?.clone()))).collect();
    assert_eq!((found_all, &found), (Ok(()), &expect), "{place}");
    let mut count = 0;
    let broken = rows.find(keys, &mut |_, _| {
        count += 1;
        if count < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert_eq!((broken, count), (Ok(()), expect.len().min(most.max(1))), "{place}");
}

fn check_wanted(rows: &dyn Rows, model: &Model, wanted: &Wanted, seed: u64) {
    let held = dump(rows);
    for (key, value) in &held {
        assert_eq!(model.get(key), Some(value), "seed {seed}: {key:?} is not as it was put last");
    }
    for (key, _) in model.iter().filter(|(key, value)| wanted(key, value)) {
        assert!(held.contains_key(key), "seed {seed}: {key:?} is wanted and gone");
    }
}

fn some(rows: &dyn Rows, from: &[u8], count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let result = rows.scan(from, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        if found.len() > count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(result, Ok(()));
    found
}

/// A visit sees the row at which it breaks, so that `count` of 0 sees one.
fn expected(model: &Model, from: &[u8], count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let rows = model.range(from.to_vec()..).take(count + 1);
    rows.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Says where two differ, not all of both.
fn assert_same(held: &Model, model: &Model, place: &str) {
    let differs = |(key, value): (&Vec<u8>, &Vec<u8>), other: &Model| other.get(key) != Some(value);
    let wrong = held.iter().find(|row| differs(*row, model)).map(|(key, _)| key);
    assert_eq!(wrong, None, "{place}: this row is not as it was put last, of {}", held.len());
    let missing = model.iter().find(|row| differs(*row, held)).map(|(key, _)| key);
    assert_eq!(missing, None, "{place}: this row is missing, {} are there", held.len());
}

fn borrowed(changes: &[Planned]) -> Vec<Change<'_>> {
    changes.iter().map(change).collect()
}

fn change((key, value): &Planned) -> Change<'_> {
    match value {
        Some(value) => Change::Put { key, value },
        None => Change::Remove { key },
    }
}

/// A key among few: long shared beginnings, lengths that differ, and bytes that sort as unsigned.
fn key(number: u64) -> Vec<u8> {
    let mut key = format!("https://host-{}.example/path/{}", number % 7, number / 7).into_bytes();
    key.extend((number.is_multiple_of(5)).then_some(0xff));
    key.extend((number.is_multiple_of(3)).then_some(0));
    key
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// splitmix64 (Steele, Lea, Flood, OOPSLA '14).
struct Random(u64);

impl Random {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    fn value(&mut self) -> Vec<u8> {
        let bytes_max = if self.below(100) == 0 { LONG_VALUE_BYTES } else { VALUE_BYTES_MAX };
        let bytes = self.below(bytes_max);
        (0..bytes).map(|_| self.number() as u8).collect()
    }
}
