//! The file's form: what is written is read, and what is torn or damaged costs itself alone.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

pub(crate) fn flows(n: u64) -> Flows {
    Flows::of(std::array::from_fn(|at| n << (at * 5)))
}

fn sheet() -> Sheet {
    let mut sheet = Sheet::default();
    for (name, days) in [("a.example", 1..=3), ("ö.example", 30..=31), ("-", 0..=0)] {
        sheet.names.insert(id(name), name.into());
        for day in days {
            sheet.rows.insert((id(name), day), flows(u64::from(day) * 7 + 1));
        }
    }
    sheet
}

#[test]
fn the_golden_file_is_read_and_written() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/form/golden/accounts-v1");
    if std::env::var_os("WEIR_REWRITE").is_some() {
        std::fs::write(path, sheet().file()).unwrap();
    }
    let golden = std::fs::read(path).unwrap();
    assert_eq!(golden, sheet().file());
    assert_eq!(read(&golden), Ok(Told { sheet: sheet(), ..Told::default() }));
}

#[test]
fn numbers_of_all_sizes_are_kept() {
    for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
        let mut bytes = Vec::new();
        write_number(&mut bytes, number);
        assert_eq!(read_number(&bytes), Some((number, [].as_slice())));
        assert_eq!(read_number(&bytes[..bytes.len() - 1]), None);
    }
    assert_eq!(read_number(&[0xff; 10]), None);
    assert_eq!(read_number(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2]), None);
}

#[test]
fn later_rows_win_in_any_order() {
    let (mut first, mut second) = (sheet(), sheet());
    for (one, other) in first.rows.values_mut().zip(second.rows.values_mut()) {
        (*one, *other) = (flows(100), flows(101));
    }
    let frames = |sheet: &Sheet| sheet.file()[HEADER_BYTES..].to_vec();
    for order in [[&first, &second], [&second, &first], [&second, &second]] {
        let file: Vec<u8> = [header().to_vec(), frames(order[0]), frames(order[1])].concat();
        assert_eq!(read(&file).unwrap().sheet, second);
    }
}

#[test]
fn a_torn_end_costs_what_was_torn() {
    let base = sheet();
    let mut more = base.clone();
    *more.rows.get_mut(&(id("a.example"), 3)).unwrap() = flows(99);
    let whole = base.file();
    let addition = more.addition([(id("a.example"), 3)].iter(), |_| false);
    for cut in 0..addition.len() {
        let torn = [&whole[..], &addition[..cut]].concat();
        let told = read(&torn).unwrap();
        assert_eq!((told.sheet, told.torn_bytes, told.damaged_bytes), (base.clone(), cut as u64, 0));
    }
    let told = read(&[whole, addition].concat()).unwrap();
    assert_eq!((told.sheet, told.torn_bytes), (more, 0));
}

#[test]
fn a_last_frame_that_is_whole_and_wrong_is_damaged() {
    let whole = sheet().file();
    let frame = whole.len() - HEADER_BYTES;
    for at in FRAME_HEAD_BYTES..frame {
        let mut wrong = whole.clone();
        wrong[HEADER_BYTES + at] ^= 1;
        let told = read(&wrong).unwrap();
        assert_eq!((told.torn_bytes, told.damaged_bytes), (0, frame as u64));
    }
    // Room that a file system had given, and that was not filled any more.
    let room = [&whole[..], &[0; 40]].concat();
    assert_eq!(read(&room).unwrap().torn_bytes, 40);
    let garbage = [&whole[..], b"garbage"].concat();
    assert_eq!((read(&garbage).unwrap().torn_bytes, read(&garbage).unwrap().damaged_bytes), (0, 7));
    // Without its header a file is read for what is sound in it.
    let headless = read(&whole[3..]).unwrap();
    assert_eq!((headless.sheet, headless.damaged_bytes), (sheet(), 13));
}

#[test]
fn damage_costs_one_frame() {
    let mut large = Sheet::default();
    for account in 0..2000_u64 {
        let name = format!("{account}.example");
        large.names.insert(id(&name), name.as_str().into());
        large.rows.insert((id(&name), 7), flows(account + 1));
    }
    let whole = large.file();
    assert_eq!(read(&whole).unwrap().sheet, large);
    let mut random = fastrand::Rng::with_seed(6);
    for _ in 0..200 {
        let mut damaged = whole.clone();
        let at = random.usize(HEADER_BYTES..whole.len());
        damaged[at] ^= 1 << random.u8(0..8);
        let told = read(&damaged).unwrap();
        let lost = told.damaged_bytes + told.torn_bytes;
        assert!(lost > 0 && lost < (FRAME_BYTES_FULL + FRAME_HEAD_BYTES + 300) as u64, "{lost}");
        assert!(told.sheet.rows.iter().all(|(key, flows)| large.rows[key] == *flows));
        assert!(told.sheet.rows.len() + 1000 > large.rows.len());
    }
}

#[test]
fn what_is_not_ours_is_refused() {
    let mut other = sheet().file();
    other[8] = 2;
    assert_eq!(read(&other), Err(Foreign));
    let other = read(b"something else that is long").unwrap();
    assert!(other.damaged_bytes == 27 && !other.is_sound(), "{other:?}");
    assert!(!read(b"").unwrap().is_sound() && !read(&header()).unwrap().is_sound());
    assert!(read(&sheet().file()).unwrap().is_sound());
}

#[test]
fn any_bytes_keep_the_promise() {
    let seed = sheet().file();
    fuzzed::accounts(&seed);
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let mut changed = seed.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(0..changed.len());
            match random.u8(0..4) {
                0 => changed[at] = random.u8(..),
                1 => changed.truncate(at.max(1)),
                2 => changed.insert(at, random.u8(..)),
                _ => {
                    let piece = changed[at..].to_vec();
                    changed.extend(piece);
                }
            }
        }
        fuzzed::accounts(&changed);
    }
    // Payloads that are sound as frames, and nonsense inside.
    for _ in 0..20_000 {
        let mut payload: Vec<u8> = (0..random.usize(1..60)).map(|_| random.u8(0..4)).collect();
        let mut file = header().to_vec();
        close(&mut file, &mut payload, 1);
        fuzzed::accounts(&file);
    }
}
