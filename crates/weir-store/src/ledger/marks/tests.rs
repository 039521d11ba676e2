//! What the tables of marks must do: each scope, the limits, and a model that keeps every mark for ever.

use super::*;
use crate::samples::now;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use weir_policy::tags::TAGS_MAX;

fn key(site: u64, full: &str) -> CacheKey {
    CacheKey::new(Bytes::copy_from_slice(full.as_bytes())).of_site(site)
}

fn tags(names: &str) -> Tags {
    let mut headers = HeaderMap::new();
    headers.insert("surrogate-key", HeaderValue::from_str(names).unwrap());
    Tags::read(&headers)
}

fn url(key: &CacheKey) -> Scope {
    Scope::Url { site: key.site, digest: key.url_digest() }
}

impl Marks {
    fn one(&self, mark: Mark) -> Stamp {
        self.make(&[mark], now(), |_| {})
    }

    fn is_dead(&self, key: &CacheKey, tags: &Tags, stamp: Stamp) -> bool {
        self.judge(key, tags, stamp) == Judged::Dead
    }
}

#[test]
fn a_mark_concerns_its_scope_and_nothing_else() {
    let one = key(1, "http://a.test/dir/one?x=1\nx-mode:dark");
    let two = key(2, "http://b.test/dir/two");
    let (tagged, bare) = (tags("red blue"), Tags::default());
    for (scope, expect) in [
        (Scope::All, [true, true]),
        (Scope::Site(1), [true, false]),
        (Scope::Site(2), [false, true]),
        (Scope::tag(b"red"), [true, false]),
        (Scope::tag(b"Red"), [false, false]),
        (Scope::tag_of(1, b"red"), [true, false]),
        (Scope::tag_of(2, b"red"), [false, false]),
        (Scope::prefix(1, "http://a.test/"), [true, false]),
        (Scope::prefix(1, "http://a.test/dir/o"), [true, false]),
        (Scope::prefix(1, "http://a.test/dir/one?x=1"), [true, false]),
        (Scope::prefix(1, "http://a.test/dir/one?x=1\n"), [false, false]),
        (Scope::prefix(1, "http://a.test/dir/two"), [false, false]),
        (url(&one), [true, false]),
        (url(&two), [false, true]),
        (Scope::Url { site: 1, digest: one.digest }, [false, false]),
    ] {
        for force in [Force::Hard, Force::Soft] {
            let marks = Marks::new(10);
            let before = marks.current();
            let mark = marks.one(Mark { scope, force });
            let judged = [marks.judge(&one, &tagged, before), marks.judge(&two, &bare, before)];
            for (judged, expect) in judged.into_iter().zip(expect) {
                let is_right = match (expect, force) {
                    (false, _) => judged == Judged::Alive,
                    (true, Force::Hard) => judged == Judged::Dead,
                    (true, Force::Soft) => matches!(judged, Judged::Stale(_)),
                };
                assert!(is_right, "{scope:?} {force:?}: {judged:?}");
            }
            assert_eq!(marks.judge(&one, &tagged, mark), Judged::Alive);
        }
    }
}

#[test]
fn a_hard_mark_beats_a_soft_one_and_the_earliest_soft_one_counts() {
    let marks = Marks::new(10);
    let (key, tags, before) = (key(1, "http://a.test/"), tags("red"), marks.current());
    let first = now();
    marks.make(&[Mark::soft(Scope::tag(b"red"))], first, |_| {});
    let between = marks.current();
    let second = Now { mono: first.mono + std::time::Duration::from_secs(5), ..first };
    marks.make(&[Mark::soft(Scope::All)], second, |_| {});
    assert_eq!(marks.judge(&key, &tags, before), Judged::Stale(first.mono));
    assert_eq!(marks.judge(&key, &tags, between), Judged::Stale(second.mono));
    marks.one(Mark::hard(Scope::Site(1)));
    assert_eq!(marks.judge(&key, &tags, between), Judged::Dead);
}

#[test]
fn what_bears_more_tags_than_are_kept_dies_with_any() {
    let names: Vec<String> = (0..=TAGS_MAX).map(|at| format!("t{at}")).collect();
    let many = tags(&names.join(" "));
    let marks = Marks::new(10);
    let before = marks.current();
    marks.one(Mark::hard(Scope::tag_of(2, b"another")));
    assert!(!marks.is_dead(&key(1, "http://a.test/"), &many, before), "a tag of another site");
    let between = marks.one(Mark::hard(Scope::tag_of(1, b"another")));
    assert!(marks.is_dead(&key(1, "http://a.test/"), &many, before));
    assert!(!marks.is_dead(&key(1, "http://a.test/"), &many, between));
    marks.one(Mark::hard(Scope::tag(b"another")));
    assert!(marks.is_dead(&key(1, "http://a.test/"), &many, between));
}

#[test]
fn tags_beyond_the_limit_become_a_mark_of_the_busiest_site() {
    let marks = Marks::new(8);
    let before = marks.current();
    marks.one(Mark::hard(Scope::tag_of(2, b"quiet")));
    for number in 0..100_u64 {
        marks.one(Mark::hard(Scope::tag_of(1, &number.to_le_bytes())));
        assert!(marks.count() <= 9, "{}", marks.count());
    }
    assert!(marks.is_dead(&key(1, "http://a.test/"), &Tags::default(), before));
    assert!(marks.is_dead(&key(2, "http://b.test/"), &tags("quiet"), before));
    assert!(!marks.is_dead(&key(2, "http://b.test/"), &tags("loud"), before));
}

#[test]
fn urls_beyond_the_limit_become_a_mark_of_the_busiest_site() {
    let marks = Marks::new(8);
    let before = marks.current();
    let quiet = key(2, "http://quiet.test/marked");
    marks.one(Mark::hard(url(&quiet)));
    for number in 0..100 {
        marks.one(Mark::hard(url(&key(1, &format!("http://busy.test/{number}")))));
        assert!(marks.count() <= 9, "{}", marks.count());
    }
    let none = Tags::default();
    assert!((0..100).all(|number| marks.is_dead(
        &key(1, &format!("http://busy.test/{number}")),
        &none,
        before
    )));
    assert!(marks.is_dead(&key(1, "http://busy.test/never-marked"), &none, before));
    assert!(marks.is_dead(&quiet, &none, before));
    assert!(!marks.is_dead(&key(2, "http://quiet.test/"), &none, before));
}

#[test]
fn sites_and_tags_beyond_the_limit_become_a_mark_of_everything() {
    let any = (key(99, "http://z.test/"), tags("z"));
    for scope in
        [|number: u64| Scope::Site(number + 1), |number: u64| Scope::Tag { site: 0, hash: number + 1 }]
    {
        let marks = Marks::new(8);
        let before = marks.current();
        for number in 0..8 {
            marks.one(Mark::hard(scope(number)));
        }
        assert!(!marks.is_dead(&any.0, &any.1, before));
        let at = marks.current();
        marks.one(Mark::hard(scope(8)));
        assert!(marks.is_dead(&any.0, &any.1, before));
        assert!(!marks.is_dead(&any.0, &any.1, at));
        assert_eq!(marks.count(), 1);
    }
}

#[test]
fn prefixes_of_too_many_lengths_become_a_mark_of_their_site() {
    let marks = Marks::new(1000);
    let before = marks.current();
    let text = format!("http://a.test/{}", "x".repeat(200));
    for length in 0..PREFIX_LENGTHS_MAX {
        marks.one(Mark::hard(Scope::prefix(1, &text[..14 + length])));
    }
    let other = key(1, "http://other.test/");
    assert!(!marks.is_dead(&other, &Tags::default(), before));
    marks.one(Mark::hard(Scope::prefix(1, &text[..150])));
    assert!(marks.is_dead(&other, &Tags::default(), before));
    assert!(!marks.is_dead(&key(2, "http://b.test/"), &Tags::default(), before));
    marks.retire(marks.current());
    assert_eq!((marks.count(), marks.lengths.load().len()), (0, 0));
}

#[test]
fn long_prefixes_of_many_lengths_are_told_apart() {
    let text = format!("http://a.test/{}", "0123456789abcdef".repeat(200));
    let long = key(1, &text);
    for length in [14, 16, 17, 128, 129, 240, 241, 256, 1023, 1025, 3000] {
        let marks = Marks::new(100);
        let before = marks.current();
        // Marks of other texts make the look-up stop at other lengths on its way.
        for other in [15, 130, 300, 1024] {
            marks.one(Mark::hard(Scope::prefix(1, &"x".repeat(other))));
        }
        assert!(!marks.is_dead(&long, &Tags::default(), before));
        marks.one(Mark::hard(Scope::prefix(1, &text[..length])));
        assert!(marks.is_dead(&long, &Tags::default(), before), "{length}");
    }
}

#[test]
fn retired_marks_leave_later_ones() {
    let marks = Marks::new(10);
    let (one, two, none) = (key(1, "http://a.test/1"), key(1, "http://a.test/2"), Tags::default());
    let before = marks.current();
    let first = marks.one(Mark::hard(url(&one)));
    let second = marks.one(Mark::hard(url(&two)));
    marks.retire(first);
    assert_eq!(marks.count(), 1);
    assert!(marks.is_dead(&key(3, "http://c.test/"), &none, before) && !marks.is_dead(&one, &none, first));
    assert!(marks.is_dead(&two, &none, first) && !marks.is_dead(&two, &none, second));
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![
        1 => Just(Scope::All),
        2 => (1..4_u64).prop_map(Scope::Site),
        8 => (0..4_u64, 0..6_usize).prop_map(|(site, at)| Scope::tag_of(site, NAMES[at].as_bytes())),
        8 => (1..4_u64, 0..6_usize).prop_map(|(site, at)| url(&object(site, at))),
        8 => (1..4_u64, 0..8_usize, 0..6_usize).prop_map(|(site, cut, at)| {
            let text = String::from_utf8(object(site, at).url().to_vec()).unwrap();
            Scope::prefix(site, &text[..text.len() - cut])
        }),
    ]
}

const NAMES: [&str; 6] = ["a", "bb", "ccc", "dd/dd", "eeeee", "ffffff"];

fn object(site: u64, at: usize) -> CacheKey {
    key(site, &format!("http://s{site}.test/{}", NAMES[at]))
}

proptest! {
    /// However few marks are kept, none is lost. Where all are kept, none says more than it should.
    #[test]
    fn no_mark_is_ever_lost(
        wanted in prop::collection::vec((scope(), any::<bool>()), 1..60),
        marks_max in prop_oneof![Just(2_usize), Just(5), Just(1000)],
    ) {
        let marks = Marks::new(marks_max);
        let mut made: Vec<(Stamp, Mark)> = Vec::new();
        for (scope, soft) in wanted {
            let mark = if soft { Mark::soft(scope) } else { Mark::hard(scope) };
            made.push((marks.one(mark), mark));
        }
        let (_, records) = marks.snapshot();
        let restored = Marks::new(marks_max);
        records.iter().for_each(|record| restored.restore(record, now()));
        for (site, at) in (1..4).flat_map(|site| (0..6).map(move |at| (site, at))) {
            let (object, borne) = (object(site, at), tags(NAMES[at]));
            let concerns = |mark: &Mark| match mark.scope {
                Scope::All => true,
                Scope::Site(marked) => marked == site,
                Scope::Tag { site: marked, .. } => {
                    let is_meant = marked == 0 || marked == site;
                    is_meant && mark.scope == Scope::tag_of(marked, NAMES[at].as_bytes())
                }
                Scope::Url { .. } => mark.scope == url(&object),
                Scope::Prefix { length, .. } => {
                    let text = std::str::from_utf8(object.url()).unwrap();
                    text.get(..length as usize).is_some_and(|begin| mark.scope == Scope::prefix(site, begin))
                }
            };
            for stamp in (1..=marks.current().0).map(Stamp) {
                let newer = made.iter().filter(|(number, mark)| *number > stamp && concerns(mark));
                let (hard, soft): (Vec<&(Stamp, Mark)>, Vec<_>) =
                    newer.partition(|(_, mark)| mark.force == Force::Hard);
                for marks in [&marks, &restored] {
                    let judged = marks.judge(&object, &borne, stamp);
                    let is_right = match judged {
                        Judged::Dead => !hard.is_empty() || marks_max < 1000,
                        Judged::Stale(_) => hard.is_empty() && (!soft.is_empty() || marks_max < 1000),
                        Judged::Alive => hard.is_empty() && soft.is_empty(),
                    };
                    prop_assert!(is_right, "{:?} at {:?}: {:?}", object, stamp, judged);
                }
            }
        }
    }
}
