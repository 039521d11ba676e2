//! Orders at a real CA: Let's Encrypt's Pebble. Where it is not installed, each test says so and passes.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod bench;
mod between;
mod ordering;
mod renewing;
mod trouble;
