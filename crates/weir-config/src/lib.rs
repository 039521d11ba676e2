//! The configuration of Weir: text in, a complete and checked model out, with the place of every value. One model yields the
//! file's form, its JSON Schema and its reference. Must not open a socket, resolve a name or know the edge.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod model;
pub mod value;
