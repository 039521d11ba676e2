//! Slow start: the ramp by values and properties, and origins that come back to their share.

use std::time::Duration;

use proptest::prelude::*;

use super::scripted::{fetch, get, serve, settings};
use crate::health::ramp::Ramp;
use crate::{Change, Order, Upstream, clock};

const OVER: Duration = Duration::from_secs(30);

#[test]
fn a_share_begins_with_a_tenth_and_grows_evenly() {
    let start = clock::now();
    let at = |s: u64| start + Duration::from_secs(s);
    assert_eq!(Ramp::Whole.on(true, start, OVER), Ramp::Whole, "at the start of Weir");
    assert_eq!(Ramp::Out.on(true, start, Duration::ZERO), Ramp::Whole);
    let ramp = Ramp::Whole.on(false, start, OVER).on(true, start, OVER);
    assert_eq!(ramp, Ramp::Since(start));
    assert_eq!([0, 15, 29, 30].map(|s| ramp.percent(at(s), OVER)), [10, 55, 95, 100]);
    assert_eq!(ramp.on(true, at(29), OVER), ramp);
    assert_eq!(ramp.on(true, at(30), OVER), Ramp::Whole);
    assert_eq!(ramp.on(false, at(29), OVER).on(true, at(29), OVER), Ramp::Since(at(29)), "from the begin");
    assert_eq!((Ramp::Whole.next(start, OVER), Ramp::Out.next(start, OVER)), (None, None));
}

proptest! {
    #[test]
    fn each_step_is_more_and_the_last_is_the_whole(over_ms in 1u64..1_000_000) {
        let (start, over) = (clock::now(), Duration::from_millis(over_ms));
        let (mut ramp, mut now, mut percent) = (Ramp::Out.on(true, start, over), start, 0);
        for _ in 0..40 {
            prop_assert!(ramp.percent(now, over) > percent);
            percent = ramp.percent(now, over);
            let Some(next) = ramp.next(now, over) else { break };
            prop_assert!(next > now);
            now = next;
            ramp = ramp.on(true, now, over);
        }
        prop_assert_eq!((percent, ramp), (100, Ramp::Whole));
        prop_assert!(now <= start + over + Duration::from_millis(1));
    }
}

fn shares(upstream: &Upstream) -> Vec<u32> {
    upstream.listed().origins.iter().map(|origin| (origin.share * 1000.0).round() as u32).collect()
}

#[tokio::test]
async fn an_origin_that_returns_begins_with_a_tenth_of_its_share() {
    let a = serve(|mut peer| async move { peer.answer_all("a").await }).await;
    let b = serve(|mut peer| async move { peer.answer_all("b").await }).await;
    let mut settings = settings(&[a.url(), b.url()]);
    settings.ejection.slow_start = Duration::from_secs(3600);
    let upstream = Upstream::new(settings.clone()).unwrap();
    assert_eq!(shares(&upstream), [500, 500], "none ramps at the start");
    let order = |order| {
        let (_, changed) = upstream.changed(&a.url(), Change::Order(order)).unwrap();
        upstream.adjust(changed).unwrap();
    };
    order(Order::Maintenance);
    assert_eq!(shares(&upstream), [0, 1000]);
    order(Order::Ready);
    assert_eq!(shares(&upstream), [91, 909]);
    let before = a.seen().len();
    for _ in 0..110 {
        fetch(&upstream, get("/")).await.unwrap();
    }
    assert_eq!(a.seen().len() - before, 10);
    assert_eq!(shares(&Upstream::succeed(&upstream, settings.clone()).unwrap()), [91, 909], "after a reload");
    let added = upstream.changed("http://127.77.0.1:1", Change::Add { weight: None, role: None, id: None });
    upstream.adjust(added.unwrap().1).unwrap();
    assert_eq!(shares(&upstream), [83, 833, 83], "one that is added");
    settings.ejection.slow_start = Duration::ZERO;
    assert_eq!(shares(&Upstream::succeed(&upstream, settings).unwrap()), [333; 3], "without slow start");
}

#[tokio::test]
async fn the_share_of_an_ejected_origin_grows_by_itself() {
    let a = serve(|mut peer| async move {
        // The first three connections break, and what comes later is answered.
        if peer.index > 2 {
            peer.answer_all("a").await;
        }
    })
    .await;
    let b = serve(|mut peer| async move { peer.answer_all("b").await }).await;
    let mut settings = settings(&[a.url(), b.url()]);
    settings.ejection.failures = 1;
    settings.ejection.backoff = Duration::from_millis(1);
    settings.ejection.slow_start = Duration::from_secs(1);
    let upstream = Upstream::new(settings).unwrap();
    let tended = tokio::spawn(upstream.tend());
    let mut seen = Vec::new();
    for _ in 0..2000 {
        if seen.last() == Some(&500) && seen.len() > 4 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        fetch(&upstream, get("/")).await.unwrap();
        let share = shares(&upstream)[0];
        if seen.last() != Some(&share) {
            seen.push(share);
        }
    }
    let grown: Vec<_> = seen.iter().skip_while(|share| **share != 91).collect();
    assert!(grown.len() > 3 && grown.is_sorted(), "{seen:?}");
    tended.abort();
}
