//! Fuzz target: `expression`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_metrics::fuzzing::expression(data));
