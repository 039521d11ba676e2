//! Tests of `invalidate`.
