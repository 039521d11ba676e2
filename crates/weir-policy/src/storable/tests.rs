//! Tests of `storable`.
