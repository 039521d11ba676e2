//! The bodies of the fuzz targets, by room: each takes any bytes and panics where a promise is broken.
//!
//! `cargo fuzz run TARGET fuzz/corpus/TARGET fuzz/seeds/TARGET` grows a corpus on nightly; the tests of each
//! room run the same bodies over the seeds and bounded mutations of them. Those of what lies on drives stand
//! beside its readers (`weir_store::fuzzing`), which nobody else may see.
#![forbid(unsafe_code)]

pub mod listen;
pub mod policy;
pub mod wire;
