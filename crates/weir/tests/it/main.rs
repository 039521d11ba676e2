//! Scenarios on the real binary: each starts its own Weir and its own origins, on ports and in a folder of its own.
//!
//! A scenario says in its name what must hold; what it needs is said by the test kit's words ([`house`]). No scenario
//! asserts a time but within generous bounds.

#![forbid(unsafe_code)]
// Scenarios fail by panicking and measure the real clock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod house;

mod accounts;
mod admission;
mod browser;
mod cache;
mod chain;
mod changing;
mod client;
mod config;
mod conformance;
mod control;
mod counted;
mod crowd;
mod departed;
mod disk;
mod drives;
mod events;
mod exchanged;
mod experiment;
mod file_size;
mod fill;
mod fills;
mod held;
mod invalidation;
mod limits;
mod lint;
mod listing;
mod load;
mod malformed_requests;
mod malformed_responses;
mod memory;
mod observe;
mod odd_ranges;
mod one_generation;
mod others;
mod parts;
mod peers;
mod places;
mod poisoning;
mod purge;
mod range_faults;
mod range_gaps;
mod range_guests;
mod range_life;
mod range_volume;
mod ranges;
mod rates;
mod scattered;
mod service;
mod slow;
mod slow_readers;
mod staleness;
mod start;
mod starts;
mod structured;
mod sweeping;
mod targeted;
mod unreachable;
mod upgrade;
mod upstream;
mod variants;
mod volumes;
