//! One request to an origin as plain values: a line of the upstream log. Each attempt has a line of its own.
//! It is made only where that log is written.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::record::{milliseconds, present};

/// What a request to an origin is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A whole response, for the cache.
    Fill,
    /// A range of which nothing is held, for the cache.
    Range,
    /// Bytes that a stored part is missing.
    Gap,
    /// The rest of a body that broke off, or that its reader can get nowhere else.
    Rest,
    /// Whether a stored response is still good, while a client waits.
    Revalidation,
    /// The same without a client that waits.
    Background,
    /// For the cache, by a warming: without a client.
    Warm,
    /// A client's own request, past the cache.
    Pass,
    /// No request: a connection at the start, to warn of origins that are down.
    Probe,
    /// A check of an origin, on a connection of its own.
    Check,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Purpose; 10] = [
        Purpose::Fill,
        Purpose::Range,
        Purpose::Gap,
        Purpose::Rest,
        Purpose::Revalidation,
        Purpose::Background,
        Purpose::Warm,
        Purpose::Pass,
        Purpose::Probe,
        Purpose::Check,
    ];

    /// The word of the log.
    pub fn word(self) -> &'static str {
        match self {
            Purpose::Fill => "fill",
            Purpose::Range => "range",
            Purpose::Gap => "gap",
            Purpose::Rest => "rest",
            Purpose::Revalidation => "revalidation",
            Purpose::Background => "background",
            Purpose::Warm => "warm",
            Purpose::Pass => "pass",
            Purpose::Probe => "probe",
            Purpose::Check => "check",
        }
    }
}

/// The id of a request to an origin, the same for all its attempts. Both logs name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedId(pub u64);

impl fmt::Display for AskedId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

/// What a request to an origin became in the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedObject {
    /// The key: the URL, and what else is in it, one line each.
    pub key: String,
    /// The volume that it is written to, if it is.
    pub volume: Option<Arc<str>>,
}

/// How a request to an origin ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedEnd {
    /// The response came whole, or its tunnel has ended.
    Whole,
    /// There was no response; the word says why.
    Failed(&'static str),
    /// The response broke off; the word says why.
    Cut(&'static str),
    /// Weir ended it: nobody needed the rest.
    Abandoned,
}

impl AskedEnd {
    /// The word of the log.
    pub fn word(self) -> &'static str {
        match self {
            AskedEnd::Whole => "whole",
            AskedEnd::Failed(_) => "failed",
            AskedEnd::Cut(_) => "cut",
            AskedEnd::Abandoned => "abandoned",
        }
    }

    /// Why, where it failed.
    pub(super) fn error(self) -> &'static str {
        match self {
            AskedEnd::Failed(word) | AskedEnd::Cut(word) => word,
            AskedEnd::Whole | AskedEnd::Abandoned => "",
        }
    }
}

/// One attempt of a request to an origin. Unknown texts are empty.
#[derive(Clone, Debug)]
pub struct Asked {
    /// When it began.
    pub begun: SystemTime,
    /// What it was for.
    pub purpose: Purpose,
    /// The id of its request.
    pub id: AskedId,
    /// Which attempt it was, from 1 on.
    pub attempt: u32,
    /// Why the request was sent again, for a further attempt.
    pub retry: &'static str,
    /// The id of the client's request that it was made for.
    pub request_id: String,
    /// The site's name.
    pub site: Arc<str>,
    /// The upstream's name.
    pub upstream: String,
    /// The origin's name.
    pub origin: Arc<str>,
    /// The pick that chose it, and why, as `hash/bound`.
    pub pick: String,
    /// Its address and port, or the path of its socket.
    pub address: String,
    /// `new`, `reused`; empty where there was no connection.
    pub connection: &'static str,
    /// How long connecting took, TLS included.
    pub connect: Option<Duration>,
    /// The method.
    pub method: String,
    /// The host that the client asked for.
    pub host: String,
    /// The target as sent.
    pub target: String,
    /// `Host` as sent.
    pub origin_host: String,
    /// `Range` as sent.
    pub range: String,
    /// The status of the response.
    pub status: Option<u16>,
    /// Its `Content-Type`.
    pub content_type: String,
    /// What it became.
    pub object: Option<AskedObject>,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// From the first byte sent to the first byte received.
    pub first_byte: Option<Duration>,
    /// From its beginning to its end.
    pub total: Duration,
    /// How it ended.
    pub end: AskedEnd,
}

impl Serialize for Asked {
    /// The JSON line: absent instead of empty, units in the names, times in UTC.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.serialize_request(&mut map)?;
        self.serialize_response(&mut map)?;
        map.end()
    }
}

impl Asked {
    fn serialize_request<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("time", &super::lines::rfc3339(self.begun))?;
        map.serialize_entry("end", &super::lines::rfc3339(self.begun + self.total))?;
        map.serialize_entry("purpose", self.purpose.word())?;
        map.serialize_entry("asked", &self.id.to_string())?;
        map.serialize_entry("attempt", &self.attempt)?;
        present(map, "retry", self.retry)?;
        present(map, "request_id", &self.request_id)?;
        present(map, "site", &self.site)?;
        present(map, "method", &self.method)?;
        present(map, "host", &self.host)?;
        present(map, "target", &self.target)?;
        present(map, "upstream", &self.upstream)?;
        present(map, "origin", &self.origin)?;
        present(map, "pick", &self.pick)?;
        present(map, "address", &self.address)?;
        present(map, "origin_host", &self.origin_host)?;
        present(map, "range", &self.range)
    }

    fn serialize_response<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        if let Some(status) = self.status {
            map.serialize_entry("status", &status)?;
        }
        present(map, "content_type", &self.content_type)?;
        if let Some(object) = &self.object {
            let mut parts = object.key.lines();
            map.serialize_entry("key", parts.next().unwrap_or_default())?;
            let more: Vec<&str> = parts.collect();
            if !more.is_empty() {
                map.serialize_entry("key_fields", &more)?;
            }
            present(map, "volume", object.volume.as_deref().unwrap_or_default())?;
        }
        map.serialize_entry("sent_bytes", &self.sent_bytes)?;
        map.serialize_entry("received_bytes", &self.received_bytes)?;
        present(map, "connection", self.connection)?;
        if let Some(connect) = self.connect {
            map.serialize_entry("connect_ms", &milliseconds(connect))?;
        }
        if let Some(first_byte) = self.first_byte {
            map.serialize_entry("first_byte_ms", &milliseconds(first_byte))?;
        }
        map.serialize_entry("total_ms", &milliseconds(self.total))?;
        map.serialize_entry("completion", self.end.word())?;
        present(map, "error", self.end.error())
    }
}
