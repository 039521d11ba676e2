//! Tests of listening.
