//! Tests of `glob`.
