//! Soft purges and retentions change the facts of a head, in whatever order they come.

use super::*;

fn facts(lifetime_s: u64, source: LifetimeSource) -> (Facts, Instant) {
    let now = crate::tests::given::at(1000);
    let facts = Facts {
        lifetime: Duration::from_secs(lifetime_s),
        source,
        initial_age: Duration::ZERO,
        received_mono: now.mono,
        received_wall: now.wall,
        while_revalidate: Duration::from_secs(7),
        if_error: Duration::ZERO,
        flags: StoredFlags::default(),
    };
    (facts, now.mono)
}

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_retention_is_longer_or_shorter_and_counts_until_its_moment() {
    let (mut facts, came) = facts(60, LifetimeSource::MaxAge);
    facts.initial_age = s(5);
    assert_eq!(facts.lifetime_from(), "max-age");
    facts.retain(came + s(600));
    assert_eq!((facts.lifetime, facts.lifetime_from()), (s(605), "retention"));
    facts.retain(came + s(10));
    assert_eq!((facts.lifetime, facts.while_revalidate), (s(15), s(7)));
    facts.retain(came - s(10));
    assert_eq!(facts.lifetime, s(5), "it came later: it is stale from its arrival");
    facts.retain(came + s(20));
    assert_eq!(facts.lifetime, s(25));
}

#[test]
fn a_retention_ends_a_soft_purge_and_a_soft_purge_a_retention() {
    let (mut facts, came) = facts(60, LifetimeSource::SMaxage);
    facts.outdate(came + s(10));
    assert!(facts.flags.has(StoredFlags::PURGED) && facts.lifetime == s(10));
    facts.retain(came + s(100));
    assert!(!facts.flags.has(StoredFlags::PURGED) && facts.lifetime == s(100));
    facts.outdate(came + s(50));
    assert!(facts.flags.has(StoredFlags::PURGED) && facts.lifetime == s(50));
}

/// A response that was under way when it was purged softly has a lifetime of zero then, as one that must be
/// asked about each time has.
#[test]
fn what_was_purged_softly_before_it_came_is_retained_all_the_same() {
    let (mut cut, came) = facts(60, LifetimeSource::MaxAge);
    cut.outdate(came - s(1));
    cut.outdate(came - s(1));
    assert_eq!(cut.lifetime, Duration::ZERO);
    cut.retain(came + s(30));
    assert_eq!(cut.lifetime, s(30));
    let (mut each_time, came) = facts(0, LifetimeSource::MaxAge);
    each_time.outdate(came - s(1));
    each_time.retain(came + s(30));
    assert_eq!((each_time.lifetime, each_time.lifetime_from()), (Duration::ZERO, "max-age"));
}

#[test]
fn what_must_be_asked_about_each_time_stays_so() {
    for source in [LifetimeSource::MaxAge, LifetimeSource::Expires, LifetimeSource::Nothing] {
        let (mut facts, came) = facts(0, source);
        let before = facts;
        facts.retain(came + s(600));
        assert_eq!(facts, before, "{source:?}");
    }
    for flag in [StoredFlags::NO_CACHE, StoredFlags::SUSPECT] {
        let (mut facts, came) = facts(60, LifetimeSource::MaxAge);
        facts.flags.insert(flag);
        let before = facts;
        facts.retain(came + s(600));
        assert_eq!(facts, before);
    }
    let (mut guessed, came) = facts(0, LifetimeSource::Heuristic);
    guessed.retain(came + s(600));
    assert_eq!(guessed.lifetime, s(600), "a guess of zero says nothing");
    // That it must not be stale says nothing of how long it is fresh.
    let (mut strict, came) = facts(60, LifetimeSource::MaxAge);
    strict.flags.insert(StoredFlags::MUST_REVALIDATE);
    strict.retain(came + s(600));
    assert_eq!(strict.lifetime, s(600));
}
