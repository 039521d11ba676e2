//! Getting certificates by ACME (RFC 8555) and renewing them (RFC 9773), for hosts that are configured and no
//! others. It knows nothing of listeners and requests: proofs and certificates go through [`Outside`].
//!
//! `plan` decides, purely; `order` does one order on `instant-acme`; `acme` is the thread; `book` the files.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod acme;
mod authority;
mod book;
mod certificate;
mod clock;
mod fault;
mod names;
mod order;
mod outside;
pub mod plan;
pub mod record;
mod renewal;
mod settings;
mod transport;

pub use acme::{AT_ONCE_MAX, Acme, Kept, Row, Step, kept};
pub use clock::{Clock, Seconds};
pub use names::{Name, Unorderable};
pub use outside::{Failed, Issued, Outside, Proof};
pub use settings::{AuthoritySettings, Challenge, ExternalAccount, LETS_ENCRYPT, Settings};
