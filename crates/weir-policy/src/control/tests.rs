//! Tests of `control`.
