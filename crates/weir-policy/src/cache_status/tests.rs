//! Tests of `cache_status`.
