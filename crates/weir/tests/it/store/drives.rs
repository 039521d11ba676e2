//! Bad drives: Weir is killed, its power cut, its drive full, read-only, failing or lying. No wrong byte is
//! ever sent.

mod behind;
mod faults;
mod power;
mod slow;
mod stock;
