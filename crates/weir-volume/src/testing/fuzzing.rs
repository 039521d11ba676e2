//! The bodies of the fuzz targets for a volume's files: each takes any bytes and panics where a promise is
//! broken.

pub use crate::format::codec::fuzzed::head;
pub use crate::format::journal::fuzzed::journal;
pub use crate::format::record::fuzzed::record;
