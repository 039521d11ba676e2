//! One finished request as plain values: the numbers that are always counted, and the texts that only a log
//! needs.
//!
//! The status is the one that was on the wire. Reasons are static words, the same in the log, in
//! `Cache-Status` and in the metrics (RFC 9211 §2.2 and the project's glossary).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::asked::AskedId;
use super::site::SiteId;
use super::trace::Trace;

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Outcome {
    /// From the cache, fresh.
    Hit,
    /// From the cache, past its lifetime and inside a grace window (RFC 5861).
    Stale,
    /// By a transfer from an origin that the cache took part in: led, or joined.
    Miss,
    /// From the cache, after the origin answered a conditional request with 304.
    Revalidated,
    /// By the origin, past the cache.
    Pass,
    /// By Weir itself: a static answer, a redirect, an error page.
    Local,
    /// Turned away: malformed, or beyond a limit.
    Refused,
}

impl Outcome {
    /// Every outcome, in the order of its discriminant.
    pub const ALL: [Outcome; 7] = [
        Outcome::Hit,
        Outcome::Stale,
        Outcome::Miss,
        Outcome::Revalidated,
        Outcome::Pass,
        Outcome::Local,
        Outcome::Refused,
    ];

    /// Whether the response came from the cache: fresh, stale, or confirmed by the origin.
    pub fn is_from_cache(self) -> bool {
        matches!(self, Outcome::Hit | Outcome::Stale | Outcome::Revalidated)
    }

    /// Whether the request was for an origin's content: without a cache it would have gone there.
    fn is_for_origin(self) -> bool {
        self.is_from_cache() || matches!(self, Outcome::Miss | Outcome::Pass)
    }

    /// The share *from the cache*: of the requests for an origin's content, those that the cache answered.
    /// `None` where there were none. The counts are in the order of [`Outcome::ALL`].
    pub fn hit_ratio(counts: &[u64; Outcome::ALL.len()]) -> Option<f64> {
        let sum = |is_counted: fn(Outcome) -> bool| -> u64 {
            let counted = Outcome::ALL.iter().zip(counts).filter(|(outcome, _)| is_counted(**outcome));
            counted.map(|(_, count)| count).sum()
        };
        let all = sum(Outcome::is_for_origin);
        (all > 0).then(|| sum(Outcome::is_from_cache) as f64 / all as f64)
    }

    /// The word of the logs and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Hit => "hit",
            Outcome::Stale => "stale",
            Outcome::Miss => "miss",
            Outcome::Revalidated => "revalidated",
            Outcome::Pass => "pass",
            Outcome::Local => "local",
            Outcome::Refused => "refused",
        }
    }
}

/// How the response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Completion {
    /// All of it was written.
    #[default]
    Whole,
    /// Weir or the origin ended it early; the connection was cut, so that the client knows.
    Cut,
    /// The client left first.
    ClientGone,
}

impl Completion {
    /// The word of the logs.
    pub fn word(self) -> &'static str {
        match self {
            Completion::Whole => "whole",
            Completion::Cut => "cut",
            Completion::ClientGone => "client-gone",
        }
    }
}

/// What became of the response in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Storing {
    /// Nothing was decided: a hit, a static answer, a refusal.
    #[default]
    NotAsked,
    /// Stored.
    Stored {
        /// The lifetime it was stored with.
        ttl_s: u64,
        /// Where the lifetime came from: `max-age`, `s-maxage`, `expires`, `heuristic`, `ttl`, ...
        source: &'static str,
    },
    /// Not stored, and why: `no-store`, `set-cookie`, `no-freshness`, ...
    NotStored(&'static str),
}

/// Whether the response shared another request's transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sharing {
    /// It did not, or there was no transfer.
    #[default]
    Alone,
    /// It read a fill that another request led (`collapsed` in RFC 9211 §2.6).
    Joined,
}

/// The numbers of a finished request. They are always counted, with or without a log.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The site, as numbered by `Observatory::site`.
    pub site: SiteId,
    /// The status on the wire; 0 when no status line was sent.
    pub status: u16,
    /// How it was answered.
    pub outcome: Outcome,
    /// The reason: why it was a miss, a pass, a refusal; empty where there is none.
    pub detail: &'static str,
    /// What became of the response in the store.
    pub storing: Storing,
    /// Whether it read the fill of another request.
    pub sharing: Sharing,
    /// Seconds of freshness left when served from the cache; negative when stale.
    pub ttl_left_s: Option<i64>,
    /// Bytes of the body that were sent, without the transfer coding.
    pub body_bytes: u64,
    /// From the end of the request's head to the first byte of the response.
    pub first_byte: Option<Duration>,
    /// From the end of the request's head to the end of the response.
    pub total: Duration,
    /// How the response ended.
    pub completion: Completion,
    /// What became of the session of a passed request: `created`, `kept`, `moved`, or `refused` where its
    /// cookie or id was, though another may begin; empty where there is none.
    pub session: &'static str,
}

impl Facts {
    /// The reason in one word: why the response was cut, or not stored, or else `detail`.
    pub fn reason(&self) -> &'static str {
        match (self.completion, self.storing) {
            (Completion::Whole, Storing::NotStored(word)) => word,
            _ => self.detail,
        }
    }
}

impl Default for Facts {
    fn default() -> Self {
        Facts {
            site: SiteId::NONE,
            status: 0,
            outcome: Outcome::Refused,
            detail: "",
            storing: Storing::NotAsked,
            sharing: Sharing::Alone,
            ttl_left_s: None,
            body_bytes: 0,
            first_byte: None,
            total: Duration::ZERO,
            completion: Completion::Whole,
            session: "",
        }
    }
}

/// The texts of a finished request: made only for a log. Unknown texts are empty or `None`.
#[derive(Clone, Debug)]
pub struct Description {
    /// When the request's head had been read.
    pub wall: SystemTime,
    /// The client's address; behind a trusted proxy the one that the proxy names. Empty on a unix listener.
    pub client: String,
    /// The method; `None` when the request line could not be read.
    pub method: Option<Method>,
    /// `http` or `https`, as used in the key.
    pub scheme: &'static str,
    /// The normalised authority.
    pub host: String,
    /// Path and query as received.
    pub target: String,
    /// `HTTP/1.0`, `HTTP/1.1`, `HTTP/2`, `HTTP/3`; empty when unknown.
    pub version: &'static str,
    /// The site's name.
    pub site: Arc<str>,
    /// The route's name.
    pub route: Arc<str>,
    /// The upstream's name, where one was asked.
    pub upstream: Option<Arc<str>>,
    /// The origin's name, when one was asked.
    pub origin: Option<Arc<str>>,
    /// The pick that chose it, and why, as `hash/bound`.
    pub pick: String,
    /// `X-Request-Id`, received from a trusted proxy or made.
    pub request_id: String,
    /// `Referer`, as received.
    pub referer: Option<String>,
    /// `User-Agent`, as received.
    pub user_agent: Option<String>,
    /// What TLS agreed on; `None` without TLS.
    pub tls: Option<Tls>,
    /// The requests to origins that the response came by; only where they have a log.
    pub asked: Vec<AskedId>,
    /// The line of a log with a form of its own, without its end.
    pub line: Option<Vec<u8>>,
    /// What was decided, and when; only where that is wanted.
    pub trace: Option<Box<Trace>>,
}

/// What TLS agreed on for the connection of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// `TLSv1.3`.
    pub version: &'static str,
    /// The group of the key exchange; `-` for none.
    pub group: &'static str,
    /// Whether a session was resumed.
    pub is_resumed: bool,
    /// The name that the client asked for (SNI).
    pub name: String,
    /// The common name in the client's verified certificate.
    pub client: String,
}

impl Default for Description {
    fn default() -> Self {
        let none: Arc<str> = Arc::from("");
        Description {
            wall: SystemTime::UNIX_EPOCH,
            client: String::new(),
            method: None,
            scheme: "",
            host: String::new(),
            target: String::new(),
            version: "",
            site: none.clone(),
            route: none,
            upstream: None,
            origin: None,
            pick: String::new(),
            request_id: String::new(),
            referer: None,
            user_agent: None,
            tls: None,
            asked: Vec::new(),
            line: None,
            trace: None,
        }
    }
}

/// One line of the access log.
#[derive(Clone, Debug)]
pub struct Record {
    /// The numbers.
    pub facts: Facts,
    /// The texts.
    pub description: Description,
}

impl Serialize for Record {
    /// The JSON line: absent instead of empty, units in the names, times in UTC.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.entries(&mut map)?;
        map.end()
    }
}

impl Record {
    /// The entries of the JSON line.
    pub(super) fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.serialize_request(map)?;
        self.serialize_answer(map)
    }

    fn serialize_request<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let texts = &self.description;
        map.serialize_entry("time", &super::lines::rfc3339(texts.wall))?;
        present(map, "client", &texts.client)?;
        present(map, "method", texts.method.as_ref().map_or("", Method::as_str))?;
        present(map, "scheme", texts.scheme)?;
        present(map, "host", &texts.host)?;
        present(map, "target", &texts.target)?;
        present(map, "version", texts.version)?;
        if let Some(tls) = &texts.tls {
            present(map, "tls_version", tls.version)?;
            present(map, "tls_group", tls.group)?;
            map.serialize_entry("tls_resumed", &tls.is_resumed)?;
            present(map, "tls_name", &tls.name)?;
            present(map, "tls_client", &tls.client)?;
        }
        present(map, "site", &texts.site)?;
        present(map, "route", &texts.route)?;
        present(map, "upstream", texts.upstream.as_deref().unwrap_or_default())?;
        present(map, "origin", texts.origin.as_deref().unwrap_or_default())?;
        present(map, "pick", &texts.pick)?;
        present(map, "request_id", &texts.request_id)?;
        if !texts.asked.is_empty() {
            let asked: Vec<String> = texts.asked.iter().map(ToString::to_string).collect();
            map.serialize_entry("asked", &asked)?;
        }
        present(map, "referer", texts.referer.as_deref().unwrap_or_default())?;
        present(map, "user_agent", texts.user_agent.as_deref().unwrap_or_default())
    }

    fn serialize_answer<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let facts = &self.facts;
        map.serialize_entry("status", &facts.status)?;
        map.serialize_entry("outcome", facts.outcome.word())?;
        present(map, "detail", facts.detail)?;
        match facts.storing {
            Storing::NotAsked => {}
            Storing::Stored { ttl_s, source } => {
                map.serialize_entry("stored_s", &ttl_s)?;
                present(map, "ttl_source", source)?;
            }
            Storing::NotStored(word) => map.serialize_entry("not_stored", word)?,
        }
        if facts.sharing == Sharing::Joined {
            map.serialize_entry("collapsed", &true)?;
        }
        if let Some(left_s) = facts.ttl_left_s {
            map.serialize_entry("ttl_left_s", &left_s)?;
        }
        map.serialize_entry("body_bytes", &facts.body_bytes)?;
        if let Some(first_byte) = facts.first_byte {
            map.serialize_entry("first_byte_ms", &milliseconds(first_byte))?;
        }
        map.serialize_entry("total_ms", &milliseconds(facts.total))?;
        map.serialize_entry("completion", facts.completion.word())?;
        present(map, "session", facts.session)
    }
}

pub(super) fn present<M: SerializeMap>(map: &mut M, name: &'static str, value: &str) -> Result<(), M::Error> {
    if value.is_empty() { Ok(()) } else { map.serialize_entry(name, value) }
}

/// Milliseconds with three decimals.
pub(super) fn milliseconds(duration: Duration) -> f64 {
    let micros = u32::try_from(duration.as_micros()).unwrap_or(u32::MAX);
    f64::from(micros) / 1000.0
}
