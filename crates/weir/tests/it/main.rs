//! Scenarios on the real binary: each starts its own Weir and its own origins, on ports and in a folder of
//! its own.
//!
//! A scenario says in its name what must hold; what it needs is said by the test kit's words ([`server`]). No
//! scenario asserts a time but within generous bounds.
//!
//! What the walk decides of one request after another (freshness, variants, conditions, ranges of what is
//! held, rules of sites and routes) belongs to `crates/weir-edge/tests/walk`: the same words, in a twentieth
//! of the time. Here is what a connection, a process, a volume, a running clock or several clients have a
//! part in.
//!
//! Where a new one goes: the folders below follow the life of a request. Take the first whose line names what
//! the scenario asserts, not what it needs for that; a file there that has the same subject, else a new one
//! with a card that says its own. `cargo test -p weir --test it -- NAME` runs all whose path has NAME in it.

#![forbid(unsafe_code)]
// Scenarios fail by panicking and measure the real clock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod counted;
mod durable;
mod server;

/// A connection comes, and requests on it: who the client is, what is malformed or too much.
mod arrive {
    mod certificates;
    mod client;
    mod crowds;
    mod handshakes;
    mod held;
    pub(crate) mod http2;
    mod http2_floods;
    mod http2_many;
    mod limits;
    mod limits_by_route;
    pub(crate) mod malformed_requests;
    mod peers;
    mod places;
    mod secured;
    mod slow;
    mod strangers;
}

/// What is answered from the store and what is not, and with which fields: the rules of the RFCs, of sites
/// and of routes.
mod answer {
    mod by_status;
    mod cache;
    mod conditions;
    mod conformance;
    mod cookies;
    mod dots;
    mod interim;
    pub(crate) mod lint;
    mod one_key;
    mod places;
    mod poisoning;
    mod readings;
    mod staleness;
    mod structured;
    mod unreachable;
    mod values;
    mod variants;
}

/// Content by hand: what operators have laid over URLs.
mod content {
    mod confined;
    mod kept;
    pub(crate) mod kit;
    mod laid;
}

/// What is fetched from origins and shared among readers, and what happens when an origin fails.
mod fetch {
    mod chain;
    mod clients_gone;
    mod crowd;
    mod fill;
    mod fills;
    mod heads;
    mod logins;
    mod malformed_responses;
    mod others;
    mod pools;
    mod upstream;
}

/// Other programs decide which origin gets a request.
mod distributor {
    mod asked;
    mod hostile;
    mod played;
    mod served;
}

/// Which origins take requests: what picks choose, what operators change of them, and what DNS says.
mod origins {
    pub(crate) mod changes;
    mod churn;
    mod explained;
    mod found;
    mod hedged;
    pub(crate) mod names;
    mod picks;
    mod queued;
    mod removed;
}

/// Picks that administrators write.
mod picks {
    mod scripts;
}

/// Origins are left out for what they do with requests, and come back.
mod eject {
    mod all_ill;
    mod causes;
    mod kit;
}

/// How Weir learns of itself how origins are: active checks, and agents.
mod checks {
    mod active;
    mod agent;
    mod haproxy;
    mod shown;
}

/// Metrics of origins: from real daemons, pushed, reported, and from hostile sources.
mod metrics {
    mod daemons;
    mod pushed;
    mod sources;
}

/// Requests for ranges, and objects of which only a part is held.
mod range {
    mod browser;
    mod changing;
    mod experiment;
    mod odd_ranges;
    mod one_generation;
    mod parts;
    mod range_faults;
    mod range_gaps;
    mod range_guests;
    mod range_life;
    mod range_volume;
    mod ranges;
    mod scattered;
}

/// How bodies go out to clients.
mod send {
    mod large;
    mod narrow;
    mod paused;
    mod rates;
    mod removed;
    mod slow_readers;
    mod streams;
    mod tiny;
    mod tunnels;
}

/// Files below a root: what is served, and what never is.
mod files {
    mod changing;
    mod fallback;
    mod hanging;
    mod hostile;
    mod kit;
    mod many;
    mod served;
}

/// Sessions that keep their origin.
mod sessions {
    mod clients;
    mod kit;
    mod moved;
    mod names;
    mod several;
    mod stored;
}

/// What memory and volumes keep, and what drives do to it.
mod store {
    mod admission;
    mod disk;
    mod drives;
    mod held;
    mod memory;
    mod visitors;
    mod volumes;
}

/// What purges and unsafe requests take out of the cache.
mod invalidate {
    mod dialects;
    mod invalidation;
    mod named;
    mod orders;
    mod purge;
    mod retention;
    mod shares;
    mod sweeping;
    mod wider;
}

/// Requests as the operator sees them end, and those that were kept.
mod log {
    mod debug;
    mod full;
    mod going;
    mod lines;
    mod past;
    mod readers;
}

/// What the operator learns from a running Weir, and tells it.
mod operate {
    mod access;
    pub(crate) mod accounts;
    mod by_hand;
    mod confined;
    mod control;
    mod events;
    mod harmless;
    mod listing;
    mod live;
    mod observe;
    mod shares;
    mod top;
    mod upstream_log;
    mod warming;
}

/// The process itself: it starts, reloads, is upgraded and ends.
mod run {
    mod config;
    pub(crate) mod examples;
    mod exchanged;
    mod file_size;
    mod frozen;
    mod instructions;
    #[cfg(not(all(feature = "dns", feature = "screen", feature = "script")))]
    mod lacking;
    mod load;
    mod ordering;
    mod quiet;
    mod service;
    mod start;
    mod starts;
    mod stress;
    mod upgrade;
}

/// Whole sites, each the file of an example before an origin that answers as the real program does: what is
/// a hit, what is never stored, what the origin sees.
mod sites {
    mod apt;
    mod nextcloud;
    mod pypi;
    mod registry;
    mod site;
    mod wordpress;
}
