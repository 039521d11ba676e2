//! A second caller of the walk, without a client's socket: a request goes in as a value, and a response comes
//! out as one. It starts in a few milliseconds and time advances at once, so the rooms' decisions are tested
//! here in tables. Scenarios that need a connection, a process, a volume, a running clock or several clients
//! at once use the real binary: `crates/weir/tests/it`.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cache;
mod clocks;
mod conditions;
mod cookies;
mod dots;
mod explained;
mod heads;
mod held;
mod hostile;
mod kit;
mod named;
mod overrides;
mod peers;
mod purges;
mod ranges;
mod readings;
mod represented;
mod rules;
mod sessions;
mod signed;
mod statuses;
mod targeted;
mod unreachable;
mod uses;
mod values;
mod variants;
