//! The bodies of the fuzz targets for what lies on drives. Each takes any bytes and panics where a promise is
//! broken.

pub use crate::ledger::record::fuzzed::ledger;
pub use weir_volume::testing::fuzzing::{head, journal, record};

#[cfg(test)]
mod tests;
