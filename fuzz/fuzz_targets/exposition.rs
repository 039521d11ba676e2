//! Fuzz target: `exposition`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_metrics::fuzzing::exposition(data));
