//! What the tables of marks must do: each scope, the limits, and a model that keeps every mark for ever.

use super::*;
use crate::samples::now;
use std::time::Duration;

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

fn stale_since(moment: Now) -> Judged {
    Judged::Changed(Change { before: None, until: None, after: Some(moment.mono) })
}

fn is_stale(judged: Judged) -> bool {
    matches!(judged, Judged::Changed(Change { until: None, after: Some(_), .. }))
}

fn url(key: &CacheKey) -> Scope {
    Scope::Url { site: key.site, digest: key.url_digest() }
}

impl Marks {
    fn one(&self, mark: Mark) -> Stamp {
        self.make(&[mark], now(), |_, _| {}).stamp
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
                    (true, _) => is_stale(judged),
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
    marks.make(&[Mark::soft(Scope::tag(b"red"))], first, |_, _| {});
    let between = marks.current();
    let second = Now { mono: first.mono + std::time::Duration::from_secs(5), ..first };
    marks.make(&[Mark::soft(Scope::All)], second, |_, _| {});
    assert_eq!(marks.judge(&key, &tags, before), stale_since(first));
    assert_eq!(marks.judge(&key, &tags, between), stale_since(second));
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
    let prefix = |site: u64, length: usize| Mark::hard(Scope::prefix(site, &text[..length]));
    let all: Vec<Mark> = (0..PREFIX_LENGTHS_MAX).map(|length| prefix(1, 14 + length)).collect();
    assert_eq!(marks.make(&all, now(), |_, _| {}).wider, BTreeSet::new());
    let other = key(1, "http://other.test/");
    assert!(!marks.is_dead(&other, &Tags::default(), before));
    assert_eq!(marks.make(&[prefix(2, 150)], now(), |_, _| {}).wider, BTreeSet::new(), "another site");
    assert!(!marks.is_dead(&key(2, "http://b.test/"), &Tags::default(), before));
    assert!(marks.is_dead(&key(2, &text), &Tags::default(), before));
    assert_eq!(marks.make(&[prefix(1, 151)], now(), |_, _| {}).wider, BTreeSet::from([1]));
    assert!(marks.is_dead(&other, &Tags::default(), before));
    assert!(!marks.is_dead(&key(2, "http://b.test/"), &Tags::default(), before));
    marks.retire(marks.current());
    assert_eq!((marks.count(), marks.purges.most_lengths()), (0, 0));
}

/// A host that changes its site has marks of one text in both: neither takes the other's away.
#[test]
fn prefixes_of_two_sites_are_kept_apart() {
    let marks = Marks::new(1000);
    let (text, none) = ("http://a.test/", Tags::default());
    let before = marks.current();
    let of_one = marks.one(Mark::hard(Scope::prefix(1, text)));
    marks.one(Mark::hard(Scope::prefix(2, text)));
    let judged = |marks: &Marks| [1, 2, 3].map(|site| marks.is_dead(&key(site, text), &none, before));
    assert_eq!(judged(&marks), [true, true, false]);
    let restored = Marks::new(1000);
    marks.snapshot().1.iter().for_each(|record| restored.restore(record, now()));
    assert_eq!(judged(&restored), [true, true, false]);
    marks.retire(of_one);
    assert!(marks.is_dead(&key(2, text), &none, of_one) && !marks.is_dead(&key(1, text), &none, of_one));
    marks.one(Mark::hard(Scope::prefix(0, text)));
    assert!(marks.is_dead(&key(3, text), &none, of_one), "of no single site: of all");
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

fn concerns(mark: &Mark, site: u64, at: usize) -> bool {
    let object = object(site, at);
    match mark.scope {
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
    }
}

proptest! {
    /// However few marks are kept, none is lost. Where all are kept, none says more than it should. The
    /// newest retention decides, and is never wider than it was given.
    #[test]
    fn no_mark_is_ever_lost(
        wanted in prop::collection::vec((scope(), 0..4_u8), 1..60),
        marks_max in prop_oneof![Just(2_usize), Just(5), Just(1000)],
    ) {
        let (marks, first) = (Marks::new(marks_max), now());
        let mut made: Vec<(Stamp, Mark, Now)> = Vec::new();
        for (second, (scope, force)) in (0..).zip(wanted) {
            let mark = match force {
                0 => Mark::soft(scope),
                1 => Mark::hard(scope),
                shorter => Mark::lifetime(scope, Duration::from_secs(u64::from(shorter) * 100)),
            };
            if marks.check_room(&[mark]).is_err() {
                prop_assert!(marks_max < 1000 && force > 1);
                continue;
            }
            let ago = Duration::from_secs(second);
            let at = Now { mono: first.mono + ago, wall: first.wall + ago };
            made.push((marks.make(&[mark], at, |_, _| {}).stamp, mark, at));
        }
        let (_, records) = marks.snapshot();
        let restored = Marks::new(marks_max);
        let minute = Duration::from_secs(60);
        let later = Now { mono: first.mono + minute, wall: first.wall + minute };
        records.iter().for_each(|record| restored.restore(record, later));
        for (site, at) in (1..4).flat_map(|site| (0..6).map(move |at| (site, at))) {
            let (object, borne) = (object(site, at), tags(NAMES[at]));
            for stamp in (1..=marks.current().0).map(Stamp) {
                let of = |is_force: fn(Force) -> bool| {
                    let newer = made.iter().filter(|(number, mark, _)| {
                        *number > stamp && is_force(mark.force) && concerns(mark, site, at)
                    });
                    newer.collect::<Vec<_>>()
                };
                let hard = of(|force| force == Force::Hard);
                let soft = of(|force| force == Force::Soft);
                let retention = of(|force| matches!(force, Force::Lifetime(_))).last().copied();
                let until = retention.map(|(_, mark, at)| match mark.force {
                    Force::Lifetime(lifetime) => at.mono + lifetime,
                    _ => unreachable!(),
                });
                let is_newer =
                    |soft: &&(Stamp, Mark, Now)| retention.is_none_or(|retention| soft.0 > retention.0);
                let softly = soft.iter().any(is_newer);
                for marks in [&marks, &restored] {
                    let judged = marks.judge(&object, &borne, stamp);
                    let is_wider = marks_max < 1000;
                    let is_right = match judged {
                        Judged::Dead => !hard.is_empty() || is_wider,
                        Judged::Changed(change) => {
                            hard.is_empty()
                                && change.until == until
                                && (change.after.is_some() == softly || (is_wider && !softly))
                        }
                        Judged::Alive => hard.is_empty() && !softly && until.is_none(),
                    };
                    prop_assert!(is_right, "{:?} at {:?}: {:?}", object, stamp, judged);
                }
            }
        }
    }
}

/// One of many URLs, tags or prefixes of a site.
fn narrow() -> impl Strategy<Value = (u64, Scope)> {
    (1..9_u64, 0..3_u8, 0..40_usize).prop_map(|(site, kind, at)| {
        let text = format!("http://s{site}.test/{}", "x".repeat(at));
        let scope = match kind {
            0 => Scope::tag_of(site, text.as_bytes()),
            1 => Scope::Url { site, digest: key(site, &text).digest },
            _ => Scope::prefix(site, &format!("{text}y")),
        };
        (site, scope)
    })
}

impl Marks {
    /// Whether a site has more than its part of some table.
    fn is_borrowing(&self, site: u64) -> bool {
        let Tables { tags, urls, prefixes, .. } = &self.purges;
        [tags, urls, prefixes].into_iter().any(|table| {
            table.pin().values().filter(|entry| entry.site == site).count() > self.marks_max / PARTS
        })
    }
}

proptest! {
    /// Whatever others purge, a purge of one site takes nothing of another that has no more than its part of
    /// the room; what it takes of its own beyond its words is said, and no more than that.
    #[test]
    fn a_purge_of_one_site_is_paid_by_that_site(
        orders in prop::collection::vec((narrow(), any::<bool>()), 1..200),
        marks_max in 12..24_usize,
    ) {
        let marks = Marks::new(marks_max);
        // The newest mark of all of a site, or of everything.
        let whole = |site: u64| match site {
            0 => marks.purges.all.load().newest(),
            site => marks.purges.sites.pin().get(&site).map_or(0, Noted::newest),
        };
        for ((site, scope), is_hard) in orders {
            let mark = if is_hard { Mark::hard(scope) } else { Mark::soft(scope) };
            let borrowing: BTreeSet<u64> = (1..9).filter(|site| marks.is_borrowing(*site)).collect();
            let (is_full, before) = (marks.purges.most() == marks_max, [1, 2, 3, 4, 5, 6, 7, 8].map(whole));
            let wider = marks.make(&[mark], now(), |_, _| {}).wider;
            prop_assert!(wider.iter().all(|gone| *gone == site || borrowing.contains(gone)), "{:?}", wider);
            prop_assert!(is_full || wider.is_empty());
            for (of, before) in (1..9).zip(before) {
                prop_assert!(whole(of) == before || wider.contains(&of), "{} {:?}", of, wider);
            }
            prop_assert!(marks.purges.most() <= marks_max && whole(0) == 0);
        }
    }
}

/// What a head says after these marks, where the retention comes first or last.
#[test]
fn the_newest_of_retentions_and_soft_purges_decides() {
    let key = key(1, "http://a.test/");
    let tags = tags("red");
    let judge = |acts: &[(Mark, u64)]| {
        let (marks, begin) = (Marks::new(10), now());
        let before = marks.current();
        for (mark, second) in acts {
            let at = begin.mono + Duration::from_secs(*second);
            marks.make(&[*mark], Now { mono: at, ..begin }, |_, _| {});
        }
        let change = match marks.judge(&key, &tags, before) {
            Judged::Changed(change) => change,
            other => panic!("{other:?}"),
        };
        let after = |moment: Option<Instant>| moment.map(|at| (at - begin.mono).as_secs());
        (after(change.before), after(change.until), after(change.after))
    };
    let (soft, retention) = (Mark::soft(Scope::Site(1)), Scope::tag(b"red"));
    let minute = Mark::lifetime(retention, Duration::from_secs(60));
    let hour = Mark::lifetime(Scope::All, Duration::from_secs(3600));
    assert_eq!(judge(&[(minute, 5)]), (None, Some(65), None));
    assert_eq!(judge(&[(soft, 1), (minute, 5)]), (Some(1), Some(65), None));
    assert_eq!(judge(&[(minute, 5), (soft, 9)]), (None, Some(65), Some(9)));
    assert_eq!(judge(&[(hour, 5), (minute, 9)]), (None, Some(69), None));
    assert_eq!(judge(&[(minute, 5), (hour, 9)]), (None, Some(3609), None));
    assert_eq!(judge(&[(soft, 1), (hour, 5), (soft, 7), (minute, 9)]), (Some(7), Some(69), None));
}

#[test]
fn retentions_beyond_the_limit_are_refused_and_never_wider() {
    let marks = Marks::new(8);
    let before = marks.current();
    let of = |number: u64| Scope::Url { site: 0, digest: key(1, &format!("http://a.test/{number}")).digest };
    let retention = |number| Mark::lifetime(of(number), Duration::from_secs(60));
    let each: Vec<Stamp> = (0..8).map(|number| marks.one(retention(number))).collect();
    assert_eq!(each.len(), marks.count());
    assert_eq!(marks.check_room(&[retention(3)]), Ok(()), "another for the same URL takes no room");
    let error = marks.check_room(&[retention(8)]).unwrap_err();
    assert_eq!(error, TooMany::Retentions { kind: "URLs", whose: "", most: 8, kept: 8 });
    assert!(error.to_string().contains("8 lifetimes of URLs"), "{error}");
    assert!(marks.is_filling_up() && !marks.is_crowded(), "no purge becomes wider for them");
    let soft: Vec<Mark> = (0..100).map(|number| Mark::soft(of(number))).collect();
    marks.make(&soft, now(), |_, _| {});
    let other = key(1, "http://a.test/other");
    assert!(is_stale(marks.judge(&other, &Tags::default(), before)), "purges became one of everything");
    let kept = marks.judge(&key(1, "http://a.test/5"), &Tags::default(), before);
    assert!(matches!(kept, Judged::Changed(Change { until: Some(_), .. })));
    marks.retire(marks.current());
    assert_eq!((marks.count(), marks.check_room(&[retention(8)])), (0, Ok(())));
}

/// A token of one site cannot take the room of all others.
#[test]
fn one_site_has_a_part_of_the_room() {
    let marks = Marks::new(16);
    let (a, b) = (1, 2);
    let of = |site: u64, number: u64| {
        let scope = url(&key(site, &format!("http://s{site}.test/{number}")));
        Mark::lifetime(scope, Duration::from_secs(60))
    };
    let of_a: Vec<Mark> = (0..4).map(|number| of(a, number)).collect();
    marks.make(&of_a, now(), |_, _| {});
    let error = marks.check_room(&[of(a, 4)]).unwrap_err();
    assert_eq!(error, TooMany::Retentions { kind: "URLs", whose: " of one site", most: 4, kept: 4 });
    assert!(error.to_string().starts_with("there is room for 4 lifetimes of URLs of one site at"), "{error}");
    assert_eq!(marks.check_room(&[of(a, 2)]), Ok(()));
    let four: Vec<Mark> = (0..4).map(|number| of(b, number)).collect();
    assert_eq!(marks.check_room(&four), Ok(()));
    let five: Vec<Mark> = (0..5).map(|number| of(b, number)).collect();
    assert!(matches!(marks.check_room(&five), Err(TooMany::Retentions { kept: 0, .. })), "all or none");
    let tags = |site: u64, count: u64| {
        let tag = |number: u64| Scope::tag_of(site, number.to_string().as_bytes());
        (0..count).map(|at| Mark::lifetime(tag(at), Duration::ZERO)).collect::<Vec<_>>()
    };
    assert_eq!((marks.check_room(&tags(a, 4)), marks.check_room(&tags(a, 5)).is_err()), (Ok(()), true));
    assert_eq!(marks.check_room(&tags(0, 16)), Ok(()), "of all sites: by an operator of all");
    let text = format!("http://a.test/{}", "x".repeat(200));
    let prefix =
        |site: u64, length: usize| Mark::lifetime(Scope::prefix(site, &text[..length]), Duration::ZERO);
    let marks = Marks::new(1000);
    let all: Vec<Mark> = (20..20 + PREFIX_LENGTHS_MAX).map(|length| prefix(a, length)).collect();
    assert_eq!(marks.check_room(&all), Ok(()));
    marks.make(&all, now(), |_, _| {});
    let refused = Err(TooMany::Lengths { most: PREFIX_LENGTHS_MAX });
    assert_eq!(marks.check_room(&[prefix(a, 150)]), refused);
    assert_eq!(marks.check_room(&[prefix(a, 21)]), Ok(()), "that length is there");
    assert_eq!(marks.check_room(&[prefix(b, 150)]), Ok(()));
}

/// A file may have retentions of a batch that was dropped, beside those that took their room.
#[test]
fn what_was_acknowledged_is_restored_beyond_the_limits() {
    let text = format!("http://a.test/{}", "x".repeat(2 * PREFIX_LENGTHS_MAX));
    let marks = Marks::new(4);
    let before = marks.current();
    for length in 15..15 + 2 * PREFIX_LENGTHS_MAX {
        let mark = Mark::lifetime(Scope::prefix(1, &text[..length]), Duration::from_secs(9));
        marks.restore(&Record { number: 100 + length as u64, mark, at: now().wall }, now());
    }
    assert_eq!(marks.count(), 2 * PREFIX_LENGTHS_MAX);
    for length in [15, 14 + 2 * PREFIX_LENGTHS_MAX] {
        let judged = marks.judge(&key(1, &text[..length]), &Tags::default(), before);
        assert!(matches!(judged, Judged::Changed(_)), "{length}");
    }
}

#[test]
fn a_retention_counts_from_when_it_was_given_whatever_the_process() {
    let (key, tags, given) = (key(1, "http://a.test/"), Tags::default(), now());
    let marks = Marks::new(10);
    let before = marks.current();
    marks.make(&[Mark::lifetime(Scope::Site(1), Duration::from_secs(600))], given, |_, _| {});
    let (_, records) = marks.snapshot();
    let left = |wall_s: i64| {
        let wall = match wall_s {
            0.. => given.wall + Duration::from_secs(wall_s.unsigned_abs()),
            _ => given.wall - Duration::from_secs(wall_s.unsigned_abs()),
        };
        let (later, now) = (Marks::new(10), Now { wall, ..now() });
        records.iter().for_each(|record| later.restore(record, now));
        match later.judge(&key, &tags, before) {
            Judged::Changed(Change { until: Some(until), .. }) => {
                until.saturating_duration_since(now.mono).as_secs()
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(left(100), 500);
    assert_eq!(left(600), 0);
    assert_eq!(left(100_000_000), 0);
    assert_eq!(left(-30), 600, "a clock that went back makes nothing longer than was ordered");
    assert_eq!(left(-3600), 0, "nor is it given again at each restart");
}

/// What bears more tags than are kept is concerned by those that are kept: a lifetime is never lengthened by
/// a retention that may not name it.
#[test]
fn a_retention_of_a_tag_means_tags_that_are_known() {
    let names: Vec<String> = (0..=TAGS_MAX).map(|at| format!("t{at}")).collect();
    let many = tags(&names.join(" "));
    let marks = Marks::new(10);
    let before = marks.current();
    marks.one(Mark::lifetime(Scope::tag(b"another"), Duration::from_secs(9)));
    assert_eq!(marks.judge(&key(1, "http://a.test/"), &many, before), Judged::Alive);
    marks.one(Mark::lifetime(Scope::tag(b"t7"), Duration::from_secs(9)));
    assert!(matches!(marks.judge(&key(1, "http://a.test/"), &many, before), Judged::Changed(_)));
}
