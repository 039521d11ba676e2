//! What each site has served: flows by account and UTC day, kept in the state folder for years, fit to bill
//! by.
//!
//! An account is a name; it knows neither HTTP nor the configuration. Who counts hands in totals since the
//! start of the process ([`Counted`]); the keeper's thread turns them into what was added since it last
//! looked, adds that to the day's totals and writes these: absolute numbers, so that nothing read twice is
//! counted twice. Rooms: [`flows`] the numbers, [`day`] days and months, `form` the file's bytes, `unsound`
//! what is said of those of which not all can be read, `book` what is known, `keeper` the thread.

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
