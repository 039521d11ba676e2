//! The bodies of the fuzz targets for what lies on drives: each takes any bytes and panics where a promise is broken.

pub use crate::ledger::record::fuzzed::ledger;
pub use crate::volume::codec::fuzzed::head;
pub use crate::volume::journal::fuzzed::journal;
pub use crate::volume::record::fuzzed::record;

#[cfg(test)]
mod tests;
