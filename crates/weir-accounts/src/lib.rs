//! What each site has used, by account and UTC day: kept in the state folder for years, to bill by.
//!
//! An account is a name. This crate knows neither HTTP nor the configuration. The caller hands in totals
//! since the start of the process ([`Counted`]). The keeper's thread computes what was added since its last
//! look, adds that to the day's totals and writes these: absolute numbers, so that reading a row twice counts
//! it once. Rooms: [`flows`] the numbers, [`day`] days and months, `form` the bytes of the file, `unsound`
//! files that cannot be read as a whole, `book` what is known, `keeper` the thread.

#![forbid(unsafe_code)]

mod book;
mod day;
mod flows;
mod form;
mod keeper;
mod unsound;

pub use day::{Day, Month, Period, Since};
pub use flows::Flows;
pub use form::fuzzed;
pub use keeper::{
    AccountLine, Accounts, AccountsError, AccountsState, Counted, MONTHS_OF_DAYS, Report, Source,
    UNATTRIBUTED,
};
pub use unsound::Unsound;
