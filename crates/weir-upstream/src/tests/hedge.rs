//! Hedges: who wins, what is left of the other, and when none is sent.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::scripted::{Peer, Scripted, fetch, get, ok, request, serve, settings, text};
use crate::again::budget::FLOOR;
use crate::sessions::affinity::Session;
use crate::{
    Attempt, AttemptEnd, AttemptLog, HedgesSnapshot, OriginError, OriginRequest, OutBody, Pick, Reason,
    Retries, RetryOn, Upstream, UpstreamSettings,
};

const UNAVAILABLE: &str = "HTTP/1.1 503 No\r\ncontent-length: 4\r\n\r\nwait";

/// What an origin does with the requests for `/hold`, one thing after another as it is told.
#[derive(Clone, Debug, PartialEq)]
enum Say {
    Nothing,
    Send(String),
    Close,
}

/// An origin that answers with its name, and `/hold` as it is told.
struct Told {
    origin: Scripted,
    says: watch::Sender<Say>,
}

async fn told(name: &'static str) -> Told {
    let says = watch::Sender::new(Say::Nothing);
    let heard = says.subscribe();
    let origin = serve(move |mut peer: Peer| {
        let mut heard = heard.clone();
        async move {
            while let Some(request) = peer.request().await {
                if !request.contains("/hold") {
                    peer.send(ok(name)).await;
                    continue;
                }
                loop {
                    let say = heard.wait_for(|say| *say != Say::Nothing).await.unwrap().clone();
                    match say {
                        Say::Close => return,
                        Say::Send(bytes) => {
                            peer.send(&bytes).await;
                            if bytes.contains("content-length") {
                                break;
                            }
                        }
                        Say::Nothing => {}
                    }
                    if heard.changed().await.is_err() {
                        return;
                    }
                }
            }
        }
    })
    .await;
    Told { origin, says }
}

impl Told {
    fn says(&self, bytes: impl Into<String>) {
        self.says.send(Say::Send(bytes.into())).unwrap();
    }

    fn closes(&self) {
        self.says.send(Say::Close).unwrap();
    }

    /// How often it was asked for `/hold`.
    fn held(&self) -> usize {
        self.origin.seen().iter().filter(|head| head.contains("/hold")).count()
    }
}

/// Origins of which the first is asked first, and hedges once it takes long.
struct Field {
    upstream: Arc<Upstream>,
    origins: Vec<Told>,
    log: Arc<Log>,
}

#[derive(Debug, Default)]
struct Log(Mutex<Vec<Attempt>>);

impl AttemptLog for Log {
    fn under_way(&self, _: &Attempt) {}

    fn ended(&self, attempt: Attempt) {
        self.0.lock().push(attempt);
    }
}

async fn field(change: impl FnOnce(&mut UpstreamSettings)) -> Field {
    let origins = vec![told("a").await, told("b").await, told("c").await];
    let urls: Vec<String> = origins.iter().map(|told| told.origin.url()).collect();
    let mut settings = settings(&urls);
    settings.picks = vec![Pick::First];
    settings.timeouts.first_byte = Duration::from_secs(20);
    settings.retries = Retries { hedge_per_mille: Some(500), ..Retries::default() };
    change(&mut settings);
    let field = Field { upstream: Upstream::new(settings).unwrap(), origins, log: Arc::default() };
    for _ in 0..crate::again::waits::SAMPLES_MIN {
        fetch(&field.upstream, get("/")).await.unwrap();
    }
    let signal = &field.upstream.signal;
    field.until(|_| signal.waits().percentile(500, signal.time_ms(crate::clock::now())).is_some()).await;
    field
}

impl Field {
    fn hold(&self) -> OriginRequest {
        OriginRequest { log: Some(self.log.clone()), ..get("/hold") }
    }

    fn ask(&self, request: OriginRequest) -> JoinHandle<Result<String, OriginError>> {
        let upstream = self.upstream.clone();
        tokio::spawn(async move { fetch(&upstream, request).await })
    }

    async fn until(&self, is_so: impl Fn(&Field) -> bool) {
        while !is_so(self) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// A request of which both have got a part.
    async fn raced(&self) -> JoinHandle<Result<String, OriginError>> {
        let asked = self.ask(self.hold());
        self.until(|field| field.origins[0].held() == 1 && field.origins[1].held() == 1).await;
        asked
    }

    fn hedges(&self) -> HedgesSnapshot {
        self.upstream.snapshot().hedges.unwrap()
    }

    fn failures(&self) -> Vec<u64> {
        self.upstream.snapshot().origins.iter().map(|origin| origin.failures).collect()
    }

    /// No request is under way, and what each attempt was: number, reason, origin and end.
    fn attempts(&self) -> Vec<(u32, Option<&'static str>, &'static str, AttemptEnd)> {
        for origin in &self.upstream.snapshot().origins {
            assert_eq!((origin.in_flight, origin.waiting), (0, 0), "{origin:?}");
            assert_eq!(origin.connections_open, origin.connections_idle, "{origin:?}");
        }
        let names: Vec<String> = self.origins.iter().map(|told| told.origin.url()).collect();
        let name = |origin: &str| ["a", "b", "c"][names.iter().position(|name| name == origin).unwrap()];
        let mut attempts: Vec<_> =
            self.log.0.lock().iter().map(|one| (one.number, one.retry, name(&one.origin), one.end)).collect();
        attempts.sort_by_key(|one| one.0);
        attempts
    }
}

#[tokio::test]
async fn the_hedge_answers_while_the_first_is_silent() {
    let field = field(|_| {}).await;
    let latency = |field: &Field| field.upstream.snapshot().origins[0].latency;
    let before = latency(&field);
    let asked = field.raced().await;
    field.origins[1].says(ok("b"));
    assert_eq!(asked.await.unwrap().unwrap(), "b");
    assert_eq!(field.hedges(), HedgesSnapshot { sent: 1, won: 1, refused: 0 });
    assert_eq!(field.failures(), [0, 0, 0]);
    let ends = [(1, None, "a", AttemptEnd::Abandoned), (2, Some("hedge"), "b", AttemptEnd::Whole)];
    assert_eq!(field.attempts(), ends);
    let snapshot = field.upstream.snapshot();
    let picks = &snapshot.origins[1].picks;
    assert!(picks.iter().any(|(_, reason, count)| (*reason, *count) == (Reason::Hedge, 1)), "{picks:?}");
    assert_eq!((snapshot.origins[0].connections_open, snapshot.origins[1].connections_idle), (0, 1));
    assert!(latency(&field) > before, "it is slower than it was");
    assert_eq!(snapshot.retries.iter().map(|(_, count)| count).sum::<u64>(), 0);
}

#[tokio::test]
async fn the_first_answers_in_the_end() {
    let field = field(|_| {}).await;
    let asked = field.raced().await;
    field.origins[0].says(ok("a"));
    assert_eq!(asked.await.unwrap().unwrap(), "a");
    assert_eq!(field.hedges(), HedgesSnapshot { sent: 1, won: 0, refused: 0 });
    let ends = [(1, None, "a", AttemptEnd::Whole), (2, Some("hedge"), "b", AttemptEnd::Abandoned)];
    assert_eq!((field.attempts(), field.failures()), (ends.to_vec(), vec![0, 0, 0]));
}

#[tokio::test]
async fn the_hedge_is_the_retry_of_a_first_that_fails() {
    let field = field(|_| {}).await;
    let asked = field.raced().await;
    field.origins[0].closes();
    field.until(|field| !field.log.0.lock().is_empty()).await;
    field.origins[1].says(ok("b"));
    assert_eq!(asked.await.unwrap().unwrap(), "b");
    assert_eq!(field.attempts()[1], (2, Some("hedge"), "b", AttemptEnd::Whole));
    assert!(matches!(field.attempts()[0], (1, None, "a", AttemptEnd::Failed(_))));
    assert_eq!(field.upstream.snapshot().retries[RetryOn::Closed as usize].1, 1);
    assert_eq!(field.origins[2].held(), 0);
}

#[tokio::test]
async fn a_status_that_is_retried_leaves_it_to_the_hedge() {
    let field = field(|settings| settings.retries.on.push(RetryOn::Unavailable)).await;
    let asked = field.raced().await;
    field.origins[0].says(UNAVAILABLE);
    field.until(|field| !field.log.0.lock().is_empty()).await;
    field.origins[1].says(ok("b"));
    assert_eq!(asked.await.unwrap().unwrap(), "b");
    assert_eq!(field.upstream.snapshot().retries[RetryOn::Unavailable as usize].1, 1);
    assert!(field.attempts().iter().all(|one| one.3 == AttemptEnd::Whole));
}

#[tokio::test]
async fn the_first_goes_on_where_the_hedge_fails() {
    let field = field(|_| {}).await;
    let asked = field.raced().await;
    field.origins[1].closes();
    field.until(|field| !field.log.0.lock().is_empty()).await;
    field.origins[0].says(ok("a"));
    assert_eq!(asked.await.unwrap().unwrap(), "a");
    assert_eq!(field.failures(), [0, 1, 0]);
    assert_eq!(field.hedges().won, 0);
    assert_eq!(field.attempts()[0], (1, None, "a", AttemptEnd::Whole));
}

#[tokio::test]
async fn an_error_of_the_hedge_does_not_win() {
    let field = field(|_| {}).await;
    let asked = field.raced().await;
    field.origins[1].says(UNAVAILABLE);
    field.until(|field| !field.log.0.lock().is_empty()).await;
    assert!(!asked.is_finished());
    field.origins[0].says(ok("a"));
    assert_eq!(asked.await.unwrap().unwrap(), "a");
    assert!(field.attempts().iter().all(|one| one.3 == AttemptEnd::Whole), "its connection is kept");
}

#[tokio::test]
async fn where_both_fail_the_table_goes_on() {
    // What failed on an idle connection is tried on a fresh one first.
    for (times, expect) in [(1, None), (3, Some("c"))] {
        let field = field(|settings| settings.retries.times = times).await;
        let asked = field.raced().await;
        field.origins[2].says(ok("c"));
        field.origins[1].closes();
        field.until(|field| !field.log.0.lock().is_empty()).await;
        field.origins[0].closes();
        assert_eq!(asked.await.unwrap().ok().as_deref(), expect);
        assert_eq!(
            field.origins.iter().map(Told::held).collect::<Vec<_>>(),
            match expect {
                None => [1, 1, 0],
                Some(_) => [2, 1, 1],
            }
        );
        assert_eq!(field.attempts().last().unwrap().0, if expect.is_some() { 4 } else { 2 });
    }
}

#[tokio::test]
async fn a_caller_that_leaves_closes_both() {
    let field = field(|_| {}).await;
    let asked = field.raced().await;
    asked.abort();
    assert!(asked.await.is_err());
    let ends = [(1, None, "a", AttemptEnd::Abandoned), (2, Some("hedge"), "b", AttemptEnd::Abandoned)];
    assert_eq!((field.attempts(), field.failures()), (ends.to_vec(), vec![0, 0, 0]));
}

#[tokio::test]
async fn the_budget_bounds_hedges() {
    let field = field(|settings| settings.retries.budget_percent = 1).await;
    field.origins[1].says(ok("b"));
    let mut asked = Vec::new();
    for _ in 0..2 * FLOOR {
        asked.push(field.ask(field.hold()));
    }
    field.until(|field| field.hedges().refused > 0).await;
    field.until(|field| field.hedges().sent + field.hedges().refused == 2 * FLOOR).await;
    assert!(field.hedges().sent <= FLOOR);
    field.origins[0].says(ok("a"));
    for one in asked {
        one.await.unwrap().unwrap();
    }
    field.attempts();
}

#[tokio::test]
async fn what_may_not_be_sent_twice_is_not_hedged() {
    let field = field(|_| {}).await;
    let id = field.upstream.roster().members[0].id;
    let mut streamed = field.hold();
    let (parts, body) = mpsc::channel(2);
    streamed.body = OutBody::Stream { parts: body, length: Some(3) };
    parts.send(crate::OutPart::Data(Bytes::from_static(b"abc"))).await.unwrap();
    parts.send(crate::OutPart::End(None)).await.unwrap();
    let post = OriginRequest { log: Some(field.log.clone()), ..request(Method::POST, "/hold") };
    let upgrade = OriginRequest { upgrade: Some(HeaderValue::from_static("chat")), ..field.hold() };
    let session = OriginRequest { session: Some(Session::At(id)), ..field.hold() };
    let rest = OriginRequest { prefer: Some(field.origins[0].origin.url().as_str().into()), ..field.hold() };
    let all = [streamed, post, upgrade, session, rest].map(|request| field.ask(request));
    // One that is hedged, sent last, has been by the time that the others would have been.
    field.until(|field| field.origins[0].held() == 5).await;
    let last = field.ask(field.hold());
    field.until(|field| field.hedges().sent > 0).await;
    assert_eq!(field.hedges(), HedgesSnapshot { sent: 1, won: 0, refused: 0 });
    field.origins[0].says(ok("a"));
    for one in all {
        assert_eq!(one.await.unwrap().unwrap(), "a");
    }
    last.await.unwrap().unwrap();
}

#[tokio::test]
async fn there_is_no_hedge_without_room_elsewhere() {
    let field = field(|settings| settings.bounds.connections_max = 1).await;
    let of = |at: usize| OriginRequest {
        prefer: Some(field.origins[at].origin.url().as_str().into()),
        ..field.hold()
    };
    let held = [field.ask(of(1)), field.ask(of(2))];
    field.until(|field| field.origins[1].held() + field.origins[2].held() == 2).await;
    let first = field.ask(field.hold());
    field.until(|field| field.origins[0].held() == 1).await;
    // Longer than any percentile of these: a hedge would have been sent.
    tokio::time::sleep(Duration::from_millis(50)).await;
    field.origins.iter().for_each(|told| told.says(ok("x")));
    first.await.unwrap().unwrap();
    for one in held {
        one.await.unwrap().unwrap();
    }
    assert_eq!(field.hedges(), HedgesSnapshot::default());
}

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nlink: </";

/// The links of the interim responses that came, and the body.
async fn with_interims(field: &Field) -> JoinHandle<(Vec<String>, String)> {
    let (upstream, request) = (field.upstream.clone(), field.hold());
    tokio::spawn(async move {
        let (to, mut from) = mpsc::unbounded_channel();
        let mut response = upstream.send(request, Some(to)).await.unwrap();
        let body = text(&mut response.body).await.unwrap();
        let mut links = Vec::new();
        while let Ok(interim) = from.try_recv() {
            links.push(interim.headers["link"].to_str().unwrap().to_owned());
        }
        (links, body)
    })
}

#[tokio::test]
async fn interim_responses_are_those_of_one_origin() {
    let hints = |of: &str| format!("{HINTS}{of}>\r\n\r\n");
    for winner in [0, 1] {
        let field = field(|_| {}).await;
        let asked = with_interims(&field).await;
        field.until(|field| field.origins[0].held() == 1 && field.origins[1].held() == 1).await;
        field.origins[1].says(hints("b"));
        tokio::time::sleep(Duration::from_millis(20)).await;
        match winner {
            0 => field.origins[0].says(hints("a") + &ok("a")),
            _ => field.origins[1].says(ok("b")),
        }
        let name = ["a", "b"][winner];
        assert_eq!(asked.await.unwrap(), (vec![format!("</{name}>")], name.to_owned()));
    }
    // One that has given a byte is not hedged.
    let field = field(|_| {}).await;
    field.origins[0].says(hints("a"));
    let asked = with_interims(&field).await;
    field.until(|field| field.origins[0].held() == 1).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    field.origins[0].says(ok("a"));
    assert_eq!(asked.await.unwrap(), (vec!["</a>".to_owned()], "a".to_owned()));
    assert_eq!(field.hedges(), HedgesSnapshot::default());
}
