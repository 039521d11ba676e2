//! Units of the lists of what is asked for most.

use std::collections::HashMap;

use super::lists::{Lists, Seen};
use super::sketch::{Added, Sketch};
use super::*;
use crate::record::{Facts, Outcome, Storing};

/// Random numbers of a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn uniform(&mut self) -> f64 {
        (self.next() as f64 + 0.5) / (1u64 << 31) as f64
    }

    /// A rank from 1 to about `ranks`, with a probability of about 1/rank.
    fn zipf(&mut self, ranks: f64) -> u64 {
        (self.uniform() * ranks.ln()).exp() as u64
    }
}

/// Asserts what a sketch promises of a stream, against plain counts.
fn check(sketch: &Sketch<u64>, exact: &HashMap<u64, u64>, kept: u64) {
    let all: u64 = exact.values().sum();
    assert_eq!(sketch.total(), all);
    let rows: HashMap<u64, _> = sketch.rows().collect();
    for (key, weight) in exact {
        match rows.get(key) {
            Some(row) => {
                assert!(row.low <= *weight && *weight <= row.high, "{key}: {weight} {row:?}");
                assert!(row.high - row.low <= all / kept, "{key}: {row:?} of {all}");
            }
            None => assert!(*weight <= all / kept, "{key} with {weight} of {all} is not there"),
        }
    }
}

fn plain(weight: u64) -> Added {
    Added { weight, variance: 0.0 }
}

/// Streams that make a sketch work: key and weight.
fn streams() -> Vec<(&'static str, Vec<(u64, u64)>)> {
    let mut random = Random(7);
    let zipf: Vec<_> = (0..50_000).map(|_| (random.zipf(1e6), 1)).collect();
    let weighed: Vec<_> = (0..20_000).map(|_| (random.zipf(1e5), 1 + random.next() % 10_000)).collect();
    // One client asks for what nobody has asked for before; others come in between.
    let flood = (0..50_000).map(|at| if at % 50 == 0 { (at / 50 % 20, 1) } else { (1_000 + at, 1) });
    let flood = flood.collect();
    // Just as many as are pruned come between two of each, in an order that drops them again and again.
    let churn: Vec<_> = (0..30_000).map(|at| (at % 65, 1)).chain((0..64).map(|at| (at, 1_000))).collect();
    let all_same = (0..10_000).map(|at| (at, 5)).collect();
    vec![("zipf", zipf), ("weighed", weighed), ("flood", flood), ("churn", churn), ("all-same", all_same)]
}

#[test]
fn a_sketch_keeps_to_its_bound_on_every_stream() {
    for (name, stream) in streams() {
        for kept in [8, 64, 448] {
            let (mut sketch, mut exact) = (Sketch::new(kept), HashMap::new());
            for (at, (key, weight)) in stream.iter().enumerate() {
                sketch.add(*key, || *key, plain(*weight));
                *exact.entry(*key).or_default() += weight;
                assert!(at % 97 != 0 || sketch.rows().count() < 2 * kept, "{name}");
            }
            sketch.settle();
            assert!(sketch.rows().count() <= kept, "{name}");
            check(&sketch, &exact, kept as u64);
        }
    }
}

#[test]
fn merged_sketches_keep_to_the_bound_of_one() {
    for (name, stream) in streams() {
        for parts in [2, 7, 100] {
            let (kept, mut exact) = (64, HashMap::new());
            let mut of = vec![Sketch::new(kept); parts];
            // By time, as slices are; in the hour each merged sketch is merged again.
            let length = stream.len().div_ceil(parts);
            for (at, (key, weight)) in stream.iter().enumerate() {
                of[at / length].add(*key, || *key, plain(*weight));
                *exact.entry(*key).or_default() += weight;
            }
            let mut sum = Sketch::new(kept);
            for half in of.chunks(parts.div_ceil(2)) {
                let mut merged = Sketch::new(kept);
                half.iter().for_each(|part| merged.merge(part));
                sum.merge(&merged);
            }
            assert!(sum.rows().count() <= kept, "{name}");
            check(&sum, &exact, kept as u64);
        }
    }
}

#[test]
fn the_heaviest_of_a_zipf_stream_are_in_their_order() {
    let (_, stream) = streams().swap_remove(0);
    let (mut sketch, mut exact) = (Sketch::new(448), HashMap::<u64, u64>::new());
    for (key, weight) in stream {
        sketch.add(key, || key, plain(weight));
        *exact.entry(key).or_default() += weight;
    }
    let mut listed: Vec<_> = sketch.rows().map(|(key, row)| (row.low, key)).collect();
    let mut known: Vec<_> = exact.into_iter().map(|(key, count)| (count, key)).collect();
    listed.sort_unstable_by(|a, b| b.cmp(a));
    known.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(listed[..20], known[..20]);
}

fn facts(outcome: Outcome, body_bytes: u64) -> Facts {
    Facts { outcome, body_bytes, ..Facts::default() }
}

#[test]
fn what_samples_stand_for_is_what_there_was() {
    let begun = weir_clock::mono();
    // Requests in each second of a day that is not even.
    for rates in [&[3u64; 30][..], &[5_000; 8], &[0, 0, 20_000, 10, 0, 0, 7, 9_000, 9_000, 100]] {
        let requests: u64 = rates.iter().sum();
        let runs = 40;
        let mut mean = 0.0;
        let mut chosen_most = 0;
        for run in 0..runs {
            let sampler = Sampler::new(begun, 64, run);
            for (second, rate) in rates.iter().enumerate() {
                let mut chosen = 0;
                for at in 0..*rate {
                    let ended = begun + Duration::from_secs(second as u64) + Duration::from_micros(at);
                    if let Some(weight) = sampler.choose(&facts(Outcome::Hit, 1), ended) {
                        mean += weight as f64 / f64::from(runs as u32);
                        chosen += 1;
                    }
                }
                chosen_most = chosen_most.max(chosen);
            }
        }
        // The standard error of a mean of 40 is below 2 % here.
        let off = (mean - requests as f64).abs() / requests as f64;
        assert!(off < 0.08, "{mean} for {requests}");
        assert!(chosen_most <= 64 * 2 * 8, "{chosen_most}");
        if *rates == [3; 30] {
            assert_eq!(mean.round() as u64, requests, "few are all counted");
        }
    }
}

#[test]
fn no_rhythm_of_a_client_hides_it() {
    let begun = weir_clock::mono();
    let (mut own, runs, requests) = (0.0, 20, 40_000u64);
    for run in 0..runs {
        let sampler = Sampler::new(begun, 16, run);
        for second in 0..4 {
            for at in 0..requests / 4 {
                let weight = sampler.choose(&facts(Outcome::Hit, 1), begun + Duration::from_secs(second));
                // Each 64th is the client's.
                if at % 64 == 63 {
                    own += weight.unwrap_or_default() as f64 / f64::from(runs as u32);
                }
            }
        }
    }
    let expect = (requests / 64) as f64;
    assert!((own - expect).abs() < 0.3 * expect, "{own} for {expect}");
}

#[test]
fn misses_and_large_responses_are_not_hidden_by_hits() {
    let begun = weir_clock::mono();
    let sampler = Sampler::new(begun, 16, 1);
    let (mut misses, mut large) = (0, 0);
    for second in 0..10 {
        for at in 0..5_000 {
            let ended = begun + Duration::from_secs(second);
            sampler.choose(&facts(Outcome::Hit, 1), ended);
            if at % 1_000 == 0 {
                misses += sampler.choose(&facts(Outcome::Miss, 1), ended).unwrap_or_default();
                large += sampler.choose(&facts(Outcome::Hit, 5 << 20), ended).unwrap_or_default();
            }
        }
    }
    assert_eq!((misses, large), (50, 50));
}

/// Lists of one worker, and its way to them.
struct Kit {
    popular: Popular,
    chooser: Arc<Chooser>,
    begun: Instant,
}

impl Kit {
    fn new() -> Kit {
        let begun = weir_clock::mono();
        let popular = Popular::new(&[Arc::new(Counters::new())], begun);
        Kit { chooser: popular.chooser(0), popular, begun }
    }

    fn at(&self, second: u64) -> Instant {
        self.begun + Duration::from_secs(second)
    }

    fn ask(&self, second: u64, url: &str, facts: &Facts) {
        let see = || Seen { url: Some(url.to_owned()), client: None, origin: None };
        self.chooser.finished(facts, self.at(second), see);
    }

    fn list(&self, order: TopOrder, window: TopWindow, second: u64) -> TopList {
        let asked = TopQuestion { by: TopBy::Url, order, window, limit: 10, sites: None };
        self.popular.list(&asked, None, &|_| None, self.at(second))
    }

    fn counts(&self, window: TopWindow, second: u64) -> Vec<(String, u64)> {
        let rows = self.list(TopOrder::Asked, window, second).rows;
        rows.into_iter().map(|row| (row.name, row.count)).collect()
    }
}

#[test]
fn windows_forget_what_is_older() {
    let kit = Kit::new();
    for second in 0..4_000 {
        let url = if second < 30 { "http://a/early" } else { "http://a/later" };
        kit.ask(second, url, &facts(Outcome::Hit, 1));
        kit.popular.gather(kit.at(second));
        match second {
            29 => assert_eq!(kit.counts(TopWindow::Minute, 29), [("http://a/early".to_owned(), 30)]),
            100 => {
                let minute = kit.list(TopOrder::Asked, TopWindow::Minute, 100);
                assert!((50..=60).contains(&minute.covered.as_secs()), "{:?}", minute.covered);
                assert_eq!(minute.rows.len(), 1);
                assert!((50..=61).contains(&minute.rows[0].count) && minute.rows[0].error == 0);
                let hour = kit.counts(TopWindow::Hour, 100);
                assert_eq!(hour, [("http://a/later".to_owned(), 71), ("http://a/early".to_owned(), 30)]);
            }
            _ => {}
        }
    }
    let hour = kit.list(TopOrder::Asked, TopWindow::Hour, 4_000);
    assert_eq!(hour.rows.len(), 1);
    assert!((3_000..=3_610).contains(&hour.covered.as_secs()), "{:?}", hour.covered);
    assert!((3_000..=3_610).contains(&hour.rows[0].count), "{:?}", hour.rows);
}

#[test]
fn each_order_lists_what_it_says() {
    let kit = Kit::new();
    let not_stored = |why| Facts { storing: Storing::NotStored(why), ..facts(Outcome::Miss, 10) };
    for _ in 0..3 {
        kit.ask(0, "http://a/hit", &facts(Outcome::Hit, 1));
        kit.ask(0, "http://a/b", &not_stored("no-store"));
    }
    kit.ask(0, "http://a/b", &not_stored("set-cookie"));
    kit.ask(0, "http://a/large", &facts(Outcome::Pass, 3 << 30));
    let listed = |order| {
        let list = kit.list(order, TopWindow::Minute, 1);
        let rows = list.rows.into_iter().map(|row| (row.name, row.why, row.count));
        (rows.collect::<Vec<_>>(), list.total)
    };
    let row = |name: &str, why, count| (format!("http://a/{name}"), why, count);
    assert_eq!(listed(TopOrder::Asked), (vec![row("b", "", 4), row("hit", "", 3), row("large", "", 1)], 8));
    assert_eq!(listed(TopOrder::Missed), (vec![row("b", "", 4)], 4));
    let bytes = vec![row("large", "", 3 << 30), row("b", "", 40), row("hit", "", 3)];
    assert_eq!(listed(TopOrder::Bytes), (bytes, (3 << 30) + 43));
    assert_eq!(listed(TopOrder::NotStored), (vec![row("b", "no-store", 3), row("b", "set-cookie", 1)], 4));
}

#[test]
fn a_site_sees_its_own() {
    let kit = Kit::new();
    let [one, two] = [SiteId::new(1), SiteId::new(2)];
    let client = weir_share::Client::of("192.0.2.7".parse().unwrap());
    for (site, url) in
        [(one, "http://one/"), (two, "http://two/"), (two, "http://two/"), (SiteId::NONE, "http://-/")]
    {
        let see =
            || Seen { url: Some(url.to_owned()), client: Some(client), origin: Some("http://o".into()) };
        kit.chooser.finished(&Facts { site, ..facts(Outcome::Miss, 7) }, kit.at(0), see);
    }
    let list = |by, sites: Option<&[SiteId]>| {
        let asked =
            TopQuestion { by, order: TopOrder::Asked, window: TopWindow::Minute, limit: 9, sites: None };
        let name = |site: SiteId| (site != SiteId::NONE).then(|| Arc::from(format!("site{}", site.index())));
        let list = kit.popular.list(&asked, sites, &name, kit.at(1));
        let rows = list.rows.into_iter().map(|row| (row.name, row.count)).collect::<Vec<_>>();
        (rows, list.total)
    };
    let row = |name: &str, count| (name.to_owned(), count);
    for (by, all, of_one) in [
        (TopBy::Url, vec![row("http://two/", 2), row("http://-/", 1), row("http://one/", 1)], "http://one/"),
        (TopBy::Client, vec![row("192.0.2.7", 4)], "192.0.2.7"),
        (TopBy::Site, vec![row("site2", 2), row("-", 1), row("site1", 1)], "site1"),
        (TopBy::Origin, vec![row("http://o", 4)], "http://o"),
    ] {
        assert_eq!(list(by, None), (all, 4), "{by:?}");
        assert_eq!(list(by, Some(&[one])), (vec![row(of_one, 1)], 1), "{by:?}");
        assert_eq!(list(by, Some(&[])), (vec![], 0), "{by:?}");
    }
    assert_eq!(list(TopBy::Client, Some(&[one, two])), (vec![row("192.0.2.7", 3)], 3));
}

#[test]
fn long_urls_are_cut_and_stay_apart() {
    let kit = Kit::new();
    let long = |end| format!("http://a/{}é{end}", "x".repeat(190));
    for end in ["1", "1", "2"] {
        kit.ask(0, &long(end), &facts(Outcome::Hit, 1));
    }
    let counts = kit.counts(TopWindow::Minute, 1);
    assert_eq!(counts.len(), 2);
    assert_eq!((counts[0].1, counts[1].1), (2, 1));
    assert!(counts[0].0.len() <= 203 && counts[0].0.ends_with('…'));
}

#[test]
fn the_lists_keep_to_their_bytes() {
    // Two slices are written to, and may have twice their rows; the others are settled.
    let settled = 10;
    assert!(Lists::bytes_max() * (settled + 4) <= LISTS_BYTES_MAX, "{}", Lists::bytes_max());
    let kit = Kit::new();
    let mut number = 0u64;
    for second in 0..660 {
        for _ in 0..30 {
            number += 1;
            let client = weir_share::Client::V4(number as u32);
            let see = || Seen {
                url: Some(format!("http://a/{number}{}", "x".repeat(300))),
                client: Some(client),
                origin: Some(format!("http://{number}").into()),
            };
            let storing = Storing::NotStored("no-store");
            let facts = Facts { storing, site: SiteId::new(number as usize), ..facts(Outcome::Miss, 9) };
            kit.chooser.finished(&facts, kit.at(second), see);
        }
        kit.popular.gather(kit.at(second));
    }
    let bytes = kit.popular.windows.lock().bytes();
    assert!(bytes <= LISTS_BYTES_MAX, "{bytes}");
    assert!(bytes > LISTS_BYTES_MAX / 4, "{bytes}: the test does not fill them");
}

#[test]
fn a_queue_without_room_never_waits_and_says_what_is_lost() {
    let kit = Kit::new();
    for second in 0..QUEUE_MAX as u64 + 100 {
        kit.ask(second, "http://a/", &facts(Outcome::Hit, 1));
    }
    assert_eq!(kit.popular.lost(), 100);
    assert_eq!(kit.counts(TopWindow::Minute, 1), [("http://a/".to_owned(), QUEUE_MAX as u64)]);
}
