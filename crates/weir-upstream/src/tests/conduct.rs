//! What origins have answered together: the judgement as a pure function of what was counted, the counters,
//! and upstreams whose origins are judged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::scripted::{Scripted, fetch, get, ok, serve, settings};
use crate::health::conduct::{Conduct, Counted, Met, PLACES, Seen, slow};
use crate::health::ejection::{Cause, Suspect};
use crate::{Ejection, OriginRequest, Upstream, clock};

const WINDOW: Duration = Duration::from_secs(10);

fn suspect(client: u64, url: u64) -> Suspect {
    Suspect { client: Some(client), url }
}

/// What was counted of these requests: client, URL, what they met.
fn counted(requests: &[(u64, u64, Met)]) -> Counted {
    let now = clock::now();
    let conduct = Conduct::new(now);
    for (client, url, met) in requests {
        conduct.note(*met, suspect(*client, *url), WINDOW, now);
    }
    conduct.counted(WINDOW, now)
}

#[test]
fn a_share_of_failures_of_many_clients_and_urls() {
    let failing = |every: u64| {
        let all = (0..6000).map(|number| {
            let met = if number % every == 0 { Met::Failure(None) } else { Met::Answer(1000) };
            (number % 37, number % 41, met)
        });
        counted(&all.collect::<Vec<_>>())
    };
    let (all, some) = (failing(1), failing(7));
    assert!(all.is_failing(100, 20) && all.is_failing(1, 6000));
    assert!(!all.is_failing(1, 6001), "too few requests");
    assert!(some.is_failing(5, 20) && !some.is_failing(20, 20));
    assert!(!counted(&[]).is_failing(1, 1));
}

#[test]
fn a_break_makes_a_failure_of_an_answer() {
    let broken = (0..40).flat_map(|number| {
        let at = (number % 10, number % 8);
        [(at.0, at.1, Met::Answer(10)), (at.0, at.1, Met::Break)]
    });
    let counted = counted(&broken.collect::<Vec<_>>());
    assert!(counted.is_failing(100, 40) && !counted.is_failing(100, 41));
}

#[test]
fn what_is_older_than_the_window_is_forgotten() {
    let start = clock::now();
    let conduct = Conduct::new(start);
    let at = |ms| start + Duration::from_millis(ms);
    let answers = |now| -> u64 { conduct.counted(WINDOW, now).0.iter().map(|seen| seen.answers).sum() };
    (0..30).for_each(|number| conduct.note(Met::Answer(1), suspect(number, number), WINDOW, at(0)));
    (0..20).for_each(|number| conduct.note(Met::Answer(1), suspect(number, number), WINDOW, at(5_000)));
    assert_eq!((answers(at(9_999)), answers(at(4_000))), (50, 50), "a clock that is behind changes nothing");
    assert_eq!((answers(at(10_000)), answers(at(15_000)), answers(at(15_001))), (20, 0, 0));
    conduct.note(Met::Answer(1), suspect(1, 1), WINDOW, at(15_002));
    assert_eq!((answers(at(15_003)), answers(at(60_000))), (1, 0));
    conduct.note(Met::Answer(1), suspect(1, 1), WINDOW, at(60_000));
    conduct.forget();
    assert_eq!(answers(at(60_000)), 0);
}

/// Cells that all have this share of failures, of ten, and this mean time.
fn even(failures: u64, us: u64) -> Counted {
    Counted(vec![Seen { answers: 10, failures, timed: 10, us: us * 10 }; PLACES * PLACES])
}

#[test]
fn slow_is_against_the_median_of_the_others() {
    let judged = |ms: &[u64]| slow(&ms.iter().map(|ms| even(0, ms * 1000)).collect::<Vec<_>>(), 3.0, 20);
    assert_eq!(judged(&[61, 20, 20]), [true, false, false]);
    assert_eq!(judged(&[60, 20, 20]), [false; 3]);
    assert_eq!(judged(&[100, 20]), [true, false], "one other is enough");
    assert_eq!(judged(&[100]), [false], "none is not");
    assert_eq!(slow(&[even(0, 100_000), counted(&[])], 3.0, 20), [false; 2], "one that says nothing neither");
    assert_eq!(judged(&[9, 1, 1]), [false; 3], "nobody minds so little");
    assert_eq!(judged(&[100, 100, 20]), [false; 3], "half of the others are slow");
    assert_eq!(judged(&[90, 90, 20, 20, 20]), [true, true, false, false, false]);
    assert_eq!(slow(&[], 3.0, 20), Vec::<bool>::new());
}

#[test]
fn a_broken_url_and_a_hostile_client_together_eject_nobody() {
    let of_client = (0..2000).map(|number| (77, number, Met::Failure(None)));
    let of_url = (0..2000).map(|number| (number, 5, Met::Failure(None)));
    let well = (0..500).map(|number| (number % 40, number % 70 + 100, Met::Answer(5)));
    let all: Vec<_> = of_client.chain(of_url).chain(well).collect();
    assert!(!counted(&all).is_failing(25, 20));
}

fn cells(range: std::ops::Range<u64>) -> impl Strategy<Value = Vec<Option<(u64, u64)>>> {
    prop::collection::vec(prop::option::of((range, 1_000u64..20_000)), PLACES * PLACES)
}

fn seen(of_all: &[Option<(u64, u64)>]) -> Counted {
    let of = |cell: &Option<(u64, u64)>| {
        cell.map_or(Seen::default(), |(failures, us)| Seen { answers: 10, failures, timed: 10, us: us * 10 })
    };
    Counted(of_all.iter().map(of).collect())
}

proptest! {
    /// Whatever two clients and two URLs do, an origin that is well without them is not judged to be bad, nor
    /// are the others made to look faster than they are.
    #[test]
    fn two_clients_and_two_urls_condemn_nobody(
        mut all in cells(0..4),
        of_clients in prop::collection::vec(prop::option::of((0u64..=10, 1u64..1_000_000_000)), 2 * PLACES),
        of_urls in prop::collection::vec(prop::option::of((0u64..=10, 1u64..1_000_000_000)), 2 * PLACES),
        clients in prop::collection::vec(0..PLACES, 2),
        urls in prop::collection::vec(0..PLACES, 2),
    ) {
        for (number, at) in clients.iter().enumerate() {
            for url in 0..PLACES {
                all[at * PLACES + url] = of_clients[number * PLACES + url];
            }
        }
        for (number, at) in urls.iter().enumerate() {
            for client in 0..PLACES {
                all[client * PLACES + at] = of_urls[number * PLACES + client];
            }
        }
        let counted = seen(&all);
        prop_assert!(!counted.is_failing(31, 0));
        if let Some(us) = counted.at_least_us(0) {
            prop_assert!(us < 20_000.0, "{}", us);
        }
        if let Some(us) = counted.at_most_us(0) {
            prop_assert!(us >= 1_000.0, "{}", us);
        }
    }

    #[test]
    fn whoever_fails_for_all_is_condemned(
        requests in prop::collection::vec((0u64..1_000_000, 0u64..1_000_000), 200..400),
    ) {
        let all: Vec<_> = requests.iter().map(|(client, url)| (*client, *url, Met::Failure(None))).collect();
        prop_assert!(counted(&all).is_failing(100, 200));
    }
}

/// An origin that is ill while it is told to be: every second request fails, or all take longer.
async fn origin(ill: &Arc<AtomicBool>, slow: Duration) -> Scripted {
    let ill = ill.clone();
    serve(move |mut peer| {
        let ill = ill.clone();
        async move {
            let mut number = 0;
            while let Some(head) = peer.request().await {
                let is_ill = ill.load(Ordering::SeqCst) || head.starts_with("GET /broken");
                number += usize::from(is_ill);
                if is_ill {
                    tokio::time::sleep(slow).await;
                }
                if is_ill && slow.is_zero() && number % 4 != 0 {
                    peer.send("HTTP/1.1 500 Ill\r\ncontent-length: 3\r\n\r\nill").await;
                } else {
                    peer.send(ok("well")).await;
                }
            }
        }
    })
    .await
}

fn of(client: u64, path: &str) -> OriginRequest {
    OriginRequest { witness: Some(client), ..get(path) }
}

fn judging(ejection: Ejection, origins: &[&Scripted]) -> Arc<Upstream> {
    let urls: Vec<_> = origins.iter().map(|origin| origin.url()).collect();
    let mut settings = settings(&urls);
    settings.ejection = Ejection {
        failures: 0,
        statuses: std::iter::once(500..=599).collect(),
        backoff: Duration::from_secs(60),
        ..ejection
    };
    Upstream::new(settings).unwrap()
}

/// Requests of so many clients for so many URLs; then the origins are judged.
async fn drive(upstream: &Arc<Upstream>, requests: u64, clients: u64, path: impl Fn(u64) -> String) {
    for number in 0..requests {
        fetch(upstream, of(number % clients, &path(number))).await.unwrap();
    }
    upstream.judge(clock::now());
}

fn ejected(upstream: &Upstream, cause: Cause) -> Vec<u64> {
    upstream.snapshot().origins.iter().map(|origin| origin.ejections[cause as usize].1).collect()
}

#[tokio::test]
async fn a_share_of_failures_ejects() {
    let ill = Arc::new(AtomicBool::new(true));
    let well = Arc::new(AtomicBool::new(false));
    let (a, b) = (origin(&ill, Duration::ZERO).await, origin(&well, Duration::ZERO).await);
    let rules = Ejection { share_percent: Some(30), least: 20, ..Ejection::default() };
    let upstream = judging(rules.clone(), &[&a, &b]);
    drive(&upstream, 36, 9, |number| format!("/{}", number % 7)).await;
    assert_eq!(ejected(&upstream, Cause::Share), [0, 0], "too few requests");
    drive(&upstream, 300, 19, |number| format!("/{}", number % 23)).await;
    assert_eq!(ejected(&upstream, Cause::Share), [1, 0]);
    let before = a.seen().len();
    drive(&upstream, 10, 9, |number| format!("/{number}")).await;
    assert_eq!(a.seen().len(), before, "it is left out");
    let off = judging(Ejection { share_percent: None, ..rules }, &[&a, &b]);
    drive(&off, 300, 19, |number| format!("/{}", number % 23)).await;
    assert_eq!(ejected(&off, Cause::Share), [0, 0]);
}

#[tokio::test]
async fn neither_one_client_nor_one_url_ejects_by_share() {
    let well = Arc::new(AtomicBool::new(false));
    let (a, b) = (origin(&well, Duration::ZERO).await, origin(&well, Duration::ZERO).await);
    let upstream = judging(Ejection { share_percent: Some(10), ..Ejection::default() }, &[&a, &b]);
    drive(&upstream, 400, 20, |_| "/broken".to_owned()).await;
    assert_eq!(ejected(&upstream, Cause::Share), [0, 0], "one URL of all clients");
    for number in 0..400 {
        fetch(&upstream, of(77, &format!("/broken/{number}"))).await.unwrap();
    }
    drive(&upstream, 100, 20, |number| format!("/{number}")).await;
    assert_eq!(ejected(&upstream, Cause::Share), [0, 0], "all URLs of one client");
}

#[tokio::test]
async fn who_is_slower_than_the_others_is_ejected() {
    let ill = Arc::new(AtomicBool::new(true));
    let well = Arc::new(AtomicBool::new(false));
    let late = Duration::from_millis(25);
    let (a, b, c) = (origin(&ill, late).await, origin(&well, late).await, origin(&well, late).await);
    let rules = Ejection { slow: Some(2.0), least: 10, ..Ejection::default() };
    let upstream = judging(rules.clone(), &[&a, &b, &c]);
    drive(&upstream, 90, 17, |number| format!("/{}", number % 23)).await;
    assert_eq!(ejected(&upstream, Cause::Slow), [1, 0, 0]);
    ill.store(false, Ordering::SeqCst);
    let upstream = judging(rules, &[&a, &b]);
    for number in 0..20 {
        // By turns: the slow ones meet the first origin alone.
        fetch(&upstream, of(77, &format!("/broken/{number}"))).await.unwrap();
        drive(&upstream, 3, 3 + number % 7, |at| format!("/{number}/{at}")).await;
    }
    assert_eq!(a.seen().iter().filter(|head| head.starts_with("GET /broken")).count(), 20);
    assert_eq!(ejected(&upstream, Cause::Slow), [0, 0], "one client's requests for what is slow");
}
