//! Clients that take all that they can of a pool, and what is left for others. Without sockets, on a clock
//! that moves when nothing else does.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinSet;
use weir_share::Client;

use super::slot::{Grant, Permit, Took};
use super::{Demand, Pool, PoolBounds};
use crate::error::Bound;
use crate::share::Share;

const CONNECTIONS: usize = 256;
const QUEUE: usize = 1000;
const STREAMS: usize = 1024;

/// The defaults.
fn pool() -> Arc<Pool> {
    Pool::new(PoolBounds {
        open_max: CONNECTIONS,
        waiting_max: QUEUE,
        wait_max: Duration::from_secs(5),
        streams_max: STREAMS,
        share_percent: 50,
    })
}

fn v4(last: u32) -> Option<Client> {
    Some(Client::V4(0xc000_0200 + last))
}

/// A /64 of one /48.
fn v6(within: u64) -> Option<Client> {
    Some(Client::V6(0x2001_0db8_0000_0000 + within))
}

async fn permit(pool: &Arc<Pool>, client: Option<Client>, share: Share) -> Result<Permit, Bound> {
    match pool.acquire(Demand::Any, (client, share), (pending::<()>(), None)).await? {
        Took::Here(Grant::Fresh(permit)) => Ok(permit),
        Took::Here(Grant::Idle(_)) | Took::There(()) => unreachable!("no connection is ever made"),
    }
}

/// Has a request of each client take a connection and keep it for so long. They wait in this order.
fn all_ask(
    pool: &Arc<Pool>,
    clients: impl IntoIterator<Item = Option<Client>>,
    takes: Duration,
) -> JoinSet<Result<Option<Client>, (Option<Client>, Bound)>> {
    let mut all = JoinSet::new();
    for client in clients {
        let pool = pool.clone();
        all.spawn(async move {
            let permit = permit(&pool, client, Share::Bounded).await.map_err(|bound| (client, bound))?;
            tokio::time::sleep(takes).await;
            drop(permit);
            Ok(client)
        });
    }
    all
}

/// Lets all that are ready go as far as they come, without any time.
async fn settled() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

const SLOW: Duration = Duration::from_secs(3);

#[tokio::test(start_paused = true)]
async fn two_clients_with_slow_requests_leave_some_to_others() {
    let two = (0..1600).map(|at| v4(at % 2));
    let one_after_the_other = (0..1600).map(|at| v4(at / 800));
    let of_one_network = (0..1600).map(v6);
    let hogs: [Vec<_>; 3] = [two.collect(), one_after_the_other.collect(), of_one_network.collect()];
    for hogs in hogs {
        let pool = pool();
        // They hang for longer than anybody waits.
        let _hogs = all_ask(&pool, hogs, Duration::from_secs(30));
        settled().await;
        let begun = tokio::time::Instant::now();
        let others = all_ask(&pool, (100..125).map(v4), SLOW).join_all().await;
        assert_eq!(others.iter().filter(|other| other.is_ok()).count(), 25);
        assert!(begun.elapsed() < Duration::from_secs(7), "some at once, and the others after them");
    }
}

/// The queue itself: all connections are taken by who has no share.
#[tokio::test(start_paused = true)]
async fn in_a_full_queue_the_latest_request_of_the_client_with_most_gives_way() {
    let two: Vec<_> = (0..1600).map(|at| v4(at % 2)).collect();
    let of_one_network: Vec<_> = (0..1600).map(v6).collect();
    for hogs in [two, of_one_network] {
        let pool = pool();
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS {
            held.push(permit(&pool, None, Share::Bounded).await.unwrap());
        }
        let mut hogs = all_ask(&pool, hogs, SLOW);
        settled().await;
        assert_eq!(pool.usage().waiting, QUEUE);
        let refused = std::iter::from_fn(|| hogs.try_join_next()).count();
        assert_eq!(refused, 600, "at once, where the queue is full of their own");
        let others = all_ask(&pool, (100..125).map(v4), SLOW);
        settled().await;
        assert_eq!(pool.usage().waiting, QUEUE);
        let gave_way: Vec<_> = std::iter::from_fn(|| hogs.try_join_next()).map(Result::unwrap).collect();
        assert_eq!(gave_way.len(), 25, "each for one of the others, and at once");
        assert!(gave_way.iter().all(|one| matches!(one, Err((_, Bound::ClientShare)))));
        held.truncate(CONNECTIONS - 25);
        let begun = tokio::time::Instant::now();
        assert!(others.join_all().await.iter().all(Result::is_ok), "who has fewest comes first");
        assert!(begun.elapsed() <= 2 * SLOW);
        drop((held, hogs));
        settled().await;
        assert_eq!((pool.usage().waiting, pool.usage().open), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_of_many_clients_is_full() {
    let pool = pool();
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        held.push(permit(&pool, None, Share::Bounded).await.unwrap());
    }
    let _waiting = all_ask(&pool, (0..QUEUE as u32).map(v4), SLOW);
    settled().await;
    assert_eq!(pool.usage().waiting, QUEUE);
    let another = permit(&pool, v4(5000), Share::Bounded).await;
    assert!(matches!(another, Err(Bound::Connections)), "nobody has more than one: {another:?}");
}

/// A gap's transfer has readers of other clients. It does not give way.
#[tokio::test(start_paused = true)]
async fn what_others_wait_for_as_well_stays_in_a_full_queue() {
    let pool = pool();
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        held.push(permit(&pool, None, Share::Bounded).await.unwrap());
    }
    let mut shared = JoinSet::new();
    for at in 0..QUEUE as u32 {
        let pool = pool.clone();
        shared.spawn(async move { permit(&pool, v4(at % 2), Share::Counted).await.map(drop) });
    }
    settled().await;
    assert!(permit(&pool, v4(100), Share::Bounded).await.is_err());
    assert_eq!(pool.usage().waiting, QUEUE);
    held.clear();
    assert!(shared.join_all().await.iter().all(Result::is_ok));
}

async fn stream(pool: &Arc<Pool>, client: Option<Client>) -> Result<Permit, Bound> {
    let mut permit = permit(pool, client, Share::Counted).await?;
    permit.outlast()?;
    Ok(permit)
}

async fn is_gone(permit: &mut Permit) -> bool {
    poll_fn(|cx| Poll::Ready(permit.poll_gone(cx).is_ready())).await
}

#[tokio::test(start_paused = true)]
async fn two_clients_with_all_streams_leave_some_to_others() {
    let two: Vec<_> = (0..1024).map(|at| v4(at % 2)).collect();
    let of_one_network: Vec<_> = (0..1024).map(v6).collect();
    for hogs in [two, of_one_network] {
        let pool = pool();
        let mut taken = Vec::new();
        for client in &hogs {
            taken.push(stream(&pool, *client).await.unwrap());
        }
        assert!(stream(&pool, hogs[0]).await.is_err(), "one that has most gets no other one");
        let mut others = Vec::new();
        for other in 100..125 {
            others.push(stream(&pool, v4(other)).await.unwrap());
        }
        assert_eq!(pool.usage().streams, STREAMS);
        for (at, permit) in taken.iter_mut().enumerate() {
            assert_eq!(is_gone(permit).await, at >= STREAMS - 25, "the latest ones have given way");
        }
        for permit in &mut others {
            assert!(!is_gone(permit).await);
        }
        drop(taken);
        assert_eq!((pool.usage().streams, pool.usage().open), (25, 0));
        drop(others);
        assert_eq!(pool.usage().streams, 0);
    }
}
