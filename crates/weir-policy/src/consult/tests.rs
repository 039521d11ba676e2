//! Tests of `consult`.
