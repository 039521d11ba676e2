//! An upstream: picks an origin for a request, sends it there, and sends it again where the retry table
//! allows that.

use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use http::HeaderMap;
use parking_lot::Mutex;
use weir_wire::{BodyReader, Persistence, ResponseHead};

use crate::address::{self, Resolver};
use crate::attempt::{AttemptEnd, AttemptLog, Link, Track, Turn};
use crate::body::{OriginBody, RequestRest, Streaming};
use crate::clock;
use crate::connect::connect;
use crate::connection::Connection;
use crate::error::{OriginError, UpstreamError};
use crate::exchange::{Terms, exchange, limits};
use crate::health::Event;
use crate::origin::{Origin, Place, count};
use crate::outgoing::Outgoing;
use crate::pick::Wheel;
use crate::pool::{Demand, Grant, Lease};
use crate::request::{InterimSender, OriginRequest, OutBody};
use crate::response::{Length, OriginResponse, Times};
use crate::retry::{self, Failure, Kind, Next, Stage, Tries};
use crate::settings::{Bounds, Role, Timeouts, UpstreamSettings};
use crate::snapshot::UpstreamSnapshot;
use crate::tunnel::Tunnel;

/// An idle connection is kept so long at most, whatever the origin's `Keep-Alive` says.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// An idle connection is given up so much earlier than the origin says, so that no request meets its closing.
const IDLE_MARGIN: Duration = Duration::from_secs(1);

/// One `[upstream.NAME]`.
#[derive(Debug)]
pub struct Upstream {
    name: String,
    origins: Vec<Arc<Origin>>,
    wheel: Mutex<Wheel>,
    timeouts: Timeouts,
    bounds: Bounds,
    resolve_every: Duration,
}

impl Upstream {
    /// Makes an upstream. Certificates are read; nothing is looked up and nothing connected, so that it
    /// succeeds while origins or DNS are down.
    ///
    /// # Errors
    /// When the settings contradict themselves or a certificate file cannot be used.
    pub fn new(settings: UpstreamSettings) -> Result<Arc<Self>, UpstreamError> {
        Self::with_resolver(settings, &address::system())
    }

    pub(crate) fn with_resolver(
        settings: UpstreamSettings,
        resolver: &Resolver,
    ) -> Result<Arc<Self>, UpstreamError> {
        check(&settings)?;
        let origins: Result<Vec<_>, _> = settings
            .origins
            .iter()
            .map(|origin| Origin::new(origin, &settings, resolver).map(Arc::new))
            .collect();
        let origins = origins?;
        Ok(Arc::new(Self {
            wheel: Mutex::new(Wheel::new(origins.len())),
            origins,
            name: settings.name,
            timeouts: settings.timeouts,
            bounds: settings.bounds,
            resolve_every: settings.resolve_every,
        }))
    }

    /// The name in the config.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The origins in the order of the config.
    pub fn origins(&self) -> &[Arc<Origin>] {
        &self.origins
    }

    /// How long each step may take.
    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// What it has done and holds.
    pub fn snapshot(&self) -> UpstreamSnapshot {
        let now = clock::now();
        let origins = self.origins.iter().map(|origin| origin.snapshot(now)).collect();
        UpstreamSnapshot { name: self.name.clone(), origins }
    }

    /// How many of `all` transfers at this upstream one client may have under way: its share, and no more
    /// than its connections.
    pub fn client_max(&self, all: usize) -> usize {
        let connections: usize = self.origins.iter().map(|origin| origin.pool().client_max()).sum();
        self.origins.first().map_or(all, |origin| origin.pool().share_of(all)).min(connections)
    }

    /// Whether a client has used up its share of the connections, at every origin.
    pub fn is_spent(&self, client: Option<IpAddr>) -> bool {
        self.origins.iter().all(|origin| origin.pool().is_spent(client))
    }

    /// Renews the addresses until the upstream is dropped: to be spawned once, off the data plane. Without it
    /// requests renew them. It begins with a lookup of each name and warns of those that fail.
    pub fn tend(self: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let upstream = Arc::downgrade(self);
        let every = self.resolve_every.max(Duration::from_secs(1));
        async move { tend(upstream, every).await }
    }

    /// Connects to each origin, off the data plane, to warn of those that are down at the start, and closes
    /// the connections again. Returns how many are down. The log is told of each connection.
    pub async fn probe(&self, log: Option<Arc<dyn AttemptLog>>) -> usize {
        let mut down = 0;
        for origin in &self.origins {
            let mut track = log.as_ref().map(|log| origin.track(log, Turn::FIRST));
            match new_connection(origin, self.timeouts.connect, &mut track).await {
                Ok(_) => track.into_iter().for_each(|track| track.end(AttemptEnd::Whole)),
                Err(error) => {
                    origin.tell_gone(&error);
                    track.into_iter().for_each(|track| track.fail(&error));
                    down += 1;
                }
            }
        }
        down
    }

    /// Sends a request and waits for the head of the response. 1xx responses go to `interim` as they come.
    ///
    /// Retries show in [`Times::retries`] only.
    ///
    /// # Errors
    /// When no origin gave a response: see [`OriginError::status`].
    ///
    /// # Cancel safety
    /// Dropped, it closes its connection. The origin may have acted on the request.
    pub async fn send(
        self: &Arc<Self>,
        mut request: OriginRequest,
        interim: Option<InterimSender>,
    ) -> Result<OriginResponse, OriginError> {
        let mut body = std::mem::replace(&mut request.body, OutBody::Empty);
        let mut tries = Tries::default();
        let mut tried: Vec<usize> = Vec::new();
        let mut demand = Demand::Any;
        let preferred = request.prefer.as_deref().and_then(|name| self.preferred(name));
        let mut index = preferred.or_else(|| self.choose(&tried, clock::now())).unwrap_or(0);
        // The error of an origin that had the request says more than that another one could not be reached.
        let mut had_it: Option<OriginError> = None;
        let mut turn = Turn::FIRST;
        let mut doubts = Doubts { origins: &self.origins, failures: Vec::new(), client: request.witness };
        loop {
            let origin = &self.origins[index];
            let terms = Terms {
                request: &request,
                interim: interim.as_ref(),
                timeouts: &self.timeouts,
                bounds: &self.bounds,
                turn,
            };
            let (failure, rest) = match attempt(origin, &terms, demand, body).await {
                Ok(mut response) => {
                    response.times.retries = tries.unconnected + tries.resent;
                    doubts.clear_request();
                    return Ok(response);
                }
                Err(failed) => *failed,
            };
            let next = retry::decide(&failure, request.retry, rest.is_some(), tries, self.bounds.retries_max);
            let (stage, error) = (failure.stage, failure.error.clone());
            turn = turn.after(&error);
            match stage {
                Stage::NotConnected => origin.failed_attempt(&failure, None),
                _ => doubts.failures.push((index, failure)),
            }
            let error = match had_it.take() {
                Some(earlier) if error.is_before_request() => earlier,
                _ => error,
            };
            let Some(rest) = rest else { return Err(error) };
            body = rest;
            tried.push(index);
            let elsewhere = match next {
                Next::GiveUp => return Err(error),
                Next::Fresh => None,
                Next::Elsewhere | Next::ElsewhereOrFresh => self.choose(&tried, clock::now()),
            };
            match (next, elsewhere) {
                (_, Some(other)) => (index, demand) = (other, Demand::Any),
                (Next::Elsewhere, None) => return Err(error),
                _ => demand = Demand::Fresh,
            }
            count(&origin.counts.retries);
            match stage {
                Stage::NotConnected => tries.unconnected += 1,
                _ => tries.resent += 1,
            }
            had_it = (!error.is_before_request()).then_some(error);
        }
    }

    /// The index of the origin of this name, if it is up.
    fn preferred(&self, name: &str) -> Option<usize> {
        self.origins.iter().position(|origin| origin.name() == name && origin.health().is_up())
    }

    /// Picks an origin that was not tried: one due for a trial, else a primary that is up (one with a free
    /// connection before one without), else a backup that is up, else the one whose backoff ends first.
    fn choose(&self, tried: &[usize], now: Instant) -> Option<usize> {
        if self.origins.len() == 1 {
            // There is no choice. Its health is still kept, for status and metrics.
            self.origins[0].begin_trial(now);
            return if tried.is_empty() { Some(0) } else { None };
        }
        for role in [Role::Primary, Role::Backup] {
            let open = |index: usize| self.origins[index].role == role && !tried.contains(&index);
            let mut all = 0..self.origins.len();
            if let Some(due) = all.find(|index| open(*index) && self.origins[*index].begin_trial(now)) {
                return Some(due);
            }
            let up: Vec<bool> = self.origins.iter().map(|origin| origin.health().is_up()).collect();
            let weight = |index: usize| self.origins[index].weight;
            let free = |index: usize| open(index) && up[index] && self.origins[index].pool().has_room();
            let mut wheel = self.wheel.lock();
            let picked =
                wheel.turn(weight, free).or_else(|| wheel.turn(weight, |index| open(index) && up[index]));
            if picked.is_some() {
                return picked;
            }
        }
        let left = (0..self.origins.len()).filter(|index| !tried.contains(index));
        left.min_by_key(|index| self.origins[*index].health().due(now))
    }
}

/// Failures of attempts that the request may have caused. Once another attempt of the same request is
/// answered they count against their origins for sure. If it is given up, they count as its client's.
struct Doubts<'u> {
    origins: &'u [Arc<Origin>],
    failures: Vec<(usize, Failure)>,
    client: Option<u64>,
}

impl Doubts<'_> {
    /// The request has been answered: it was not the cause.
    fn clear_request(&mut self) {
        self.client = None;
    }
}

impl Drop for Doubts<'_> {
    fn drop(&mut self) {
        for (index, failure) in &self.failures {
            self.origins[*index].failed_attempt(failure, self.client);
        }
    }
}

async fn tend(upstream: Weak<Upstream>, every: Duration) {
    loop {
        let Some(alive) = upstream.upgrade() else { return };
        for origin in &alive.origins {
            if let Place::Tcp { addresses, .. } = &origin.place {
                // The lookup itself warns; the old addresses stay.
                let _ = addresses.renew().await;
            }
        }
        drop(alive);
        tokio::time::sleep(every).await;
    }
}

fn check(settings: &UpstreamSettings) -> Result<(), UpstreamError> {
    let name = || settings.name.clone();
    if !settings.origins.iter().any(|origin| origin.role == Role::Primary) {
        return Err(UpstreamError::NoPrimary { name: name() });
    }
    if settings.origins.iter().any(|origin| !(1..=1000).contains(&origin.weight)) {
        return Err(UpstreamError::Range { name: name(), what: "weight", range: "1 to 1000" });
    }
    if settings.bounds.connections_max == 0 {
        return Err(UpstreamError::Range { name: name(), what: "connections", range: "at least 1" });
    }
    Ok(())
}

/// Why an attempt failed, and what of the body is left for another one. Boxed, so that a result stays small.
type Failed = Box<(Failure, Option<OutBody>)>;

/// One attempt at one origin.
async fn attempt(
    origin: &Arc<Origin>,
    terms: &Terms<'_>,
    demand: Demand,
    body: OutBody,
) -> Result<OriginResponse, Failed> {
    let begun = clock::now();
    let mut track = terms.request.log.as_ref().map(|log| origin.track(log, terms.turn));
    let mut lease = match lease(origin, terms, demand, &mut track).await {
        Ok(lease) => lease,
        Err(error) => {
            track.into_iter().for_each(|track| track.fail(&error));
            let failure = Failure { error, stage: Stage::NotConnected, kind: Kind::Fresh };
            return Err(Box::new((failure, Some(body))));
        }
    };
    let connected = clock::now();
    count(&origin.counts.requests);
    lease.connection.tally.clone_from(&terms.request.tally);
    lease.connection.track = track;
    let replay = match &body {
        OutBody::Empty => Some(OutBody::Empty),
        OutBody::Whole(bytes) => Some(OutBody::Whole(bytes.clone())),
        OutBody::Stream { .. } => None,
    };
    let mut outgoing = Outgoing::new(terms.request, body);
    let head = match exchange(&mut lease.connection, &mut outgoing, terms).await {
        Ok(head) => head,
        Err(failure) => {
            lease.connection.fail_attempt(&failure.error);
            let rest = replay.or_else(|| if outgoing.is_untouched() { outgoing.into_stream() } else { None });
            return Err(Box::new((failure, rest)));
        }
    };
    if let Some(track) = &mut lease.connection.track {
        track.answered(&head);
    }
    let now = clock::now();
    let times = Times { connect: connected - begun, first_byte: now - connected, retries: 0 };
    if head.status == http::StatusCode::SWITCHING_PROTOCOLS
        && let Err(bound) = lease.permit.outlast()
    {
        count(&origin.counts.busy);
        let error = OriginError::Busy { bound, retry_after: terms.timeouts.queue };
        lease.connection.fail_attempt(&error);
        return Err(Box::new((Failure { error, stage: Stage::Answered, kind: Kind::Fresh }, None)));
    }
    let response = respond(origin, terms, lease, outgoing, head);
    Ok(OriginResponse { times, ..response })
}

/// An idle connection, or a new one.
async fn lease(
    origin: &Arc<Origin>,
    terms: &Terms<'_>,
    demand: Demand,
    track: &mut Option<Box<Track>>,
) -> Result<Lease, OriginError> {
    let Terms { request, timeouts, .. } = terms;
    match origin.pool().acquire(demand, (request.client, request.share)).await {
        Ok(Grant::Idle(lease)) => {
            count(&origin.counts.reuses);
            if let Some(track) = track {
                track.connected(lease.connection.transport.peer(), Link::Reused);
            }
            Ok(lease)
        }
        Ok(Grant::Fresh(permit)) => {
            let connection = new_connection(origin, timeouts.connect, track).await?;
            count(&origin.counts.connects);
            Ok(Lease { connection, permit })
        }
        Err(bound) => {
            count(&origin.counts.busy);
            Err(OriginError::Busy { bound, retry_after: timeouts.queue })
        }
    }
}

/// A new connection.
async fn new_connection(
    origin: &Origin,
    limit: Duration,
    track: &mut Option<Box<Track>>,
) -> Result<Box<Connection>, OriginError> {
    let since = clock::now();
    let connection = Box::pin(connect(&origin.place, limit)).await?;
    if let Some(track) = track {
        let took = clock::now().saturating_duration_since(since);
        track.connected(connection.transport.peer(), Link::New(took));
    }
    Ok(connection)
}

/// The response as the caller gets it: what is left to read and to send goes into its body. Its times are to
/// be set.
fn respond(
    origin: &Arc<Origin>,
    terms: &Terms<'_>,
    mut lease: Lease,
    outgoing: Outgoing,
    head: ResponseHead,
) -> OriginResponse {
    let ResponseHead { status, headers, framing, persistence, .. } = head;
    lease.connection.served += 1;
    origin.note(Event::Answered);
    let mut upgraded = None;
    let body = if status == http::StatusCode::SWITCHING_PROTOCOLS {
        upgraded = Some(Tunnel::new(lease));
        OriginBody::empty()
    } else {
        let keep = match persistence {
            Persistence::KeepAlive => Some(idle_time(&headers, terms.timeouts.pool_idle)),
            Persistence::Close => None,
        };
        OriginBody::streaming(Streaming {
            lease,
            reader: BodyReader::new(framing, &limits(terms.bounds)),
            framing,
            request: RequestRest::after(outgoing, status),
            origin: origin.clone(),
            client: terms.request.witness,
            between_bytes: terms.timeouts.between_bytes,
            keep: keep.filter(|keep| !keep.is_zero()),
            waiting_since: None,
        })
    };
    let length = Length::of(framing);
    OriginResponse {
        status,
        headers,
        length,
        body,
        origin: origin.clone(),
        times: Times::default(),
        upgraded,
    }
}

/// How long an idle connection is kept: as `Keep-Alive: timeout=` says with a margin, else the default.
fn idle_time(headers: &HeaderMap, default: Duration) -> Duration {
    let said = headers.get("keep-alive").and_then(|value| value.to_str().ok());
    let timeout = said.and_then(|value| {
        value.split(',').find_map(|part| {
            let (name, seconds) = part.split_once('=')?;
            let seconds = seconds.trim();
            let named = name.trim().eq_ignore_ascii_case("timeout");
            let digits = !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit());
            (named && digits).then(|| seconds.parse().unwrap_or(u64::MAX))
        })
    });
    match timeout {
        None => default,
        Some(seconds) => Duration::from_secs(seconds).min(IDLE_MAX + IDLE_MARGIN).saturating_sub(IDLE_MARGIN),
    }
}
