//! Tests of `range`.
