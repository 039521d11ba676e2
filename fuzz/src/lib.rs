//! The bodies of the fuzz targets, by crate. Each takes any bytes and panics if a promise is broken.
//!
//! `cargo fuzz run TARGET fuzz/corpus/TARGET fuzz/seeds/TARGET` grows a corpus on nightly. The tests of each
//! crate run the same bodies over the seeds and over a bounded number of mutations. The bodies for formats on
//! drives stand beside their readers (`weir_store::fuzzing`), which are private.
#![forbid(unsafe_code)]

pub mod cookies;
pub mod http2;
pub mod listen;
pub mod policy;
pub mod tls;
pub mod value;
pub mod warm;
pub mod wire;
