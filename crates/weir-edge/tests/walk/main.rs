//! A second caller of the walk, without any socket of a client: a request goes in as a value, and a response
//! comes out as one. It begins in a few milliseconds and time goes by at once, so that what the rooms decide
//! is asked here in tables. What a connection, a process, a volume, a clock that runs or several clients at
//! once have a part in is a scenario on the real binary: `crates/weir/tests/it`.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cache;
mod explained;
mod kit;
mod peers;
mod ranges;
mod rules;
mod targeted;
mod unreachable;
mod variants;
