//! Requests that wait for a connection and go to another origin that has room first.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use weir_share::Client;

use super::scripted::{Peer, Scripted, fetch, get, ok, serve, settings};
use crate::again::moves::{Mover, Moves, Offer, Room};
use crate::health::standing::Order;
use crate::sessions::affinity::Session;
use crate::{Change, OriginError, OriginRequest, Upstream};

/// Room for so many, for those of a number below `for_below`.
#[derive(Clone, Debug)]
struct Seats {
    left: Arc<AtomicUsize>,
    for_below: usize,
}

impl Seats {
    fn new(left: usize, for_below: usize) -> Seats {
        Seats { left: Arc::new(left.into()), for_below }
    }

    fn take(&self, who: usize) -> bool {
        let is_taken = self.has_room() && self.is_for(who);
        self.left.fetch_sub(usize::from(is_taken), Ordering::SeqCst);
        is_taken
    }
}

impl Room for Seats {
    type Who = usize;

    fn has_room(&self) -> bool {
        self.left.load(Ordering::SeqCst) > 0
    }

    fn is_for(&self, who: usize) -> bool {
        who < self.for_below
    }
}

/// The offer that a mover has, if it has one.
fn offered(mover: &mut Mover<'_, Seats>) -> Option<Offer<Seats>> {
    match pin!(mover.offered()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(offer) => Some(offer),
        Poll::Pending => None,
    }
}

#[test]
fn the_first_comes_first_and_what_is_not_used_goes_on() {
    let moves = Moves::default();
    let mut movers: Vec<_> = (0..3).map(|who| moves.enter(who)).collect();
    let seats = Seats::new(1, 3);
    moves.offer(&seats);
    let Some(offer) = offered(&mut movers[0]) else { panic!("the first is told") };
    assert!(offered(&mut movers[1]).is_none());
    movers[0].pass_on(&offer);
    assert!(offered(&mut movers[0]).is_none() && offered(&mut movers[2]).is_none());
    drop(movers.remove(1));
    assert!(offered(&mut movers[1]).is_some(), "who leaves passes it on");
    assert!(seats.take(2));
    moves.offer(&seats);
    assert!(offered(&mut movers[0]).is_none(), "there is no room any more");
    drop(movers);
    assert_eq!(moves.count(), 0);
}

#[test]
fn an_offer_is_for_those_who_may_take_it_and_a_change_is_for_all() {
    let moves = Moves::default();
    let (mut other, mut own) = (moves.enter(7), moves.enter(1));
    moves.offer(&Seats::new(1, 2));
    assert!(offered(&mut other).is_none());
    assert!(offered(&mut own).is_some());
    moves.change();
    let told = [offered(&mut other), offered(&mut own)];
    assert!(told.iter().all(|offer| matches!(offer, Some(Offer::Change))));
}

/// What happens in [`no_room_is_left_beside_one_who_could_take_it`].
#[derive(Clone, Debug)]
enum Step {
    Enter(usize),
    /// One leaves: it was served where it waited, or is gone.
    Leave(usize),
    /// A seat becomes free.
    Free(usize),
    /// A seat is taken by a request that did not wait.
    Steal(usize),
    /// One of those that were told looks.
    Look(usize),
    Change,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4usize).prop_map(Step::Enter),
        (0..8usize).prop_map(Step::Leave),
        (0..3usize).prop_map(Step::Free),
        (0..3usize).prop_map(Step::Steal),
        (0..8usize).prop_map(Step::Look),
        Just(Step::Change),
    ]
}

/// One that was told looks at all origins, and takes the first seat there is for it.
fn look(waiting: &mut Vec<(usize, Mover<'_, Seats>)>, at: usize, all: &[Seats]) -> bool {
    let (who, mover) = &mut waiting[at];
    let Some(offer) = offered(mover) else { return false };
    let is_served = all.iter().any(|seats| seats.take(*who));
    mover.pass_on(&offer);
    if is_served {
        waiting.remove(at);
    }
    true
}

proptest! {
    /// Once all that were told have looked, there is no room for any that still wait.
    #[test]
    fn no_room_is_left_beside_one_who_could_take_it(steps in prop::collection::vec(step(), 0..80)) {
        let moves = Moves::default();
        let all: Vec<Seats> = (0..3).map(|number| Seats::new(0, number + 2)).collect();
        let mut waiting = Vec::new();
        for step in steps {
            match step {
                Step::Enter(who) => {
                    let mover = moves.enter(who);
                    if !all.iter().any(|seats| seats.take(who)) {
                        waiting.push((who, mover));
                    }
                }
                Step::Leave(at) if at < waiting.len() => drop(waiting.remove(at)),
                Step::Free(at) => {
                    all[at].left.fetch_add(1, Ordering::SeqCst);
                    moves.offer(&all[at]);
                }
                Step::Steal(at) => {
                    all[at].take(0);
                }
                Step::Look(at) if at < waiting.len() => {
                    look(&mut waiting, at, &all);
                }
                Step::Change => moves.change(),
                Step::Leave(_) | Step::Look(_) => {}
            }
        }
        let mut looks = 0;
        while let Some(at) = (0..waiting.len()).find(|at| look(&mut waiting, *at, &all)) {
            looks += 1;
            prop_assert!(looks < 10_000, "{at} looks for ever");
        }
        for (who, _) in &waiting {
            prop_assert!(!all.iter().any(|seats| seats.has_room() && seats.is_for(*who)), "{who}");
        }
        prop_assert_eq!(moves.count(), waiting.len());
    }
}

/// An origin that answers with its name, but holds `/hold` until told.
async fn origin(name: &'static str, release: &watch::Sender<bool>) -> Scripted {
    let release = release.subscribe();
    serve(move |mut peer: Peer| {
        let mut release = release.clone();
        async move {
            while let Some(request) = peer.request().await {
                if request.contains("/hold") {
                    let _ = release.wait_for(|is_released| *is_released).await;
                }
                peer.send(ok(name)).await;
            }
        }
    })
    .await
}

/// Two origins with one connection each, and what lets each answer.
struct Two {
    upstream: Arc<Upstream>,
    names: [String; 2],
    release: [watch::Sender<bool>; 2],
    _origins: [Scripted; 2],
}

async fn two() -> Two {
    let release = [watch::Sender::new(false), watch::Sender::new(false)];
    let origins = [origin("a", &release[0]).await, origin("b", &release[1]).await];
    let names = [origins[0].url(), origins[1].url()];
    let mut settings = settings(&names);
    settings.bounds.connections_max = 1;
    settings.timeouts.queue = Duration::from_secs(20);
    settings.timeouts.first_byte = Duration::from_secs(20);
    Two { upstream: Upstream::new(settings).unwrap(), names, release, _origins: origins }
}

impl Two {
    fn ask(&self, request: OriginRequest) -> JoinHandle<Result<String, OriginError>> {
        let upstream = self.upstream.clone();
        tokio::spawn(async move { fetch(&upstream, request).await })
    }

    fn at(&self, origin: usize, path: &str) -> OriginRequest {
        OriginRequest { prefer: Some(self.names[origin].as_str().into()), ..get(path) }
    }

    /// Both origins hold a request each.
    async fn hold_both(&self) -> [JoinHandle<Result<String, OriginError>>; 2] {
        let held = [self.ask(self.at(0, "/hold")), self.ask(self.at(1, "/hold"))];
        self.until(|two| two.upstream.snapshot().origins.iter().all(|origin| origin.requests == 1)).await;
        held
    }

    async fn until(&self, is_so: impl Fn(&Two) -> bool) {
        while !is_so(self) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn waiting(&self) -> usize {
        self.upstream.snapshot().origins.iter().map(|origin| origin.waiting).sum()
    }

    /// Nothing is left behind.
    fn assert_quiet(&self) {
        let snapshot = self.upstream.snapshot();
        for origin in &snapshot.origins {
            assert_eq!((origin.in_flight, origin.waiting, origin.failures), (0, 0, 0), "{origin:?}");
            assert!(origin.connections_open <= 1);
        }
        assert_eq!(self.upstream.signal.moves.count(), 0);
    }
}

#[tokio::test]
async fn who_waits_goes_where_there_is_room_first_and_sessions_stay() {
    let two = two().await;
    let held = two.hold_both().await;
    let free: Vec<_> = (0..6).map(|_| two.ask(get("/x"))).collect();
    let id = two.upstream.roster().members[0].id;
    let session = two.ask(OriginRequest { session: Some(Session::At(id)), ..get("/x") });
    let rest = two.ask(two.at(0, "/x"));
    two.until(|two| two.waiting() == 8).await;
    two.release[1].send(true).unwrap();
    for one in free {
        assert_eq!(one.await.unwrap().unwrap(), "b");
    }
    assert!(!session.is_finished() && !rest.is_finished());
    assert_eq!(two.waiting(), 2);
    two.release[0].send(true).unwrap();
    for one in [session, rest] {
        assert_eq!(one.await.unwrap().unwrap(), "a");
    }
    for one in held {
        one.await.unwrap().unwrap();
    }
    two.assert_quiet();
}

#[tokio::test]
async fn who_leaves_while_it_waits_leaves_nothing_behind() {
    let two = two().await;
    let held = two.hold_both().await;
    let free: Vec<_> = (0..6).map(|_| two.ask(get("/x"))).collect();
    two.until(|two| two.waiting() == 6 && two.upstream.signal.moves.count() == 6).await;
    free.iter().step_by(2).for_each(JoinHandle::abort);
    two.release[1].send(true).unwrap();
    for (number, one) in free.into_iter().enumerate() {
        assert_eq!(one.await.is_ok(), number % 2 == 1);
    }
    two.release[0].send(true).unwrap();
    for one in held {
        one.await.unwrap().unwrap();
    }
    two.assert_quiet();
}

#[tokio::test]
async fn an_origin_that_is_ready_again_takes_those_who_wait() {
    let two = two().await;
    let order = |order| {
        let (_, adjustments) = two.upstream.changed(&two.names[1], Change::Order(order)).unwrap();
        two.upstream.adjust(adjustments).unwrap();
    };
    order(Order::Maintenance);
    let held = two.ask(two.at(0, "/hold"));
    two.until(|two| two.upstream.snapshot().origins[0].requests == 1).await;
    let free: Vec<_> = (0..3).map(|_| two.ask(get("/x"))).collect();
    two.until(|two| two.waiting() == 3).await;
    order(Order::Ready);
    for one in free {
        assert_eq!(one.await.unwrap().unwrap(), "b");
    }
    two.release[0].send(true).unwrap();
    assert_eq!(held.await.unwrap().unwrap(), "a");
    two.assert_quiet();
}

#[tokio::test]
async fn a_client_has_its_share_where_it_goes_as_well() {
    let two = two().await;
    // With one connection the share is one, so that only the other origin could take the client's request.
    let of = |client: u8, request| OriginRequest {
        client: Some(Client::of([192, 0, 2, client].into())),
        ..request
    };
    let held = [two.ask(of(1, two.at(0, "/hold"))), two.ask(of(1, two.at(1, "/hold")))];
    two.until(|two| two.upstream.snapshot().origins.iter().all(|origin| origin.requests == 1)).await;
    let (own, other) = (two.ask(of(1, get("/x"))), two.ask(of(2, get("/x"))));
    two.until(|two| two.waiting() == 2).await;
    two.release[0].send(true).unwrap();
    assert_eq!(other.await.unwrap().unwrap(), "a");
    assert_eq!(own.await.unwrap().unwrap(), "a");
    two.release[1].send(true).unwrap();
    for one in held {
        one.await.unwrap().unwrap();
    }
    two.assert_quiet();
}
