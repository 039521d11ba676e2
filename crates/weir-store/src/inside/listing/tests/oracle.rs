//! Each search, order and sum is what a plain count over all objects says, for objects in memory, on a
//! volume and in both, found by rows and by walking.

use std::collections::BTreeSet;
use std::time::Duration;

use http::{HeaderValue, Method, StatusCode};
use proptest::prelude::*;
use weir_policy::{CacheRules, RequestView, ResponseView, Storable, storable};

use super::super::{Extent, Freshness, Listed, MediaRange, PlaceOf, Sum, UrlMatch, Wanted};
use super::*;
use crate::samples::fields;

/// What is known of an object: all that is searched.
#[derive(Debug, Clone)]
struct Known {
    number: u64,
    status: u16,
    kind: &'static str,
    length: usize,
    age_s: u64,
    lifetime_s: u64,
    tags: Vec<u64>,
    /// Whether the process that stored it has ended.
    is_old: bool,
}

const KINDS: [&str; 3] = ["text/html", "image/png", "image/webp"];

fn known(number: u64) -> impl Strategy<Value = Known> {
    let statuses = prop::sample::select(vec![200u16, 301, 404, 410]);
    let lengths = prop::sample::select(vec![0usize, 10, 3000, 80_000]);
    let ages = (0u64..4, 1u64..5).prop_map(|(age, lifetime)| (100 * age, 100 * lifetime + 50));
    let tags = prop::collection::vec(0u64..100, 0..90);
    let kinds = prop::sample::select(KINDS.to_vec());
    (statuses, lengths, ages, tags, kinds, any::<bool>()).prop_map(move |all| {
        let (status, length, (age_s, lifetime_s), tags, kind, is_old) = all;
        // What is no success cannot be validated, and so is not stored once it is stale.
        let age_s = if status == 200 || age_s < lifetime_s { age_s } else { 0 };
        Known { number, status, kind, length, age_s, lifetime_s, tags, is_old }
    })
}

fn proof_of(known: &Known) -> Storable {
    let (age, max_age) = (known.age_s.to_string(), format!("max-age={}", known.lifetime_s));
    let tags = known.tags.iter().map(|tag| format!("tag{tag}")).collect::<Vec<_>>().join(",");
    let kind = format!("{}; charset=utf-8", known.kind);
    let mut response =
        fields(&[("age", &age), ("cache-control", &max_age), ("content-type", &kind), ("cache-tag", &tags)]);
    if known.tags.is_empty() {
        response.remove("cache-tag");
    }
    response.insert("etag", HeaderValue::from_static("\"1\""));
    let request = RequestView {
        method: &Method::GET,
        scheme: "http",
        host: "example.test",
        path_and_query: "/",
        headers: &fields(&[]),
        has_body: false,
        is_trusted: false,
    };
    let status = StatusCode::from_u16(known.status).unwrap();
    let response = ResponseView::new(status, &response, now(), now());
    storable(&request, &response, &CacheRules::default()).unwrap()
}

fn store_it(store: &Store, known: &Known) {
    let stamp = store.ledger().current();
    let length = Some(known.length as u64);
    let (_, mut writer) = store.begin(proof_of(known), key(known.number), stamp, length).unwrap();
    if known.length > 0 {
        writer.push(body(known.number, 0, known.length)).unwrap();
    }
    writer.seal().unwrap();
}

/// Whether what is known of an object fits.
type Fits = Box<dyn Fn(&Known) -> bool>;

fn is_fresh(known: &Known) -> bool {
    known.age_s < known.lifetime_s
}

fn conditions() -> Vec<(Wanted, Fits)> {
    let all = Wanted::default;
    let seconds = Duration::from_secs;
    let statuses = |statuses| Wanted { statuses, ..all() };
    let kinds = |range| Wanted { media_types: vec![range], ..all() };
    let fresh = |freshness| Wanted { freshness: Some(freshness), ..all() };
    let extent = |extent| Wanted { extent: Some(extent), ..all() };
    let place = |place| Wanted { place: Some(place), ..all() };
    let on = |name: &str| place(PlaceOf::Volume(name.to_owned()));
    let url: fn(&[u8]) -> bool = |url| url.ends_with(b"7");
    let expiring = |known: &Known| is_fresh(known) && known.lifetime_s - known.age_s <= 200;
    vec![
        (all(), Box::new(|_| true)),
        (statuses(vec![404..=404, 300..=399]), Box::new(|known| matches!(known.status, 404 | 301))),
        (kinds(MediaRange::Of("image/".to_owned())), Box::new(|known| known.kind != KINDS[0])),
        (kinds(MediaRange::One(KINDS[0].to_owned())), Box::new(|known| known.kind == KINDS[0])),
        (
            Wanted { held_bytes: Some(10..=3000), ..all() },
            Box::new(|known| matches!(known.length, 10 | 3000)),
        ),
        (
            Wanted { age: Some(seconds(50)..=seconds(250)), ..all() },
            Box::new(|known| (50..=250).contains(&known.age_s)),
        ),
        (fresh(Freshness::Fresh), Box::new(is_fresh)),
        (fresh(Freshness::Stale), Box::new(|known| !is_fresh(known))),
        (fresh(Freshness::ExpiresWithin(seconds(200))), Box::new(expiring)),
        (extent(Extent::Whole), Box::new(|_| true)),
        (extent(Extent::Part), Box::new(|_| false)),
        (on("volume"), Box::new(|_| true)),
        (on("other"), Box::new(|_| false)),
        (place(PlaceOf::Memory), Box::new(|known| !known.is_old)),
        (Wanted { url: Some(UrlMatch(Arc::new(url))), ..all() }, Box::new(|known| known.number % 10 == 7)),
        (
            Wanted { statuses: vec![200..=200], ..fresh(Freshness::Fresh) },
            Box::new(|known| known.status == 200 && is_fresh(known)),
        ),
    ]
}

fn numbers(objects: &[Listed]) -> Vec<u64> {
    let of = |object: &Listed| {
        let url = String::from_utf8(object.key.url().to_vec()).unwrap();
        url.rsplit('/').next().unwrap().parse().unwrap()
    };
    objects.iter().map(of).collect()
}

fn pages(store: &Store, mut listing: Listing) -> Vec<Listed> {
    let mut all = Vec::new();
    loop {
        let Page { objects, next, .. } = list(store, &listing).unwrap();
        assert!(next.is_none() || objects.len() == listing.limit);
        all.extend(objects);
        match next {
            Some(next) => listing.after = next,
            None => return all,
        }
    }
}

/// Where an object stands in an order.
fn rank(order: Order, known: &Known) -> (i64, Vec<u8>) {
    match order {
        Order::Url => (0, key(known.number).full.to_vec()),
        Order::Size => (-(known.length as i64), key(known.number).full.to_vec()),
        Order::Age => (-(known.age_s as i64), Vec::new()),
        Order::Expires => (known.lifetime_s as i64 - known.age_s as i64, Vec::new()),
    }
}

fn check(store: &Store, listing: &Listing, expect: &BTreeMap<u64, &Known>, limit: usize) {
    let found = pages(store, Listing { limit, ..listing.clone() });
    let met = numbers(&found);
    assert_eq!(met.iter().collect::<BTreeSet<_>>(), expect.keys().collect(), "{listing:?}");
    assert_eq!(met.len(), expect.len(), "twice: {listing:?}");
    for (object, number) in found.iter().zip(met) {
        let known = expect[&number];
        let held = known.length as u64;
        let own = (object.status, object.media_type.as_deref(), object.held_bytes, object.body_bytes);
        assert_eq!(own, (known.status, Some(known.kind), held, Some(held)));
        assert_eq!(object.lifetime.as_secs(), known.lifetime_s);
        assert!((known.age_s..known.age_s + 40).contains(&object.age.as_secs()), "{object:?} {known:?}");
    }
    let bytes = expect.values().map(|known| known.length as u64).sum();
    let sum = Some(Sum { objects: expect.len() as u64, held_bytes: bytes });
    let page = list(store, &Listing { form: Form::Sum, ..listing.clone() }).unwrap();
    assert_eq!((page.sum, page.objects.len(), page.next), (sum, 0, None), "{listing:?}");
    for order in [Order::Url, Order::Size, Order::Age, Order::Expires] {
        let page = list(store, &Listing { form: Form::First(order), limit, ..listing.clone() }).unwrap();
        assert_eq!((page.sum, page.next), (sum, None));
        let ranks: Vec<_> = numbers(&page.objects).iter().map(|number| rank(order, expect[number])).collect();
        let mut all: Vec<_> = expect.values().map(|known| rank(order, known)).collect();
        all.sort();
        all.truncate(limit);
        assert_eq!(ranks, all, "{order:?} {listing:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]
    #[test]
    fn each_search_order_and_sum_is_that_of_a_plain_count(
        all in (5u64..40).prop_flat_map(|count| (0..count).map(known).collect::<Vec<_>>()),
        has_rows: bool,
        purged in 0u64..100,
        limit in 1usize..12,
    ) {
        let rows = has_rows.then(|| CrashRows::new(7));
        let folder = Folder::new("listing-oracle");
        let store = open(&folder, rows.as_ref());
        all.iter().filter(|known| known.is_old).for_each(|known| store_it(&store, known));
        store.close();
        drop(store);
        rows.iter().for_each(|rows| rows.tidy_by(None));
        let store = open(&folder, rows.as_ref());
        all.iter().filter(|known| !known.is_old).for_each(|known| store_it(&store, known));
        assert!(store.sync_for_tests());
        store.cover_for_tests(u64::MAX);
        let tag = |tag: u64| Some(tags::tag_hash(format!("tag{tag}").as_bytes()));
        for round in 0..2 {
            let lives = |known: &&Known| round == 0 || !known.tags.contains(&purged);
            for (wanted, fits) in conditions() {
                let searches: [(_, _, fn(&Known) -> bool); 3] = [
                    (None, None, |_| true),
                    (Some(1), None, |known| known.number % 2 == 0),
                    (None, tag(3), |known| known.tags.contains(&3)),
                ];
                for (site, tag, wants) in searches {
                    let listing = Listing { site, tag, wanted: wanted.clone(), ..Listing::default() };
                    let expect = all.iter().filter(lives).filter(|known| fits(known) && wants(known));
                    let expect = expect.map(|known| (known.number, known)).collect();
                    check(&store, &listing, &expect, limit);
                }
            }
            let mark = Mark::hard(Scope::tag(format!("tag{purged}").as_bytes()));
            store.purge(&[mark], now(), Box::new(|_| {}));
        }
        let page = list(&store, &Listing { limit: 1, ..Listing::default() }).unwrap();
        assert_eq!(page.walked.is_empty(), has_rows);
        store.close();
    }
}
