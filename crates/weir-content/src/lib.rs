//! Content by hand: what operators have laid over URLs, in a folder, a file each. It knows neither HTTP nor
//! the configuration, and reads no clock.
//!
//! [`shelf`] is the folder: it lays, finds and removes, each durably. [`upload`] is content on its way in.
//! `room` says how much of it there may be, and of which site. [`entry`] is what is known of one piece,
//! [`form`] its bytes at the end of its file. A file never changes once it has its name: a reader of content
//! that is replaced or removed goes on with the old bytes.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod entry;
pub mod form;
mod room;
mod shelf;
mod upload;

pub use entry::{Entry, FILE_NAME_DIGITS};
pub use room::{ENTRIES_MAX, Share, Stock, UPLOADS_MAX, Usage};
pub use shelf::{BLOCK_BYTES, Shelf, ShelfError, Trouble};
pub use upload::{Laid, Upload, Wanted};
