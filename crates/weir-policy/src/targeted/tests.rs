//! Tests of `targeted`.
