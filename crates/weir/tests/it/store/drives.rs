//! Bad drives: Weir is killed, its power cut, its drive full, read-only, failing or lying. Nothing wrong ever
//! goes out.

mod faults;
mod power;
mod slow;
mod stock;
