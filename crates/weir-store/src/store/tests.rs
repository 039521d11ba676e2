//! What `store` must do, by example.

mod purge;
mod retention;
mod stress;

use super::*;
use crate::samples::{body, find, find_as, key, now, proof, put, read_from, url};
use crate::store::{Full, Unsealed};
use crate::{Read, Retirement};
use bytes::Bytes;

const MEMORY: u64 = 4 << 20;

fn accepts_gzip(stored: &Stored) -> bool {
    weir_policy::matches(&stored.variant, &crate::samples::fields(&[("accept-encoding", "gzip")]))
}

#[test]
fn a_whole_object_is_found_and_read() {
    let store = Store::new(MEMORY);
    put(&store, 1, 200_000);
    let found = find(&store, 1).unwrap();
    assert!(found.is_whole() && !found.is_retired());
    let (bytes, end) = read_from(&found, 0, 10_000);
    assert_eq!(bytes, body(1, 0, 200_000));
    assert!(matches!(end, Read::End));
    assert_eq!(found.blocks().unwrap().len(), 4);
    assert!(find(&store, 2).is_none());
}

#[test]
fn bytes_are_read_while_they_arrive() {
    let store = Store::new(MEMORY);
    let stamp = store.ledger().current();
    let (generation, mut writer) = store.begin(proof(&[], &[]), key(1), stamp, None).unwrap();
    assert!(matches!(generation.read(0, 10), Read::NotYet));
    writer.push(body(1, 0, 1000)).unwrap();
    let (bytes, end) = read_from(&find(&store, 1).unwrap(), 0, 4096);
    assert_eq!(bytes, body(1, 0, 1000));
    assert!(matches!(end, Read::NotYet));
    assert_eq!((generation.length(), generation.is_whole()), (None, false));
    writer.seal().unwrap();
    assert!(matches!(generation.read(1000, 10), Read::End));
    assert_eq!((generation.length(), generation.is_whole()), (Some(1000), true));
}

/// What is received into a writer's room is not moved again.
#[test]
fn a_block_stays_in_the_room_that_it_was_received_into() {
    let store = Store::new(MEMORY);
    let stamp = store.ledger().current();
    let (generation, mut writer) = store.begin(proof(&[], &[]), key(1), stamp, Some(200_000)).unwrap();
    let mut places = Vec::new();
    while writer.position() < 200_000 {
        let at = writer.position();
        let count = writer.to_block_end().min(200_000 - at as usize);
        let mut room = writer.room();
        assert!(room.is_empty() && room.capacity() == writer.to_block_end());
        room.extend_from_slice(&body(1, at, count));
        places.push(room.as_ptr());
        writer.push(room.freeze()).unwrap();
    }
    writer.seal().unwrap();
    let blocks = generation.blocks().unwrap();
    let kept: Vec<_> = (0..4).map(|number| blocks[number].as_ptr()).collect();
    assert_eq!(kept[..3], places[..3]);
    assert_eq!(read_from(&generation, 0, 70_000).0, body(1, 0, 200_000));
}

#[test]
fn an_empty_body_is_whole() {
    for length in [None, Some(0)] {
        let store = Store::new(MEMORY);
        let (generation, writer) =
            store.begin(proof(&[], &[]), key(1), store.ledger().current(), length).unwrap();
        writer.seal().unwrap();
        assert!(generation.is_whole());
        assert!(matches!(generation.read(0, 10), Read::End));
        assert_eq!(generation.block().unwrap().len(), 0);
    }
}

#[test]
fn a_short_or_long_body_is_never_sealed() {
    for length in [999, 1001] {
        let store = Store::new(MEMORY);
        let (generation, mut writer) =
            store.begin(proof(&[], &[]), key(1), store.ledger().current(), Some(1000)).unwrap();
        writer.push(body(1, 0, length)).unwrap();
        assert_eq!(writer.seal(), Err(Unsealed { declared: 1000, arrived: length as u64 }));
        assert_eq!(generation.retirement(), Some(Retirement::Abandoned));
        assert!(!generation.is_whole());
        assert!(find(&store, 1).is_none());
    }
}

#[test]
fn an_abandoned_fill_leaves_the_old_generation() {
    let store = Store::new(MEMORY);
    let old = put(&store, 1, 1000);
    let (new, mut writer) =
        store.begin(proof(&[], &[]), key(1), store.ledger().current(), Some(2000)).unwrap();
    writer.push(body(2, 0, 500)).unwrap();
    assert!(Arc::ptr_eq(&find(&store, 1).unwrap(), &new));
    writer.abandon();
    assert!(Arc::ptr_eq(&find(&store, 1).unwrap(), &old));
    let (bytes, end) = read_from(&new, 0, 4096);
    assert_eq!(bytes, body(2, 0, 500));
    assert!(matches!(end, Read::Gone));
}

#[test]
fn a_new_generation_replaces_its_variant_only() {
    let store = Store::new(MEMORY);
    let stamp = store.ledger().current();
    let begin = |taken: &str, coding: &str| {
        let fields = [("vary", "accept-encoding"), ("content-encoding", coding)];
        let proof = proof(&[("accept-encoding", taken)], &fields);
        let (generation, mut writer) = store.begin(proof, key(1), stamp, Some(10)).unwrap();
        writer.push(body(1, 0, 10)).unwrap();
        writer.seal().unwrap();
        generation
    };
    let (gzip, plain) = (begin("gzip", "gzip"), begin("identity", "identity"));
    let again = begin("gzip", "gzip");
    assert_eq!(gzip.retirement(), Some(Retirement::Replaced));
    assert!(!plain.is_retired());
    let found = find_as(&store, &key(1), &accepts_gzip);
    assert!(Arc::ptr_eq(&found.unwrap(), &again));
    assert_eq!(store.variants(key(1).digest, &key(1).full).len(), 2);
    // A variant that answers more replaces one that answers less, and not the other way round.
    let wide = begin("gzip, br", "gzip");
    assert_eq!(again.retirement(), Some(Retirement::Replaced));
    let narrow = begin("gzip", "gzip");
    assert!(!wide.is_retired() && !narrow.is_retired() && !plain.is_retired());
}

#[test]
fn of_two_fills_the_newer_one_stays() {
    let store = Store::new(MEMORY);
    let stamp = store.ledger().current();
    let (older, older_writer) = store.begin(proof(&[], &[]), key(1), stamp, None).unwrap();
    let (newer, newer_writer) = store.begin(proof(&[], &[]), key(1), stamp, None).unwrap();
    newer_writer.seal().unwrap();
    older_writer.seal().unwrap();
    assert!(older.is_whole() && older.is_retired());
    assert!(Arc::ptr_eq(&find(&store, 1).unwrap(), &newer));
}

#[test]
fn the_full_key_is_compared() {
    let store = Store::new(MEMORY);
    put(&store, 1, 10);
    let mut other = key(2);
    other.digest = key(1).digest;
    let found = find_as(&store, &other, &|_| true);
    assert!(found.is_none());
    let (_, writer) = store.begin(proof(&[], &[]), other.clone(), store.ledger().current(), Some(0)).unwrap();
    writer.seal().unwrap();
    let found = find_as(&store, &other, &|_| true);
    assert_eq!(found.unwrap().key(), &other);
    assert_eq!(find(&store, 1).unwrap().length(), Some(10));
}

#[test]
fn a_key_has_at_most_so_many_variants_and_the_least_used_goes() {
    let store = Store::new(MEMORY);
    let stamp = store.ledger().current();
    let begin = |number: usize| {
        let language = format!("x-{number}");
        let proof = proof(&[("x-kind", &language)], &[("vary", "x-kind")]);
        let (generation, writer) = store.begin(proof, key(1), stamp, None).unwrap();
        writer.seal().unwrap();
        generation
    };
    let all: Vec<_> = (0..crate::VARIANTS_MAX).map(begin).collect();
    all.iter().enumerate().filter(|(number, _)| *number != 7).for_each(|(_, generation)| {
        generation.label.note_use();
    });
    let one_more = begin(99);
    assert_eq!(all[7].retirement(), Some(Retirement::Replaced));
    assert_eq!(all.iter().filter(|generation| generation.is_retired()).count(), 1);
    assert!(!one_more.is_retired());
}

#[test]
fn what_is_too_large_lives_as_a_window() {
    let store = Store::new(MEMORY);
    let length = MEMORY;
    let (generation, mut writer) =
        store.begin(proof(&[], &[]), key(1), store.ledger().current(), Some(length)).unwrap();
    assert_eq!(generation.retirement(), Some(Retirement::Outgrown));
    assert!(find(&store, 1).is_none());
    let mut at = 0;
    while at < length {
        writer.push(body(1, at, 100_000.min((length - at) as usize))).unwrap();
        at = writer.position();
        assert!(store.usage().used_bytes <= MEMORY);
        let Read::Piece(piece) = generation.read(at - 1, 1) else { panic!("newest byte") };
        assert_eq!(piece, body(1, at - 1, 1));
    }
    let start = generation.window_start();
    assert!(start > 0 && length - start <= writer.window_bytes().unwrap() + 200_000);
    assert!(matches!(generation.read(0, 10), Read::Gone));
    writer.seal().unwrap();
    assert!(matches!(generation.read(length, 10), Read::End));
    assert_eq!(read_from(&generation, start, 65_536).0, body(1, start, (length - start) as usize));
    assert!(!generation.is_whole());
    assert_eq!(store.usage().windows, 0);
}

#[test]
fn a_body_of_unknown_length_outgrows_the_store_on_the_way() {
    let store = Store::new(MEMORY);
    let (generation, mut writer) =
        store.begin(proof(&[], &[]), key(1), store.ledger().current(), None).unwrap();
    let mut outgrown_at = None;
    for step in 0..64 {
        writer.push(body(1, step * 65_536, 65_536)).unwrap();
        if generation.is_retired() && outgrown_at.is_none() {
            outgrown_at = Some(step * 65_536);
        }
    }
    assert_eq!(outgrown_at, Some(MEMORY / 2));
    assert!(find(&store, 1).is_none());
    assert!(store.usage().used_bytes <= MEMORY);
    writer.seal().unwrap();
    assert_eq!(generation.length(), Some(64 * 65_536));
}

#[test]
fn marks_make_dead_what_was_asked_for_before() {
    let store = Store::new(MEMORY);
    let [one, two] = [put(&store, 1, 10), put(&store, 2, 10)];
    let stamp = store.ledger().current();
    let (in_flight, writer) = store.begin(proof(&[], &[]), key(1), stamp, None).unwrap();
    store.invalidate(url(1), now());
    assert!(find(&store, 1).is_none());
    assert!(one.is_retired() && !two.is_retired());
    writer.seal().unwrap();
    assert!(find(&store, 1).is_none());
    assert!(in_flight.is_whole());
    let (_, late) = store.begin(proof(&[], &[]), key(1), stamp, None).unwrap();
    late.seal().unwrap();
    assert!(find(&store, 1).is_none());
    put(&store, 1, 10);
    assert!(find(&store, 1).is_some());
    store.invalidate(Scope::All, now());
    assert!(find(&store, 1).is_none() && find(&store, 2).is_none());
    while store.sweep() {}
    assert_eq!(store.usage().generations, 0);
}

#[test]
fn a_freshened_generation_comes_back() {
    let store = Store::new(MEMORY);
    let generation = put(&store, 1, 10);
    store.retire(&generation);
    assert!(find(&store, 1).is_none());
    let stored = proof(&[], &[("x-fresh", "yes")]).into_stored();
    assert!(store.freshen(&generation, stored, store.ledger().current()));
    let found = find(&store, 1).unwrap();
    assert!(found.head().stored.headers.contains_key("x-fresh"));
    assert_eq!(store.usage().generations, 1);
}

#[test]
fn a_304_to_a_request_older_than_the_mark_revives_nothing() {
    let store = Store::new(MEMORY);
    let generation = put(&store, 1, 10);
    let asked = store.ledger().current();
    store.invalidate(url(1), now());
    let stored = generation.head().stored.clone();
    assert!(!store.freshen(&generation, stored.clone(), asked));
    assert!(find(&store, 1).is_none());
    assert!(store.freshen(&generation, stored, store.ledger().current()));
    assert!(find(&store, 1).is_some());
}

#[test]
fn a_replaced_generation_is_not_revived() {
    let store = Store::new(MEMORY);
    let old = put(&store, 1, 10);
    let new = put(&store, 1, 20);
    assert!(!store.freshen(&old, old.head().stored.clone(), store.ledger().current()));
    assert!(Arc::ptr_eq(&find(&store, 1).unwrap(), &new));
}

#[test]
fn gaps_are_filled_by_further_writers() {
    let store = Store::new(MEMORY);
    let (generation, mut writer) =
        store.begin(proof(&[], &[]), key(1), store.ledger().current(), Some(300_000)).unwrap();
    writer.push(body(1, 0, 1000)).unwrap();
    writer.rest();
    assert!(!generation.is_whole() && !generation.is_retired());
    assert!(matches!(generation.read(1000, 10), Read::Gone));
    let mut tail = store.resume(&generation, Interval { start: 200_000, end: 300_000 }).unwrap();
    let mut middle = store.resume(&generation, Interval { start: 500, end: 200_000 }).unwrap();
    assert!(matches!(generation.read(1000, 10), Read::NotYet));
    tail.push(body(1, 200_000, 100_000)).unwrap();
    assert_eq!(generation.held().iter().count(), 2);
    tail.rest();
    middle.push(body(1, 500, 199_500)).unwrap();
    middle.rest();
    assert!(generation.is_whole());
    assert_eq!(read_from(&generation, 0, 70_000).0, body(1, 0, 300_000));
    assert!(store.resume(&generation, Interval { start: 0, end: 1 }).is_none());
    assert_eq!(store.usage().generations, 1);
}

#[test]
fn everything_is_given_back() {
    let store = Store::new(MEMORY);
    let budget = Arc::clone(&store.inside.memory.budget);
    for number in 0..2000 {
        put(&store, number, 5000);
        assert!(budget.used_bytes() <= MEMORY);
    }
    let held: Bytes = find(&store, 1999).unwrap().block().unwrap()[0].clone();
    drop(store);
    assert!(budget.used_bytes() >= 5000 && budget.used_bytes() < 10_000, "{}", budget.used_bytes());
    drop(held);
    assert_eq!(budget.used_bytes(), 0);
}

/// Bodies that their readers hold, until so much of the memory is left.
fn all_but(store: &Store, left_bytes: u64) -> Vec<Arc<Generation>> {
    let mut held = Vec::new();
    while store.usage().used_bytes < (1 << 20) - left_bytes {
        held.push(put(store, held.len() as u64, 10_000));
    }
    held
}

#[test]
fn when_readers_hold_all_memory_nothing_begins_that_would_wait_for_them() {
    let store = Store::new(1 << 20);
    let begin = |length| store.begin(proof(&[], &[]), key(99), store.ledger().current(), length).is_ok();
    let stamp = store.ledger().current();
    let (part, _writer) = store.begin(proof(&[], &[]), key(98), stamp, Some(400_000)).unwrap();
    let held = all_but(&store, 110_000);
    assert!(!begin(Some(400_000)) && !begin(None) && begin(Some(10_000)));
    assert!(store.resume(&part, Interval { start: 100_000, end: 300_000 }).is_none());
    drop(held);
    assert!(begin(Some(400_000)) && begin(None));
    assert!(store.resume(&part, Interval { start: 100_000, end: 300_000 }).is_some());
}

#[test]
fn when_readers_hold_all_memory_a_window_is_full_until_they_move_on() {
    let store = Store::new(1 << 20);
    let (generation, mut writer) =
        store.begin(proof(&[], &[]), key(99), store.ledger().current(), Some(400_000)).unwrap();
    let held = all_but(&store, 110_000);
    writer.let_go(0);
    let Full { rest } = writer.push(body(1, 0, 400_000)).unwrap_err();
    assert!(store.usage().used_bytes <= 1 << 20);
    assert_eq!(generation.retirement(), Some(Retirement::Outgrown));
    assert_eq!(writer.position() + rest.len() as u64, 400_000);
    drop(held);
    writer.push(rest).unwrap();
    writer.seal().unwrap();
    assert_eq!(store.usage().outgrown, 1);
}

#[test]
fn transfers_under_way_go_on_whatever_readers_hold() {
    let store = Store::new(4 << 20);
    let begin = |number, length| store.begin(proof(&[], &[]), key(number), store.ledger().current(), length);
    let mut begun: Vec<_> = (100..112).map(|number| begin(number, Some(600_000)).unwrap()).collect();
    let mut held = Vec::new();
    while let Ok((generation, mut writer)) = begin(1000 + held.len() as u64, Some(10_000)) {
        writer.push(body(1, 0, 10_000)).unwrap();
        writer.seal().unwrap();
        held.push(generation);
    }
    assert!(held.len() > 200, "what is not promised is there for others");
    for at in (0..600_000).step_by(60_000) {
        for (generation, writer) in &mut begun {
            writer.let_go(at);
            writer.push(body(7, at, 60_000)).unwrap();
            assert_eq!(read_from(generation, at, 65_536).0, body(7, at, 60_000));
        }
        assert!(store.usage().used_bytes <= 4 << 20);
    }
    for (_, writer) in begun {
        writer.seal().unwrap();
    }
}

#[test]
fn bodies_that_nobody_reads_leave_memory_to_others() {
    let store = Store::new(4 << 20);
    let begin = |number, length| store.begin(proof(&[], &[]), key(number), store.ledger().current(), length);
    let mut slow: Vec<_> = (0..8).map(|number| begin(number, Some(1_500_000)).unwrap()).collect();
    for at in (0..1_500_000).step_by(60_000) {
        for (_, writer) in &mut slow {
            writer.let_go(0);
            let is_ahead = writer.window_bytes().is_some_and(|bytes| writer.position() >= bytes / 2);
            if !is_ahead {
                writer.push(body(1, at, 60_000)).unwrap();
            }
        }
    }
    assert!(store.usage().used_bytes < 3 << 20, "{:?}", store.usage());
    let (found, mut writer) = begin(99, Some(400_000)).unwrap();
    writer.push(body(2, 0, 400_000)).unwrap();
    writer.seal().unwrap();
    assert_eq!(found.length(), Some(400_000));
    let small = put(&store, 98, 100_000);
    assert!(small.is_whole() && find(&store, 98).is_some());
}

#[test]
fn a_window_waits_for_its_foremost_reader_however_full_memory_is() {
    let settings = Settings { window_bytes: 200_000, ..Settings::of(1 << 20) };
    let store = Store::with(settings);
    let stamp = store.ledger().current();
    let (first, mut stalled) = store.begin(proof(&[], &[]), key(1), stamp, None).unwrap();
    stalled.let_go(0);
    let mut at = 0;
    let rest = loop {
        assert!(at < 1 << 20, "memory has no end");
        match stalled.push(body(1, at, 50_000)) {
            Ok(()) => at += 50_000,
            Err(Full { rest }) => break rest,
        }
    };
    let at = stalled.position();
    assert!(at > 500_000 && stalled.is_ahead_of_readers(), "{at}");
    let Full { rest } = stalled.push(rest).unwrap_err();
    assert_eq!((first.window_start(), first.retirement()), (0, Some(Retirement::Outgrown)));
    assert!(matches!(first.read(0, 10), Read::Piece(_)), "nothing that it has not read is gone");
    // Once it has read on, the transfer goes on.
    stalled.let_go(300_000);
    stalled.push(rest).unwrap();
    assert!(first.window_start() > 0 && first.window_start() <= 300_000);
    stalled.let_go(stalled.position());
    assert!(!stalled.is_ahead_of_readers());
}

#[test]
fn a_body_that_is_reserved_whole_never_becomes_a_window() {
    let store = Store::new(1 << 20);
    let begin = |number, length| store.begin(proof(&[], &[]), key(number), store.ledger().current(), length);
    let (first, mut writer) = begin(1001, Some(200_000)).unwrap();
    assert!(writer.reserve_all());
    let (_, mut second) = begin(1002, Some(200_000)).unwrap();
    assert!(!second.reserve_all(), "no more than three eighths of the memory are reserved so");
    assert!(begin(1003, Some(10_000)).is_ok(), "others may begin");
    // They take what is left and hold it.
    let held = all_but(&store, 300_000);
    for at in (0..200_000).step_by(50_000) {
        writer.let_go(0);
        writer.push(body(1, at, 50_000)).unwrap();
        assert!(store.usage().used_bytes <= 1 << 20);
    }
    writer.seal().unwrap();
    assert!(first.is_whole() && find(&store, 1001).is_some());
    drop((held, first, second));
    let (_, mut third) = begin(1004, Some(200_000)).unwrap();
    assert!(third.reserve_all(), "the reserve has gone with what it was for");
}

#[test]
fn what_the_foremost_reader_has_not_read_is_not_dropped() {
    let store = Store::new(1 << 20);
    let mut held = Vec::new();
    while store.usage().used_bytes < (1 << 20) - 250_000 {
        held.push(put(&store, held.len() as u64, 10_000));
    }
    let (generation, mut writer) =
        store.begin(proof(&[], &[]), key(99), store.ledger().current(), Some(500_000)).unwrap();
    writer.let_go(0);
    let mut rest = body(1, 0, 500_000);
    let mut read = 0;
    while let Err(full) = writer.push(rest) {
        rest = full.rest;
        let (bytes, _) = read_from(&generation, read, 65_536);
        assert!(!bytes.is_empty(), "nothing was lost and something has come");
        assert_eq!(bytes, body(1, read, bytes.len()));
        read += bytes.len() as u64;
        writer.let_go(read);
    }
    assert!(read > 100_000);
    assert_eq!(read_from(&generation, read, 65_536).0, body(1, read, (500_000 - read) as usize));
    writer.seal().unwrap();
}

impl Store {
    /// Makes durable what was stored.
    pub(crate) fn sync_for_tests(&self) -> bool {
        self.inside.volumes.tiers.all().iter().all(|tier| tier.sync_for_tests())
    }

    /// Lets the catalogue take so many batches at most.
    pub(crate) fn cover_for_tests(&self, batches: u64) {
        for catalogue in self.inside.volumes.tiers.all().iter().filter_map(|tier| tier.catalogue.as_ref()) {
            let cover = || catalogue.cover(crate::samples::now()).unwrap() == Progress::More;
            let _ = (0..batches).take_while(|_| cover()).count();
        }
    }

    pub(crate) fn generation_for_tests(
        &self,
        storable: Storable,
        key: CacheKey,
        stamp: Stamp,
        length: Option<u64>,
    ) -> Arc<Generation> {
        self.generation(storable, key, stamp, length).unwrap().0
    }

    pub(crate) fn memory_for_tests(&self) -> &crate::memory::Memory {
        &self.inside.memory
    }

    pub(crate) fn inside_for_tests(&self) -> &Arc<Inside> {
        &self.inside
    }
}

#[test]
fn requests_are_counted_by_key_without_any_volume() {
    let store = Store::new(1 << 20);
    let (one, other) = (CacheKey::new("one".into()), CacheKey::new("other".into()));
    for count in 0..5 {
        assert_eq!(store.uses(&one), count);
        store.note_request(&one);
    }
    assert_eq!(store.uses(&other), 0);
    // Other keys age the count: it is of what was asked for lately.
    for number in 0..100_000_u32 {
        store.note_request(&CacheKey::new(number.to_le_bytes().to_vec().into()));
    }
    assert!(store.uses(&one) < 5, "{}", store.uses(&one));
}
