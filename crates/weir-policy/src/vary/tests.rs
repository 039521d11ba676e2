//! Tests of `vary`.
