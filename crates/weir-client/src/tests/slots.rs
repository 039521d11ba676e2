//! Slots where a connection carries several requests at once: what counts, waits, and lies idle.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use tokio::task::JoinHandle;
use weir_share::Client;

use super::scripted::{KEEP, Script};
use crate::error::Bound;
use crate::exchange::Terms;
use crate::incoming::Response;
use crate::message::{OutBody, RequestHead};
use crate::pool::slot::{Grant, Took};
use crate::pool::{Demand, PoolBounds};
use crate::server::Server;
use crate::settings::{Bounds, Timeouts};
use crate::share::Share;

/// A server whose connections have four places, and at which so many requests may be under way.
fn server(open_max: usize) -> (Script, Arc<Server>) {
    let script = Script::new(4);
    let wait_max = Duration::from_secs(5);
    let bounds = PoolBounds { open_max, waiting_max: 100, wait_max, streams_max: 2, share_percent: 50 };
    (script.clone(), Arc::new(Server::scripted(script, bounds)))
}

async fn ask(server: &Server, client: Option<Client>, target: &str) -> Result<Response, Bound> {
    let elsewhere = (pending::<()>(), None);
    let took = server.pool().acquire(Demand::Any, (client, Share::Bounded), elsewhere).await?;
    let Took::Here(grant) = took else { unreachable!("nobody else serves it") };
    Ok(send(server, grant, target).await)
}

async fn send(server: &Server, grant: Grant, target: &str) -> Response {
    let slot = grant.slot(server, Duration::from_secs(1), &mut None).await.unwrap();
    let (headers, timeouts, bounds) = (HeaderMap::new(), Timeouts::default(), Bounds::default());
    let request =
        RequestHead { method: &Method::GET, target: target.as_bytes(), headers: &headers, upgrade: None };
    let terms =
        Terms { request, login: None, interim: None, timeouts: &timeouts, bounds: &bounds, answers: None };
    slot.exchange(OutBody::Empty, &terms, (None, None)).await.unwrap().0
}

/// The same in a task, which has begun to wait.
async fn asking(server: &Arc<Server>, client: Option<Client>) -> JoinHandle<Result<Response, Bound>> {
    let server = server.clone();
    let asking = tokio::spawn(async move { ask(&server, client, "/later").await });
    tokio::task::yield_now().await;
    asking
}

async fn next(response: &mut Response) -> Option<Bytes> {
    poll_fn(|cx| response.body.poll_next(cx)).await.unwrap()
}

async fn end(script: &Script, target: &str, mut response: Response) {
    let pieces = script.response(target);
    pieces.send(Bytes::from_static(b"all")).unwrap();
    drop(pieces);
    assert_eq!(next(&mut response).await.as_deref(), Some(&b"all"[..]));
    assert_eq!(next(&mut response).await, None);
    assert!(response.body.is_ended());
}

/// Slots under way and idle ones, and connections made.
fn counts(server: &Server) -> (usize, usize, u64) {
    let usage = server.pool().usage();
    (usage.open, usage.idle, usage.connects)
}

fn client(number: u32) -> Option<Client> {
    Some(Client::V4(number << 16))
}

#[tokio::test]
async fn requests_share_a_connection_and_each_has_a_slot() {
    let (script, server) = server(8);
    let mut responses = Vec::new();
    for number in 0..6 {
        responses.push(ask(&server, None, &format!("/{number}")).await.unwrap());
    }
    assert_eq!((script.places(), counts(&server)), (vec![4, 2], (6, 0, 2)));
    // A response that ends leaves its place to another request.
    end(&script, "/0", responses.remove(0)).await;
    assert_eq!((script.places(), counts(&server)), (vec![3, 2], (5, 0, 2)));
    let another = ask(&server, None, "/6").await.unwrap();
    assert_eq!((script.places(), counts(&server)), (vec![4, 2], (6, 0, 2)));
    for (number, response) in responses.into_iter().enumerate() {
        end(&script, &format!("/{}", number + 1), response).await;
    }
    end(&script, "/6", another).await;
    // Each connection lies idle with the slot of its last request.
    assert_eq!((script.places(), counts(&server)), (vec![1, 1], (2, 2, 2)));
    let _again = ask(&server, None, "/7").await.unwrap();
    assert_eq!((script.places(), counts(&server)), (vec![1, 1], (2, 1, 2)));
}

#[tokio::test]
async fn who_waits_gets_a_place_beside_others() {
    let (script, server) = server(2);
    let first = ask(&server, None, "/first").await.unwrap();
    let _second = ask(&server, None, "/second").await.unwrap();
    let waiting = asking(&server, None).await;
    assert_eq!(server.pool().usage().waiting, 1, "slots are bounded, whatever room connections have");
    end(&script, "/first", first).await;
    let later = waiting.await.unwrap().unwrap();
    assert_eq!((script.places(), counts(&server)), (vec![2], (2, 0, 1)));
    // One that was dropped before its end frees its slot likewise, and the others go on.
    let waiting = asking(&server, None).await;
    drop(later);
    let mut another = waiting.await.unwrap().unwrap();
    assert_eq!((script.places(), counts(&server)), (vec![2], (2, 0, 1)));
    script.response("/later").send(Bytes::from_static(b"x")).ok();
    let pieces = script.response("/later");
    pieces.send(Bytes::from_static(b"y")).unwrap();
    assert_eq!(next(&mut another).await.as_deref(), Some(&b"y"[..]));
}

#[tokio::test(start_paused = true)]
async fn a_client_has_its_share_of_the_slots() {
    let (script, server) = server(8);
    let mut held = Vec::new();
    for number in 0..4 {
        held.push(ask(&server, client(1), &format!("/{number}")).await.unwrap());
    }
    let refused = asking(&server, client(1)).await;
    let _other = ask(&server, client(2), "/other").await.unwrap();
    assert_eq!((script.places(), counts(&server)), (vec![4, 1], (5, 0, 2)));
    assert!(matches!(refused.await.unwrap(), Err(Bound::ClientShare)), "after it has waited");
    let waiting = asking(&server, client(1)).await;
    end(&script, "/0", held.remove(0)).await;
    assert!(waiting.await.unwrap().is_ok(), "its own slot is the next one");
}

#[tokio::test]
async fn a_stream_leaves_the_slots_and_keeps_its_place() {
    let (script, server) = server(2);
    let mut events = ask(&server, None, "/events").await.unwrap();
    events.body.outlast().unwrap();
    assert_eq!((script.places(), counts(&server)), (vec![1], (0, 0, 1)));
    let _one = ask(&server, None, "/one").await.unwrap();
    let _two = ask(&server, None, "/two").await.unwrap();
    assert_eq!((script.places(), counts(&server)), (vec![3], (2, 0, 1)));
    assert_eq!(server.pool().usage().streams, 1);
    drop(events);
    assert_eq!((script.places(), server.pool().usage().streams), (vec![2], 0));
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_requests_is_closed_in_time() {
    let (script, server) = server(8);
    let one = ask(&server, None, "/one").await.unwrap();
    let two = ask(&server, None, "/two").await.unwrap();
    end(&script, "/one", one).await;
    end(&script, "/two", two).await;
    assert_eq!((script.places(), counts(&server)), (vec![1], (1, 1, 1)));
    tokio::time::sleep(KEEP + Duration::from_millis(1)).await;
    assert_eq!((script.places(), counts(&server)), (vec![0], (0, 0, 1)));
    let _next = ask(&server, None, "/next").await.unwrap();
    assert_eq!((script.places(), counts(&server)), (vec![0, 1], (1, 0, 2)));
}
