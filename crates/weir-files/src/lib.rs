//! Files below a root: from a path in a URL to bytes of one version of one file. It knows no connection and
//! no cache.
//!
//! [`way`] reads the path, [`root`] opens what it names and nothing outside of the root, [`look`] chooses
//! index files and precompressed siblings, [`load`] reads small files into memory ([`hot`]), and [`reading`]
//! hands out bytes. What may wait for a device is done by the threads of [`pool`].

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod file;
mod files;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod gone;
mod hot;
mod kind;
mod listing;
mod load;
mod look;
mod open;
mod pool;
mod reading;
mod root;
mod stamp;
mod sums;
mod way;

pub use file::{File, Found};
pub use files::{Failed, Files, Finding, Looking};
pub use hot::HotLimits;
pub use kind::media_type;
pub use listing::{ListText, Listing, ListingForm};
pub use reading::Reading;
pub use root::{Hidden, Root, RootRules, Siblings, Symlinks};
pub use sums::Sums;
pub use way::{Unfit, Way};
pub use weir_policy::http_date;
