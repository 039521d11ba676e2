//! Tests of `key`.
