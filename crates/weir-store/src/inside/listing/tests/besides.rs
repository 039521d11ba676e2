//! What the caller lists besides: first in pages, and in orders and sums as what the store has.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::{Extent, Freshness, Listed, MediaRange, PlaceOf, UrlMatch, Wanted};
use super::*;

const BESIDES: usize = 20;
const STORED: u64 = 30;

fn url(number: usize) -> String {
    format!("own.test/{number:02}")
}

fn piece(number: usize) -> Listed {
    Listed {
        key: CacheKey::new(Bytes::from(url(number))),
        body_bytes: Some(number as u64),
        held_bytes: number as u64,
        status: if number.is_multiple_of(4) { 404 } else { 200 },
        media_type: Some("text/plain".into()),
        received: now().wall,
        age: Duration::from_secs(number as u64),
        lifetime: Duration::MAX,
        is_fresh: true,
        is_in_memory: false,
        volume: None,
        besides: Some(number),
    }
}

fn page(store: &Store, listing: &Listing) -> Page {
    let end = || ControlFlow::Continue(());
    store.list(listing, &mut (0..BESIDES).map(piece), now(), &end).unwrap()
}

/// All pages of a limit: the numbers of what is listed besides, and how many objects the store had.
fn all_of(store: &Store, wanted: &Wanted, limit: usize) -> (Vec<usize>, usize) {
    let mut listing = Listing { wanted: wanted.clone(), limit, ..Listing::default() };
    let (mut besides, mut stored) = (Vec::new(), BTreeSet::new());
    loop {
        let Page { objects, next, .. } = page(store, &listing);
        assert!(objects.len() <= limit && (next.is_none() || objects.len() == limit), "{limit}");
        for object in objects {
            match object.besides {
                Some(number) => besides.push(number),
                None => assert!(stored.insert(object.key.full.to_vec()), "twice"),
            }
        }
        match next {
            Some(next) => listing.after = next,
            None => return (besides, stored.len()),
        }
    }
}

#[test]
fn what_is_listed_besides_is_met_once_in_full_pages() {
    let nothing: fn(&[u8]) -> bool = |_| false;
    let conditions: Vec<(Wanted, fn(usize) -> bool, u64)> = vec![
        (Wanted::default(), |_| true, STORED),
        (Wanted { statuses: vec![404..=404], ..Wanted::default() }, |number| number % 4 == 0, 0),
        (Wanted { held_bytes: Some(5..=9), ..Wanted::default() }, |number| (5..=9).contains(&number), 0),
        (Wanted { place: Some(PlaceOf::Besides), ..Wanted::default() }, |_| true, 0),
        (Wanted { place: Some(PlaceOf::Memory), ..Wanted::default() }, |_| false, STORED),
        (
            Wanted { place: Some(PlaceOf::Volume("volume".to_owned())), ..Wanted::default() },
            |_| false,
            STORED,
        ),
        (Wanted { extent: Some(Extent::Whole), ..Wanted::default() }, |_| true, STORED),
        (Wanted { freshness: Some(Freshness::Stale), ..Wanted::default() }, |_| false, 0),
        (
            Wanted {
                freshness: Some(Freshness::ExpiresWithin(Duration::from_secs(86_400))),
                ..Wanted::default()
            },
            |_| false,
            STORED,
        ),
        (
            Wanted { media_types: vec![MediaRange::One("text/plain".to_owned())], ..Wanted::default() },
            |_| true,
            0,
        ),
        // The caller has compared the URLs of its own.
        (Wanted { url: Some(UrlMatch(Arc::new(nothing))), ..Wanted::default() }, |_| true, 0),
    ];
    for rows in [None, Some(CrashRows::new(1))] {
        let folder = Folder::new("listing-besides");
        let store = open(&folder, rows.as_ref());
        (0..STORED).for_each(|number| put(&store, number, 2000));
        assert!(store.sync_for_tests());
        store.cover_for_tests(u64::MAX);
        for (wanted, fits, stored) in &conditions {
            let expect: Vec<usize> = (0..BESIDES).filter(|number| fits(*number)).collect();
            for limit in [1, 7, BESIDES, BESIDES + 1, 1000] {
                let found = all_of(&store, wanted, limit);
                assert_eq!(found, (expect.clone(), *stored as usize), "{wanted:?} {limit}");
            }
            let sum =
                page(&store, &Listing { wanted: wanted.clone(), form: Form::Sum, ..Listing::default() }).sum;
            let held: usize = expect.iter().sum::<usize>() + *stored as usize * 2000;
            let sum = sum.unwrap();
            let objects = expect.len() as u64 + stored;
            assert_eq!((sum.objects, sum.held_bytes), (objects, held as u64), "{wanted:?}");
        }
        store.close();
    }
}

#[test]
fn what_is_listed_besides_has_its_place_in_orders() {
    let store = Store::new(MEMORY);
    (0..STORED).for_each(|number| put(&store, number, 10));
    let first = |order, limit| {
        let listing = Listing { form: Form::First(order), limit, ..Listing::default() };
        let Page { objects, next, sum, .. } = page(&store, &listing);
        assert!(next.is_none() && sum.unwrap().objects == STORED + BESIDES as u64);
        objects.iter().map(|object| object.besides).collect::<Vec<_>>()
    };
    let by_size = first(Order::Size, BESIDES + STORED as usize);
    let own: Vec<_> = (11..BESIDES).rev().map(Some).collect();
    assert_eq!(by_size[..9], own);
    assert_eq!(by_size.iter().filter(|piece| piece.is_none()).count(), STORED as usize);
    assert_eq!(first(Order::Age, 2), [Some(19), Some(18)]);
    assert_eq!(first(Order::Expires, STORED as usize), vec![None; STORED as usize]);
}
