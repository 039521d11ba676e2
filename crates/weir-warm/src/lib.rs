//! Warming: URLs are asked for without a client, so that the cache holds them before clients want them. Here
//! is which URLs, in which order, how many at a time, and what has come of each, kept across restarts.
//!
//! [`order`] is what is wanted; [`book`] the files of the state folder, one warming each; [`sitemap`] reads
//! lists of URLs that origins publish; [`run`] goes through a list and is to be read first; [`report`] is
//! what came of it. It must not know HTTP, the cache or a socket: [`run::Outside`] asks for a URL.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod book;
pub mod order;
pub mod report;
pub mod run;
pub mod sitemap;

pub use book::{Book, BookError, Warming};
pub use order::{Folder, Order};
pub use report::{Outcome, Report, Waits};
pub use run::{Content, Outside, Watch, run};

/// The name of an entry of the configuration that says this.
pub fn entry_key(text: &str) -> String {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes()))
}

/// The most URLs of a warming.
pub const URLS_MAX: u64 = 1_000_000;
/// The longest URL in bytes.
pub const URL_BYTES_MAX: usize = 8 << 10;
/// The most bytes of all URLs of a warming.
pub const LIST_BYTES_MAX: u64 = 128 << 20;
/// The most warmings at a time.
pub const WARMINGS_MAX: usize = 8;
/// The most URLs that a warming asks for at a time.
pub const PARALLEL_MAX: u16 = 64;
/// How many it asks for at a time where nothing is said.
pub const PARALLEL: u16 = 4;
