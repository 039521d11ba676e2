//! Tests of `intervals`.
